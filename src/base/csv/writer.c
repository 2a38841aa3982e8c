/* writer.c - quotes cells where they need it and ends rows. */
#include "base/csv/writer.h"

#include <inttypes.h>
#include <stdio.h>

void csv_writer_init(struct csv_writer *w, struct buf *out)
{
    *w = (struct csv_writer){.out = out};
}

static bool needs_quotes(struct str value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.ptr[i] == ',' || value.ptr[i] == '"' || value.ptr[i] == '\r' ||
            value.ptr[i] == '\n')
            return true;
    return false;
}

static void add_quoted(struct buf *out, struct str value)
{
    buf_putc(out, '"');
    while (value.len > 0) {
        const char *quote = memchr(value.ptr, '"', value.len);
        size_t len = quote ? (size_t)(quote - value.ptr) + 1 : value.len;
        buf_add(out, value.ptr, len);
        if (quote)
            buf_putc(out, '"');
        value = (struct str){value.ptr + len, value.len - len};
    }
    buf_putc(out, '"');
}

void csv_put_str(struct csv_writer *w, struct str value)
{
    if (w->n_cells > 0)
        buf_putc(w->out, ',');
    w->only_empty = w->n_cells == 0 && value.len == 0;
    w->n_cells++;
    if (needs_quotes(value))
        add_quoted(w->out, value);
    else
        buf_add_str(w->out, value);
}

void csv_put_cstr(struct csv_writer *w, const char *value)
{
    csv_put_str(w, str_of(value));
}

void csv_put_int(struct csv_writer *w, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    csv_put_cstr(w, text);
}

void csv_end_row(struct csv_writer *w)
{
    if (w->only_empty)
        buf_puts(w->out, "\"\"");
    buf_puts(w->out, "\r\n");
    w->n_cells = 0;
    w->only_empty = false;
}
