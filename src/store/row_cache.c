/* row_cache.c - a table with one place for each low part of a seq. */
#include "store/row_cache.h"

#include <stdlib.h>

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
