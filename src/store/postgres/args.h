/* args.h - the parameters of a statement, in the binary form of the protocol.
 *
 * Filled from left to right, one value or one array after the other; sent whole. Text may hold any
 * bytes: see text.h. Without memory the whole is marked as failed, and sending it says so.
 */
#ifndef STORE_POSTGRES_ARGS_H
#define STORE_POSTGRES_ARGS_H

#include <stdint.h>

#include "base/buf.h"

#define ARGS_MAX 40

enum arg_type {
    ARG_BOOL = 16, /* the numbers are PostgreSQL's own, of its types */
    ARG_BYTES = 17,
    ARG_INT8 = 20,
    ARG_INT4 = 23,
    ARG_TEXT = 25,
};

struct args {
    struct buf bytes;
    int n;
    size_t at[ARGS_MAX];
    int len[ARGS_MAX]; /* -1: NULL */

    /* The array that is being filled. */
    enum arg_type type;
    uint32_t items;
};

void pg_args_init(struct args *args);
void pg_args_release(struct args *args);
void pg_args_reset(struct args *args);

/* -- Single values -- */

void pg_args_null(struct args *args);
void pg_args_int8(struct args *args, int64_t value);
void pg_args_int4(struct args *args, int32_t value);
void pg_args_bool(struct args *args, bool value);
/* The absent string is NULL; pg_args_name makes it '' and pg_args_option makes '' NULL. */
void pg_args_text(struct args *args, struct str s);
void pg_args_name(struct args *args, struct str s);
void pg_args_option(struct args *args, struct str s);
void pg_args_bytes(struct args *args, struct str s);

/* -- Arrays: begin, items, end. Items are of the type of the array. -- */

void pg_args_array(struct args *args, enum arg_type type);
void pg_item_null(struct args *args);
void pg_item_int8(struct args *args, int64_t value);
void pg_item_int4(struct args *args, int32_t value);
/* 0 is NULL. */
void pg_item_int8_or_null(struct args *args, int64_t value);
void pg_item_int4_or_null(struct args *args, int32_t value);
void pg_item_bool(struct args *args, bool value);
void pg_item_text(struct args *args, struct str s);
void pg_item_name(struct args *args, struct str s);
void pg_item_option(struct args *args, struct str s);
void pg_args_array_end(struct args *args);

#endif
