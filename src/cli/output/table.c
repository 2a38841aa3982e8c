/* table.c - measures columns and prints rows; opens and closes the JSON of a list. */
#include "cli/output/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output/term.h"

#define TEXT_MAX (64u * 1024 * 1024)
#define GAP      2
/* The last column is never cut to less: a row that is still too long goes over the edge. */
#define LAST_MIN 8

struct table_cell {
    size_t offset;
    size_t len;
    size_t width;
    enum style style;
};

void table_init(struct table *t, const char *columns)
{
    *t = (struct table){0};
    buf_init(&t->text, TEXT_MAX);
    for (const char *at = columns;; at++) {
        assert(t->n_columns < TABLE_COLUMNS_MAX);
        const bool is_right = *at == '>';
        at += is_right;
        const size_t len = strcspn(at, "|");
        t->columns[t->n_columns++] = (struct table_column){{at, len}, is_right};
        at += len;
        if (!*at)
            return;
    }
}

void table_release(struct table *t)
{
    buf_release(&t->text);
    free(t->cells);
    *t = (struct table){0};
}

/* Turns what was appended to the text since `start` into a cell. */
static void end_cell(struct table *t, size_t start, enum style style)
{
    if (!t->failed)
        t->failed = buf_failed(&t->text);
    if (!t->failed && t->n_cells == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 64;
        struct table_cell *cells = realloc(t->cells, capacity * sizeof *cells);
        if (cells) {
            t->cells = cells;
            t->capacity = capacity;
        } else {
            t->failed = REDRIVE_E_NOMEM;
        }
    }
    if (t->failed)
        return;
    struct str text = {t->text.data + start, t->text.len - start};
    t->cells[t->n_cells++] = (struct table_cell){
        .offset = start, .len = text.len, .width = text_width(text), .style = style};
}

void table_add_str_styled(struct table *t, enum style style, struct str text)
{
    size_t start = t->text.len;
    text_add_clean(&t->text, text);
    end_cell(t, start, style);
}

void table_add_styled(struct table *t, enum style style, const char *text)
{
    table_add_str_styled(t, style, str_of(text));
}

void table_add(struct table *t, const char *text)
{
    table_add_styled(t, STYLE_PLAIN, text);
}

void table_addf(struct table *t, const char *format, ...)
{
    va_list args;

    RELEASED_BY(buf_release) struct buf text = BUF_MAX(TEXT_MAX);
    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    table_add_buf(t, &text);
}

void table_add_str(struct table *t, struct str text)
{
    table_add_str_styled(t, STYLE_PLAIN, text);
}

void table_add_buf(struct table *t, const struct buf *text)
{
    if (!t->failed)
        t->failed = buf_failed(text);
    table_add_str(t, buf_str(text));
}

void table_hide_same(struct table *t, size_t column)
{
    const char *text = buf_cstr(&t->text);
    for (size_t i = column + t->n_columns; i < t->n_cells; i += t->n_columns) {
        const struct table_cell *first = &t->cells[column], *cell = &t->cells[i];
        if (!str_eq((struct str){text + first->offset, first->len},
                    (struct str){text + cell->offset, cell->len}))
            return;
    }
    t->hidden |= 1u << column;
}

static bool is_hidden(const struct table *t, size_t column)
{
    return (t->hidden >> column & 1) != 0;
}

static void measure(const struct table *t, unsigned width, size_t *widths)
{
    size_t before_last = 0;
    for (size_t c = 0; c < t->n_columns; c++)
        widths[c] = text_width(t->columns[c].title);
    for (size_t i = 0; i < t->n_cells; i++)
        if (t->cells[i].width > widths[i % t->n_columns])
            widths[i % t->n_columns] = t->cells[i].width;

    for (size_t c = 0; c + 1 < t->n_columns; c++)
        before_last += is_hidden(t, c) ? 0 : widths[c] + GAP;
    size_t *last = &widths[t->n_columns - 1];
    if (width == 0 || before_last + *last <= width)
        return;
    size_t left = before_last < width ? width - before_last : 0;
    size_t least = *last < LAST_MIN ? *last : LAST_MIN;
    *last = left > least ? left : least;
}

/* One cell, cut if it is too wide, with the space that belongs to it. The last column has none
 * behind it, so that lines do not end in spaces. */
static void put_cell(const struct table *t, size_t column, const size_t *widths, struct str text,
                     enum style style, bool color, struct buf *out)
{
    const bool is_last = column + 1 == t->n_columns;
    const size_t room = widths[column];
    size_t used = text_width(text);

    if (is_hidden(t, column))
        return;
    RELEASED_BY(buf_release) struct buf shown = BUF_MAX(TEXT_MAX);
    if (used <= room) {
        buf_add_str(&shown, text);
    } else {
        buf_add_str(&shown, text_fit(text, room - 1));
        buf_puts(&shown, "…");
        used = text_width(buf_str(&shown));
    }
    if (t->columns[column].is_right)
        text_add_spaces(out, room - used);
    if (shown.len > 0)
        style_add(out, color, style, buf_str(&shown));
    if (!is_last)
        text_add_spaces(out, GAP + (t->columns[column].is_right ? 0 : room - used));
    else
        buf_putc(out, '\n');
    if (buf_failed(&shown))
        out->failed = buf_failed(&shown);
}

int table_render(const struct table *t, unsigned width, bool color, struct buf *out)
{
    size_t widths[TABLE_COLUMNS_MAX];
    if (t->n_columns == 0) /* there is nothing to show */
        return buf_failed(out);
    measure(t, width, widths);
    for (size_t c = 0; c < t->n_columns; c++)
        put_cell(t, c, widths, t->columns[c].title, STYLE_BOLD, color, out);
    for (size_t i = 0; i < t->n_cells; i++) {
        const struct table_cell *cell = &t->cells[i];
        struct str text = {buf_cstr(&t->text) + cell->offset, cell->len};
        put_cell(t, i % t->n_columns, widths, text, cell->style, color, out);
    }
    for (size_t c = t->n_cells % t->n_columns; c > 0 && c < t->n_columns; c++)
        put_cell(t, c, widths, STR(""), STYLE_PLAIN, color, out);
    if (t->failed)
        out->failed = t->failed;
    return buf_failed(out);
}

void table_finish(struct table *t, unsigned width, bool color, struct buf *out)
{
    (void)table_render(t, width, color, out);
    table_release(t);
}

/* ---- Lists as JSON --------------------------------------------------------------------------- */

void listing_begin(struct json_writer *w, struct buf *out)
{
    json_writer_init(w, out);
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
}

void listing_end(struct json_writer *w, const char *next)
{
    json_end_array(w);
    json_field_cstr(w, "next", next);
    json_end_object(w);
    (void)buf_putc(w->out, '\n');
}
