/* map.c - a hash table with open addressing and linear probing; counts by name in one. */
#include "base/mem/map.h"

#include <stdlib.h>

#include "base/rng.h"
#include "redrive.h"

void map_init(struct map *map, uint64_t seed)
{
    *map = (struct map){.seed = seed};
}

void map_release(struct map *map)
{
    MAP_FOREACH (map, slot) {
        free(slot->key);
    }
    free(map->slots);
    map_init(map, map->seed);
}

/* The slot that holds the key, or the free one where it belongs. There always is a free one. */
static struct map_slot *find(const struct map *map, struct str key, uint64_t hash)
{
    size_t mask = map->n_slots - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct map_slot *slot = &map->slots[i];
        if (!slot->key ||
            (slot->hash == hash && str_eq((struct str){slot->key, slot->key_len}, key)))
            return slot;
    }
}

static int grow(struct map *map)
{
    struct map bigger = *map;
    bigger.n_slots = map->n_slots ? map->n_slots * 2 : 8;
    bigger.slots = calloc(bigger.n_slots, sizeof *bigger.slots);
    if (!bigger.slots)
        return REDRIVE_E_NOMEM;
    MAP_FOREACH (map, slot) {
        *find(&bigger, (struct str){slot->key, slot->key_len}, slot->hash) = *slot;
    }
    free(map->slots);
    *map = bigger;
    return 0;
}

void *map_get(const struct map *map, struct str key)
{
    if (map->count == 0)
        return NULL;
    return find(map, key, rng_hash(key.ptr, key.len, map->seed))->value;
}

int map_put(struct map *map, struct str key, void *value)
{
    if (map->count + 1 > map->n_slots / 4 * 3) {
        int rc = grow(map);
        if (rc < 0)
            return rc;
    }
    uint64_t hash = rng_hash(key.ptr, key.len, map->seed);
    struct map_slot *slot = find(map, key, hash);
    if (!slot->key) {
        char *copy = str_dup(key);
        if (!copy)
            return REDRIVE_E_NOMEM;
        *slot = (struct map_slot){.key = copy, .key_len = key.len, .hash = hash};
        map->count++;
    }
    slot->value = value;
    return 0;
}

/* Moves later entries of the run back into the hole, so that searches need no tombstones. */
static void close_hole(struct map *map, size_t hole)
{
    size_t mask = map->n_slots - 1;
    for (size_t i = (hole + 1) & mask; map->slots[i].key; i = (i + 1) & mask) {
        size_t home = map->slots[i].hash & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        map->slots[hole] = map->slots[i];
        hole = i;
    }
    map->slots[hole] = (struct map_slot){0};
}

void *map_remove(struct map *map, struct str key)
{
    if (map->count == 0)
        return NULL;
    struct map_slot *slot = find(map, key, rng_hash(key.ptr, key.len, map->seed));
    if (!slot->key)
        return NULL;
    void *value = slot->value;
    free(slot->key);
    map->count--;
    close_hole(map, (size_t)(slot - map->slots));
    return value;
}

int map_put_number(struct map *map, struct str key, int64_t number)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): it is never dereferenced. */
    return map_put(map, key, (void *)(intptr_t)number);
}

int64_t map_get_number(const struct map *map, struct str key)
{
    return (int64_t)(intptr_t)map_get(map, key);
}

/* ---- Counts by name -------------------------------------------------------------------------- */

void name_counts_init(struct name_counts *counts, struct arena *arena, uint64_t seed)
{
    *counts = (struct name_counts){.arena = arena};
    map_init(&counts->map, seed);
}

void name_counts_release(struct name_counts *counts)
{
    map_release(&counts->map);
}

void name_counts_add(struct name_counts *counts, struct str name, uint64_t n)
{
    struct name_count *count = map_get(&counts->map, name);
    if (!count) {
        count = arena_alloc(counts->arena, sizeof *count);
        const char *copy = arena_dup(counts->arena, name);
        if (!count || !copy || map_put(&counts->map, name, count) < 0) {
            counts->failed = true;
            return;
        }
        *count = (struct name_count){.name = {copy, name.len}};
    }
    count->n += n;
}

static int larger_first(const void *a, const void *b)
{
    const struct name_count *x = a, *y = b;
    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    return str_compare(x->name, y->name);
}

struct name_count *name_counts_sorted(const struct name_counts *counts, size_t *ret_n)
{
    struct name_count *sorted = arena_array(counts->arena, counts->map.count + 1, sizeof *sorted);
    *ret_n = 0;
    if (!sorted)
        return NULL;
    MAP_FOREACH (&counts->map, slot)
        sorted[(*ret_n)++] = *(const struct name_count *)slot->value;
    qsort(sorted, *ret_n, sizeof *sorted, larger_first);
    return sorted;
}
