/* arena.c - allocates from chunks that double in size. */
#include "base/mem/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first chunk is small, and each is twice the one before up to the largest. Memory is zeroed
 * when it is given, and not for strings, which are most of what there is. */
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
    arena->bytes = 0;
    arena->failed = false;
}

void arena_adopt(struct arena *arena, struct arena *from)
{
    struct arena_chunk **end = &arena->chunks;
    while (*end)
        end = &(*end)->next;
    *end = from->chunks;
    arena->bytes += from->bytes;
    arena->failed |= from->failed;
    *from = (struct arena){0};
}

static struct arena_chunk *add_chunk(struct arena *arena, size_t size, bool zeroed)
{
    size_t room = arena->chunks ? 2 * arena->chunks->size : CHUNK_BYTES_MIN;
    if (room > CHUNK_BYTES_MAX)
        room = CHUNK_BYTES_MAX;
    if (room < size)
        room = size;
    struct arena_chunk *chunk =
        zeroed ? calloc(1, sizeof *chunk + room) : malloc(sizeof *chunk + room);
    if (!chunk)
        return NULL;
    *chunk = (struct arena_chunk){.next = arena->chunks, .size = room};
    arena->chunks = chunk;
    arena->bytes += sizeof *chunk + room;
    return chunk;
}

/* Memory that is zeroed or holds anything. */
static void *take(struct arena *arena, size_t size, bool zeroed)
{
    if (size > SIZE_MAX / 2) {
        arena->failed = true;
        return NULL;
    }
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct arena_chunk *chunk = arena->chunks;
    /* What is too large for chunks has one of its own, fresh from the system and often zero. */
    bool is_zero = zeroed && size > CHUNK_BYTES_MAX;
    if (!chunk || chunk->size - chunk->used < size)
        chunk = add_chunk(arena, size, is_zero);
    else
        is_zero = false;
    if (!chunk) {
        arena->failed = true;
        return NULL;
    }
    void *result = chunk->bytes + chunk->used;
    chunk->used += size;
    return zeroed && !is_zero ? memset(result, 0, size) : result;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    return take(arena, size, true);
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
    char *copy = take(arena, s.len + 1, false);
    if (!copy)
        return NULL;
    if (s.len)
        memcpy(copy, s.ptr, s.len);
    copy[s.len] = '\0';
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
    char *text = len < 0 ? NULL : take(arena, (size_t)len + 1, false);
    if (!text)
        return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)len + 1, format, args);
    va_end(args);
    return text;
}
