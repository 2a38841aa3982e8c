/* partitions.c - tenant, queue and task behind a number, which the server gives and a handle
 * caches. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

/* How many names are read in one request. */
#define PARTITIONS_AT_ONCE 200

static void partition_name(struct store *store, const struct job_spec *spec)
{
    buf_reset(&store->row);
    rd_add_part(&store->row, spec->tenant);
    rd_add_part(&store->row, spec->queue);
    rd_add_part(&store->row, spec->task);
}

/* Copies the parts of a name into memory of the partition. */
static bool split_name(struct partition *partition, struct str name)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    struct str parts[3] = {{0}};
    bool ok = true;
    for (int i = 0; ok && i < 3; i++)
        ok = rd_take_part(&name, &arena, &parts[i]);
    partition->name = ok ? malloc(parts[0].len + parts[1].len + parts[2].len + 1) : NULL;
    if (partition->name) {
        char *at = partition->name;
        for (int i = 0; i < 3; i++) {
            memcpy(at, parts[i].ptr, parts[i].len);
            parts[i].ptr = at;
            at += parts[i].len;
        }
        partition->tenant = parts[0];
        partition->queue = parts[1];
        partition->task = parts[2];
    }
    return partition->name != NULL;
}

static int partition_keep(struct store *store, uint32_t id, struct str record,
                          struct redrive_err *err)
{
    char *end = NULL;
    if (id <= store->n_partitions && store->partitions[id])
        return 0; /* rows point to it */
    const unsigned long tenant_id = record.len > 0 ? strtoul(record.ptr, &end, 10) : 0;
    if (!end || *end != ' ')
        return err_set(err, REDRIVE_E_CORRUPT, "partition %u of the store has no name", id);
    struct str name = {end + 1, record.len - (size_t)(end + 1 - record.ptr)};
    struct partition *partition = calloc(1, sizeof *partition);
    struct partition **grown =
        id > store->n_partitions
            ? realloc(store->partitions, ((size_t)id + 1) * sizeof(struct partition *))
            : store->partitions;
    if (grown)
        store->partitions = grown;
    if (!partition || !grown || !split_name(partition, name)) {
        rd_partition_free(partition);
        return err_nomem(err);
    }
    for (; store->n_partitions < id; store->n_partitions++)
        store->partitions[store->n_partitions + 1] = NULL;
    partition->id = id;
    partition->tenant_id = (uint32_t)tenant_id;
    store->partitions[id] = partition;
    return map_put(&store->partitions_by_name, name, partition) == 0 &&
                   map_put(&store->partitions_by_tenant, partition->tenant, partition) == 0
               ? 0
               : err_nomem(err);
}

/* Reads the names of some partitions. */
static int partitions_read(struct store *store, uint32_t first, uint32_t n, struct redrive_err *err)
{
    char key[PREFIX_MAX + 16];
    redisReply *reply = NULL;
    snprintf(key, sizeof key, "{%s}:partitions", store->place.prefix);
    rd_ask_command(store, "HMGET");
    rd_ask_text(store, key);
    for (uint32_t i = 0; i < n; i++)
        rd_ask_int(store, (int64_t)first + i);
    int rc = rd_link_call(store, &reply, err);
    for (uint32_t i = 0; rc == 0 && i < n && i < reply->elements; i++)
        if (rd_reply_str(reply, i).len > 0)
            rc = partition_keep(store, first + i, rd_reply_str(reply, i), err);
    freeReplyObject(reply);
    return rc;
}

int rd_partitions_refresh(struct store *store, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_command(store, "HMGET");
    rd_ask_text(store, store->root);
    rd_ask_text(store, "partitions");
    rd_ask_text(store, "id");
    rd_ask_text(store, "schema");
    int rc = rd_link_call(store, &reply, err);
    if (rc != 0)
        return rc;
    const uint32_t n = (uint32_t)rd_reply_int(reply, 0);
    if (!store->in_transaction && rd_reply_str(reply, 2).len == 0)
        rc = rd_link_error(STR("EMPTY there is no store here"), err);
    else if (!store->in_transaction && !str_is(rd_reply_str(reply, 1), store->known_id))
        rc = rd_store_replaced(store, rd_reply_str(reply, 1), err);
    freeReplyObject(reply);
    uint32_t first = 1;
    while (first <= store->n_partitions && store->partitions[first])
        first++;
    for (; rc == 0 && first <= n; first += PARTITIONS_AT_ONCE)
        rc = partitions_read(
            store, first, n - first < PARTITIONS_AT_ONCE ? n - first + 1 : PARTITIONS_AT_ONCE, err);
    return rc;
}

int rd_tenant_find(struct store *store, struct str tenant, const struct partition **ret,
                   struct redrive_err *err)
{
    int rc = 0;
    *ret = map_get(&store->partitions_by_tenant, tenant);
    if (!*ret) {
        rc = rd_partitions_refresh(store, err);
        *ret = map_get(&store->partitions_by_tenant, tenant);
    }
    return rc;
}

int rd_partition_numbered(struct store *store, uint32_t id, const struct partition **ret,
                          struct redrive_err *err)
{
    if (id > 0 && (id > store->n_partitions || !store->partitions[id])) {
        int rc = rd_partitions_refresh(store, err);
        if (rc != 0)
            return rc;
    }
    if (id == 0 || id > store->n_partitions || !store->partitions[id]) {
        int rc =
            err_set(err, REDRIVE_E_CORRUPT, "a job is in partition %u, which there is not", id);
        err_hint(err, "%s", STORE_REPAIR_HINT);
        return rc;
    }
    *ret = store->partitions[id];
    return 0;
}

static int partitions_intern(struct store *store, const struct job_spec *specs, size_t n,
                             struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask(store, "intern");
    rd_ask_text(store, store->known_id);
    for (size_t i = 0; i < n; i++) {
        partition_name(store, &specs[i]);
        if (map_get(&store->partitions_by_name, buf_str(&store->row)))
            continue;
        rd_ask_str(store, specs[i].tenant);
        rd_ask_str(store, buf_str(&store->row));
    }
    int rc = rd_link_read(store, &reply, err);
    freeReplyObject(reply);
    return rc == 0 ? rd_partitions_refresh(store, err) : rc;
}

int rd_partition_find(struct store *store, const struct job_spec *specs, size_t n,
                      const struct partition **ret, struct redrive_err *err)
{
    for (int tries = 0; tries < 2; tries++) {
        bool all = true;
        for (size_t i = 0; i < n; i++) {
            partition_name(store, &specs[i]);
            ret[i] = map_get(&store->partitions_by_name, buf_str(&store->row));
            all &= ret[i] != NULL;
        }
        if (all)
            return 0;
        int rc = tries == 0 ? partitions_intern(store, specs, n, err) : 0;
        if (rc != 0)
            return rc;
    }
    return err_set(err, REDRIVE_E_CORRUPT, "the store gives no number to a partition");
}
