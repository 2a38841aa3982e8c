#include "base/err.h"
#include "store/postgres/private.h"

#define FROM(state) (1u << REDRIVE_STATE_##state)
#define WAITING     (FROM(SCHEDULED) | FROM(RETRYING) | FROM(QUEUED) | FROM(PARKED))
#define ENDED       (FROM(COMPLETED) | FROM(FAILED) | FROM(DEAD_LETTER) | FROM(CANCELLED))

static const uint32_t ALLOWED_FROM[] = {
    [CHANGE_CANCEL] = WAITING | FROM(RUNNING),
    [CHANGE_RUN_NOW] = FROM(SCHEDULED) | FROM(RETRYING),
    [CHANGE_REDRIVE] = FROM(DEAD_LETTER) | FROM(FAILED),
    [CHANGE_END] = WAITING,
    [CHANGE_REMOVE] = ENDED,
    [CHANGE_EDIT] = FROM(DEAD_LETTER),
};

static int cancel(struct store *store, struct row *row, struct move_result *ret,
                  struct redrive_err *err)
{
    int rc = 0;
    if (row->s.state == REDRIVE_STATE_RUNNING) {
        const struct job_attempt attempt = {
            .epoch = row->s.epoch,
            .number = row->s.attempts,
            .started_ms = row->s.started_ms,
            .ended_ms = store->now_ms,
            .worker = row->s.worker,
            .outcome = REDRIVE_STATE_CANCELLED,
            .why = str_of(delay_why_name(DELAY_NONE)),
        };
        rc = pg_row_ended(store, row, &attempt, err);
    }
    row->s.finished_ms = store->now_ms;
    pg_row_become(store, row, REDRIVE_STATE_CANCELLED, ret);
    return rc;
}

/* An error needs a row to stand in; that it never started shows there. */
static int end_waiting(struct store *store, const struct change_move *move, struct row *row,
                       struct move_result *ret, struct redrive_err *err)
{
    int rc = 0;
    if (move->error.class_ != REDRIVE_CLASS_SUCCESS) {
        const struct job_attempt attempt = {
            .epoch = row->s.epoch,
            .ended_ms = store->now_ms,
            .worker = row->s.worker,
            .outcome = move->to,
            .error = move->error,
            .why = str_of(delay_why_name(DELAY_NONE)),
        };
        rc = pg_row_ended(store, row, &attempt, err);
        row->error_n = row->history_n;
        row->error_class = move->error.class_;
        row->fingerprint = move->fingerprint;
    }
    row->s.reason = move->reason;
    row->s.finished_ms = store->now_ms;
    pg_row_become(store, row, move->to, ret);
    return rc;
}

/* Holds its key again, or is refused because another live job does. */
static int come_back(struct store *store, struct row *row, struct move_result *ret,
                     struct redrive_err *err)
{
    if (row->has_key) {
        const PGresult *result;
        int rc = pg_rows_flush(store, err);
        pg_args_int8(&store->args, row->seq);
        if (rc == 0)
            rc = pg_run(store, STATEMENT_KEY_TAKE, &result, err);
        if (rc != 0)
            return rc;
        if (strcmp(PQcmdTuples((PGresult *)result), "1") != 0) {
            ret->code = REDRIVE_E_EXISTS;
            return 0;
        }
        row->holds_key = true;
    }
    struct job_status *s = &row->s;
    s->reason = REDRIVE_REASON_NONE;
    s->epoch++;
    s->attempts = s->crashes = 0;
    s->process_after_ms = store->now_ms;
    s->first_started_ms = s->held_ms = s->finished_ms = 0;
    pg_row_become(store, row, REDRIVE_STATE_QUEUED, ret);
    return 0;
}

static int edit(struct store *store, struct row *row, struct str payload, struct redrive_err *err)
{
    pg_row_touch(store, row);
    pg_args_int8(&store->args, row->seq);
    pg_args_text(&store->args, payload);
    return pg_send(store, STATEMENT_PAYLOAD_WRITE, false, err);
}

static int remove_one(struct store *store, struct row *row, struct redrive_err *err)
{
    int rc = pg_rows_flush(store, err);
    if (rc != 0)
        return rc;
    lines_count(&store->lines, row->line, (int)row->s.state, -1);
    pg_args_array(&store->args, ARG_INT8);
    pg_item_int8(&store->args, row->seq);
    pg_args_array_end(&store->args);
    pg_row_drop(store, row->seq);
    return pg_send(store, STATEMENT_REMOVE, false, err);
}

/* What was read before the row was locked may be over. */
static bool is_as_seen(const struct row *row, const struct change_move *move)
{
    return !move->seen || row->s.token == move->seen->token;
}

static int change_one(struct store *store, const struct change_move *move, struct move_result *ret,
                      struct redrive_err *err)
{
    if (move->kind > CHANGE_EDIT)
        return err_set(err, REDRIVE_E_INVALID, "no such change");
    struct row *row = pg_row_take(store, move->seq, ALLOWED_FROM[move->kind], ret);
    if (!row)
        return 0;
    if (!is_as_seen(row, move)) {
        store->is_lost = true;
        return err_set(err, REDRIVE_E_CANCELLED, "another unit was in the way");
    }
    switch (move->kind) {
    case CHANGE_CANCEL: return cancel(store, row, ret, err);
    case CHANGE_RUN_NOW:
        row->s.process_after_ms = store->now_ms;
        pg_row_become(store, row, REDRIVE_STATE_QUEUED, ret);
        return 0;
    case CHANGE_REDRIVE: return come_back(store, row, ret, err);
    case CHANGE_END:
        if (move->to == REDRIVE_STATE_DEAD_LETTER || move->to == REDRIVE_STATE_FAILED)
            return end_waiting(store, move, row, ret, err);
        ret->code = REDRIVE_E_INVALID;
        return 0;
    case CHANGE_EDIT: return edit(store, row, move->payload, err);
    case CHANGE_REMOVE:
    default: return remove_one(store, row, err);
    }
}

int postgres_change(struct store *store, const struct change_move *moves, size_t n,
                    struct move_result *ret, struct redrive_err *err)
{
    int rc = pg_unit_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = pg_rows_lock(store, &moves[i].seq, 1, err);
        if (rc == 0)
            rc = change_one(store, &moves[i], &ret[i], err);
    }
    return rc;
}
