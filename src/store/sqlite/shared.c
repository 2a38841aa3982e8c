/* shared.c - what processes share: rows with versions, and counters. */
#include "base/err.h"
#include "store/sqlite/private.h"

static void bind_name(sqlite3_stmt *st, const struct shared_row *row)
{
    bind_int(st, 1, (int64_t)row->kind);
    bind_key(st, 2, row->tenant);
    bind_key(st, 3, row->key);
}

/* The version of a row and its sums; 0 when there is no such row. */
static int state_of(struct store *store, const struct shared_row *row, int64_t *ret_version,
                    struct gate_sums *ret_sums, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_SHARED_STATE, err);
    if (!st)
        return store->last_error;
    bind_name(st, row);
    int rc = sql_step(store, st, err);
    *ret_version = rc > 0 ? sqlite3_column_int64(st, 0) : 0;
    *ret_sums = (struct gate_sums){0};
    if (rc > 0)
        *ret_sums = (struct gate_sums){sqlite3_column_int64(st, 1), sqlite3_column_int64(st, 2)};
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static enum statement statement_of(const struct shared_row *row)
{
    if (row->removed)
        return STATEMENT_SHARED_REMOVE;
    return row->is_delta ? STATEMENT_SHARED_COUNT : STATEMENT_SHARED_WRITE;
}

static int put_one(struct store *store, const struct shared_row *row, struct move_result *ret,
                   struct redrive_err *err)
{
    int64_t version = 0;
    struct gate_sums sums;
    int rc = state_of(store, row, &version, &sums, err);
    if (rc != 0)
        return rc;
    *ret = (struct move_result){0};
    if (!shared_put_fits(row, version, &sums)) {
        ret->code = REDRIVE_E_STATE;
        return 0;
    }
    if (row->merged)
        *row->merged = (struct merged_gate){sums, version + !row->is_delta};
    sqlite3_stmt *st = sql_use(store, statement_of(row), err);
    if (!st)
        return store->last_error;
    bind_name(st, row);
    if (!row->removed) {
        bind_int(st, 4, sums.used);
        bind_int(st, 5, sums.sent);
    }
    if (!row->removed && !row->is_delta) {
        bind_int(st, 6, version + 1);
        if (row->value.ptr)
            sqlite3_bind_blob64(st, 7, row->value.ptr, row->value.len, SQLITE_STATIC);
        else
            sqlite3_bind_null(st, 7);
    }
    if (shared_put_is_notified(row)) {
        store->shared_version++;
        store->meta_moved = true;
    }
    return sql_run(store, st, err);
}

int sqlite_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                      struct move_result *ret, struct redrive_err *err)
{
    int rc = transaction_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = put_one(store, &rows[i], &ret[i], err);
    return rc;
}

int sqlite_page_add_limits(struct store *store, struct job_page *page, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < page->n && rc == 0; i++) {
        const struct job_spec *spec = &page->jobs[i].spec;
        const struct job_spec *last = i > 0 ? &page->jobs[i - 1].spec : NULL;
        struct shared_row row = {
            .kind = SHARED_LIMIT, .tenant = spec->tenant, .key = spec->limit_key};
        struct limit_sums limit = {.tenant = spec->tenant, .key = spec->limit_key};
        if (spec->limit_key.len == 0 || (last && str_eq(last->limit_key, spec->limit_key) &&
                                         str_eq(last->tenant, spec->tenant)))
            continue;
        rc = state_of(store, &row, &row.version, &limit.sums, err);
        if (rc == 0 && row.version > 0)
            job_page_add_limit(page, &limit);
    }
    return rc == 0 && page->arena.failed ? err_nomem(err) : rc;
}

static struct str blob_dup(sqlite3_stmt *st, int i, struct arena *arena)
{
    if (sqlite3_column_type(st, i) == SQLITE_NULL)
        return (struct str){NULL, 0};
    const void *ptr = sqlite3_column_blob(st, i);
    struct str s = {ptr ? ptr : "", (size_t)sqlite3_column_bytes(st, i)};
    return arena_str(arena, s);
}

int sqlite_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                       struct shared_page *ret, struct redrive_err *err)
{
    shared_page_release(ret);
    sqlite3_stmt *st = sql_use(store, STATEMENT_SHARED_LIST, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, (int64_t)kind);
    bind_key(st, 2, tenant);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        ret->rows = page_grow(&ret->arena, ret->rows, ret->n, sizeof *ret->rows);
        if (!ret->rows)
            break;
        ret->rows[ret->n++] = (struct shared_row){
            .kind = kind,
            .tenant = column_dup(st, 0, &ret->arena),
            .key = column_dup(st, 1, &ret->arena),
            .version = sqlite3_column_int64(st, 2),
            .value = blob_dup(st, 3, &ret->arena),
            .sums = {sqlite3_column_int64(st, 4), sqlite3_column_int64(st, 5)},
        };
    }
    sqlite3_reset(st);
    if (rc >= 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc < 0)
        shared_page_release(ret);
    return rc < 0 ? rc : 0;
}

int sqlite_counters_add(struct store *store, const struct counter *counters, size_t n,
                        struct redrive_err *err)
{
    int rc = transaction_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        sqlite3_stmt *st = sql_use(store, STATEMENT_COUNTER_ADD, err);
        if (!st)
            return store->last_error;
        bind_key(st, 1, counters[i].tenant);
        bind_key(st, 2, counters[i].name);
        bind_key(st, 3, counters[i].label);
        bind_int(st, 4, counters[i].value);
        rc = sql_run(store, st, err);
    }
    return rc;
}

int sqlite_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                         struct redrive_err *err)
{
    counter_page_release(ret);
    sqlite3_stmt *st = sql_use(store, STATEMENT_COUNTER_LIST, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        ret->counters = page_grow(&ret->arena, ret->counters, ret->n, sizeof *ret->counters);
        if (!ret->counters)
            break;
        ret->counters[ret->n++] = (struct counter){
            .tenant = column_dup(st, 0, &ret->arena),
            .name = column_dup(st, 1, &ret->arena),
            .label = column_dup(st, 2, &ret->arena),
            .value = sqlite3_column_int64(st, 3),
        };
    }
    sqlite3_reset(st);
    if (rc >= 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc < 0)
        counter_page_release(ret);
    return rc < 0 ? rc : 0;
}
