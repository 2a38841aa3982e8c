/* csv.h - a strict RFC 4180 reader that is fed pieces of text as they come.
 *
 *     struct csv csv;
 *     csv_init(&csv, NULL);
 *     while there is input
 *         while ((rc = csv_next(&csv, &input, &err)) != 0)
 *             if (rc > 0) … csv.names[i], csv.cells[i], csv.line …
 *             else … err names the line; the next call goes on after the bad record …
 *     rc = csv_end(&csv, &err)                 the last record, if no line break follows it
 *
 * Fields are separated by commas and may be quoted; inside quotes commas and line breaks are text
 * and a quote is written twice. Lines end with LF or CRLF. The first record is the header: its
 * names are neither empty nor repeated, and every later record has as many fields. A byte order
 * mark at the very start and lines with nothing in them are passed over. Spaces are text.
 *
 * Refused, with the line: a quote inside a field that does not start with one, text after a closing
 * quote, a quote that is never closed, a CR without LF, another number of fields, bytes that are
 * not UTF-8, and records over the limits. An error in one record does not affect the next, except
 * for a quote that is never closed: where it should have ended is unknown.
 */
#ifndef BASE_CSV_CSV_H
#define BASE_CSV_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "redrive.h"

#define CSV_MAX_BYTES  (1024u * 1024)
#define CSV_MAX_FIELDS 4096

struct csv_limits {
    size_t max_bytes;  /* of the text of a record; 0: CSV_MAX_BYTES */
    size_t max_fields; /* 0: CSV_MAX_FIELDS */
};

struct csv {
    /* The header; none before it has been read. */
    const struct str *names;
    size_t n_names;

    /* The record that csv_next has given, until the next call. Not terminated. */
    struct str *cells;
    size_t n_cells;
    uint64_t line; /* on which it starts, from 1 */

    /* The rest is the reader's own. */
    struct csv_limits limits;
    struct arena header;
    struct buf text; /* of the cells, one after the other */
    size_t capacity; /* of `cells` */
    size_t cell_at;  /* where the open cell starts */
    enum {
        CSV_START, /* of the text */
        CSV_RECORD,
        CSV_CELL,
        CSV_PLAIN,
        CSV_QUOTED,
        CSV_QUOTE, /* a quote within quotes: the end, or the first of two */
        CSV_CR,
    } state;
    unsigned mark;    /* bytes of a byte order mark so far */
    uint64_t line_at; /* of the next byte */
    uint64_t record_line;
    const char *wrong; /* what is wrong with this record first; NULL: nothing */
    uint64_t wrong_line;
    bool has_text;             /* something but the end of a line */
    bool given;                /* the record has been handed out */
    struct redrive_err broken; /* a bad header ends it all */
};

void csv_init(struct csv *csv, const struct csv_limits *limits);
void csv_release(struct csv *csv);

/* Takes bytes off the front of `input`. 1: a record is complete; 0: the input is used up; a
 * negative code: a record that is refused, REDRIVE_E_PARSE or REDRIVE_E_TOO_BIG. After a header
 * that is refused, and without memory, every later call fails likewise: csv_is_broken. */
int csv_next(struct csv *csv, struct str *input, struct redrive_err *err);

/* There is no more input. 1: there was a last record; 0: there was none; or as above. */
int csv_end(struct csv *csv, struct redrive_err *err);

bool csv_is_broken(const struct csv *csv);

/* ---- Writing --------------------------------------------------------------------------------- */

/* Writes CSV into a struct buf, by RFC 4180.
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
