/* csv.c - the CSV reader, a state machine over bytes that fills cells and checks records; the
 * writer. */
#include "base/csv/csv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text/encode.h"

static const char MARK[] = "\xef\xbb\xbf";

static const char WRONG_QUOTE[] = "a quote inside a field that is not quoted";
static const char WRONG_AFTER[] = "text after a closing quote";
static const char WRONG_OPEN[] = "a quote that is never closed";
static const char WRONG_CR[] = "a carriage return without a line feed";
static const char WRONG_UTF8[] = "bytes that are not UTF-8";
static const char WRONG_BYTES[] = "a record that is too long";
static const char WRONG_FIELDS[] = "a record of too many fields";

void csv_init(struct csv *csv, const struct csv_limits *limits)
{
    *csv = (struct csv){.line_at = 1};
    if (limits)
        csv->limits = *limits;
    if (csv->limits.max_bytes == 0)
        csv->limits.max_bytes = CSV_MAX_BYTES;
    if (csv->limits.max_fields == 0)
        csv->limits.max_fields = CSV_MAX_FIELDS;
    arena_init(&csv->header);
    buf_init(&csv->text, csv->limits.max_bytes);
}

void csv_release(struct csv *csv)
{
    free(csv->cells);
    buf_release(&csv->text);
    arena_release(&csv->header);
    *csv = (struct csv){0};
}

bool csv_is_broken(const struct csv *csv)
{
    return csv->broken.code < 0;
}

static int give_up(struct csv *csv, struct redrive_err *err)
{
    if (err)
        *err = csv->broken;
    return csv->broken.code;
}

static void wrong_at(struct csv *csv, const char *what, uint64_t line)
{
    if (csv->wrong)
        return;
    csv->wrong = what;
    csv->wrong_line = line;
}

/* Just here, or with the record as a whole. */
static void wrong_here(struct csv *csv, const char *what)
{
    wrong_at(csv, what, csv->line_at);
}

static void wrong_all(struct csv *csv, const char *what)
{
    wrong_at(csv, what, csv->record_line);
}

/* ---- Cells ----------------------------------------------------------------------------------- */

static void add(struct csv *csv, const char *text, size_t len)
{
    int rc = buf_add(&csv->text, text, len);
    if (rc == REDRIVE_E_TOO_BIG)
        wrong_all(csv, WRONG_BYTES);
    else if (rc < 0)
        (void)err_nomem(&csv->broken);
}

static bool make_room(struct csv *csv)
{
    if (csv->n_cells < csv->capacity)
        return true;
    size_t capacity = csv->capacity ? csv->capacity * 2 : 16;
    struct str *grown = realloc(csv->cells, capacity * sizeof *grown);
    if (!grown) {
        (void)err_nomem(&csv->broken);
        return false;
    }
    csv->cells = grown;
    csv->capacity = capacity;
    return true;
}

/* The text may still move, so a cell has only its length until the record is complete. */
static void end_cell(struct csv *csv)
{
    size_t len = csv->text.len - csv->cell_at;
    if (csv->n_cells == csv->limits.max_fields)
        wrong_all(csv, WRONG_FIELDS);
    else if (make_room(csv))
        csv->cells[csv->n_cells++] = (struct str){NULL, len};
    csv->cell_at = csv->text.len;
}

static void point_cells(struct csv *csv)
{
    const char *at = buf_cstr(&csv->text);
    for (size_t i = 0; i < csv->n_cells; i++) {
        csv->cells[i].ptr = at;
        at += csv->cells[i].len;
        if (!utf8_valid(csv->cells[i]))
            wrong_all(csv, WRONG_UTF8);
    }
}

/* ---- Records --------------------------------------------------------------------------------- */

static void begin_record(struct csv *csv)
{
    buf_reset(&csv->text);
    csv->cell_at = 0;
    csv->n_cells = 0;
    csv->wrong = NULL;
    csv->given = false;
    csv->has_text = false;
    csv->record_line = csv->line_at;
}

static int refuse_record(const struct csv *csv, struct redrive_err *err)
{
    bool big = csv->wrong == WRONG_BYTES || csv->wrong == WRONG_FIELDS;
    int rc = err_set(err, big ? REDRIVE_E_TOO_BIG : REDRIVE_E_PARSE, "line %llu: %s",
                     (unsigned long long)csv->wrong_line, csv->wrong);
    if (csv->wrong == WRONG_BYTES)
        err_detail(err, "a record may have %zu bytes", csv->limits.max_bytes);
    else if (csv->wrong == WRONG_FIELDS)
        err_detail(err, "a record may have %zu fields", csv->limits.max_fields);
    else if (csv->wrong == WRONG_OPEN)
        err_detail(err, "all that follows line %llu was read as part of that field",
                   (unsigned long long)csv->record_line);
    else if (csv->wrong == WRONG_QUOTE)
        err_hint(err, "put the field in quotes and write each quote in it twice");
    return rc;
}

static int refuse_header(struct csv *csv, size_t i)
{
    struct str name = csv->cells[i];
    int rc;
    if (name.len == 0)
        rc = err_set(&csv->broken, REDRIVE_E_PARSE, "line %llu: column %zu has no name",
                     (unsigned long long)csv->record_line, i + 1);
    else
        rc = err_set(&csv->broken, REDRIVE_E_PARSE, "line %llu: two columns are called '%.*s'",
                     (unsigned long long)csv->record_line, name.len > 64 ? 64 : (int)name.len,
                     name.ptr);
    err_hint(&csv->broken, "the first line of a CSV file names its columns");
    return rc;
}

static bool is_repeated(const struct csv *csv, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (str_eq(csv->cells[j], csv->cells[i]))
            return true;
    return false;
}

static int take_header(struct csv *csv)
{
    struct str *names = arena_array(&csv->header, csv->n_cells, sizeof *names);
    for (size_t i = 0; i < csv->n_cells; i++) {
        if (csv->cells[i].len == 0 || is_repeated(csv, i))
            return refuse_header(csv, i);
        if (names)
            names[i] = arena_str(&csv->header, csv->cells[i]);
    }
    if (csv->header.failed)
        return err_nomem(&csv->broken);
    csv->names = names;
    csv->n_names = csv->n_cells;
    return 0;
}

/* 1: a record; 0: that was the header; or why it is refused. */
static int end_record(struct csv *csv, struct redrive_err *err)
{
    end_cell(csv);
    csv->state = CSV_RECORD;
    csv->given = true;
    csv->line = csv->record_line;
    if (csv_is_broken(csv))
        return give_up(csv, err);
    point_cells(csv);
    if (csv->wrong) {
        int rc = refuse_record(csv, err);
        if (!csv->names)
            (void)refuse_record(csv, &csv->broken);
        return rc;
    }
    if (!csv->names)
        return take_header(csv) < 0 ? give_up(csv, err) : 0;
    if (csv->n_cells == csv->n_names)
        return 1;
    return err_set(err, REDRIVE_E_PARSE, "line %llu: %zu field%s, but the header has %zu",
                   (unsigned long long)csv->record_line, csv->n_cells, csv->n_cells == 1 ? "" : "s",
                   csv->n_names);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* How many bytes at the front are plain text. */
static size_t plain_run(struct str s)
{
    size_t n = 0;
    while (n < s.len && s.ptr[n] != ',' && s.ptr[n] != '"' && s.ptr[n] != '\r' && s.ptr[n] != '\n')
        n++;
    return n;
}

static size_t quoted_run(struct csv *csv, struct str s)
{
    const char *quote = memchr(s.ptr, '"', s.len);
    size_t n = quote ? (size_t)(quote - s.ptr) : s.len;
    for (size_t i = 0; i < n; i++)
        csv->line_at += s.ptr[i] == '\n';
    return n;
}

/* A byte between or after cells. True: it ends the record. */
static bool between(struct csv *csv, char c)
{
    switch (c) {
    case ',':
        end_cell(csv);
        csv->state = CSV_CELL;
        return false;
    case '\r': csv->state = CSV_CR; return false;
    case '\n': return true;
    default:
        /* A quote only closes or opens where a cell ends or starts. */
        wrong_here(csv, c == '"' ? WRONG_QUOTE : WRONG_AFTER);
        csv->state = CSV_PLAIN;
        add(csv, &c, 1);
        return false;
    }
}

static bool take_byte(struct csv *csv, char c)
{
    switch (csv->state) {
    case CSV_RECORD:
    case CSV_CELL:
        if (c == '"') {
            csv->state = CSV_QUOTED;
            return false;
        }
        if (c == ',' || c == '\r' || c == '\n')
            return between(csv, c);
        csv->state = CSV_PLAIN;
        add(csv, &c, 1);
        return false;
    case CSV_QUOTED: csv->state = CSV_QUOTE; return false; /* the run has stopped at a quote */
    case CSV_QUOTE:
        if (c != '"')
            return between(csv, c);
        csv->state = CSV_QUOTED;
        add(csv, &c, 1);
        return false;
    case CSV_CR:
        if (c == '\n')
            return true;
        wrong_here(csv, WRONG_CR);
        csv->state = CSV_PLAIN;
        return take_byte(csv, c);
    case CSV_START:
    case CSV_PLAIN:
    default: return between(csv, c);
    }
}

/* Passes a byte order mark over; what only began like one is text. */
static void start(struct csv *csv, struct str *input)
{
    while (input->len > 0 && csv->mark < 3 && input->ptr[0] == MARK[csv->mark]) {
        csv->mark++;
        *input = (struct str){input->ptr + 1, input->len - 1};
    }
    if (input->len == 0 && csv->mark < 3)
        return;
    csv->state = CSV_RECORD;
    begin_record(csv);
    if (csv->mark > 0 && csv->mark < 3) {
        add(csv, MARK, csv->mark);
        csv->has_text = true;
        csv->state = CSV_PLAIN;
    }
}

/* Takes up to the end of a record: 1, or 0 when the input is used up. */
static int take(struct csv *csv, struct str *input)
{
    while (input->len > 0) {
        size_t n = csv->state == CSV_PLAIN    ? plain_run(*input)
                   : csv->state == CSV_QUOTED ? quoted_run(csv, *input)
                                              : 0;
        if (n > 0) {
            add(csv, input->ptr, n);
            *input = (struct str){input->ptr + n, input->len - n};
            continue;
        }
        char c = input->ptr[0];
        *input = (struct str){input->ptr + 1, input->len - 1};
        csv->has_text |= c != '\r' && c != '\n';
        bool ends = take_byte(csv, c);
        csv->line_at += c == '\n';
        if (ends && csv->has_text)
            return 1;
        if (ends) {
            csv->state = CSV_RECORD;
            begin_record(csv);
        }
    }
    return 0;
}

int csv_next(struct csv *csv, struct str *input, struct redrive_err *err)
{
    int rc = 0;
    if (csv->state == CSV_START && !csv_is_broken(csv))
        start(csv, input);
    while (rc == 0 && input->len > 0) {
        if (csv_is_broken(csv))
            return give_up(csv, err);
        if (csv->given)
            begin_record(csv);
        if (take(csv, input) == 0)
            break;
        rc = end_record(csv, err);
    }
    return rc;
}

int csv_end(struct csv *csv, struct redrive_err *err)
{
    if (csv_is_broken(csv))
        return give_up(csv, err);
    if (csv->state == CSV_START && csv->mark > 0 && csv->mark < 3) {
        add(csv, MARK, csv->mark);
        csv->state = CSV_PLAIN;
    }
    if (csv->state == CSV_START || csv->given || csv->state == CSV_RECORD)
        return 0;
    if (csv->state == CSV_QUOTED) {
        csv->wrong = NULL; /* beside this nothing else matters */
        wrong_all(csv, WRONG_OPEN);
    } else if (csv->state == CSV_CR) {
        wrong_here(csv, WRONG_CR);
    }
    return end_record(csv, err);
}

/* ---- Writing --------------------------------------------------------------------------------- */

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
