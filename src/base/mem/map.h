/* map.h - a hash table from text to a pointer that the caller owns; counts by name.
 *
 * Keys are copied. Open addressing, at most three quarters full; the hash is seeded per table so
 * that keys from outside cannot be chosen to collide. Iteration is in no particular order and
 * allows no changes.
 */
#ifndef BASE_MEM_MAP_H
#define BASE_MEM_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "base/text/str.h"

struct map_slot {
    char *key; /* NULL: free */
    size_t key_len;
    uint64_t hash;
    void *value;
};

struct map {
    struct map_slot *slots;
    size_t n_slots; /* 0 or a power of two */
    size_t count;
    uint64_t seed;
};

void map_init(struct map *map, uint64_t seed);
/* Frees keys and table; values are the caller's. */
void map_release(struct map *map);

/* NULL when it is not there. */
void *map_get(const struct map *map, struct str key);
/* Adds or replaces; 0 or REDRIVE_E_NOMEM. */
int map_put(struct map *map, struct str key, void *value);
/* Takes it out; gives the value, or NULL when it was not there. */
void *map_remove(struct map *map, struct str key);

#define MAP_FOREACH(map, slot)                                       \
    for (size_t slot##_i = 0; slot##_i < (map)->n_slots; slot##_i++) \
        for (struct map_slot *slot = &(map)->slots[slot##_i]; slot && slot->key; slot = NULL)

/* A map of numbers instead of pointers, as many bits as these have; 0: there is none. */
int map_put_number(struct map *map, struct str key, int64_t number);
int64_t map_get_number(const struct map *map, struct str key);

/* ---- Counts by name -------------------------------------------------------------------------- */

struct name_count {
    struct str name;
    uint64_t n;
};

struct name_counts {
    struct map map;      /* name → struct name_count, in the arena */
    struct arena *arena; /* borrowed */
    bool failed;         /* there was no memory for a name */
};

/* `seed` is that of the map. */
void name_counts_init(struct name_counts *counts, struct arena *arena, uint64_t seed);
void name_counts_release(struct name_counts *counts);

void name_counts_add(struct name_counts *counts, struct str name, uint64_t n);

/* All of them, the largest first, then by name; in the arena. NULL when there was no memory. */
struct name_count *name_counts_sorted(const struct name_counts *counts, size_t *ret_n);

#endif
