/* records.h - the records of a batch, one after another, from JSON lines or CSV.
 *
 *     struct records records;
 *     records_init(&records, &options);
 *     while ((rc = records_next(&records, &record, &err)) != 0)
 *         if (rc > 0) … record.id, record.payload …
 *         else … err names the line; ends here if records_is_broken(&records) …
 *     records_release(&records);
 *
 * JSON lines: each line that is not empty is an object. Its payload is the object, byte for byte,
 * or the value of one of its fields; a field that is not there gives no payload.
 * CSV: the first line names the columns; each row becomes an object of strings, in the order of the
 * columns, or the string of one column. An empty cell is the empty string: CSV cannot say null.
 *
 * The id is the value of the id field, a string or a whole number, as text. It is not empty.
 * One record takes at most RECORDS_MAX_BYTES. A record that is bad costs none of the others.
 */
#ifndef CLI_COMMANDS_BATCH_RECORDS_H
#define CLI_COMMANDS_BATCH_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/csv/csv.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "redrive.h"

#define RECORDS_MAX_BYTES   (4u * 1024 * 1024)
#define RECORDS_CHUNK_BYTES (64u * 1024)

enum records_format {
    RECORDS_JSONL,
    RECORDS_CSV,
    RECORDS_GUESS, /* by the first byte: an object or an array is JSON, all else CSV */
};

/* By the end of a file's name: .jsonl, .ndjson and .json, .csv; RECORDS_GUESS for any other. */
enum records_format records_format_of(const char *name);

struct records_options {
    enum records_format format;
    const char *id_field;      /* NULL: sample_id, or else id */
    const char *payload_field; /* NULL: the whole record */
    /* Gives the next bytes, at least one unless it is the end. May wait. A negative code ends the
     * reading. */
    int (*read)(void *ctx, char *out, size_t size, size_t *ret_len, struct redrive_err *err);
    void *ctx;
};

/* Strings are valid until the next call. */
struct record {
    uint64_t line; /* on which it starts, from 1 */
    struct str id;
    struct str payload; /* JSON; absent: it has none */
};

struct records {
    struct records_options options;
    enum records_format format;
    bool is_guessed; /* the format, by the first byte */
    uint64_t line;
    bool at_end;   /* of the input */
    bool finished; /* everything has been given */
    bool broken;
    struct str chunk; /* what is left of it */
    struct buf text;  /* of the line that is being gathered */
    struct csv csv;
    struct buf id;
    struct buf payload;
    char bytes[RECORDS_CHUNK_BYTES];
};

void records_init(struct records *records, const struct records_options *options);
void records_release(struct records *records);

/* 1: a record; 0: there are no more; a negative code: one that is refused. */
int records_next(struct records *records, struct record *ret, struct redrive_err *err);

/* Whether the last error was the end: the input failed, or a CSV file has no usable header. */
bool records_is_broken(const struct records *records);

#endif
