#include "base/err.h"
#include "store/sqlite/private.h"

static void bind_name(sqlite3_stmt *st, const struct shared_row *row)
{
    bind_int(st, 1, (int64_t)row->kind);
    bind_key(st, 2, row->tenant);
    bind_key(st, 3, row->key);
}

/* 0 when there is no such row. */
static int version_of(struct store *store, const struct shared_row *row, int64_t *ret,
                      struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_SHARED_VERSION, err);
    if (!st)
        return store->last_error;
    bind_name(st, row);
    int rc = sql_step(store, st, err);
    *ret = rc > 0 ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static int put_one(struct store *store, const struct shared_row *row, struct move_result *ret,
                   struct redrive_err *err)
{
    int64_t version = 0;
    int rc = version_of(store, row, &version, err);
    if (rc != 0)
        return rc;
    *ret = (struct move_result){0};
    if (version != row->version || (row->removed && version == 0)) {
        ret->code = REDRIVE_E_STATE;
        return 0;
    }
    sqlite3_stmt *st =
        sql_use(store, row->removed ? STATEMENT_SHARED_REMOVE : STATEMENT_SHARED_WRITE, err);
    if (!st)
        return store->last_error;
    bind_name(st, row);
    if (!row->removed) {
        bind_int(st, 4, version + 1);
        if (row->value.ptr)
            sqlite3_bind_blob64(st, 5, row->value.ptr, row->value.len, SQLITE_STATIC);
        else
            sqlite3_bind_null(st, 5);
    }
    if (shared_put_is_news(row)) {
        store->shared_version++;
        store->meta_moved = true;
    }
    return sql_run(store, st, err);
}

int sqlite_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                      struct move_result *ret, struct redrive_err *err)
{
    int rc = unit_needed(store, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = put_one(store, &rows[i], &ret[i], err);
    return rc;
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
    size_t capacity = 0;
    while ((rc = sql_step(store, st, err)) > 0) {
        if (ret->n == capacity) {
            capacity = capacity ? capacity * 2 : 16;
            struct shared_row *grown = arena_array(&ret->arena, capacity, sizeof *grown);
            if (!grown)
                break;
            if (ret->n)
                memcpy(grown, ret->rows, ret->n * sizeof *grown);
            ret->rows = grown;
        }
        ret->rows[ret->n++] = (struct shared_row){
            .kind = kind,
            .tenant = column_dup(st, 0, &ret->arena),
            .key = column_dup(st, 1, &ret->arena),
            .version = sqlite3_column_int64(st, 2),
            .value = blob_dup(st, 3, &ret->arena),
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
    int rc = unit_needed(store, err);
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
    size_t capacity = 0;
    while ((rc = sql_step(store, st, err)) > 0) {
        if (ret->n == capacity) {
            capacity = capacity ? capacity * 2 : 16;
            struct counter *grown = arena_array(&ret->arena, capacity, sizeof *grown);
            if (!grown)
                break;
            if (ret->n)
                memcpy(grown, ret->counters, ret->n * sizeof *grown);
            ret->counters = grown;
        }
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
