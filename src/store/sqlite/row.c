#include "base/err.h"
#include "core/state.h"
#include "store/sqlite/private.h"

int64_t status_at(const struct job_status *s)
{
    if (s->state == REDRIVE_STATE_RUNNING)
        return s->lease_until_ms;
    if (state_has_ended(s->state))
        return s->finished_ms;
    return s->state < REDRIVE_STATE_QUEUED ? s->process_after_ms : 0;
}

void status_set_at(struct job_status *s, int64_t at_ms)
{
    s->lease_until_ms = s->state == REDRIVE_STATE_RUNNING ? at_ms : 0;
    s->finished_ms = state_has_ended(s->state) ? at_ms : 0;
}

int row_read(struct store *store, int64_t seq, struct row *ret, struct redrive_err *err)
{
    const struct row *kept = kept_get(store, seq);
    if (kept) {
        *ret = *kept;
        return 1;
    }
    sqlite3_stmt *st = sql_use(store, STATEMENT_ROW_READ, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    int rc = sql_step(store, st, err);
    if (rc <= 0)
        return rc;
    int64_t state = sqlite3_column_int64(st, 0);
    int64_t line_id = sqlite3_column_int64(st, 1);
    *ret = (struct row){
        .seq = seq,
        .tenant_id = sqlite3_column_int64(st, 2),
        .has_key = sqlite3_column_int(st, 21) != 0,
        .error_class = (enum redrive_class)sqlite3_column_int(st, 18),
        .error_at = sqlite3_column_int64(st, 19),
        .fingerprint = (uint64_t)sqlite3_column_int64(st, 20),
        .s =
            {
                .seq = seq,
                .process_after_ms = sqlite3_column_int64(st, 3),
                .attempts = (uint32_t)sqlite3_column_int64(st, 5),
                .parked_by_limit = sqlite3_column_int(st, 6) != 0,
                .epoch = (uint32_t)sqlite3_column_int64(st, 7),
                .reason = (enum redrive_reason)sqlite3_column_int(st, 8),
                .deferrals = (uint32_t)sqlite3_column_int64(st, 9),
                .crashes = (uint32_t)sqlite3_column_int64(st, 10),
                .first_started_ms = sqlite3_column_int64(st, 11),
                .started_ms = sqlite3_column_int64(st, 12),
                .held_ms = sqlite3_column_int64(st, 13),
                .held_since_ms = sqlite3_column_int64(st, 14),
                .token = (uint64_t)sqlite3_column_int64(st, 15),
                .permit = {.generation = (uint64_t)sqlite3_column_int64(st, 16),
                           .probe = (uint64_t)sqlite3_column_int64(st, 17)},
            },
    };
    int64_t at_ms = sqlite3_column_int64(st, 4);
    sqlite3_reset(st);
    if (state < 0 || state >= REDRIVE_STATE_COUNT)
        return sql_damaged(store, seq, "its state is none of those there are", err);
    ret->s.state = ret->was = (enum redrive_state)state;
    status_set_at(&ret->s, at_ms);
    rc = line_numbered(store, line_id, &ret->line, err);
    return rc == 0 ? 1 : rc;
}

static int run_for(struct store *store, enum statement which, int64_t seq, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    return sql_run(store, st, err);
}

/* What stands beside the row and depends on its state: counts, keys, the list of the parked. */
static int follow(struct store *store, const struct row *row, struct redrive_err *err)
{
    const enum redrive_state from = row->was, to = row->s.state;
    int rc = 0;
    if (from == to)
        return 0;
    line_count(store, row->line, (int)from, (int)to);
    if (row->has_key && state_has_ended(from) != state_has_ended(to))
        rc = run_for(store, state_has_ended(to) ? STATEMENT_KEY_FREE : STATEMENT_KEY_TAKE, row->seq,
                     err);
    if (rc == 0 && from == REDRIVE_STATE_PARKED)
        rc = run_for(store, STATEMENT_PARKED_REMOVE, row->seq, err);
    return rc;
}

int row_write(struct store *store, struct row *row, struct move_result *ret,
              struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_ROW_WRITE, err);
    if (!st)
        return store->last_error;
    const struct job_status *s = &row->s;
    const int64_t values[] = {
        row->seq,
        (int64_t)s->state,
        s->process_after_ms,
        status_at(s),
        s->attempts,
        s->parked_by_limit,
        s->epoch,
        (int64_t)s->reason,
        s->deferrals,
        s->crashes,
        s->first_started_ms,
        s->started_ms,
        s->held_ms,
        s->held_since_ms,
        (int64_t)s->token,
        (int64_t)s->permit.generation,
        (int64_t)s->permit.probe,
        (int64_t)row->error_class,
        row->error_at,
        (int64_t)row->fingerprint,
        store->now_ms,
    };
    _Static_assert(sizeof values == sizeof store->row_bound, "one for each");
    for (size_t i = 0; i < ROW_NUMBERS; i++) {
        /* What is bound stays bound, and most numbers are those of the row before. */
        if (store->row_is_bound && store->row_bound[i] == values[i])
            continue;
        bind_int(st, (int)i + 1, values[i]);
        if (values[i] == 0 && i + 1 == ROW_ERROR_AT)
            sqlite3_bind_null(st, ROW_ERROR_AT);
    }
    memcpy(store->row_bound, values, sizeof values);
    store->row_is_bound = true;
    bind_str(st, 22, row->worker);
    int rc = sql_run(store, st, err);
    if (rc != 0)
        return rc;
    rc = follow(store, row, err);
    if (rc != 0)
        return rc;
    row->was = s->state;
    /* Whoever has ended is seldom asked for again. */
    if (state_has_ended(s->state))
        kept_drop(store, row->seq);
    else
        kept_put(store, row);
    if (ret)
        *ret = (struct move_result){.code = 0, .state = s->state};
    return 0;
}

int row_for_move(struct store *store, int64_t seq, uint32_t from, struct row *ret_row,
                 struct move_result *ret, struct redrive_err *err)
{
    int rc = row_read(store, seq, ret_row, err);
    if (rc < 0)
        return rc;
    if (rc == 0) {
        *ret = (struct move_result){.code = REDRIVE_E_NOT_FOUND};
        return 0;
    }
    if (!(from >> ret_row->s.state & 1)) {
        *ret = (struct move_result){.code = REDRIVE_E_STATE, .state = ret_row->s.state};
        return 0;
    }
    return 1;
}

void row_leave(struct store *store, struct row *row)
{
    struct job_status *s = &row->s;
    if (row->was == REDRIVE_STATE_RUNNING) {
        s->token = 0;
        s->lease_until_ms = 0;
        s->permit = (struct breaker_permit){0};
    }
    if (row->was == REDRIVE_STATE_PARKED) {
        if (s->first_started_ms != 0 && store->now_ms > s->held_since_ms)
            s->held_ms += store->now_ms - s->held_since_ms;
        s->held_since_ms = 0;
        s->parked_by_limit = false;
    }
}

int row_remove(struct store *store, struct row *row, struct redrive_err *err)
{
    static const enum statement STEPS[] = {
        STATEMENT_FOREVER_KEEP, STATEMENT_HISTORY_REMOVE, STATEMENT_RESULT_REMOVE,
        STATEMENT_SPEC_REMOVE,  STATEMENT_JOB_REMOVE,
    };
    for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        int rc = run_for(store, STEPS[i], row->seq, err);
        if (rc != 0)
            return rc;
    }
    kept_drop(store, row->seq);
    line_count(store, row->line, (int)row->was, -1);
    return 0;
}

int history_add(struct store *store, const struct row *row, const struct attempt_end *end,
                int64_t *ret_id, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_HISTORY_ADD, err);
    if (!st)
        return store->last_error;
    const struct job_error *error = end->error;
    bind_int(st, 1, row->seq);
    bind_int(st, 2, row->s.epoch);
    bind_int(st, 3, end->number);
    bind_int(st, 4, row->s.started_ms);
    bind_int(st, 5, end->ended_ms);
    bind_int(st, 6, (int64_t)end->outcome);
    bind_int(st, 7, end->delay_ms);
    bind_int(st, 8, end->next_ms);
    bind_int(st, 9, (int64_t)error->class_);
    bind_int(st, 10, error->code);
    bind_str(st, 11, str_of(end->why));
    bind_str(st, 12, error->type);
    bind_str(st, 13, error->message);
    bind_str(st, 14, error->stacktrace);
    int rc = sql_run(store, st, err);
    if (rc == 0)
        *ret_id = sqlite3_last_insert_rowid(store->db);
    return rc;
}
