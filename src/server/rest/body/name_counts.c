/* name_counts.c - counts by name in a map, and sorts. */
#include "server/rest/body/name_counts.h"

#include <stdlib.h>

#include "base/time/clock.h"

void name_counts_init(struct name_counts *counts, struct arena *arena)
{
    *counts = (struct name_counts){.arena = arena};
    map_init(&counts->map, (uint64_t)clock_monotonic_ns());
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

struct name_count *name_counts_sorted(struct name_counts *counts, size_t *ret_n)
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
