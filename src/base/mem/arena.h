/* arena.h - memory that is given back all at once.
 *
 * For many small objects with the same lifetime: a configuration, a page of jobs. Running out of
 * memory sticks in `failed`, so that a long row of allocations needs one check at its end; each
 * single result may still be NULL.
 */
#ifndef BASE_MEM_ARENA_H
#define BASE_MEM_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/scope.h"
#include "base/text/str.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks;
    size_t bytes; /* that it has from the system, all in all */
    bool failed;
};

void arena_init(struct arena *arena);
void arena_release(struct arena *arena);

/* Zeroed memory for anything, or NULL. A size of 0 gives a pointer that must not be read. */
void *arena_alloc(struct arena *arena, size_t size);
void *arena_array(struct arena *arena, size_t n, size_t size);

/* Takes over all memory of another arena, which is empty then. What was got from it stays where it
 * is, and goes with `arena`. */
void arena_adopt(struct arena *arena, struct arena *from);

/* A terminated copy, or NULL. */
char *arena_dup(struct arena *arena, struct str s);
/* The same as a slice, which is absent without memory: never a length without bytes, so that it may
 * be read before `failed` is looked at. The copy of an absent string is an empty one. */
struct str arena_str(struct arena *arena, struct str s);
char *arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
