/* row_cache.h - rows of jobs that a handle need not read again.
 *
 * A job is claimed, started and settled within a short time, and most often by the same handle: its
 * row is kept from the one to the other. The cache has a fixed number of places, one for each low
 * part of a seq: a row takes the place of another that has the same, so that putting costs nothing
 * and nothing is searched. Whether a row that is kept is still the store's is for the store to say:
 * it drops what it cannot rely on.
 *
 * Rows are plain data of one size, each store's own.
 */
#ifndef STORE_ROW_CACHE_H
#define STORE_ROW_CACHE_H

#include <stddef.h>
#include <stdint.h>

/* As many as a transaction of the committer moves, or are likely to run at a time; a power of two.
 */
#define ROW_CACHE_PLACES 4096

struct row_place {
    uint64_t generation; /* another than the cache's: there is no row */
    int64_t seq;
};

struct row_cache {
    size_t place_bytes; /* struct row_place and the row */
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

/* The place of a row that is kept from now on, for the caller to fill; NULL: no memory. */
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

#endif
