/* move.c - the moves of jobs: writes down what the transition computes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"
#include "store/redis/private.h"

/* ---- What is kept beside a row ----------------------------------------------------------------
 */

struct beside rd_beside_history(int64_t seq, uint32_t i)
{
    struct beside b = {.field_len = 5};
    snprintf(b.key, sizeof b.key, "a:%" PRId64, seq >> 8);
    b.field[0] = (char)seq;
    for (int k = 0; k < 4; k++)
        b.field[1 + k] = (char)(i >> 8 * (3 - k));
    return b;
}

struct beside rd_beside_big(int64_t seq, enum big_part part)
{
    struct beside b = {.field_len = 2};
    snprintf(b.key, sizeof b.key, "o:%" PRId64, seq >> 8);
    b.field[0] = (char)seq;
    b.field[1] = "prs"[part];
    return b;
}

struct str rd_beside_field(const struct beside *b)
{
    return (struct str){b->field, b->field_len};
}

int rd_entry_set_big(struct store *store, struct entry *entry, enum big_part part, struct str value,
                     struct redrive_err *err)
{
    const struct beside b = rd_beside_big(entry->seq, part);
    const bool was_outside = entry->now.big >> part & 1, is_outside = value.len >= BIG_MIN;
    int rc = 0;
    if (was_outside || is_outside)
        rc = rd_cell_put_beside(store, str_of(b.key), rd_beside_field(&b),
                                is_outside ? value : (struct str){0}, err);
    entry->now.big = (entry->now.big & ~(1u << part)) | (unsigned)is_outside << part;
    struct str inside = {0};
    if (!is_outside)
        inside = rd_transaction_dup(store, value);
    *rd_row_big_part(&entry->now, part) = inside;
    return rc == 0 && store->arena.failed ? err_nomem(err) : rc;
}

int rd_entry_remember(struct store *store, struct entry *entry, const struct job_attempt *attempt,
                      struct redrive_err *err)
{
    struct buf bytes;
    const struct beside b = rd_beside_history(entry->seq, entry->now.n_history);
    buf_init(&bytes, (size_t)1 << 30);
    int rc = rd_attempt_pack(attempt, &bytes);
    rc = rc == 0
             ? rd_cell_put_beside(store, str_of(b.key), rd_beside_field(&b), buf_str(&bytes), err)
             : err_nomem(err);
    buf_release(&bytes);
    entry->now.n_history++;
    return rc;
}

/* Removes what is kept beside a row. */
static int remove_beside(struct store *store, const struct entry *entry, struct redrive_err *err)
{
    const struct row *row = &entry->now;
    int rc = 0;
    for (uint32_t k = 0; rc == 0 && k < row->n_history + BIG_COUNT; k++) {
        const bool is_big = k >= row->n_history;
        const unsigned part = k - row->n_history;
        if (is_big && !(row->big >> part & 1))
            continue;
        const struct beside b = is_big ? rd_beside_big(entry->seq, (enum big_part)part)
                                       : rd_beside_history(entry->seq, k);
        const struct str field = rd_beside_field(&b);
        struct cell *cell = rd_cell_known(store, str_of(b.key), field);
        if (cell)
            rc = rd_cell_put(store, cell, (struct str){0}, err);
        else
            rd_ops_add(&store->ops, 'D', str_of(b.key), NULL, 0, &field, 1);
    }
    if (row->job.status.parents > 0) {
        char child[RD_DIGITS_MAX];
        const struct member member = rd_member_of(entry->seq);
        const struct str word = member_str(&member);
        rd_digits(entry->seq, child);
        rd_ops_add(&store->ops, 'E', str_of(child), NULL, 0, &word, 1);
    }
    return rc == 0 && store->ops.failed ? err_nomem(err) : rc;
}

static bool holds_for_ever(const struct entry *entry)
{
    const struct job_spec *spec = &entry->now.job.spec;
    return spec->unique_forever && spec->unique_key.len > 0;
}

/* Reads at once whether the keys of jobs that are unique for ever, and may be removed, are
 * remembered already. */
static int read_remembered(struct store *store, const struct move_list *list,
                           struct entry *const *entries, struct redrive_err *err)
{
    struct str *names = arena_array(&store->arena, 2 * list->n, sizeof *names);
    struct cell **cells = arena_array(&store->arena, list->n, sizeof(struct cell *));
    size_t n = 0;
    if (!names || !cells)
        return err_nomem(err);
    for (size_t i = 0; i < list->n; i++) {
        if (list->changes[i].kind != MOVE_REMOVE || !entries[i] || !holds_for_ever(entries[i]))
            continue;
        const struct job_spec *spec = &entries[i]->now.job.spec;
        const struct digest digest = rd_digest_of(spec->tenant, spec->unique_key);
        names[2 * n] = STR("held");
        names[2 * n++ + 1] = rd_transaction_dup(store, digest_str(&digest));
    }
    return store->arena.failed ? err_nomem(err) : rd_cells_get(store, names, n, cells, err);
}

/* Removes a job, with what is kept beside its row. */
static int remove_one(struct store *store, struct entry *e, struct redrive_err *err)
{
    const struct job_spec *spec = &e->now.job.spec;
    int rc = remove_beside(store, e, err);
    if (rc == 0 && holds_for_ever(e)) {
        const struct remembered_key key = {.tenant = spec->tenant,
                                           .key = spec->unique_key,
                                           .id = spec->id,
                                           .state = e->now.job.status.state};
        rc = rd_key_remember(store, &key, e->seq, err);
    }
    const struct digest digest = rd_digest_of(spec->tenant, spec->id);
    if (map_put(&store->ids, digest_str(&digest), &RD_ENTRY_GONE) != 0)
        rc = err_nomem(err);
    if (rc == 0)
        rc = rd_entry_changed(store, e, err);
    e->is_there = false;
    return rc;
}

/* ---- Moves ----------------------------------------------------------------------------------- */

/* Whether a job that lives has the key of this one, which has ended. */
static int key_is_live(struct store *store, const struct entry *entry, bool *ret,
                       struct redrive_err *err)
{
    const struct job_spec *spec = &entry->now.job.spec;
    struct key_jobs jobs;
    *ret = false;
    if (spec->unique_key.len == 0)
        return 0;
    const struct digest digest = rd_digest_of(spec->tenant, spec->unique_key);
    int rc = rd_key_jobs_read(store, &digest, &jobs, err);
    for (size_t i = 0; rc == 0 && i < jobs.n; i++)
        *ret |= !state_has_ended(jobs.entries[i]->now.job.status.state);
    if (rc == 0 && !*ret)
        rc = rd_key_jobs_rely(store, &digest, &jobs, false, err);
    rd_key_jobs_release(&jobs);
    return rc;
}

/* Writes the new status into the entry of a job; strings of the move are copied. */
static int write_down(struct store *store, struct entry *e, const struct move *move,
                      const struct transition *t, const struct job_status *status,
                      struct redrive_err *err)
{
    struct job_status *s = &e->now.job.status;
    int rc = t->adds_attempt ? rd_entry_remember(store, e, &t->attempt, err) : 0;
    *s = *status;
    if (move->kind == MOVE_START) {
        s->worker = rd_transaction_dup(store, s->worker);
        e->is_mine = true;
    }
    if (t->replaces_error) {
        s->error.type = rd_transaction_dup(store, s->error.type);
        s->error.message = rd_transaction_dup(store, s->error.message);
        if (rc == 0)
            rc = rd_entry_set_big(store, e, BIG_STACKTRACE, s->error.stacktrace, err);
    }
    if (rc == 0 && t->replaces_result)
        rc = rd_entry_set_big(store, e, BIG_RESULT, s->result, err);
    if (rc == 0 && t->replaces_payload)
        rc = rd_entry_set_big(store, e, BIG_PAYLOAD, move->change->payload, err);
    return rc == 0 ? rd_entry_changed(store, e, err) : rc;
}

/* The job may have changed between the engine's read and that of the move. */
static bool is_as_seen(const struct entry *entry, const struct move *move)
{
    const struct job_status *seen = move->kind >= MOVE_CANCEL ? move->change->seen : NULL;
    return !seen || entry->now.job.status.token == seen->token;
}

/* Makes the move, or refuses it, as *ret says. `entry` may be NULL: there is no such job. */
static int move_one(struct store *store, struct entry *entry, const struct move *move,
                    struct move_result *ret, struct redrive_err *err)
{
    struct transition t;
    *ret = (struct move_result){.code = entry == &RD_ENTRY_UNREADABLE ? REDRIVE_E_CORRUPT
                                                                      : REDRIVE_E_NOT_FOUND};
    if (!entry || !entry->is_there)
        return 0;
    struct job_status status = entry->now.job.status;
    transition(&status, move, store_time_of(store, store->now_ms), &t);
    *ret = (struct move_result){t.code, status.state, status.children};
    if (t.code != 0)
        return 0;
    if (!is_as_seen(entry, move)) {
        store->is_lost = true;
        return err_set(err, REDRIVE_E_CANCELLED, "another transaction was in the way");
    }
    if (t.removes_job)
        return remove_one(store, entry, err);
    if (t.key == KEY_IS_TAKEN) {
        bool is_live;
        int rc = key_is_live(store, entry, &is_live, err);
        if (rc != 0 || is_live) {
            *ret = (struct move_result){.code = REDRIVE_E_EXISTS,
                                        .state = entry->now.job.status.state};
            return rc;
        }
    }
    return write_down(store, entry, move, &t, &status, err);
}

/* Settling and extending are by the token, so that the row of this attempt is the right one, or the
 * commit is refused. Any other move might be refused by a row of an earlier attempt, and then there
 * is nothing that the commit would check. */
static void use_kept(struct store *store, const struct move *move)
{
    if (move->kind == MOVE_SETTLE)
        rd_entry_use_kept(store, move->seq, move->settle->token);
    else if (move->kind == MOVE_EXTEND)
        rd_entry_use_kept(store, move->seq, move->extend->token);
}

int redis_move(struct store *store, const struct move_list *list, struct move_result *ret,
               struct redrive_err *err)
{
    int rc = rd_transaction_needed(store, err);
    if (rc != 0)
        return rc;
    int64_t *seqs = calloc(list->n + 1, sizeof *seqs);
    struct entry **entries = calloc(list->n + 1, sizeof(struct entry *));
    for (size_t i = 0; seqs && i < list->n; i++) {
        const struct move move = move_at(list, i);
        seqs[i] = move.seq;
        use_kept(store, &move);
    }
    rc = seqs && entries ? rd_entries_get(store, seqs, list->n, &RD_ENTRY_UNREADABLE, entries, err)
                         : err_nomem(err);
    if (rc == 0 && entries && list->kind == MOVE_CANCEL && list->n > 0)
        rc = read_remembered(store, list, entries, err);
    for (size_t i = 0; rc == 0 && entries && i < list->n; i++) {
        const struct move move = move_at(list, i);
        rc = move_one(store, entries[i], &move, &ret[i], err);
    }
    free(seqs);
    free(entries);
    return rc;
}
