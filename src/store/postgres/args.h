/* args.h - the parameters of a statement, in the binary form of the protocol.
 *
 * Filled from left to right, one value or one array after the other; sent whole. Text may hold any
 * bytes: see below. Without memory the whole is marked as failed, and sending it returns the error.
 */
#ifndef STORE_POSTGRES_ARGS_H
#define STORE_POSTGRES_ARGS_H

#include <stdint.h>

#include "base/mem/arena.h"
#include "base/text/buf.h"

#define ARGS_MAX 40

enum arg_type {
    ARG_BOOL = 16, /* the numbers are PostgreSQL's own, of its types */
    ARG_INT8 = 20,
    ARG_INT2 = 21,
    ARG_INT4 = 23,
    ARG_TEXT = 25,
};

struct args {
    struct buf bytes;
    int n;
    size_t at[ARGS_MAX];
    int len[ARGS_MAX]; /* -1: NULL */

    /* The array that is being filled, and its row. */
    uint32_t type;
    uint32_t items;
    size_t row_at;
    uint32_t fields;
};

void pg_args_init(struct args *args);
void pg_args_release(struct args *args);
/* Keeps at most a megabyte of memory for the next ones. */
void pg_args_reset(struct args *args);

/* -- Single values -- */

void pg_args_null(struct args *args);
void pg_args_int8(struct args *args, int64_t value);
void pg_args_int4(struct args *args, int32_t value);
/* The absent string is NULL; pg_args_name makes it ''. */
void pg_args_text(struct args *args, struct str s);
void pg_args_name(struct args *args, struct str s);
void pg_args_bytes(struct args *args, struct str s);

/* -- Arrays: begin, items, end. Items are of the type of the array. -- */

void pg_args_array(struct args *args, enum arg_type type);
void pg_item_int8(struct args *args, int64_t value);
void pg_item_int4(struct args *args, int32_t value);
void pg_item_bool(struct args *args, bool value);
void pg_item_text(struct args *args, struct str s);
void pg_item_name(struct args *args, struct str s);
void pg_args_array_end(struct args *args);

/* -- Arrays of rows of a table: begin, rows, end; a row is begin, its fields in the order of the
 * table's columns, end. One array of rows is far cheaper for the server than one array a column,
 * because it makes a table of its own of each array. `type` is the number of the table's type. --
 */

void pg_args_rows(struct args *args, uint32_t type);
void pg_row_begin(struct args *args);
void pg_field_int8(struct args *args, int64_t value);
void pg_field_int4(struct args *args, int32_t value);
void pg_field_int2(struct args *args, int16_t value);
/* 0 is NULL. */
void pg_field_int8_or_null(struct args *args, int64_t value);
void pg_field_int4_or_null(struct args *args, int32_t value);
void pg_field_int2_or_null(struct args *args, int16_t value);
void pg_field_bool(struct args *args, bool value);
/* As those of single values. */
void pg_field_text(struct args *args, struct str s);
void pg_field_name(struct args *args, struct str s);
void pg_field_option(struct args *args, struct str s);
void pg_row_end(struct args *args);

/* ---- Text ------------------------------------------------------------------------------------ */

/* Any bytes as text that PostgreSQL accepts, and back. A value of type text is UTF-8 without zero
 * bytes, but messages, stack traces and results may be any bytes. Each byte that is not valid there
 * becomes one character of the last 256 of the second private plane (U+10FF00 plus the byte); the
 * bytes of these characters themselves are encoded in the same way. So nothing is lost, text stays
 * text that people can read and search, and nearly everything is copied as it is. */
void pg_text_encode(struct str s, struct buf *out);
/* What a byte that is no text takes in it. */
#define PG_ESCAPED_BYTES 4

/* A terminated copy in the arena of what was encoded; its length may be smaller. */
struct str pg_text_decode(struct str s, struct arena *arena);

#endif
