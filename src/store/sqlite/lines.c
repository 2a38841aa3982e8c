#include "base/err.h"
#include "store/sqlite/private.h"

/* Keeps the line that a statement stands on. */
static int keep(struct store *store, sqlite3_stmt *st, struct line **ret, struct redrive_err *err)
{
    const struct line read = {
        .id = sqlite3_column_int64(st, 0),
        .tenant_id = sqlite3_column_int64(st, 1),
        .tenant = column_str(st, 2),
        .queue = column_str(st, 3),
        .task = column_str(st, 4),
    };
    if (read.id <= 0 || read.id > INT32_MAX)
        return sql_damaged(store, 0, "a line has an impossible number", err);
    return lines_keep(&store->lines, &read, ret) ? 0 : err_nomem(err);
}

static int find(struct store *store, struct str tenant, struct str queue, struct str task,
                struct line **ret, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_LINE_FIND, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    bind_key(st, 2, queue);
    bind_key(st, 3, task);
    int rc = sql_step(store, st, err);
    if (rc <= 0)
        return rc;
    rc = keep(store, st, ret, err);
    sqlite3_reset(st);
    return rc;
}

static int add_line(struct store *store, struct str tenant, struct str queue, struct str task,
                    struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_TENANT_ADD, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    int rc = sql_run(store, st, err);
    if (rc != 0)
        return rc;
    st = sql_use(store, STATEMENT_LINE_ADD, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    bind_key(st, 2, queue);
    bind_key(st, 3, task);
    store->lines.added = true;
    return sql_run(store, st, err);
}

int line_named(struct store *store, struct str tenant, struct str queue, struct str task, bool add,
               struct line **ret, struct redrive_err *err)
{
    int rc = lines_get(&store->lines, tenant, queue, task, ret, err);
    if (rc != 0 || *ret)
        return rc;
    rc = find(store, tenant, queue, task, ret, err);
    if (rc != 0 || *ret || !add)
        return rc;
    rc = add_line(store, tenant, queue, task, err);
    return rc != 0 ? rc : find(store, tenant, queue, task, ret, err);
}

int line_numbered(struct store *store, int64_t id, struct line **ret, struct redrive_err *err)
{
    *ret = lines_at(&store->lines, id);
    if (*ret)
        return 0;
    sqlite3_stmt *st = sql_use(store, STATEMENT_LINE_READ, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, id);
    int rc = sql_step(store, st, err);
    if (rc == 0)
        return sql_damaged(store, 0, "jobs stand in a line that is not there", err);
    if (rc < 0)
        return rc;
    rc = keep(store, st, ret, err);
    sqlite3_reset(st);
    return rc;
}

int lines_flush(struct store *store, struct redrive_err *err)
{
    for (struct line *line = store->lines.touched; line; line = line->next_touched) {
        sqlite3_stmt *st = sql_use(store, STATEMENT_LINE_COUNT, err);
        if (!st)
            return store->last_error;
        bind_int(st, 1, line->id);
        for (int i = 0; i < REDRIVE_STATE_COUNT; i++)
            bind_int(st, i + 2, line->moved[i]);
        int rc = sql_run(store, st, err);
        if (rc != 0)
            return rc;
    }
    lines_written(&store->lines);
    return 0;
}
