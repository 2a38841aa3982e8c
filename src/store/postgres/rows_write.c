/* What a unit has changed, on its way to the server: one statement a table, whatever the number of
 * jobs. */
#include "core/state.h"
#include "store/postgres/private.h"

/* One array: an item for each row that is new (or is not), from an expression about it. */
#define COLUMN(type, item, expression)                  \
    do {                                                \
        pg_args_array(args, type);                      \
        for (size_t i = 0; i < rows->n; i++) {          \
            const struct row *row = rows->all[i];       \
            if (row->is_dirty && row->is_new == is_new) \
                item(args, expression);                 \
        }                                               \
        pg_args_array_end(args);                        \
    } while (0)

static void add_rows(struct args *args, const struct rows *rows, bool is_new)
{
    COLUMN(ARG_INT8, pg_item_int8, row->seq);
    COLUMN(ARG_INT4, pg_item_int4, (int32_t)row->line->id);
    COLUMN(ARG_INT4, pg_item_int4, (int32_t)row->s.state);
    COLUMN(ARG_INT4, pg_item_int4, row->priority);
    COLUMN(ARG_BOOL, pg_item_bool, row->has_key);
    COLUMN(ARG_INT4, pg_item_int4_or_null, (int32_t)row->s.reason);
    COLUMN(ARG_INT4, pg_item_int4_or_null, (int32_t)row->error_class);
    COLUMN(ARG_INT4, pg_item_int4, (int32_t)row->s.attempts);
    COLUMN(ARG_INT4, pg_item_int4_or_null, (int32_t)row->s.epoch);
    COLUMN(ARG_INT4, pg_item_int4_or_null, (int32_t)row->s.deferrals);
    COLUMN(ARG_INT4, pg_item_int4_or_null, (int32_t)row->s.crashes);
    COLUMN(ARG_INT4, pg_item_int4_or_null, (int32_t)row->history_n);
    COLUMN(ARG_INT4, pg_item_int4_or_null, (int32_t)row->error_n);
    COLUMN(ARG_INT8, pg_item_int8, row->s.process_after_ms);
    COLUMN(ARG_INT8, pg_item_int8, row->s.updated_ms);
    COLUMN(ARG_INT8, pg_item_int8_or_null, row->s.started_ms);
    COLUMN(ARG_INT8, pg_item_int8_or_null, row->s.first_started_ms);
    COLUMN(ARG_INT8, pg_item_int8_or_null, row->s.finished_ms);
    COLUMN(ARG_INT8, pg_item_int8_or_null, row->s.held_ms);
    COLUMN(ARG_INT8, pg_item_int8_or_null, row->s.held_since_ms);
    COLUMN(ARG_INT8, pg_item_int8_or_null, row->s.lease_until_ms);
    COLUMN(ARG_INT8, pg_item_int8_or_null, (int64_t)row->s.token);
    COLUMN(ARG_INT8, pg_item_int8_or_null, (int64_t)row->s.permit.generation);
    COLUMN(ARG_INT8, pg_item_int8_or_null, (int64_t)row->s.permit.probe);
    COLUMN(ARG_INT8, pg_item_int8_or_null, (int64_t)row->fingerprint);
    COLUMN(ARG_INT8, pg_item_int8_or_null, row->deadline_ms);
    COLUMN(ARG_BOOL, pg_item_bool, row->s.parked_by_limit);
    COLUMN(ARG_TEXT, pg_item_text, row->s.worker);
}

static int send_rows(struct store *store, bool is_new, struct redrive_err *err)
{
    bool any = false;
    for (size_t i = 0; i < store->rows.n && !any; i++)
        any = store->rows.all[i]->is_dirty && store->rows.all[i]->is_new == is_new;
    if (!any)
        return 0;
    add_rows(&store->args, &store->rows, is_new);
    return pg_send(store, is_new ? STATEMENT_ROWS_ADD : STATEMENT_ROWS_WRITE, false, err);
}

#define END_COLUMN(type, item, expression)                   \
    do {                                                     \
        pg_args_array(args, type);                           \
        for (size_t i = 0; i < store->n_ends; i++) {         \
            const struct attempt_end *end = &store->ends[i]; \
            const struct job_attempt *a = &end->attempt;     \
            (void)a;                                         \
            item(args, expression);                          \
        }                                                    \
        pg_args_array_end(args);                             \
    } while (0)

static int send_history(struct store *store, struct redrive_err *err)
{
    struct args *args = &store->args;
    if (store->n_ends == 0)
        return 0;
    END_COLUMN(ARG_INT8, pg_item_int8, end->seq);
    END_COLUMN(ARG_INT4, pg_item_int4, (int32_t)end->n);
    END_COLUMN(ARG_INT8, pg_item_int8, a->started_ms);
    END_COLUMN(ARG_INT8, pg_item_int8, a->ended_ms);
    END_COLUMN(ARG_INT8, pg_item_int8, a->delay_ms);
    END_COLUMN(ARG_INT8, pg_item_int8, a->next_ms);
    END_COLUMN(ARG_INT4, pg_item_int4, (int32_t)a->epoch);
    END_COLUMN(ARG_INT4, pg_item_int4, (int32_t)a->number);
    END_COLUMN(ARG_INT4, pg_item_int4, a->error.code);
    END_COLUMN(ARG_INT4, pg_item_int4, (int32_t)a->outcome);
    END_COLUMN(ARG_INT4, pg_item_int4, (int32_t)a->error.class_);
    END_COLUMN(ARG_TEXT, pg_item_name, a->why);
    END_COLUMN(ARG_TEXT, pg_item_text, a->worker);
    END_COLUMN(ARG_TEXT, pg_item_text, a->error.type);
    END_COLUMN(ARG_TEXT, pg_item_text, a->error.message);
    END_COLUMN(ARG_TEXT, pg_item_text, a->error.stacktrace);
    store->n_ends = 0;
    return pg_send(store, STATEMENT_HISTORY_ADD, false, err);
}

/* What a row asks of the tables beside it. */
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

/* The seqs of the rows that have been touched and ask for something; how many. */
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

/* A job that was parked, let go and parked again is in another lane, perhaps. */
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

static void settle(struct store *store)
{
    for (size_t i = 0; i < store->rows.n; i++) {
        struct row *row = store->rows.all[i];
        if (!row->is_dirty)
            continue;
        row->is_dirty = row->is_new = false;
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
        rc = send_rows(store, true, err);
        if (rc == 0)
            rc = send_rows(store, false, err);
        if (rc == 0)
            rc = send_results(store, err);
        if (rc == 0)
            rc = send_parked(store, err);
        if (rc == 0 && add_seqs(store, frees_key) > 0)
            rc = pg_send(store, STATEMENT_KEYS_FREE, false, err);
        settle(store);
    }
    if (rc == 0)
        rc = send_history(store, err);
    if (rc != 0)
        store->is_lost = true;
    return rc;
}
