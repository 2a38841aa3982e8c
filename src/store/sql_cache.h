/* sql_cache.h - what a handle of an SQL store keeps from one transaction to the next: partitions,
 * and rows of jobs; the columns of counts. For the SQL stores only.
 *
 * A partition is the jobs of one task in one queue of one tenant. Rows of jobs name it by a number;
 * names and numbers are learned from the store once and kept. How many jobs have come to each of
 * its states and left them in the open transaction is gathered here, and written by the store at
 * the transaction's end.
 */
#ifndef STORE_SQL_CACHE_H
#define STORE_SQL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem/map.h"
#include "base/text/buf.h"
#include "redrive.h"

struct partition {
    int64_t id;
    int64_t tenant_id;
    struct str tenant; /* the partition's own copies */
    struct str queue;
    struct str task;
    bool touched; /* by this transaction */
    int64_t moved[REDRIVE_STATE_COUNT];
    struct partition *next_touched;
    int64_t noted_end;  /* SQLite: the end of the block that was noted last, see block_note */
    int64_t left_block; /* SQLite: the block that the sweep under way looked for last */
};

/* A larger number is damaged: they are given one after the other, and a handle has an array of
 * them. */
#define PARTITION_ID_MAX ((int64_t)1 << 24)

struct partitions {
    struct map by_name;
    struct partition **by_id; /* index: id; NULL: not read yet */
    size_t n_by_id;
    struct partition *touched;
    uint64_t n_ready; /* jobs that have become ready, ever: while it stays, what was read about
                       * which partitions have such jobs leaves none out */
    bool added;       /* the open transaction has added some: a rollback removes them */
    struct buf key;
};

void partitions_init(struct partitions *partitions);
void partitions_release(struct partitions *partitions);

/* The partition if it is known, else NULL. REDRIVE_E_TOO_BIG: the names are longer than those of
 * any job. */
int partitions_get(struct partitions *partitions, struct str tenant, struct str queue,
                   struct str task, struct partition **ret, struct redrive_err *err);
struct partition *partitions_at(const struct partitions *partitions, int64_t id);

/* Keeps a partition that was read, unless it is known, with copies of its names. False: no memory.
 * The store has checked the id: 1 … INT32_MAX. */
bool partitions_keep(struct partitions *partitions, const struct partition *read,
                     struct partition **ret);

/* A job has come (from < 0), gone (to < 0) or moved. */
void partitions_count(struct partitions *partitions, struct partition *partition, int from, int to);
/* What was counted has been written. */
void partitions_written(struct partitions *partitions);
/* The transaction was rolled back: nothing was counted, and partitions that it has added are not
 * there. */
void partitions_forget(struct partitions *partitions);

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Rows of jobs that a handle need not read again. A job is claimed, started and settled within a
 * short time, mostly by the same handle, which keeps its row in between. The cache has a fixed
 * number of places, chosen by the low bits of the seq: a new row replaces the one in its place, so
 * that nothing is searched. The store drops rows that may no longer be what the database has.
 *
 * Rows are plain data of one size, each store's own.
 */

/* As many as a transaction of the committer moves, or are likely to run at a time; a power of two.
 */
#define ROW_CACHE_PLACES 4096

struct row_place {
    uint64_t generation; /* if it is not the cache's, there is no row */
    int64_t seq;
};

struct row_cache {
    size_t place_bytes; /* of a struct row_place and the row behind it */
    uint64_t generation;
    char *places; /* NULL: nothing was kept yet */
};

void row_cache_init(struct row_cache *cache, size_t row_bytes);
void row_cache_release(struct row_cache *cache);

static inline struct row_place *row_cache_place(const struct row_cache *cache, int64_t seq)
{
    const size_t i = (uint64_t)seq & (ROW_CACHE_PLACES - 1);
    return (struct row_place *)(void *)(cache->places + i * cache->place_bytes);
}

/* The row of a job, or NULL. Valid until the next put. */
static inline void *row_cache_get(const struct row_cache *cache, int64_t seq)
{
    if (!cache->places)
        return NULL;
    struct row_place *place = row_cache_place(cache, seq);
    return place->generation == cache->generation && place->seq == seq ? place + 1 : NULL;
}

/* The place for a row, which the caller fills; NULL: no memory. */
void *row_cache_put(struct row_cache *cache, int64_t seq);

static inline void row_cache_drop(struct row_cache *cache, int64_t seq)
{
    if (row_cache_get(cache, seq))
        row_cache_place(cache, seq)->generation = 0;
}

/* Forgets all rows. */
static inline void row_cache_forget(struct row_cache *cache)
{
    cache->generation++;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

/* The columns of a statement that counts jobs (store_ops.counts). */
enum count_column {
    COUNT_COLUMN_TENANT,
    COUNT_COLUMN_QUEUE,
    COUNT_COLUMN_TASK,
    COUNT_COLUMN_GATE,
    COUNT_COLUMN_JOBS,
    COUNT_COLUMN_USED,
    COUNT_COLUMN_STATES, /* from here on of queues and partitions only */
    COUNT_COLUMN_PAUSED = COUNT_COLUMN_STATES + REDRIVE_STATE_COUNT,
    COUNT_COLUMN_OLDEST_READY, /* PostgreSQL */
    COUNT_COLUMN_NEXT_DUE,     /* likewise */
};

#endif
