/* pack.h - an object and all that it points at, in one block of memory.
 *
 * The same function lays the object out twice: first with no memory, to measure, then for good.
 * Copies are aligned for their type; pack_bytes returns NULL while measuring.
 */
#ifndef LIB_PACK_H
#define LIB_PACK_H

#include <stddef.h>
#include <string.h>

struct pack {
    char *base; /* NULL: measure */
    size_t size;
};

static inline void *pack_bytes(struct pack *p, const void *bytes, size_t len, size_t align)
{
    p->size = (p->size + align - 1) / align * align;
    char *at = p->base ? p->base + p->size : NULL;
    if (at && len > 0)
        memcpy(at, bytes, len);
    p->size += len;
    return at;
}

/* NULL stays NULL. */
static inline char *pack_str(struct pack *p, const char *s)
{
    return s ? pack_bytes(p, s, strlen(s) + 1, 1) : NULL;
}

#endif
