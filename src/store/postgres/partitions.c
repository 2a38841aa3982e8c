#include <stdlib.h>

#include "base/err.h"
#include "store/postgres/private.h"
#include "store/postgres/text.h"

static int keep(struct store *store, const struct partition *read, struct partition **ret,
                struct redrive_err *err)
{
    if (read->id <= 0 || read->id > INT32_MAX)
        return pg_damaged(store, 0, "a partition has an impossible number", err);
    return partitions_keep(&store->partitions, read, ret) ? 0 : err_nomem(err);
}

int pg_partition_named(struct store *store, struct str tenant, struct str queue, struct str task,
                       struct partition **ret, struct redrive_err *err)
{
    const PGresult *result;
    int rc = partitions_get(&store->partitions, tenant, queue, task, ret, err);
    if (rc != 0 || *ret)
        return rc;
    pg_args_name(&store->args, tenant);
    pg_args_name(&store->args, queue);
    pg_args_name(&store->args, task);
    rc = pg_run(store, STATEMENT_PARTITION_NAMED, &result, err);
    if (rc != 0)
        return rc;
    store->partitions.added = true;
    const struct partition read = {.id = pg_get_int(result, 0, 0),
                                   .tenant_id = pg_get_int(result, 0, 1),
                                   .tenant = tenant,
                                   .queue = queue,
                                   .task = task};
    return keep(store, &read, ret, err);
}

/* Keeps what a result of (partition_id, tenant_id, tenant, queue, task) tells. */
static int keep_all(struct store *store, const PGresult *result, struct redrive_err *err)
{
    struct arena arena;
    int rc = 0;
    arena_init(&arena);
    for (int i = 0; i < PQntuples(result) && rc == 0; i++) {
        struct partition *partition;
        const struct partition read = {.id = pg_get_int(result, i, 0),
                                       .tenant_id = pg_get_int(result, i, 1),
                                       .tenant = pg_get_text(result, i, 2, &arena),
                                       .queue = pg_get_text(result, i, 3, &arena),
                                       .task = pg_get_text(result, i, 4, &arena)};
        rc = arena.failed ? err_nomem(err) : keep(store, &read, &partition, err);
    }
    arena_release(&arena);
    return rc;
}

/* The result that is looked at is among those that the next statement would take the place of: it
 * is set aside. */
int pg_partitions_know(struct store *store, const PGresult *result, int column,
                       struct redrive_err *err)
{
    size_t unknown = 0;
    int64_t last = 0;
    for (int i = 0; i < PQntuples(result); i++) {
        int64_t id = pg_get_int(result, i, column);
        if (id == 0 || id == last || partitions_at(&store->partitions, id))
            continue;
        if (unknown++ == 0)
            pg_args_array(&store->args, ARG_INT4);
        pg_item_int4(&store->args, (int32_t)id);
        last = id;
    }
    if (unknown == 0)
        return 0;
    pg_args_array_end(&store->args);
    PGresult **aside = store->results;
    const size_t n = store->n_results, capacity = store->results_capacity;
    store->results = NULL;
    store->n_results = store->results_capacity = 0;
    const PGresult *partitions;
    int rc = pg_run(store, STATEMENT_PARTITIONS_KNOWN, &partitions, err);
    if (rc == 0)
        rc = keep_all(store, partitions, err);
    pg_forget_results(store);
    free(store->results);
    store->results = aside;
    store->n_results = n;
    store->results_capacity = capacity;
    for (int i = 0; i < PQntuples(result) && rc == 0; i++)
        if (pg_get_int(result, i, column) != 0 &&
            !partitions_at(&store->partitions, pg_get_int(result, i, column)))
            rc = pg_damaged(store, 0, "jobs stand in a partition that is not there", err);
    return rc;
}

int pg_partitions_flush(struct store *store, struct redrive_err *err)
{
    struct args *args = &store->args;
    if (!store->partitions.touched)
        return 0;
    pg_args_rows(args, store->types.count_deltas);
    for (const struct partition *partition = store->partitions.touched; partition;
         partition = partition->next_touched) {
        pg_row_begin(args);
        pg_field_int4(args, (int32_t)partition->id);
        for (int i = 0; i < REDRIVE_STATE_COUNT; i++)
            pg_field_int8(args, partition->moved[i]);
        pg_row_end(args);
        store->n_appended++;
    }
    pg_args_array_end(args);
    partitions_written(&store->partitions);
    return pg_send(store, STATEMENT_TALLIES_ADD, false, err);
}
