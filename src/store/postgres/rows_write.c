/* rows_write.c - sends what a transaction has changed: one statement a table, whatever the number
 * of jobs. */
#include <stdlib.h>

#include "core/state.h"
#include "store/postgres/private.h"

/* In the order of the columns of redrive.job_states. */
static void add_row(struct args *args, const struct row *row)
{
    const struct job_status *s = &row->s;
    pg_row_begin(args);
    pg_field_int8(args, row->seq);
    pg_field_int8(args, s->process_after_ms);
    pg_field_int8(args, s->updated_ms);
    pg_field_int4(args, (int32_t)row->partition->id);
    pg_field_int4(args, row->priority);
    pg_field_int4(args, (int32_t)s->attempts);
    pg_field_int2(args, (int16_t)s->state);
    pg_field_int2_or_null(args, (int16_t)s->reason);
    pg_field_int2_or_null(args, (int16_t)row->error_class);
    pg_field_bool(args, row->has_key);
    pg_field_bool(args, s->parked_by_limit);
    pg_field_int4_or_null(args, (int32_t)s->epoch);
    pg_field_int4_or_null(args, (int32_t)s->deferrals);
    pg_field_int4_or_null(args, (int32_t)s->crashes);
    pg_field_int4_or_null(args, (int32_t)row->history_n);
    pg_field_int4_or_null(args, (int32_t)row->error_n);
    pg_field_int8_or_null(args, s->started_ms);
    pg_field_int8_or_null(args, s->first_started_ms);
    pg_field_int8_or_null(args, s->finished_ms);
    pg_field_int8_or_null(args, s->paused_ms);
    pg_field_int8_or_null(args, s->paused_since_ms);
    pg_field_int8_or_null(args, s->lease_until_ms);
    pg_field_int8_or_null(args, (int64_t)s->token);
    pg_field_int8_or_null(args, (int64_t)s->permit.generation);
    pg_field_int8_or_null(args, (int64_t)s->permit.probe);
    pg_field_int8_or_null(args, (int64_t)row->fingerprint);
    /* The deadline never changes; of an optimistic row the column has the token that it relies on.
     */
    pg_field_int8_or_null(args, row->is_new          ? row->deadline_ms
                                : row->is_optimistic ? (int64_t)row->held_by
                                                     : 0);
    pg_field_text(args, s->worker);
    pg_field_int8_or_null(args, s->lease_until_ms);
    /* Their number does not change either; the column has the children that it relies on. */
    pg_field_int4_or_null(
        args, (int32_t)(row->is_optimistic && !row->is_new ? row->held_children : s->parents));
    pg_field_int4_or_null(args, (int32_t)s->open_parents);
    pg_field_int4_or_null(args, (int32_t)s->children);
    pg_row_end(args);
}

enum how {
    HOW_NEW,
    HOW_WHOLE,
    HOW_LONGER,
};

static bool is_sent_as(const struct row *row, enum how how)
{
    return row->is_dirty && how == (row->is_new      ? HOW_NEW
                                    : row->is_longer ? HOW_LONGER
                                                     : HOW_WHOLE);
}

static int send_rows(struct store *store, enum how how, struct redrive_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < store->rows.n; i++) {
        const struct row *row = store->rows.all[i];
        if (!is_sent_as(row, how))
            continue;
        if (n++ == 0)
            pg_args_rows(&store->args, store->types.jobs);
        add_row(&store->args, row);
    }
    if (n == 0)
        return 0;
    pg_args_array_end(&store->args);
    if (how == HOW_NEW)
        return pg_send(store, STATEMENT_ROWS_ADD, false, err);
    pg_args_int8(&store->args, (int64_t)n);
    return pg_send(store, STATEMENT_ROWS_WRITE, false, err);
}

/* The ends of leases alone, by token: a statement that writes no index. */
static int send_leases(struct store *store, struct redrive_err *err)
{
    const struct rows *rows = &store->rows;
    struct args *args = &store->args;
    size_t n = 0;
    for (size_t i = 0; i < rows->n; i++)
        n += is_sent_as(rows->all[i], HOW_LONGER);
    if (n == 0)
        return 0;
#define COLUMN(member)                                               \
    do {                                                             \
        pg_args_array(args, ARG_INT8);                               \
        for (size_t i = 0; i < rows->n; i++)                         \
            if (is_sent_as(rows->all[i], HOW_LONGER))                \
                pg_item_int8(args, (int64_t)rows->all[i]->s.member); \
        pg_args_array_end(args);                                     \
    } while (0)
    COLUMN(seq);
    COLUMN(token);
    COLUMN(lease_until_ms);
#undef COLUMN
    pg_args_int8(args, store->now_ms);
    pg_args_int8(args, (int64_t)n);
    return pg_send(store, STATEMENT_LEASES_WRITE, false, err);
}

static int by_seq(const void *a, const void *b)
{
    const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Rows that are not locked yet are locked in the order of seq, as in all transactions. */
static void put_in_order(struct store *store)
{
    bool any = false;
    for (size_t i = 0; i < store->rows.n && !any; i++)
        any = store->rows.all[i]->is_optimistic;
    if (any)
        qsort(store->rows.all, store->rows.n, sizeof(struct row *), by_seq);
}

/* In the order of the columns of redrive.history. */
static void add_end(struct args *args, const struct attempt_end *end)
{
    const struct job_attempt *a = &end->attempt;
    pg_row_begin(args);
    pg_field_int8(args, end->seq);
    pg_field_int4(args, (int32_t)end->n);
    pg_field_int8(args, a->started_ms);
    pg_field_int8(args, a->ended_ms);
    pg_field_int8(args, a->delay_ms);
    pg_field_int8(args, a->next_ms);
    pg_field_int4(args, (int32_t)a->epoch);
    pg_field_int4(args, (int32_t)a->number);
    pg_field_int4(args, a->error.code);
    pg_field_int2(args, (int16_t)a->outcome);
    pg_field_int2(args, (int16_t)a->error.class_);
    pg_field_name(args, a->why);
    pg_field_text(args, a->worker);
    pg_field_text(args, a->error.type);
    pg_field_text(args, a->error.message);
    pg_field_text(args, a->error.stacktrace);
    pg_row_end(args);
}

static int send_history(struct store *store, struct redrive_err *err)
{
    if (store->n_ends == 0)
        return 0;
    pg_args_rows(&store->args, store->types.history);
    for (size_t i = 0; i < store->n_ends; i++)
        add_end(&store->args, &store->ends[i]);
    pg_args_array_end(&store->args);
    store->ends = NULL;
    store->n_ends = 0;
    return pg_send(store, STATEMENT_HISTORY_ADD, false, err);
}

/* What is to be written to the tables beside job_states. */
static bool has_result(const struct row *row)
{
    return row->result.ptr != NULL;
}

static bool leaves_parked(const struct row *row)
{
    return row->in_parked;
}

static bool enters_parked(const struct row *row)
{
    return row->s.state == REDRIVE_STATE_PARKED;
}

static bool frees_key(const struct row *row)
{
    return row->holds_key && state_has_ended(row->s.state);
}

/* Adds the seqs of the changed rows for which `asks` is true; returns how many. */
static size_t add_seqs(struct store *store, bool (*asks)(const struct row *row))
{
    const struct rows *rows = &store->rows;
    size_t n = 0;
    for (size_t i = 0; i < rows->n; i++) {
        if (!rows->all[i]->is_dirty || !asks(rows->all[i]))
            continue;
        if (n++ == 0)
            pg_args_array(&store->args, ARG_INT8);
        pg_item_int8(&store->args, rows->all[i]->seq);
    }
    if (n > 0)
        pg_args_array_end(&store->args);
    return n;
}

static int send_results(struct store *store, struct redrive_err *err)
{
    const struct rows *rows = &store->rows;
    struct args *args = &store->args;
    if (add_seqs(store, has_result) == 0)
        return 0;
    pg_args_array(args, ARG_TEXT);
    for (size_t i = 0; i < rows->n; i++)
        if (rows->all[i]->is_dirty && has_result(rows->all[i]))
            pg_item_text(args, rows->all[i]->result);
    pg_args_array_end(args);
    return pg_send(store, STATEMENT_RESULTS_WRITE, false, err);
}

/* A job that was parked, unparked and parked again may be in another gate. */
static int send_parked(struct store *store, struct redrive_err *err)
{
    const struct rows *rows = &store->rows;
    struct args *args = &store->args;
    if (add_seqs(store, leaves_parked) > 0) {
        int rc = pg_send(store, STATEMENT_PARKED_REMOVE, false, err);
        if (rc != 0)
            return rc;
    }
    if (add_seqs(store, enters_parked) == 0)
        return 0;
    pg_args_array(args, ARG_BOOL);
    for (size_t i = 0; i < rows->n; i++)
        if (rows->all[i]->is_dirty && enters_parked(rows->all[i]))
            pg_item_bool(args, rows->all[i]->s.parked_by_limit);
    pg_args_array_end(args);
    pg_args_array(args, ARG_INT4);
    for (size_t i = 0; i < rows->n; i++)
        if (rows->all[i]->is_dirty && enters_parked(rows->all[i]))
            pg_item_int4(args, (int32_t)rows->all[i]->s.attempts);
    pg_args_array_end(args);
    return pg_send(store, STATEMENT_PARKED_ADD, false, err);
}

static void mark_written(struct store *store)
{
    for (size_t i = 0; i < store->rows.n; i++) {
        struct row *row = store->rows.all[i];
        if (!row->is_dirty)
            continue;
        /* LEASES_WRITE has compared the token, but not the children. */
        row->is_optimistic &= row->is_longer;
        row->is_dirty = row->is_new = row->is_longer = false;
        row->in_parked = row->s.state == REDRIVE_STATE_PARKED;
        row->holds_key = row->has_key && !state_has_ended(row->s.state);
        row->result = (struct str){NULL, 0};
    }
    store->rows.n_dirty = 0;
}

int pg_rows_flush(struct store *store, struct redrive_err *err)
{
    int rc = 0;
    if (store->rows.n_dirty > 0) {
        put_in_order(store);
        rc = send_rows(store, HOW_NEW, err);
        if (rc == 0)
            rc = send_rows(store, HOW_WHOLE, err);
        if (rc == 0)
            rc = send_leases(store, err);
        if (rc == 0)
            rc = send_results(store, err);
        if (rc == 0)
            rc = send_parked(store, err);
        if (rc == 0 && add_seqs(store, frees_key) > 0)
            rc = pg_send(store, STATEMENT_KEYS_FREE, false, err);
        mark_written(store);
    }
    if (rc == 0)
        rc = send_history(store, err);
    if (rc != 0)
        store->is_lost = true;
    return rc;
}

int pg_rows_flush_seen(struct store *store, struct redrive_err *err)
{
    bool any = false;
    for (size_t i = 0; i < store->rows.n && !any; i++)
        any = store->rows.all[i]->is_dirty && !store->rows.all[i]->is_optimistic;
    return any ? pg_rows_flush(store, err) : 0;
}
