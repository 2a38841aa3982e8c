/* buf.c - grows the buffer by doubling and records its first failure. */
#include "base/text/buf.h"

#include <stdio.h>
#include <stdlib.h>

#include "redrive.h"

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_init_fixed(struct buf *b, char *room, size_t size)
{
    *b = (struct buf){.data = room, .capacity = size, .max = size - 1};
    room[0] = '\0';
}

void buf_release(struct buf *b)
{
    free(b->data);
    buf_init(b, b->max);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = 0;
    if (b->data)
        b->data[0] = '\0';
}

void buf_reset_kept(struct buf *b, size_t kept_bytes)
{
    if (b->capacity > kept_bytes)
        buf_release(b);
    else
        buf_reset(b);
}

int buf_failed(const struct buf *b)
{
    return b->failed;
}

/* Capacity counts the terminator; it doubles, so that n additions copy O(n) bytes. */
static bool grow(struct buf *b, size_t len)
{
    if (b->failed)
        return false;
    if (len > b->max - b->len) {
        b->failed = REDRIVE_E_TOO_BIG;
        return false;
    }
    if (b->len + len < b->capacity)
        return true;

    size_t capacity = b->capacity ? b->capacity : 64;
    while (capacity <= b->len + len)
        capacity *= 2;
    if (capacity > b->max && b->max < SIZE_MAX)
        capacity = b->max + 1;
    char *data = realloc(b->data, capacity);
    if (!data) {
        b->failed = REDRIVE_E_NOMEM;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    b->data[b->len] = '\0';
    return true;
}

char *buf_reserve(struct buf *b, size_t len)
{
    return grow(b, len) ? b->data + b->len : NULL;
}

void buf_commit(struct buf *b, size_t len)
{
    b->len += len;
    b->data[b->len] = '\0';
}

int buf_add(struct buf *b, const void *bytes, size_t len)
{
    char *room = buf_reserve(b, len);
    if (room) {
        if (len > 0)
            memcpy(room, bytes, len);
        buf_commit(b, len);
    }
    return b->failed;
}

int buf_add_str(struct buf *b, struct str s)
{
    return buf_add(b, s.ptr, s.len);
}

int buf_puts(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

int buf_putc(struct buf *b, char c)
{
    if (b->failed || b->len + 1 >= b->capacity)
        return buf_add(b, &c, 1);
    b->data[b->len++] = c;
    b->data[b->len] = '\0';
    return 0;
}

int buf_vprintf(struct buf *b, const char *format, va_list args)
{
    va_list measure;
    va_copy(measure, args);
    int len = vsnprintf(NULL, 0, format, measure);
    va_end(measure);

    char *room = len < 0 ? NULL : buf_reserve(b, (size_t)len);
    if (room) {
        vsnprintf(room, (size_t)len + 1, format, args);
        buf_commit(b, (size_t)len);
    }
    return b->failed;
}

int buf_printf(struct buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_vprintf(b, format, args);
    va_end(args);
    return b->failed;
}

void buf_truncate(struct buf *b, size_t len)
{
    if (len < b->len) {
        b->len = len;
        b->data[len] = '\0';
    }
}

struct str buf_pair(struct buf *b, struct str first, struct str second)
{
    buf_reset(b);
    (void)buf_add_str(b, first);
    (void)buf_putc(b, '\0');
    (void)buf_add_str(b, second);
    return buf_str(b);
}

struct str buf_str(const struct buf *b)
{
    return (struct str){buf_cstr(b), b->len};
}

const char *buf_cstr(const struct buf *b)
{
    return b->data ? b->data : "";
}

char *buf_detach(struct buf *b, size_t *ret_len)
{
    char *data = NULL;
    if (grow(b, 0)) {
        data = b->data;
        if (ret_len)
            *ret_len = b->len;
        b->data = NULL;
    }
    buf_release(b);
    return data;
}
