#include <stdlib.h>

#include "base/err.h"
#include "store/postgres/private.h"

/* ---- Rows with versions ---------------------------------------------------------------------- */

struct put {
    const struct shared_row *row;
    size_t n;     /* its place in the request */
    bool is_sent; /* and waits for an answer */
};

/* All transactions lock rows in this order, so that no two wait for each other crosswise. */
static int by_name(const void *left, const void *right)
{
    const struct put *a = left, *b = right;
    const int order = pg_shared_compare(a->row, b->row);
    return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
}

static bool is_hopeless(const struct shared_row *row)
{
    const bool is_too_many = row->max_used > 0 && row->add.used > row->max_used;
    return row->version == 0 && (row->removed || is_too_many);
}

void pg_args_shared(struct args *args, const struct shared_row *row)
{
    pg_args_int4(args, (int32_t)row->kind);
    pg_args_name(args, row->tenant);
    pg_args_name(args, row->key);
    pg_args_int8(args, row->version);
    pg_args_int8(args, row->add.used);
    if (row->removed)
        return;
    pg_args_int8(args, row->add.sent);
    pg_args_int8(args, row->max_used);
    if (!row->is_delta)
        pg_args_bytes(args, row->value);
}

void pg_merged_read(const PGresult *result, const struct shared_row *row)
{
    if (row->merged)
        *row->merged = (struct merged_gate){{pg_get_int(result, 0, 0), pg_get_int(result, 0, 1)},
                                            pg_get_int(result, 0, 2)};
}

static int send_put(struct store *store, const struct shared_row *row, struct redrive_err *err)
{
    int rc = pg_gate_waits(store, row) ? pg_gates_flush(store, err) : 0;
    if (rc != 0)
        return rc;
    struct args *args = &store->args;
    if (row->version != 0) {
        pg_args_shared(args, row);
        return pg_send(store, row->removed ? STATEMENT_SHARED_REMOVE : STATEMENT_SHARED_WRITE, true,
                       err);
    }
    pg_args_int4(args, (int32_t)row->kind);
    pg_args_name(args, row->tenant);
    pg_args_name(args, row->key);
    pg_args_int8(args, row->add.used);
    pg_args_int8(args, row->add.sent);
    pg_args_bytes(args, row->value);
    return pg_send(store, STATEMENT_SHARED_ADD, true, err);
}

static void note_answer(struct store *store, const struct shared_row *row, bool is_done,
                        struct move_result *ret)
{
    *ret = (struct move_result){.code = is_done ? 0 : REDRIVE_E_STATE};
    store->bumps += is_done && shared_put_is_notified(row);
}

int postgres_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                        struct move_result *ret, struct redrive_err *err)
{
    int rc = pg_transaction_needed(store, err);
    pg_shared_forget(store);
    struct put *puts = rc == 0 ? arena_array(&store->arena, n, sizeof *puts) : NULL;
    if (!puts)
        return rc != 0 ? rc : err_nomem(err);
    for (size_t i = 0; i < n; i++)
        puts[i] = (struct put){.row = &rows[i], .n = i};
    if (n > 1)
        qsort(puts, n, sizeof *puts, by_name);
    bool any_sent = false;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct shared_row *row = puts[i].row;
        if (row->merged)
            *row->merged = MERGED_UNKNOWN;
        if (!row->is_delta && is_hopeless(row)) {
            ret[puts[i].n] = (struct move_result){.code = REDRIVE_E_STATE};
        } else if (pg_gate_put(store, row)) {
            note_answer(store, row, true, &ret[puts[i].n]);
        } else if (row->is_delta) {
            rc = err_nomem(err);
        } else {
            any_sent = puts[i].is_sent = true;
            rc = send_put(store, row, err);
        }
    }
    if (rc == 0 && any_sent)
        rc = pg_sync(store, err);
    size_t answer = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (!puts[i].is_sent)
            continue;
        const PGresult *result = store->results[answer++];
        const bool is_done = PQcmdTuples((PGresult *)result)[0] == '1';
        note_answer(store, puts[i].row, is_done, &ret[puts[i].n]);
        if (!is_done)
            continue;
        pg_gate_was_put(store, puts[i].row);
        if (!puts[i].row->removed)
            pg_merged_read(result, puts[i].row);
    }
    return rc;
}

static void ask_for(struct store *store, enum shared_kind kind, struct str tenant)
{
    pg_args_int4(&store->args, (int32_t)kind);
    pg_args_name(&store->args, tenant);
}

static int fill_shared(struct store *store, enum shared_kind kind, const PGresult *result,
                       struct shared_page *ret, struct redrive_err *err)
{
    const size_t n = (size_t)PQntuples(result);
    ret->rows = arena_array(&ret->arena, n, sizeof *ret->rows);
    for (size_t i = 0; ret->rows && i < n; i++) {
        struct str value = pg_get_raw(result, (int)i, 3);
        if (value.ptr)
            value = arena_str(&ret->arena, value);
        ret->rows[ret->n] = (struct shared_row){
            .kind = kind,
            .tenant = pg_get_text(result, (int)i, 0, &ret->arena),
            .key = pg_get_text(result, (int)i, 1, &ret->arena),
            .version = pg_get_int(result, (int)i, 2),
            .value = value,
            .sums = {pg_get_int(result, (int)i, 4), pg_get_int(result, (int)i, 5)},
        };
        pg_gate_seen(store, &ret->rows[ret->n++]);
    }
    if (!ret->arena.failed)
        return 0;
    shared_page_release(ret);
    return err_nomem(err);
}

/* ---- All kinds at once: an engine that has seen a new shared version reads one after the other,
 * from the first on ---- */

#define AHEAD_KINDS SHARED_WORKER /* those that are cached come first */

void pg_shared_forget(struct store *store)
{
    for (int kind = 0; store->ahead && kind < AHEAD_KINDS; kind++)
        shared_page_release(&store->ahead[kind]);
    store->ahead = NULL;
}

static int read_ahead(struct store *store, struct redrive_err *err)
{
    int rc = pg_transaction_needed(store, err);
    for (int kind = 0; rc == 0 && kind < AHEAD_KINDS; kind++) {
        ask_for(store, (enum shared_kind)kind, (struct str){NULL, 0});
        rc = pg_send(store, STATEMENT_SHARED_LIST, true, err);
    }
    if (rc == 0)
        rc = pg_sync(store, err);
    if (rc != 0)
        return rc;
    store->ahead = arena_array(&store->arena, AHEAD_KINDS, sizeof *store->ahead);
    if (!store->ahead)
        return err_nomem(err);
    for (int kind = 0; rc == 0 && kind < AHEAD_KINDS; kind++)
        rc = fill_shared(store, (enum shared_kind)kind, store->results[kind], &store->ahead[kind],
                         err);
    return rc;
}

int postgres_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                         struct shared_page *ret, struct redrive_err *err)
{
    const PGresult *result;
    shared_page_release(ret);
    const bool is_ahead = store->in_transaction && tenant.len == 0 && shared_is_cached(kind);
    int rc = store->in_transaction ? pg_gates_flush(store, err) : 0;
    if (rc == 0 && is_ahead && !store->ahead && kind == SHARED_BREAKER)
        rc = read_ahead(store, err);
    if (rc != 0)
        return rc;
    if (is_ahead && store->ahead && store->ahead[kind].rows) {
        *ret = store->ahead[kind];
        store->ahead[kind] = (struct shared_page){0};
        return 0;
    }
    ask_for(store, kind, tenant);
    rc = pg_read(store, STATEMENT_SHARED_LIST, NULL, &result, err);
    return rc == 0 ? fill_shared(store, kind, result, ret, err) : rc;
}

/* ---- Counters -------------------------------------------------------------------------------- */

int postgres_counters_add(struct store *store, const struct counter *counters, size_t n,
                          struct redrive_err *err)
{
    struct args *args = &store->args;
    int rc = pg_transaction_needed(store, err);
    if (rc != 0 || n == 0)
        return rc;
    pg_args_rows(args, store->types.counters);
    for (size_t i = 0; i < n; i++) {
        pg_row_begin(args);
        pg_field_name(args, counters[i].tenant);
        pg_field_name(args, counters[i].name);
        pg_field_name(args, counters[i].label);
        pg_field_int8(args, counters[i].value);
        pg_row_end(args);
    }
    pg_args_array_end(args);
    store->n_appended += n;
    return pg_send(store, STATEMENT_COUNTERS_ADD, false, err);
}

int postgres_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                           struct redrive_err *err)
{
    const PGresult *result;
    counter_page_release(ret);
    pg_args_name(&store->args, tenant);
    int rc = pg_read(store, STATEMENT_COUNTERS_LIST, NULL, &result, err);
    const size_t n = rc == 0 ? (size_t)PQntuples(result) : 0;
    ret->counters = arena_array(&ret->arena, n, sizeof *ret->counters);
    for (size_t i = 0; ret->counters && i < n; i++)
        ret->counters[ret->n++] = (struct counter){
            .tenant = pg_get_text(result, (int)i, 0, &ret->arena),
            .name = pg_get_text(result, (int)i, 1, &ret->arena),
            .label = pg_get_text(result, (int)i, 2, &ret->arena),
            .value = pg_get_int(result, (int)i, 3),
        };
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc != 0)
        counter_page_release(ret);
    return rc;
}
