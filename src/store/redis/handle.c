/* handle.c - what a handle has in memory: how it begins, what is forgotten when, how it ends.
 *
 * All of it is done without a request, so that what talks to the server can use it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/redis/private.h"

void rd_map_empty(struct map *map)
{
    const uint64_t seed = map->seed;
    if (map->count == 0)
        return;
    map_release(map);
    map_init(map, seed);
}

/* ---- Connections ----------------------------------------------------------------------------- */

void rd_listener_close(struct store *store)
{
    rd_wire_close(store->listener);
    store->listener = NULL;
}

void rd_link_close(struct store *store)
{
    rd_wire_close(store->link);
    store->link = NULL;
    store->is_astray = false;
    store->n_unread = store->n_ahead = 0;
    rd_ahead_forget(store);
    store->told.is_known = store->told.has_history = false; /* it may have lost something */
}

int rd_link_broken(struct store *store, struct redrive_err *err)
{
    /* Nothing of a transaction is written before its commit. For the commit itself this code is
     * provisional: send_commit asks for the outcome. */
    const int code = store->in_transaction ? REDRIVE_E_CANCELLED : REDRIVE_E_IO;
    int rc = err_set(err, code, "the connection to the Redis server is broken");
    if (store->link && *rd_wire_error(store->link))
        err_detail(err, "%s", rd_wire_error(store->link));
    rd_link_close(store);
    return rc;
}

/* ---- Jobs that were looked for ahead --------------------------------------------------------- */

void rd_ahead_take(struct store *store, redisReply *reply)
{
    struct ahead *ahead = &store->ahead;
    const bool is_page = reply->type == REDIS_REPLY_ARRAY && reply->elements > RD_READY_FIRST;
    if (!is_page) { /* there are none, or something shared has changed */
        freeReplyObject(reply);
        return;
    }
    ahead->reply = reply;
    ahead->at_ms = clock_monotonic_ms();
    store->base.wants_upkeep = true;
    store->base.idle_ms = RD_AHEAD_MS;
}

void rd_ahead_forget(struct store *store)
{
    freeReplyObject(store->ahead.reply);
    store->ahead.reply = NULL;
    store->ahead.is_asked = false;
    store->base.wants_upkeep = false;
}

/* ---- The cache ------------------------------------------------------------------------------- */

void rd_partition_free(struct partition *partition)
{
    if (!partition)
        return;
    free(partition->name);
    free(partition);
}

static void release_partitions(struct store *store)
{
    for (uint32_t i = 1; i <= store->n_partitions; i++)
        rd_partition_free(store->partitions[i]);
    free(store->partitions);
    store->partitions = NULL;
    store->n_partitions = 0;
    map_release(&store->partitions_by_name);
    map_release(&store->partitions_by_tenant);
}

/* No row may be kept then, because rows point to them. */
static void forget_partitions(struct store *store)
{
    release_partitions(store);
    map_init(&store->partitions_by_name, rng_next(&store->rng));
    map_init(&store->partitions_by_tenant, rng_next(&store->rng));
}

bool rd_is_known(const struct store *store)
{
    return strcmp(store->known_history, store->told.history) == 0 &&
           strcmp(store->known_id, store->told.id) == 0;
}

/* ---- The transaction ------------------------------------------------------------------------- */

int rd_transaction_needed(struct store *store, struct redrive_err *err)
{
    if (!store->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "there is no open transaction");
    if (!store->is_lost)
        return 0;
    int rc =
        err_set(err, REDRIVE_E_CANCELLED, "the transaction is lost: none of its moves was made");
    err_detail(err, "its connection has broken, the server has lost what it knew, or another "
                    "transaction was in the way");
    err_hint(err, "do it again");
    return rc;
}

/* What a transaction with large payloads has left of its requests. */
#define BUFFER_KEPT_BYTES ((size_t)1 << 20)

static void give_back_buffers(struct store *store)
{
    buf_reset_kept(&store->words, BUFFER_KEPT_BYTES);
    store->n_words = 0;
    buf_reset_kept(&store->ahead.words, BUFFER_KEPT_BYTES);
    buf_reset_kept(&store->row, BUFFER_KEPT_BYTES);
}

void rd_transaction_end(struct store *store)
{
    rd_map_empty(&store->ids);
    rd_map_empty(&store->new_keys);
    rd_map_empty(&store->dirty_keys);
    rd_map_empty(&store->keys_relied);
    rd_map_empty(&store->shared_writes);
    rd_ops_reset(&store->ops);
    rd_ops_reset(&store->checks);
    freeReplyObject(store->shared_reply);
    store->shared_reply = NULL;
    store->shared_listed = 0;
    store->sums_asked = NULL;
    store->n_sums_asked = 0;
    store->n_dirty = store->n_dirty_cells = store->n_reserved = store->n_edges = 0;
    store->has_new_jobs = false;
    store->relied_partition = 0;
    store->last_seq = store->shared_puts = 0;
    store->in_transaction = store->is_lost = false;
    store->ahead.is_asked = false;
    give_back_buffers(store);
}

void rd_transaction_forget(struct store *store)
{
    rd_transaction_end(store);
    arena_release(&store->arena);
    arena_init(&store->arena);
    rd_map_empty(&store->entries);
    rd_map_empty(&store->cells);
    store->n_kept = 0;
    store->n_running = store->running_bytes = 0;
}

void rd_store_forget(struct store *store)
{
    rd_ahead_forget(store);
    rd_transaction_forget(store);
    forget_partitions(store);
    rd_map_empty(&store->shared_known);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

void rd_handle_init(struct store *store, const struct store_options *options)
{
    const uint64_t seed = rng_system_seed();
    store->caller_time = options->caller_time;
    store->is_as_is = options->as_is;
    store->creates = options->create && !options->as_is;
    rng_seed(&store->rng, seed);
    snprintf(store->me, sizeof store->me, "%016" PRIx64, rng_next(&store->rng));
    if (options->origin != 0)
        snprintf(store->origin, sizeof store->origin, "%016" PRIx64, options->origin);
    else
        memcpy(store->origin, store->me, sizeof store->origin);
    arena_init(&store->arena);
    map_init(&store->entries, seed);
    map_init(&store->cells, seed);
    map_init(&store->ids, seed);
    map_init(&store->new_keys, seed);
    map_init(&store->partitions_by_name, seed);
    map_init(&store->partitions_by_tenant, seed);
    map_init(&store->dirty_keys, seed);
    map_init(&store->keys_relied, seed);
    map_init(&store->shared_writes, seed);
    map_init(&store->shared_known, seed);
    rd_ops_init(&store->ops);
    rd_ops_init(&store->checks);
    buf_init(&store->row, (size_t)1 << 30);
    buf_init(&store->ahead.filter, (size_t)1 << 24);
    /* They change places. */
    buf_init(&store->words, RD_WORDS_MAX);
    buf_init(&store->ahead.words, RD_WORDS_MAX);
}

void rd_handle_release(struct store *store)
{
    rd_listener_close(store);
    rd_link_close(store);
    rd_transaction_forget(store);
    map_release(&store->entries);
    map_release(&store->cells);
    map_release(&store->ids);
    map_release(&store->new_keys);
    map_release(&store->dirty_keys);
    map_release(&store->keys_relied);
    map_release(&store->shared_writes);
    map_release(&store->shared_known);
    rd_ops_release(&store->ops);
    rd_ops_release(&store->checks);
    free(store->reserved);
    free(store->edges);
    free(store->dirty);
    free(store->dirty_cells);
    rd_ahead_forget(store);
    buf_release(&store->ahead.words);
    buf_release(&store->ahead.filter);
    buf_release(&store->row);
    buf_release(&store->words);
    release_partitions(store);
    rd_place_release(&store->place);
}
