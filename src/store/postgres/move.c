#include "base/err.h"
#include "core/state.h"
#include "store/postgres/private.h"

#define FROM(state) (1u << REDRIVE_STATE_##state)

/* Locks the jobs of an array of moves that start with a seq, some at a time. */
#define LOCK_ALL(store, moves, n, member, err)         \
    ({                                                 \
        int rc_ = pg_unit_needed(store, err);          \
        int64_t seqs_[256];                            \
        for (size_t i_ = 0; rc_ == 0 && i_ < (n);) {   \
            size_t k_ = 0;                             \
            for (; k_ < 256 && i_ < (n); k_++, i_++)   \
                seqs_[k_] = (moves)[i_] member;        \
            rc_ = pg_rows_lock(store, seqs_, k_, err); \
        }                                              \
        rc_;                                           \
    })

static int start_one(struct store *store, const struct start_move *move, struct move_result *ret,
                     struct redrive_err *err)
{
    struct row *row = pg_row_take(store, move->seq, FROM(QUEUED), ret);
    if (!row)
        return 0;
    char *worker = arena_dup(&store->arena, move->worker.ptr ? move->worker : STR(""));
    if (!worker)
        return err_nomem(err);
    pg_row_become(store, row, REDRIVE_STATE_RUNNING, ret);
    struct job_status *s = &row->s;
    s->worker = (struct str){worker, move->worker.len};
    s->attempts++;
    s->started_ms = store->now_ms;
    if (s->first_started_ms == 0)
        s->first_started_ms = store->now_ms;
    s->token = move->token;
    s->lease_until_ms = move->lease_until_ms;
    s->permit = move->permit;
    row->is_ours = true;
    return 0;
}

int postgres_start(struct store *store, const struct start_move *moves, size_t n,
                   struct move_result *ret, struct redrive_err *err)
{
    int rc = LOCK_ALL(store, moves, n, .seq, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = start_one(store, &moves[i], &ret[i], err);
    return rc;
}

int postgres_park(struct store *store, const int64_t *seqs, size_t n, bool by_limit,
                  struct move_result *ret, struct redrive_err *err)
{
    int rc = LOCK_ALL(store, seqs, n, , err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct row *row = pg_row_take(store, seqs[i], FROM(QUEUED), &ret[i]);
        if (!row)
            continue;
        pg_row_become(store, row, REDRIVE_STATE_PARKED, &ret[i]);
        row->s.deferrals++;
        row->s.parked_by_limit = by_limit;
        row->s.held_since_ms = store->now_ms;
    }
    return rc;
}

int postgres_unpark(struct store *store, const int64_t *seqs, size_t n, struct move_result *ret,
                    struct redrive_err *err)
{
    int rc = LOCK_ALL(store, seqs, n, , err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct row *row = pg_row_take(store, seqs[i], FROM(PARKED), &ret[i]);
        if (row)
            pg_row_become(store, row, REDRIVE_STATE_QUEUED, &ret[i]);
    }
    return rc;
}

/* A delay without end is as late as can be, not in the past. */
static int64_t later(int64_t now_ms, int64_t delay_ms)
{
    int64_t sum;
    return __builtin_add_overflow(now_ms, delay_ms, &sum) ? INT64_MAX : sum;
}

static bool is_time_locked(enum redrive_state state)
{
    return state == REDRIVE_STATE_RETRYING || state == REDRIVE_STATE_SCHEDULED;
}

/* Writes down how the attempt went, and lets the row point to its error. The row is as it ran, but
 * for its next time. */
static int remember(struct store *store, const struct settle_move *move, struct row *row,
                    int64_t ended_ms, struct redrive_err *err)
{
    const struct decision *d = move->decision;
    const struct job_status *s = &row->s;
    if (d->state == REDRIVE_STATE_COMPLETED && s->attempts == 1)
        return 0;
    const struct job_attempt attempt = {
        .epoch = s->epoch,
        .number = d->uses_attempt ? s->attempts : 0,
        .started_ms = s->started_ms,
        .ended_ms = ended_ms,
        .worker = s->worker,
        .outcome = d->state,
        .error = move->error,
        .delay_ms = d->delay_ms,
        .why = str_of(delay_why_name(d->why)),
        .next_ms = is_time_locked(d->state) ? s->process_after_ms : 0,
    };
    int rc = pg_row_ended(store, row, &attempt, err);
    if (rc == 0 && move->error.class_ != REDRIVE_CLASS_SUCCESS) {
        row->error_n = row->history_n;
        row->error_class = move->error.class_;
        row->fingerprint = move->fingerprint;
    }
    return rc;
}

static void take_back(struct job_status *s)
{
    s->deferrals++;
    if (s->attempts > 0)
        s->attempts--;
    if (s->attempts == 0) {
        s->first_started_ms = 0;
        s->held_ms = 0;
    }
}

static struct row *take_by_token(struct store *store, int64_t seq, uint64_t token,
                                 struct move_result *ret)
{
    struct row *row = pg_row_take(store, seq, FROM(RUNNING), ret);
    if (row && row->s.token != token) {
        ret->code = REDRIVE_E_STATE;
        return NULL;
    }
    return row;
}

static int settle_one(struct store *store, const struct settle_move *move, struct move_result *ret,
                      struct redrive_err *err)
{
    const struct decision *d = move->decision;
    struct row *row = take_by_token(store, move->seq, move->token, ret);
    if (!row)
        return 0;
    if (!state_may_become(REDRIVE_STATE_RUNNING, d->state)) {
        ret->code = REDRIVE_E_STATE;
        return 0;
    }
    struct job_status *s = &row->s;
    const int64_t ended_ms = move->ended_ms ? move->ended_ms : store->now_ms;
    if (is_time_locked(d->state))
        s->process_after_ms = later(store->now_ms, d->delay_ms);
    int rc = remember(store, move, row, ended_ms, err);
    if (rc == 0 && move->result.ptr) {
        row->result = arena_str(&store->arena, move->result);
        if (!row->result.ptr)
            rc = err_nomem(err);
    }
    if (rc != 0)
        return rc;
    s->reason = d->reason;
    s->crashes = d->crashes;
    if (!d->uses_attempt)
        take_back(s);
    if (state_has_ended(d->state))
        s->finished_ms = ended_ms;
    pg_row_become(store, row, d->state, ret);
    return 0;
}

int postgres_settle(struct store *store, const struct settle_move *moves, size_t n,
                    struct move_result *ret, struct redrive_err *err)
{
    int rc = pg_unit_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = pg_row_guess(store, moves[i].seq, moves[i].token, err);
    if (rc == 0)
        rc = LOCK_ALL(store, moves, n, .seq, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = settle_one(store, &moves[i], &ret[i], err);
    return rc;
}

int postgres_extend(struct store *store, const struct extend_move *moves, size_t n,
                    struct move_result *ret, struct redrive_err *err)
{
    int rc = pg_unit_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = pg_row_guess(store, moves[i].seq, moves[i].token, err);
    if (rc == 0)
        rc = LOCK_ALL(store, moves, n, .seq, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct extend_move *move = &moves[i];
        struct row kept;
        struct row *row = take_by_token(store, move->seq, move->token, &ret[i]);
        if (!row)
            continue;
        row->is_ours |= pg_kept_get(store, move->seq, move->token, &kept);
        if (move->lease_until_ms > row->s.lease_until_ms)
            row->s.lease_until_ms = move->lease_until_ms;
        pg_row_touch_lease(store, row);
    }
    return rc;
}
