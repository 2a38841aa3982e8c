/* name_counts.h - how many there are of each name, and the largest first. */
#ifndef SERVER_REST_BODY_NAME_COUNTS_H
#define SERVER_REST_BODY_NAME_COUNTS_H

#include "base/mem/arena.h"
#include "base/mem/map.h"
#include "base/text/str.h"

struct name_count {
    struct str name;
    uint64_t n;
};

struct name_counts {
    struct map map;      /* name → struct name_count, in the arena */
    struct arena *arena; /* borrowed */
    bool failed;         /* there was no memory for a name */
};

void name_counts_init(struct name_counts *counts, struct arena *arena);
void name_counts_release(struct name_counts *counts);

void name_counts_add(struct name_counts *counts, struct str name, uint64_t n);

/* All of them, the largest first, then by name; in the arena. NULL when there was no memory. */
struct name_count *name_counts_sorted(struct name_counts *counts, size_t *ret_n);

#endif
