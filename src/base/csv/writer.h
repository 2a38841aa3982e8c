/* writer.h - writes CSV into a struct buf, by RFC 4180.
 *
 *     struct csv_writer w;
 *     csv_writer_init(&w, &out);
 *     csv_put_cstr(&w, "id");
 *     csv_put_str(&w, payload);
 *     csv_end_row(&w);
 *
 * Cells are separated by commas and rows end with CR LF. A cell with a comma, a quote or a line
 * break in it is quoted, and its quotes are doubled; so is the only cell of a row when it is empty,
 * which would otherwise read as no row at all. Nothing else is touched: a reader gets every byte
 * back.
 *
 * That holds for cells that a spreadsheet takes for a formula (they start with =, +, - or @) as
 * well. A user who opens such a file in a spreadsheet should import its columns as text: a quote
 * put before each of them here would change the data for every other reader.
 *
 * Failures are the buffer's: check buf_failed() once at the end.
 */
#ifndef BASE_CSV_WRITER_H
#define BASE_CSV_WRITER_H

#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/str.h"

struct csv_writer {
    struct buf *out;
    unsigned n_cells; /* of the row so far */
    bool only_empty;  /* the row is one empty cell */
};

void csv_writer_init(struct csv_writer *w, struct buf *out);

/* The next cell of the row. An absent string is an empty cell. */
void csv_put_str(struct csv_writer *w, struct str value);
void csv_put_cstr(struct csv_writer *w, const char *value);
void csv_put_int(struct csv_writer *w, int64_t value);

void csv_end_row(struct csv_writer *w);

#endif
