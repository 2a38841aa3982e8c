/* buf.h - a growing byte buffer that never grows past its maximum.
 *
 * Invariants: data[len] is 0 whenever data is not NULL, so the contents can be read as a
 * string; len <= max. The first failure (no memory, over the maximum) sticks: later additions do
 * nothing and buf_failed() tells, so that a chain of additions needs one check at its end.
 */
#ifndef BASE_TEXT_BUF_H
#define BASE_TEXT_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/scope.h"
#include "base/text/str.h"

struct buf {
    char *data;
    size_t len;
    size_t capacity;
    size_t max;
    int failed; /* 0, REDRIVE_E_NOMEM or REDRIVE_E_TOO_BIG */
};

void buf_init(struct buf *b, size_t max);
/* RELEASED_BY(buf_release) struct buf text = BUF_MAX(300); */
#define BUF_MAX(bytes) ((struct buf){.max = (bytes)})
void buf_release(struct buf *b);

/* One that uses `room` and no other memory: what is beyond it is TOO_BIG. It is not released, and
 * its contents are not detached. */
void buf_init_fixed(struct buf *b, char *room, size_t size);

/* Empties it and forgets a failure; keeps the memory. */
void buf_reset(struct buf *b);
/* Empties a buffer that is used again and again, and forgets its failure. Gives the buffer's memory
 * back if the buffer has more than `kept_bytes`. */
void buf_reset_kept(struct buf *b, size_t kept_bytes);

/* 0, or the code of the first failure since init or reset. */
int buf_failed(const struct buf *b);

/* Each returns what buf_failed would. */
int buf_add(struct buf *b, const void *bytes, size_t len);
int buf_add_str(struct buf *b, struct str s);
int buf_puts(struct buf *b, const char *s);
int buf_putc(struct buf *b, char c);
int buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *format, va_list args);

/* Room for `len` more bytes, or NULL and a failure; buf_commit says how many were used. */
char *buf_reserve(struct buf *b, size_t len);
void buf_commit(struct buf *b, size_t len);

/* Shortens it to `len` bytes. */
void buf_truncate(struct buf *b, size_t len);

/* Replaces the contents by two names with a zero byte between them, a key for a map. */
struct str buf_pair(struct buf *b, struct str first, struct str second);

/* The contents as a slice, and as a terminated string ("" when empty). Valid until the next
 * addition. */
struct str buf_str(const struct buf *b);
const char *buf_cstr(const struct buf *b);

/* Hands the memory to the caller, who frees it; NULL after a failure. The buffer is empty then. */
char *buf_detach(struct buf *b, size_t *ret_len);

#endif
