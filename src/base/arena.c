#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Chunks are zeroed, which is most of what a small arena costs: the first is small, and each is
 * twice the one before up to the largest. */
#define CHUNK_BYTES_MIN ((size_t)1024)
#define CHUNK_BYTES_MAX ((size_t)16 * 1024)
#define ALIGNMENT       _Alignof(max_align_t)

struct arena_chunk {
    struct arena_chunk *next;
    size_t used;
    size_t size;
    _Alignas(max_align_t) char bytes[];
};

void arena_init(struct arena *arena)
{
    *arena = (struct arena){0};
}

void arena_release(struct arena *arena)
{
    while (arena->chunks) {
        struct arena_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
    arena->failed = false;
}

static struct arena_chunk *chunk_with_room(struct arena *arena, size_t size)
{
    struct arena_chunk *chunk = arena->chunks;
    if (chunk && chunk->size - chunk->used >= size)
        return chunk;

    size_t room = chunk ? 2 * chunk->size : CHUNK_BYTES_MIN;
    if (room > CHUNK_BYTES_MAX)
        room = CHUNK_BYTES_MAX;
    if (room < size)
        room = size;
    chunk = calloc(1, sizeof *chunk + room);
    if (!chunk)
        return NULL;
    chunk->size = room;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    return chunk;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2) {
        arena->failed = true;
        return NULL;
    }
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct arena_chunk *chunk = chunk_with_room(arena, size);
    if (!chunk) {
        arena->failed = true;
        return NULL;
    }
    void *result = chunk->bytes + chunk->used;
    chunk->used += size;
    return result;
}

void *arena_array(struct arena *arena, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / size) {
        arena->failed = true;
        return NULL;
    }
    return arena_alloc(arena, n * size);
}

char *arena_dup(struct arena *arena, struct str s)
{
    char *copy = arena_alloc(arena, s.len + 1);
    if (copy && s.len)
        memcpy(copy, s.ptr, s.len);
    return copy;
}

struct str arena_str(struct arena *arena, struct str s)
{
    const char *copy = arena_dup(arena, s);
    return copy ? (struct str){copy, s.len} : (struct str){0};
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = len < 0 ? NULL : arena_alloc(arena, (size_t)len + 1);
    if (!text)
        return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)len + 1, format, args);
    va_end(args);
    return text;
}
