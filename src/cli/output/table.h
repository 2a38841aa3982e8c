/* table.h - rows in aligned columns for people, and lists as JSON for programs.
 *
 *     struct table t;
 *     table_init(&t, ">ATTEMPT|DELAY");
 *     table_addf(&t, "%u", attempt);
 *     table_add(&t, delay);
 *     …
 *     table_finish(&t, term->width, term->color, &text);
 *
 * Cells are added from left to right, row after row. Columns are as wide as their widest cell and
 * two spaces apart; on a terminal the last one is cut with `…` so that a row stays on its line.
 * Cells are made harmless: no line breaks, no control characters.
 */
#ifndef CLI_OUTPUT_TABLE_H
#define CLI_OUTPUT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json/writer.h"
#include "base/text/buf.h"
#include "cli/output/term.h"

#define TABLE_COLUMNS_MAX 16

struct table_column {
    struct str title;
    bool is_right; /* its cells end at the right edge, as numbers do */
};

struct table_cell;

struct table {
    struct table_column columns[TABLE_COLUMNS_MAX]; /* the titles are borrowed */
    size_t n_columns;
    struct buf text; /* of all cells, one after the other */
    struct table_cell *cells;
    size_t n_cells;
    size_t capacity;
    uint32_t hidden; /* columns, a bit each */
    int failed;      /* the first failure sticks, as in a struct buf */
};

/* `columns` has the titles with `|` between them, and `>` before one that is aligned to the right.
 * It must outlive the table. */
void table_init(struct table *t, const char *columns);
void table_release(struct table *t);

/* Adds the next cell; the text is copied, NULL gives an empty cell. */
void table_add(struct table *t, const char *text);
void table_addf(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same in a style. */
void table_add_styled(struct table *t, enum style style, const char *text);

/* The same with a slice, which may be absent, and with a buffer, whose failure is the table's. */
void table_add_str(struct table *t, struct str text);
void table_add_str_styled(struct table *t, enum style style, struct str text);
void table_add_buf(struct table *t, const struct buf *text);

/* Leaves a column out if its cells are all the same; not the last column. */
void table_hide_same(struct table *t, size_t column);

/* Appends the heading and all rows; an unfinished last row is filled with empty cells. `width` 0
 * cuts nothing. Returns 0 or the first failure of the table or of `out`; a failure of the table is
 * then one of `out` as well. */
int table_render(const struct table *t, unsigned width, bool color, struct buf *out);
/* The same, and releases the table: a failure is in `out`. */
void table_finish(struct table *t, unsigned width, bool color, struct buf *out);

/* ---- Lists as JSON -----------------------------------------------------------------------------
 *
 * The form of every list is {"items":[…],"next":CURSOR|null}.
 *
 *     listing_begin(&w, &out);
 *     …one value for each item…
 *     listing_end(&w, NULL);
 */
void listing_begin(struct json_writer *w, struct buf *out);

/* `next` is where the next page begins; NULL: there is none. Ends the line. */
void listing_end(struct json_writer *w, const char *next);

#endif
