/* move.c - the moves of jobs: writes down what the transition computes. */
#include "base/err.h"
#include "store/sqlite/private.h"

int history_add(struct store *store, enum statement which, int64_t seq, const struct job_attempt *a,
                struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    bind_int(st, 2, a->epoch);
    bind_int(st, 3, a->number);
    bind_int(st, 4, a->started_ms);
    bind_int(st, 5, a->ended_ms);
    bind_int(st, 6, (int64_t)a->outcome);
    bind_int(st, 7, a->delay_ms);
    bind_int(st, 8, a->next_ms);
    bind_int(st, 9, (int64_t)a->error.class_);
    bind_int(st, 10, a->error.code);
    bind_key(st, 11, a->why);
    bind_str(st, 12, a->error.type);
    bind_str(st, 13, a->error.message);
    bind_str(st, 14, a->error.stacktrace);
    if (which == STATEMENT_HISTORY_IMPORT)
        bind_str(st, 15, a->worker);
    return sql_run(store, st, err);
}

int result_write(struct store *store, int64_t seq, struct str result, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_RESULT_WRITE, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    bind_str(st, 2, result);
    return sql_run(store, st, err);
}

/* Writes another payload, and the sum over the whole spec. */
static int write_payload(struct store *store, const struct row *row, struct str payload,
                         struct redrive_err *err)
{
    struct arena arena;
    struct job job;
    sqlite3_stmt *st = sql_use(store, STATEMENT_JOB_READ, err);
    if (!st)
        return store->last_error;
    arena_init(&arena);
    bind_int(st, 1, row->seq);
    int rc = sql_step(store, st, err);
    if (rc > 0)
        rc = job_read(store, st, &arena, &job, err);
    sqlite3_reset(st);
    if (rc != 0)
        goto out;
    job.spec.payload = payload;
    st = sql_use(store, STATEMENT_PAYLOAD_WRITE, err);
    rc = store->last_error;
    if (!st)
        goto out;
    bind_int(st, 1, row->seq);
    bind_str(st, 2, payload);
    bind_int(st, 3, (int64_t)spec_sum(row->seq, &job.spec));
    rc = sql_run(store, st, err);
out:
    arena_release(&arena);
    return rc;
}

/* For a job that becomes live again: takes its key, if it has one, and its deadline. 1, or 0 when
 * another live job holds the key. */
static int take_key_again(struct store *store, const struct row *row, struct redrive_err *err)
{
    if (row->has_key) {
        int rc = sql_run_for(store, STATEMENT_KEY_TAKE, row->seq, err);
        if (rc < 0 || sqlite3_changes(store->db) == 0)
            return rc;
    }
    int rc = sql_run_for(store, STATEMENT_DEADLINE_RENEW, row->seq, err);
    store->deadlines = DEADLINES_UNKNOWN;
    return rc < 0 ? rc : 1;
}

static int write_down(struct store *store, const struct move *move, const struct transition *t,
                      struct row *row, struct redrive_err *err)
{
    int rc = 0;
    if (t->adds_attempt)
        rc = history_add(store, STATEMENT_HISTORY_ADD, row->seq, &t->attempt, err);
    if (rc == 0 && t->adds_attempt && t->replaces_error) /* errors are kept in the history */
        row->error_at = sqlite3_last_insert_rowid(store->db);
    if (rc == 0 && t->replaces_result)
        rc = result_write(store, row->seq, row->s.result, err);
    if (rc == 0 && t->replaces_payload)
        rc = write_payload(store, row, move->change->payload, err);
    if (move->kind == MOVE_START && !row->s.worker.ptr)
        row->s.worker = STR(""); /* NULL would keep the last worker */
    return rc == 0 ? row_write(store, row, t, err) : rc;
}

/* Makes the move, or refuses it, as *ret says. */
static int move_one(struct store *store, const struct move *move, struct move_result *ret,
                    struct redrive_err *err)
{
    struct transition t;
    struct row row;
    int rc = row_read(store, move->seq, &row, err);
    if (rc <= 0) {
        *ret = (struct move_result){.code = REDRIVE_E_NOT_FOUND};
        return rc;
    }
    transition(&row.s, move, store_time_of(store, store->now_ms), &t);
    *ret = (struct move_result){t.code, row.s.state, row.s.children};
    if (t.code != 0)
        return 0;
    if (t.removes_job) {
        rc = row_leave(store, &row, err);
        if (rc == 0)
            rc = rows_remove(store, row.seq, row.seq, err);
        return rc == 0 ? block_left(store, row.partition, row.seq, err) : rc;
    }
    if (t.key == KEY_IS_TAKEN) {
        rc = take_key_again(store, &row, err);
        if (rc <= 0) {
            *ret = (struct move_result){.code = REDRIVE_E_EXISTS, .state = row.was};
            return rc;
        }
    }
    return write_down(store, move, &t, &row, err);
}

int sqlite_move(struct store *store, const struct move_list *list, struct move_result *ret,
                struct redrive_err *err)
{
    int rc = transaction_needed(store, err);
    if (rc == 0 && move_list_is_sweep(list))
        return rows_sweep(store, list, ret, err);
    for (size_t i = 0; i < list->n && rc == 0; i++) {
        const struct move move = move_at(list, i);
        rc = move_one(store, &move, &ret[i], err);
    }
    return rc;
}
