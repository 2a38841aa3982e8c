/* sql_cache.c - partitions by name and by number, and a table of rows of jobs. */
#include "store/sql_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"

#define KEY_MAX ((size_t)1 << 20)

void partitions_init(struct partitions *partitions)
{
    *partitions = (struct partitions){0};
    map_init(&partitions->by_name, rng_system_seed());
    buf_init(&partitions->key, KEY_MAX);
}

static void partition_free(struct partition *partition)
{
    if (!partition)
        return;
    free((char *)partition->tenant.ptr);
    free((char *)partition->queue.ptr);
    free((char *)partition->task.ptr);
    free(partition);
}

void partitions_release(struct partitions *partitions)
{
    for (size_t i = 0; i < partitions->n_by_id; i++)
        partition_free(partitions->by_id[i]);
    free(partitions->by_id);
    map_release(&partitions->by_name);
    buf_release(&partitions->key);
}

/* The three names with their lengths, so that no two partitions look the same. */
static int partition_key(struct partitions *partitions, struct str tenant, struct str queue,
                         struct str task, struct str *ret)
{
    const size_t lengths[2] = {tenant.len, queue.len};
    buf_reset(&partitions->key);
    (void)buf_add(&partitions->key, lengths, sizeof lengths);
    (void)buf_add_str(&partitions->key, tenant);
    (void)buf_add_str(&partitions->key, queue);
    int rc = buf_add_str(&partitions->key, task);
    *ret = buf_str(&partitions->key);
    return rc;
}

int partitions_get(struct partitions *partitions, struct str tenant, struct str queue,
                   struct str task, struct partition **ret, struct redrive_err *err)
{
    struct str key;
    *ret = NULL;
    const int rc = partition_key(partitions, tenant, queue, task, &key);
    if (rc != 0)
        return err_full(err, rc, "the names of a job are too long");
    *ret = map_get(&partitions->by_name, key);
    return 0;
}

struct partition *partitions_at(const struct partitions *partitions, int64_t id)
{
    return id > 0 && (size_t)id < partitions->n_by_id ? partitions->by_id[id] : NULL;
}

static bool make_room(struct partitions *partitions, int64_t id)
{
    if ((size_t)id < partitions->n_by_id)
        return true;
    size_t n = ((size_t)id + 1) * 2;
    struct partition **grown = realloc(partitions->by_id, n * sizeof(struct partition *));
    if (!grown)
        return false;
    memset(grown + partitions->n_by_id, 0, (n - partitions->n_by_id) * sizeof(struct partition *));
    partitions->by_id = grown;
    partitions->n_by_id = n;
    return true;
}

static bool copy_name(struct str s, struct str *ret)
{
    *ret = (struct str){str_dup(s), s.len};
    return ret->ptr != NULL;
}

bool partitions_keep(struct partitions *partitions, const struct partition *read,
                     struct partition **ret)
{
    struct str key;
    if (!make_room(partitions, read->id))
        return false;
    *ret = partitions->by_id[read->id];
    if (*ret)
        return true;
    struct partition *partition = calloc(1, sizeof *partition);
    if (!partition)
        return false;
    partition->id = read->id;
    partition->tenant_id = read->tenant_id;
    if (!copy_name(read->tenant, &partition->tenant) ||
        !copy_name(read->queue, &partition->queue) || !copy_name(read->task, &partition->task) ||
        partition_key(partitions, partition->tenant, partition->queue, partition->task, &key) !=
            0 ||
        map_put(&partitions->by_name, key, partition) != 0) {
        partition_free(partition);
        return false;
    }
    partitions->by_id[partition->id] = partition;
    *ret = partition;
    return true;
}

void partitions_count(struct partitions *partitions, struct partition *partition, int from, int to)
{
    if (from >= 0)
        partition->moved[from]--;
    if (to >= 0)
        partition->moved[to]++;
    partitions->n_ready += to == REDRIVE_STATE_QUEUED;
    if (partition->touched)
        return;
    partition->touched = true;
    partition->next_touched = partitions->touched;
    partitions->touched = partition;
}

void partitions_written(struct partitions *partitions)
{
    struct partition *next;
    for (struct partition *partition = partitions->touched; partition; partition = next) {
        next = partition->next_touched;
        partition->touched = false;
        partition->next_touched = NULL;
        memset(partition->moved, 0, sizeof partition->moved);
    }
    partitions->touched = NULL;
}

void partitions_forget(struct partitions *partitions)
{
    partitions_written(partitions);
    for (size_t i = 0; i < partitions->n_by_id; i++)
        if (partitions->by_id[i])
            partitions->by_id[i]->noted_end = 0;
    if (!partitions->added)
        return;
    partitions_release(partitions);
    partitions_init(partitions);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

void row_cache_init(struct row_cache *cache, size_t row_bytes)
{
    *cache =
        (struct row_cache){.place_bytes = sizeof(struct row_place) + row_bytes, .generation = 1};
}

void row_cache_release(struct row_cache *cache)
{
    free(cache->places);
    cache->places = NULL;
}

void *row_cache_put(struct row_cache *cache, int64_t seq)
{
    if (!cache->places)
        cache->places = calloc(ROW_CACHE_PLACES, cache->place_bytes);
    if (!cache->places)
        return NULL;
    struct row_place *place = row_cache_place(cache, seq);
    *place = (struct row_place){cache->generation, seq};
    return place + 1;
}
