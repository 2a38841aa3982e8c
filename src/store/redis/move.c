/* move.c - what moves do to a row: start, park, settle, extend. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "core/elapsed.h"
#include "core/state.h"
#include "store/redis/private.h"

/* ---- Rows ---------------------------------------------------------------------------------------
 */

static void leave_running(struct job_status *s)
{
    s->token = 0;
    s->lease_until_ms = 0;
    s->permit = (struct breaker_permit){0};
}

static void leave_parked(struct job_status *s, int64_t now_ms)
{
    if (s->first_started_ms != 0)
        s->held_ms += elapsed_since(s->held_since_ms, now_ms);
    s->held_since_ms = 0;
    s->parked_by_limit = false;
}

void rd_row_become(const struct store *store, struct row *row, enum redrive_state to,
                   int64_t ended_ms, struct move_result *ret)
{
    struct job_status *s = &row->job.status;
    if (s->state == REDRIVE_STATE_RUNNING)
        leave_running(s);
    if (s->state == REDRIVE_STATE_PARKED)
        leave_parked(s, store->now_ms);
    if (state_has_ended(to))
        s->finished_ms = ended_ms != 0 ? ended_ms : store->now_ms;
    s->state = to;
    s->updated_ms = store->now_ms;
    *ret = (struct move_result){.state = to};
}

struct entry *rd_entry_take(struct entry *entry, uint32_t states, struct move_result *ret)
{
    if (!entry) {
        *ret = (struct move_result){.code = REDRIVE_E_NOT_FOUND};
        return NULL;
    }
    const enum redrive_state state = entry->now.job.status.state;
    *ret = (struct move_result){.state = state};
    if (states >> state & 1)
        return entry;
    ret->code = REDRIVE_E_STATE;
    return NULL;
}

/* ---- What stands beside a row -------------------------------------------------------------------
 */

/* The name of a field beside the row: its hash, and the low byte of the seq before what it is. */
struct beside {
    char key[32];
    char field[8];
    size_t field_len;
};

static struct beside history_field(int64_t seq, uint32_t i)
{
    struct beside b = {.field_len = 5};
    snprintf(b.key, sizeof b.key, "a:%" PRId64, seq >> 8);
    b.field[0] = (char)seq;
    for (int k = 0; k < 4; k++)
        b.field[1 + k] = (char)(i >> 8 * (3 - k));
    return b;
}

static struct beside big_field(int64_t seq, enum big_part part)
{
    struct beside b = {.field_len = 2};
    snprintf(b.key, sizeof b.key, "o:%" PRId64, seq >> 8);
    b.field[0] = (char)seq;
    b.field[1] = "prs"[part];
    return b;
}

static struct str beside_str(const struct beside *b)
{
    return (struct str){b->field, b->field_len};
}

int rd_entry_set_big(struct store *store, struct entry *entry, enum big_part part, struct str value,
                     struct redrive_err *err)
{
    const struct beside b = big_field(entry->seq, part);
    const struct str name[] = {str_of(b.key), beside_str(&b)};
    const bool was_outside = entry->now.big >> part & 1, is_outside = value.len >= BIG_MIN;
    struct cell *cell;
    int rc = 0;
    if (was_outside) {
        rc = rd_cells_get(store, name, 1, &cell, err);
        if (rc == 0)
            rc = rd_cell_put(store, cell, is_outside ? value : (struct str){0}, err);
    } else if (is_outside) {
        rc = rd_cell_put_new(store, name[0], name[1], value, err);
    }
    entry->now.big = (entry->now.big & ~(1u << part)) | (unsigned)is_outside << part;
    struct str inside = {0};
    if (!is_outside)
        inside = rd_unit_dup(store, value);
    *rd_row_big_part(&entry->now, part) = inside;
    return rc == 0 && store->arena.failed ? err_nomem(err) : rc;
}

int rd_entry_set_error(struct store *store, struct entry *entry, const struct job_error *error,
                       uint64_t fingerprint, struct redrive_err *err)
{
    struct job_status *s = &entry->now.job.status;
    if (error->class_ == REDRIVE_CLASS_SUCCESS)
        return 0;
    s->error.class_ = error->class_;
    s->error.code = error->code;
    s->fingerprint = fingerprint;
    s->error.type = rd_unit_dup(store, error->type);
    s->error.message = rd_unit_dup(store, error->message);
    return rd_entry_set_big(store, entry, BIG_STACKTRACE, error->stacktrace, err);
}

int rd_entry_remember(struct store *store, struct entry *entry, const struct job_attempt *attempt,
                      struct redrive_err *err)
{
    struct buf bytes;
    const struct beside b = history_field(entry->seq, entry->now.n_history);
    buf_init(&bytes, (size_t)1 << 30);
    int rc = rd_attempt_pack(attempt, &bytes);
    rc = rc == 0 ? rd_cell_put_new(store, str_of(b.key), beside_str(&b), buf_str(&bytes), err)
                 : err_nomem(err);
    buf_release(&bytes);
    entry->now.n_history++;
    return rc;
}

/* Takes away what stands beside a row. What the unit does not know it need not read: with the row
 * gone nobody looks for it, so that it can stay until the commit, and is still there if the unit is
 * taken back. */
static int remove_beside(struct store *store, const struct entry *entry, struct redrive_err *err)
{
    const struct row *row = &entry->now;
    int rc = 0;
    for (uint32_t k = 0; rc == 0 && k < row->n_history + BIG_COUNT; k++) {
        const bool is_big = k >= row->n_history;
        const unsigned part = k - row->n_history;
        if (is_big && !(row->big >> part & 1))
            continue;
        const struct beside b =
            is_big ? big_field(entry->seq, (enum big_part)part) : history_field(entry->seq, k);
        const struct str field = beside_str(&b);
        struct cell *cell = rd_cell_known(store, str_of(b.key), field);
        if (cell)
            rc = rd_cell_put(store, cell, (struct str){0}, err);
        else
            rd_ops_add(&store->at_end, 'D', str_of(b.key), NULL, 0, &field, 1);
    }
    return rc == 0 && store->at_end.failed ? err_nomem(err) : rc;
}

static bool holds_for_ever(const struct entry *entry)
{
    const struct job_spec *spec = &entry->now.job.spec;
    return spec->unique_forever && spec->unique_key.len > 0;
}

/* Learns at once what is known of all the keys that will be held. */
static int look_at_held(struct store *store, struct entry *const *entries, size_t n,
                        struct redrive_err *err)
{
    struct str *names = arena_array(&store->arena, 2 * n + 1, sizeof *names);
    struct cell **cells = arena_array(&store->arena, n + 1, sizeof(struct cell *));
    size_t count = 0;
    if (!names || !cells)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const struct job_spec *spec = &entries[i]->now.job.spec;
        if (!holds_for_ever(entries[i]))
            continue;
        const struct digest digest = rd_digest_of(spec->tenant, spec->unique_key);
        names[2 * count] = STR("held");
        names[2 * count++ + 1] = rd_unit_dup(store, digest_str(&digest));
    }
    return store->arena.failed ? err_nomem(err) : rd_cells_get(store, names, count, cells, err);
}

int rd_entries_remove(struct store *store, struct entry *const *entries, size_t n,
                      struct redrive_err *err)
{
    int rc = look_at_held(store, entries, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct entry *e = entries[i];
        const struct job_spec *spec = &e->now.job.spec;
        rc = remove_beside(store, e, err);
        if (rc == 0 && holds_for_ever(e)) {
            const struct held_key key = {.tenant = spec->tenant,
                                         .key = spec->unique_key,
                                         .id = spec->id,
                                         .state = e->now.job.status.state};
            rc = rd_held_put(store, &key, e->seq, err);
        }
        const struct digest digest = rd_digest_of(spec->tenant, spec->id);
        if (map_put(&store->ids, digest_str(&digest), &RD_ENTRY_GONE) != 0)
            rc = err_nomem(err);
        if (rc == 0)
            rc = rd_entry_changed(store, e, err);
        e->is_there = false;
    }
    return rc;
}

/* ---- Moves --------------------------------------------------------------------------------------
 */

/* The entries of a list of moves, whose seqs lie `step` bytes apart; the caller frees them. */
static int take_all(struct store *store, const int64_t *first, size_t step, size_t n,
                    struct entry ***ret, struct redrive_err *err)
{
    *ret = NULL;
    int rc = rd_unit_needed(store, err);
    if (rc != 0)
        return rc;
    int64_t *seqs = calloc(n + 1, sizeof *seqs);
    *ret = calloc(n + 1, sizeof(struct entry *));
    for (size_t i = 0; seqs && i < n; i++)
        seqs[i] = *(const int64_t *)(const void *)((const char *)first + i * step);
    rc = seqs && *ret ? rd_entries_get(store, seqs, n, *ret, err) : err_nomem(err);
    free(seqs);
    return rc;
}

int redis_start(struct store *store, const struct start_move *moves, size_t n,
                struct move_result *ret, struct redrive_err *err)
{
    struct entry **entries;
    int rc = take_all(store, n ? &moves[0].seq : NULL, sizeof moves[0], n, &entries, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct entry *e = rd_entry_take(entries[i], IN(QUEUED), &ret[i]);
        if (!e)
            continue;
        rd_row_become(store, &e->now, REDRIVE_STATE_RUNNING, 0, &ret[i]);
        struct job_status *s = &e->now.job.status;
        s->attempts++;
        s->token = moves[i].token;
        s->lease_until_ms = moves[i].lease_until_ms;
        s->worker = rd_unit_dup(store, moves[i].worker);
        s->permit = moves[i].permit;
        s->started_ms = store->now_ms;
        if (s->first_started_ms == 0)
            s->first_started_ms = store->now_ms;
        /* One that runs elsewhere and was ended in this unit stays another's until its commit. */
        e->is_mine |= !rd_entry_is_stored_running(e);
        rc = rd_entry_changed(store, e, err);
    }
    free(entries);
    return rc;
}

int redis_park(struct store *store, const int64_t *seqs, size_t n, bool by_limit,
               struct move_result *ret, struct redrive_err *err)
{
    struct entry **entries;
    int rc = take_all(store, seqs, sizeof seqs[0], n, &entries, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct entry *e = rd_entry_take(entries[i], IN(QUEUED), &ret[i]);
        if (!e)
            continue;
        rd_row_become(store, &e->now, REDRIVE_STATE_PARKED, 0, &ret[i]);
        e->now.job.status.deferrals++;
        e->now.job.status.parked_by_limit = by_limit;
        e->now.job.status.held_since_ms = store->now_ms;
        rc = rd_entry_changed(store, e, err);
    }
    free(entries);
    return rc;
}

int redis_unpark(struct store *store, const int64_t *seqs, size_t n, struct move_result *ret,
                 struct redrive_err *err)
{
    struct entry **entries;
    int rc = take_all(store, seqs, sizeof seqs[0], n, &entries, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct entry *e = rd_entry_take(entries[i], IN(PARKED), &ret[i]);
        if (!e)
            continue;
        rd_row_become(store, &e->now, REDRIVE_STATE_QUEUED, 0, &ret[i]);
        rc = rd_entry_changed(store, e, err);
    }
    free(entries);
    return rc;
}

/* The entry of a running job, by the token of its lease. */
static struct entry *take_by_token(struct entry *entry, uint64_t token, struct move_result *ret)
{
    struct entry *e = rd_entry_take(entry, IN(RUNNING), ret);
    if (!e || e->now.job.status.token == token)
        return e;
    ret->code = REDRIVE_E_STATE;
    return NULL;
}

static bool is_time_locked(enum redrive_state state)
{
    return state == REDRIVE_STATE_RETRYING || state == REDRIVE_STATE_SCHEDULED;
}

/* The job is as it ran, but for its next time. */
static int remember(struct store *store, struct entry *e, const struct settle_move *move,
                    struct redrive_err *err)
{
    const struct decision *d = move->decision;
    const struct job_status *s = &e->now.job.status;
    if (d->state == REDRIVE_STATE_COMPLETED && s->attempts == 1)
        return 0;
    const struct job_attempt row = {
        .epoch = s->epoch,
        .number = d->uses_attempt ? s->attempts : 0,
        .started_ms = s->started_ms,
        .ended_ms = move->ended_ms != 0 ? move->ended_ms : store->now_ms,
        .worker = s->worker,
        .outcome = d->state,
        .error = move->error,
        .delay_ms = d->delay_ms,
        .why = str_of(delay_why_name(d->why)),
        .next_ms = is_time_locked(d->state) ? s->process_after_ms : 0,
    };
    return rd_entry_remember(store, e, &row, err);
}

static void take_attempt_back(struct job_status *s)
{
    s->attempts--;
    s->deferrals++;
    if (s->attempts == 0) {
        s->first_started_ms = 0;
        s->held_ms = 0;
    }
}

static int settle(struct store *store, struct entry *e, const struct settle_move *move,
                  struct move_result *ret, struct redrive_err *err)
{
    const struct decision *d = move->decision;
    struct job_status *s = &e->now.job.status;
    if (!state_may_become(REDRIVE_STATE_RUNNING, d->state)) {
        ret->code = REDRIVE_E_STATE;
        return 0;
    }
    if (is_time_locked(d->state) &&
        __builtin_add_overflow(store->now_ms, d->delay_ms, &s->process_after_ms))
        s->process_after_ms = INT64_MAX;
    int rc = remember(store, e, move, err);
    if (rc == 0)
        rc = rd_entry_set_error(store, e, &move->error, move->fingerprint, err);
    if (rc == 0 && move->result.ptr)
        rc = rd_entry_set_big(store, e, BIG_RESULT, move->result, err);
    s->reason = d->reason;
    s->crashes = d->crashes;
    if (!d->uses_attempt)
        take_attempt_back(s);
    rd_row_become(store, &e->now, d->state, move->ended_ms, ret);
    return rc == 0 ? rd_entry_changed(store, e, err) : rc;
}

int redis_settle(struct store *store, const struct settle_move *moves, size_t n,
                 struct move_result *ret, struct redrive_err *err)
{
    struct entry **entries;
    int rc = take_all(store, n ? &moves[0].seq : NULL, sizeof moves[0], n, &entries, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct entry *e = take_by_token(entries[i], moves[i].token, &ret[i]);
        if (e)
            rc = settle(store, e, &moves[i], &ret[i], err);
    }
    free(entries);
    return rc;
}

int redis_extend(struct store *store, const struct extend_move *moves, size_t n,
                 struct move_result *ret, struct redrive_err *err)
{
    struct entry **entries;
    int rc = take_all(store, n ? &moves[0].seq : NULL, sizeof moves[0], n, &entries, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct entry *e = take_by_token(entries[i], moves[i].token, &ret[i]);
        if (!e)
            continue;
        struct job_status *s = &e->now.job.status;
        if (moves[i].lease_until_ms > s->lease_until_ms)
            s->lease_until_ms = moves[i].lease_until_ms;
        s->updated_ms = store->now_ms;
        rc = rd_entry_changed(store, e, err);
    }
    free(entries);
    return rc;
}
