#include "base/err.h"
#include "core/state.h"
#include "store/sqlite/private.h"

#define FROM(state) (1u << REDRIVE_STATE_##state)

static int start_one(struct store *store, const struct start_move *move, struct move_result *ret,
                     struct redrive_err *err)
{
    struct row row;
    int rc = row_for_move(store, move->seq, FROM(QUEUED), &row, ret, err);
    if (rc <= 0)
        return rc;
    row.s.state = REDRIVE_STATE_RUNNING;
    row.s.attempts++;
    row.s.started_ms = store->now_ms;
    if (row.s.first_started_ms == 0)
        row.s.first_started_ms = store->now_ms;
    row.s.token = move->token;
    row.s.lease_until_ms = move->lease_until_ms;
    row.s.permit = move->permit;
    row.worker = move->worker.ptr ? move->worker : STR("");
    return row_write(store, &row, ret, err);
}

int sqlite_start(struct store *store, const struct start_move *moves, size_t n,
                 struct move_result *ret, struct redrive_err *err)
{
    int rc = unit_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = start_one(store, &moves[i], &ret[i], err);
    return rc;
}

static int park_one(struct store *store, int64_t seq, bool by_limit, struct move_result *ret,
                    struct redrive_err *err)
{
    struct row row;
    int rc = row_for_move(store, seq, FROM(QUEUED), &row, ret, err);
    if (rc <= 0)
        return rc;
    sqlite3_stmt *st = sql_use(store, STATEMENT_PARKED_ADD, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    bind_int(st, 2, by_limit);
    rc = sql_run(store, st, err);
    if (rc != 0)
        return rc;
    row.s.state = REDRIVE_STATE_PARKED;
    row.s.deferrals++;
    row.s.parked_by_limit = by_limit;
    row.s.held_since_ms = store->now_ms;
    return row_write(store, &row, ret, err);
}

int sqlite_park(struct store *store, const int64_t *seqs, size_t n, bool by_limit,
                struct move_result *ret, struct redrive_err *err)
{
    int rc = unit_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = park_one(store, seqs[i], by_limit, &ret[i], err);
    return rc;
}

static int unpark_one(struct store *store, int64_t seq, struct move_result *ret,
                      struct redrive_err *err)
{
    struct row row;
    int rc = row_for_move(store, seq, FROM(PARKED), &row, ret, err);
    if (rc <= 0)
        return rc;
    row_leave(store, &row);
    row.s.state = REDRIVE_STATE_QUEUED;
    return row_write(store, &row, ret, err);
}

int sqlite_unpark(struct store *store, const int64_t *seqs, size_t n, struct move_result *ret,
                  struct redrive_err *err)
{
    int rc = unit_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = unpark_one(store, seqs[i], &ret[i], err);
    return rc;
}

/* Writes down how the attempt went, and lets the row point to its error. */
static int remember_attempt(struct store *store, const struct settle_move *move, struct row *row,
                            int64_t ended_ms, struct redrive_err *err)
{
    const struct decision *d = move->decision;
    const bool waits = d->state == REDRIVE_STATE_RETRYING || d->state == REDRIVE_STATE_SCHEDULED;
    const struct attempt_end end = {
        .number = d->uses_attempt ? row->s.attempts : 0,
        .ended_ms = ended_ms,
        .outcome = d->state,
        .error = &move->error,
        .delay_ms = d->delay_ms,
        .why = delay_why_name(d->why),
        .next_ms = waits ? row->s.process_after_ms : 0,
    };
    int64_t id;
    int rc = history_add(store, row, &end, &id, err);
    if (rc == 0 && move->error.class_ != REDRIVE_CLASS_SUCCESS) {
        row->error_at = id;
        row->error_class = move->error.class_;
        row->fingerprint = move->fingerprint;
    }
    return rc;
}

static int write_result(struct store *store, int64_t seq, struct str result,
                        struct redrive_err *err)
{
    if (!result.ptr)
        return 0;
    sqlite3_stmt *st = sql_use(store, STATEMENT_RESULT_WRITE, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    bind_str(st, 2, result);
    return sql_run(store, st, err);
}

/* A delay without end is as late as can be, not in the past. */
static int64_t later(int64_t now_ms, int64_t delay_ms)
{
    int64_t sum;
    return __builtin_add_overflow(now_ms, delay_ms, &sum) ? INT64_MAX : sum;
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

static int settle_one(struct store *store, const struct settle_move *move, struct move_result *ret,
                      struct redrive_err *err)
{
    struct row row;
    const struct decision *d = move->decision;
    int rc = row_for_move(store, move->seq, FROM(RUNNING), &row, ret, err);
    if (rc <= 0)
        return rc;
    if (row.s.token != move->token || !state_may_become(REDRIVE_STATE_RUNNING, d->state)) {
        *ret = (struct move_result){.code = REDRIVE_E_STATE, .state = row.s.state};
        return 0;
    }
    const int64_t ended_ms = move->ended_ms ? move->ended_ms : store->now_ms;
    row_leave(store, &row);
    row.s.state = d->state;
    row.s.reason = d->reason;
    row.s.crashes = d->crashes;
    if (d->state == REDRIVE_STATE_RETRYING || d->state == REDRIVE_STATE_SCHEDULED)
        row.s.process_after_ms = later(store->now_ms, d->delay_ms);
    if (state_has_ended(d->state))
        row.s.finished_ms = ended_ms;
    const bool first_success = d->state == REDRIVE_STATE_COMPLETED && row.s.attempts == 1;
    if (!first_success)
        rc = remember_attempt(store, move, &row, ended_ms, err);
    else
        rc = 0;
    if (!d->uses_attempt)
        take_back(&row.s);
    if (rc == 0)
        rc = write_result(store, move->seq, move->result, err);
    return rc == 0 ? row_write(store, &row, ret, err) : rc;
}

int sqlite_settle(struct store *store, const struct settle_move *moves, size_t n,
                  struct move_result *ret, struct redrive_err *err)
{
    int rc = unit_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = settle_one(store, &moves[i], &ret[i], err);
    return rc;
}

static int extend_one(struct store *store, const struct extend_move *move, struct move_result *ret,
                      struct redrive_err *err)
{
    struct row row;
    int rc = row_for_move(store, move->seq, FROM(RUNNING), &row, ret, err);
    if (rc <= 0)
        return rc;
    if (row.s.token != move->token) {
        *ret = (struct move_result){.code = REDRIVE_E_STATE, .state = row.s.state};
        return 0;
    }
    if (move->lease_until_ms > row.s.lease_until_ms)
        row.s.lease_until_ms = move->lease_until_ms;
    return row_write(store, &row, ret, err);
}

int sqlite_extend(struct store *store, const struct extend_move *moves, size_t n,
                  struct move_result *ret, struct redrive_err *err)
{
    int rc = unit_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = extend_one(store, &moves[i], &ret[i], err);
    return rc;
}
