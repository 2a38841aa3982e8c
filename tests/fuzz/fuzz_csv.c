/* However the text is cut into pieces, the same records come out of it, every one with as many
 * fields as the header and in UTF-8; written back, they read as what they are. */
#include "fuzz.h"

#include <string.h>

#include "base/csv/csv.h"
#include "base/text/encode.h"

#define MAX_OUT (64u << 20)

static void write_cell(struct buf *out, struct str cell, bool last)
{
    buf_putc(out, '"');
    for (size_t i = 0; i < cell.len; i++) {
        if (cell.ptr[i] == '"')
            buf_putc(out, '"');
        buf_putc(out, cell.ptr[i]);
    }
    buf_puts(out, last ? "\"\r\n" : "\",");
}

static void write_cells(struct buf *out, const struct str *cells, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        FUZZ_CHECK(utf8_valid(cells[i]));
        write_cell(out, cells[i], i + 1 == n);
    }
}

static void take(struct csv *csv, int rc, const struct redrive_err *err, struct buf *out,
                 bool *header_done)
{
    if (csv->n_names > 0 && !*header_done) {
        *header_done = true;
        write_cells(out, csv->names, csv->n_names);
    }
    FUZZ_CHECK(rc == 0 || rc == 1 || (err->code == rc && err->message[0] != '\0'));
    if (rc <= 0)
        return;
    FUZZ_CHECK(csv->n_cells == csv->n_names && csv->line > 0);
    write_cells(out, csv->cells, csv->n_cells);
}

/* Reads all of it in pieces of `step` bytes; the good records as CSV. Returns how many were bad. */
static size_t read_all(struct str text, size_t step, struct buf *out)
{
    const struct csv_limits limits = {.max_bytes = 200, .max_fields = 20};
    struct csv csv;
    struct redrive_err err;
    bool header_done = false;
    size_t bad = 0;
    int rc = 0;
    csv_init(&csv, &limits);
    for (size_t at = 0; at < text.len && !csv_is_broken(&csv); at += step) {
        struct str piece = {text.ptr + at, text.len - at < step ? text.len - at : step};
        while (!csv_is_broken(&csv) && (rc = csv_next(&csv, &piece, &err)) != 0) {
            take(&csv, rc, &err, out, &header_done);
            bad += rc < 0;
        }
        FUZZ_CHECK(csv_is_broken(&csv) || piece.len == 0);
    }
    rc = csv_end(&csv, &err);
    bad += rc < 0;
    take(&csv, rc, &err, out, &header_done);
    csv_release(&csv);
    return bad;
}

static void same(const struct buf *a, const struct buf *b)
{
    FUZZ_CHECK(a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct buf whole, pieces, again;
    buf_init(&whole, MAX_OUT);
    buf_init(&pieces, MAX_OUT);
    buf_init(&again, MAX_OUT);
    size_t bad = read_all(text, size ? size : 1, &whole);
    FUZZ_CHECK(read_all(text, 1, &pieces) == bad);
    same(&whole, &pieces);
    FUZZ_CHECK(read_all(buf_str(&whole), 7, &again) == 0);
    same(&whole, &again);
    buf_release(&whole);
    buf_release(&pieces);
    buf_release(&again);
    return 0;
}
