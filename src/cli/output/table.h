/* table.h - rows in aligned columns, for people.
 *
 *     static const struct table_column COLUMNS[] = {{"ATTEMPT", ALIGN_RIGHT}, {"DELAY"}};
 *     struct table t;
 *     table_init(&t, COLUMNS, 2);
 *     table_addf(&t, "%u", attempt);
 *     table_add(&t, delay);
 *     …
 *     table_render(&t, term->width, term->color, &text);
 *     table_release(&t);
 *
 * Cells are added from left to right, row after row. Columns are as wide as their widest cell and
 * two spaces apart; on a terminal the last one is cut with `…` so that a row stays on its line.
 * Cells are made harmless: no line breaks, no control characters. Programs are given JSON
 * instead.
 */
#ifndef CLI_OUTPUT_TABLE_H
#define CLI_OUTPUT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"
#include "cli/output/term.h"

enum align {
    ALIGN_LEFT,
    ALIGN_RIGHT,
};

struct table_column {
    const char *title;
    enum align align;
};

struct table_cell;

struct table {
    const struct table_column *columns; /* borrowed */
    size_t n_columns;
    struct buf text; /* of all cells, one after the other */
    struct table_cell *cells;
    size_t n_cells;
    size_t capacity;
    int failed; /* the first failure sticks, as in a struct buf */
};

void table_init(struct table *t, const struct table_column *columns, size_t n_columns);
void table_release(struct table *t);

/* Adds the next cell; the text is copied, NULL gives an empty cell. */
void table_add(struct table *t, const char *text);
void table_addf(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same in a style. */
void table_add_styled(struct table *t, enum style style, const char *text);

/* Appends the heading and all rows; an unfinished last row is filled with empty cells. `width` 0
 * cuts nothing. Returns 0 or the first failure of the table or of `out`. */
int table_render(const struct table *t, unsigned width, bool color, struct buf *out);

#endif
