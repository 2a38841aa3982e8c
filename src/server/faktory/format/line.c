/* line.c - splits input into lines, and writes replies. */
#include "server/faktory/format/line.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text/utf8.h"
#include "core/name.h"
#include "redrive.h"

#define ERROR_MAX 512

int faktory_line_next(struct str bytes, size_t max, size_t *scanned, struct faktory_line *ret,
                      size_t *ret_used)
{
    const char *from = bytes.ptr + *scanned;
    const char *end = *scanned < bytes.len ? memchr(from, '\n', bytes.len - *scanned) : NULL;
    if (!end) {
        *scanned = bytes.len;
        /* There may be a CR at the end already. */
        return bytes.len > max + 1 ? REDRIVE_E_TOO_BIG : 0;
    }
    struct str line = {bytes.ptr, (size_t)(end - bytes.ptr)};
    *scanned = 0;
    *ret_used = line.len + 1;
    if (line.len > 0 && line.ptr[line.len - 1] == '\r')
        line.len--;
    if (line.len > max)
        return REDRIVE_E_TOO_BIG;
    const char *blank = line.len > 0 ? memchr(line.ptr, ' ', line.len) : NULL;
    ret->verb = (struct str){line.ptr, blank ? (size_t)(blank - line.ptr) : line.len};
    ret->args = blank ? (struct str){blank + 1, line.len - ret->verb.len - 1}
                      : (struct str){line.ptr + line.len, 0};
    return 1;
}

bool faktory_word_next(struct str *rest, struct str *ret)
{
    while (rest->len > 0 && *rest->ptr == ' ') {
        rest->ptr++;
        rest->len--;
    }
    if (rest->len == 0)
        return false;
    const char *blank = memchr(rest->ptr, ' ', rest->len);
    ret->ptr = rest->ptr;
    ret->len = blank ? (size_t)(blank - rest->ptr) : rest->len;
    rest->ptr += ret->len;
    rest->len -= ret->len;
    return true;
}

bool faktory_is_name(struct str word)
{
    return name_check("name", word, NULL) == 0;
}

void faktory_put_ok(struct buf *out)
{
    (void)buf_add_str(out, STR("+OK\r\n"));
}

void faktory_put_error(struct buf *out, const char *format, ...)
{
    char text[ERROR_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    utf8_make_printable(text);
    (void)buf_printf(out, "-ERR %s\r\n", text);
}

void faktory_put_bulk(struct buf *out, struct str bytes)
{
    (void)buf_printf(out, "$%zu\r\n", bytes.len);
    (void)buf_add_str(out, bytes);
    (void)buf_add_str(out, STR("\r\n"));
}

void faktory_put_nil(struct buf *out)
{
    (void)buf_add_str(out, STR("$-1\r\n"));
}
