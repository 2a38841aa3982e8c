#include "store/postgres/args.h"

#include <endian.h>

#include "redrive.h"
#include "store/postgres/text.h"

#define ARGS_BYTES_MAX ((size_t)1 << 30)

/* One dimension: how many, whether there are NULLs, of which type, how long, from which index. */
#define ARRAY_HEADER_BYTES 20

void pg_args_init(struct args *args)
{
    *args = (struct args){0};
    buf_init(&args->bytes, ARGS_BYTES_MAX);
}

void pg_args_release(struct args *args)
{
    buf_release(&args->bytes);
}

void pg_args_reset(struct args *args)
{
    buf_reset(&args->bytes);
    args->n = 0;
}

static void put_int4(struct buf *b, uint32_t value)
{
    const uint32_t big = htobe32(value);
    (void)buf_add(b, &big, sizeof big);
}

static void put_int8(struct buf *b, uint64_t value)
{
    const uint64_t big = htobe64(value);
    (void)buf_add(b, &big, sizeof big);
}

static void begin(struct args *args)
{
    if (args->n == ARGS_MAX)
        args->bytes.failed = REDRIVE_E_INTERNAL;
    else
        args->at[args->n] = args->bytes.len;
}

static void end(struct args *args)
{
    if (args->n == ARGS_MAX)
        return;
    args->len[args->n] = (int)(args->bytes.len - args->at[args->n]);
    args->n++;
}

void pg_args_null(struct args *args)
{
    begin(args);
    end(args);
    args->len[args->n - 1] = -1;
}

void pg_args_int8(struct args *args, int64_t value)
{
    begin(args);
    put_int8(&args->bytes, (uint64_t)value);
    end(args);
}

void pg_args_int4(struct args *args, int32_t value)
{
    begin(args);
    put_int4(&args->bytes, (uint32_t)value);
    end(args);
}

void pg_args_bool(struct args *args, bool value)
{
    begin(args);
    (void)buf_putc(&args->bytes, (char)value);
    end(args);
}

void pg_args_text(struct args *args, struct str s)
{
    if (!s.ptr) {
        pg_args_null(args);
        return;
    }
    begin(args);
    pg_text_encode(s, &args->bytes);
    end(args);
}

void pg_args_name(struct args *args, struct str s)
{
    pg_args_text(args, s.len ? s : STR(""));
}

void pg_args_option(struct args *args, struct str s)
{
    pg_args_text(args, s.len ? s : (struct str){NULL, 0});
}

void pg_args_bytes(struct args *args, struct str s)
{
    if (!s.ptr) {
        pg_args_null(args);
        return;
    }
    begin(args);
    (void)buf_add_str(&args->bytes, s);
    end(args);
}

void pg_args_array(struct args *args, enum arg_type type)
{
    begin(args);
    args->type = type;
    args->items = 0;
    (void)buf_reserve(&args->bytes, ARRAY_HEADER_BYTES);
    buf_commit(&args->bytes, ARRAY_HEADER_BYTES);
}

void pg_item_null(struct args *args)
{
    args->items++;
    put_int4(&args->bytes, UINT32_MAX);
}

void pg_item_int8(struct args *args, int64_t value)
{
    args->items++;
    put_int4(&args->bytes, sizeof value);
    put_int8(&args->bytes, (uint64_t)value);
}

void pg_item_int4(struct args *args, int32_t value)
{
    args->items++;
    put_int4(&args->bytes, sizeof value);
    put_int4(&args->bytes, (uint32_t)value);
}

void pg_item_int8_or_null(struct args *args, int64_t value)
{
    if (value != 0)
        pg_item_int8(args, value);
    else
        pg_item_null(args);
}

void pg_item_int4_or_null(struct args *args, int32_t value)
{
    if (value != 0)
        pg_item_int4(args, value);
    else
        pg_item_null(args);
}

void pg_item_bool(struct args *args, bool value)
{
    args->items++;
    put_int4(&args->bytes, 1);
    (void)buf_putc(&args->bytes, (char)value);
}

void pg_item_text(struct args *args, struct str s)
{
    if (!s.ptr) {
        pg_item_null(args);
        return;
    }
    args->items++;
    const size_t at = args->bytes.len;
    put_int4(&args->bytes, 0);
    pg_text_encode(s, &args->bytes);
    if (buf_failed(&args->bytes))
        return;
    const uint32_t len = htobe32((uint32_t)(args->bytes.len - at - sizeof len));
    memcpy(args->bytes.data + at, &len, sizeof len);
}

void pg_item_name(struct args *args, struct str s)
{
    pg_item_text(args, s.len ? s : STR(""));
}

void pg_item_option(struct args *args, struct str s)
{
    pg_item_text(args, s.len ? s : (struct str){NULL, 0});
}

void pg_args_array_end(struct args *args)
{
    end(args);
    if (buf_failed(&args->bytes))
        return;
    const uint32_t header[] = {htobe32(args->items > 0), htobe32(1), htobe32((uint32_t)args->type),
                               htobe32(args->items), htobe32(1)};
    const size_t at = args->at[args->n - 1];
    memcpy(args->bytes.data + at, header, sizeof header);
    /* An empty array has no dimension, and nothing is said of any. */
    if (args->items == 0) {
        const size_t without = 3 * sizeof header[0];
        buf_truncate(&args->bytes, at + without);
        args->len[args->n - 1] = (int)without;
    }
}
