/* copies.h - what both libraries copy: failures that functions report, and objects with all that
 * they point at. */
#ifndef LIB_COPIES_H
#define LIB_COPIES_H

#include <stddef.h>
#include <string.h>

#include "redrive.h"

/* ---- Failures -------------------------------------------------------------------------------- */

/* What redrive_run_fail and redrive_task_run_fail return. Not negative: it could be taken for an
 * errno. */
#define FAILURE_RETURNED 1

/* Copies the facts, as failed, with text cut at its limits. Returns the block that holds the
 * strings of `ret`, which the caller frees; NULL when there is no text, or no memory: the numbers
 * are kept. `failure` may be NULL, and may point into an earlier block. */
char *failure_keep(const struct redrive_failure *failure, struct redrive_failure *ret);

/* What a returned value other than 0 says by itself. The message is written to `said`, and not yet
 * put into `ret`. */
#define FAILURE_SAID_MAX 128
void failure_of_return(int code, struct redrive_failure *ret, char *said, size_t size);

/* ---- Objects in one block of memory ------------------------------------------------------------
 *
 * The same function lays the object out twice: first with no memory, to measure, then for good.
 * Copies are aligned for their type; pack_bytes returns NULL while measuring.
 */

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
