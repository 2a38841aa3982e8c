/* move.c - the moves of jobs: notes what is to be written, as the transition computes it. */
#include "base/err.h"
#include "store/postgres/private.h"

/* ---- What is kept beside a row ----------------------------------------------------------------
 */

/* Takes the key of a job that becomes live again: 1, or 0 when another live job holds it. */
static int take_key(struct store *store, struct row *row, struct redrive_err *err)
{
    const PGresult *result;
    if (!row->has_key)
        return 1;
    int rc = pg_rows_flush(store, err);
    pg_args_int8(&store->args, row->seq);
    if (rc == 0)
        rc = pg_run(store, STATEMENT_KEY_TAKE, &result, err);
    if (rc != 0)
        return rc;
    row->holds_key = strcmp(PQcmdTuples((PGresult *)result), "1") == 0;
    return row->holds_key;
}

static int write_payload(struct store *store, const struct row *row, struct str payload,
                         struct redrive_err *err)
{
    pg_args_int8(&store->args, row->seq);
    pg_args_text(&store->args, payload);
    return pg_send(store, STATEMENT_PAYLOAD_WRITE, false, err);
}

/* send_removed sends all removals of a list at once. */
static int remove_one(struct store *store, const struct row *row, struct redrive_err *err)
{
    int rc = row->is_dirty ? pg_rows_flush(store, err) : 0;
    if (rc != 0)
        return rc;
    partitions_count(&store->partitions, row->partition, (int)row->s.state, -1);
    pg_row_drop(store, row->seq);
    return 0;
}

static int send_removed(struct store *store, const struct move_list *list,
                        const struct move_result *results, struct redrive_err *err)
{
    size_t n = 0;
    for (size_t i = 0; list->kind == MOVE_CANCEL && i < list->n; i++) {
        if (list->changes[i].kind != MOVE_REMOVE || results[i].code != 0)
            continue;
        if (n++ == 0)
            pg_args_array(&store->args, ARG_INT8);
        pg_item_int8(&store->args, list->changes[i].seq);
    }
    if (n == 0)
        return 0;
    pg_args_array_end(&store->args);
    return pg_send(store, STATEMENT_REMOVE, false, err);
}

/* The job may have changed between the read and the lock. */
static bool is_as_seen(const struct row *row, const struct change_move *move)
{
    return !move->seen || row->s.token == move->seen->token;
}

/* ---- Moves ----------------------------------------------------------------------------------- */

static int keep_worker(struct store *store, struct job_status *s, struct redrive_err *err)
{
    char *worker = arena_dup(&store->arena, s->worker.ptr ? s->worker : STR(""));
    if (!worker)
        return err_nomem(err);
    s->worker.ptr = worker;
    return 0;
}

/* An error is kept in the history, to which the row points; a result waits beside the row. */
static int keep_strings(struct store *store, struct row *row, const struct transition *t,
                        const struct job_status *s, struct redrive_err *err)
{
    if (t->adds_attempt) {
        int rc = pg_row_ended(store, row, &t->attempt, err);
        if (rc != 0)
            return rc;
    }
    if (t->replaces_error) {
        row->error_n = row->history_n;
        row->error_class = s->error.class_;
        row->fingerprint = s->fingerprint;
    }
    if (t->replaces_result) {
        row->result = arena_str(&store->arena, s->result);
        if (!row->result.ptr)
            return err_nomem(err);
    }
    return 0;
}

/* Whether this handle has started the job that the move leaves running. */
static bool is_our_lease(struct store *store, const struct move *move)
{
    struct row kept;
    return move->kind == MOVE_START ||
           (move->kind == MOVE_EXTEND && pg_kept_get(store, move->seq, move->extend->token, &kept));
}

static int write_down(struct store *store, struct row *row, const struct move *move,
                      const struct transition *t, struct job_status *s, struct redrive_err *err)
{
    int rc = move->kind == MOVE_START ? keep_worker(store, s, err) : 0;
    if (rc == 0)
        rc = keep_strings(store, row, t, s, err);
    if (rc == 0 && t->replaces_payload)
        rc = write_payload(store, row, move->change->payload, err);
    if (rc != 0)
        return rc;
    if (s->state != row->s.state)
        partitions_count(&store->partitions, row->partition, (int)row->s.state, (int)s->state);
    row->is_ours |= is_our_lease(store, move);
    row->s = *s;
    row->s.error = (struct job_error){0};
    row->s.result = (struct str){NULL, 0};
    if (move->kind == MOVE_EXTEND)
        pg_row_touch_lease(store, row);
    else
        pg_row_touch(store, row);
    return 0;
}

/* Makes the move of a job whose row is kept, or refuses it, as *ret says. */
static int move_one(struct store *store, const struct move *move, struct move_result *ret,
                    struct redrive_err *err)
{
    struct transition t;
    struct row *row = pg_row_find(store, move->seq);
    *ret = (struct move_result){.code = REDRIVE_E_NOT_FOUND};
    if (!row)
        return 0;
    if (row->is_damaged) {
        ret->code = REDRIVE_E_CORRUPT;
        return 0;
    }
    struct job_status s = row->s;
    transition(&s, move, store_time_of(store, store->now_ms), &t);
    *ret = (struct move_result){t.code, s.state, s.children};
    if (t.code != 0)
        return 0;
    if (move->kind >= MOVE_CANCEL && !is_as_seen(row, move->change)) {
        store->is_lost = true;
        return err_set(err, REDRIVE_E_CANCELLED, "another transaction was in the way");
    }
    if (t.removes_job)
        return remove_one(store, row, err);
    if (t.key == KEY_IS_TAKEN) {
        int rc = take_key(store, row, err);
        if (rc <= 0) {
            *ret = (struct move_result){.code = REDRIVE_E_EXISTS, .state = row->s.state};
            return rc;
        }
    }
    return write_down(store, row, move, &t, &s, err);
}

/* ---- The slot -------------------------------------------------------------------------------- */

/* Running jobs that this handle has started are taken from its cache, without reading them. */
static int assume_all(struct store *store, const struct move_list *list, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < list->n; i++) {
        const struct move move = move_at(list, i);
        if (move.kind == MOVE_SETTLE)
            rc = pg_row_optimistic(store, move.seq, move.settle->token, err);
        else if (move.kind == MOVE_EXTEND)
            rc = pg_row_optimistic(store, move.seq, move.extend->token, err);
    }
    return rc;
}

int postgres_move(struct store *store, const struct move_list *list, struct move_result *ret,
                  struct redrive_err *err)
{
    int rc = pg_transaction_needed(store, err);
    if (rc == 0)
        rc = assume_all(store, list, err);
    if (rc == 0)
        rc = pg_rows_lock(store, list, move_list_is_sweep(list), err);
    for (size_t i = 0; i < list->n && rc == 0; i++) {
        const struct move move = move_at(list, i);
        rc = move_one(store, &move, &ret[i], err);
    }
    return rc == 0 ? send_removed(store, list, ret, err) : rc;
}
