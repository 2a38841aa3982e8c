#include "base/err.h"
#include "store/sqlite/private.h"

/* Keeps the partition that a statement stands on. */
static int keep(struct store *store, sqlite3_stmt *st, struct partition **ret,
                struct redrive_err *err)
{
    const struct partition read = {
        .id = sqlite3_column_int64(st, 0),
        .tenant_id = sqlite3_column_int64(st, 1),
        .tenant = column_str(st, 2),
        .queue = column_str(st, 3),
        .task = column_str(st, 4),
    };
    if (read.id <= 0 || read.id > INT32_MAX)
        return sql_damaged(store, 0, "a partition has an impossible number", err);
    return partitions_keep(&store->partitions, &read, ret) ? 0 : err_nomem(err);
}

static int find(struct store *store, struct str tenant, struct str queue, struct str task,
                struct partition **ret, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_PARTITION_FIND, err);
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

static int add_partition(struct store *store, struct str tenant, struct str queue, struct str task,
                         struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_TENANT_ADD, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    int rc = sql_run(store, st, err);
    if (rc != 0)
        return rc;
    st = sql_use(store, STATEMENT_PARTITION_ADD, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    bind_key(st, 2, queue);
    bind_key(st, 3, task);
    store->partitions.added = true;
    return sql_run(store, st, err);
}

int partition_named(struct store *store, struct str tenant, struct str queue, struct str task,
                    bool add, struct partition **ret, struct redrive_err *err)
{
    int rc = partitions_get(&store->partitions, tenant, queue, task, ret, err);
    if (rc != 0 || *ret)
        return rc;
    rc = find(store, tenant, queue, task, ret, err);
    if (rc != 0 || *ret || !add)
        return rc;
    rc = add_partition(store, tenant, queue, task, err);
    return rc != 0 ? rc : find(store, tenant, queue, task, ret, err);
}

int partition_numbered(struct store *store, int64_t id, struct partition **ret,
                       struct redrive_err *err)
{
    *ret = partitions_at(&store->partitions, id);
    if (*ret)
        return 0;
    sqlite3_stmt *st = sql_use(store, STATEMENT_PARTITION_READ, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, id);
    int rc = sql_step(store, st, err);
    if (rc == 0)
        return sql_damaged(store, 0, "jobs stand in a partition that is not there", err);
    if (rc < 0)
        return rc;
    rc = keep(store, st, ret, err);
    sqlite3_reset(st);
    return rc;
}

int partitions_flush(struct store *store, struct redrive_err *err)
{
    for (struct partition *partition = store->partitions.touched; partition;
         partition = partition->next_touched) {
        sqlite3_stmt *st = sql_use(store, STATEMENT_PARTITION_COUNT, err);
        if (!st)
            return store->last_error;
        bind_int(st, 1, partition->id);
        for (int i = 0; i < REDRIVE_STATE_COUNT; i++)
            bind_int(st, i + 2, partition->moved[i]);
        int rc = sql_run(store, st, err);
        if (rc != 0)
            return rc;
    }
    partitions_written(&store->partitions);
    return 0;
}
