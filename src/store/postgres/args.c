/* args.c - the parameters of a statement, and any bytes as text. */
#include "store/postgres/args.h"

#include <endian.h>

#include "base/text/encode.h"
#include "redrive.h"

#define ARGS_BYTES_MAX  ((size_t)1 << 30)
#define ARGS_BYTES_KEPT ((size_t)1 << 20)

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
    buf_reset_kept(&args->bytes, ARGS_BYTES_KEPT);
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

static void begin_array(struct args *args, uint32_t type)
{
    begin(args);
    args->type = type;
    args->items = 0;
    (void)buf_reserve(&args->bytes, ARRAY_HEADER_BYTES);
    buf_commit(&args->bytes, ARRAY_HEADER_BYTES);
}

/* Puts a number where room was left for it. */
static void patch_int4(struct buf *b, size_t at, uint32_t value)
{
    const uint32_t big = htobe32(value);
    if (!buf_failed(b))
        memcpy(b->data + at, &big, sizeof big);
}

static void put_text(struct buf *b, struct str s)
{
    const size_t at = b->len;
    if (!s.ptr) {
        put_int4(b, UINT32_MAX);
        return;
    }
    put_int4(b, 0);
    pg_text_encode(s, b);
    patch_int4(b, at, (uint32_t)(b->len - at - sizeof(uint32_t)));
}

static struct str empty_if_absent(struct str s)
{
    return s.len ? s : STR("");
}

static struct str absent_if_empty(struct str s)
{
    return s.len ? s : (struct str){NULL, 0};
}

/* ---- Arrays of values ------------------------------------------------------------------------ */

void pg_args_array(struct args *args, enum arg_type type)
{
    begin_array(args, (uint32_t)type);
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

void pg_item_bool(struct args *args, bool value)
{
    args->items++;
    put_int4(&args->bytes, 1);
    (void)buf_putc(&args->bytes, (char)value);
}

void pg_item_text(struct args *args, struct str s)
{
    args->items++;
    put_text(&args->bytes, s);
}

void pg_item_name(struct args *args, struct str s)
{
    pg_item_text(args, empty_if_absent(s));
}

void pg_args_array_end(struct args *args)
{
    end(args);
    if (buf_failed(&args->bytes))
        return;
    const uint32_t header[] = {htobe32(args->items > 0), htobe32(1), htobe32(args->type),
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

/* ---- Arrays of rows -------------------------------------------------------------------------- */

void pg_args_rows(struct args *args, uint32_t type)
{
    begin_array(args, type);
}

/* A row has its length, the number of its fields, and of each field type, length and value. */
void pg_row_begin(struct args *args)
{
    args->items++;
    args->row_at = args->bytes.len;
    args->fields = 0;
    put_int8(&args->bytes, 0);
}

void pg_row_end(struct args *args)
{
    struct buf *b = &args->bytes;
    patch_int4(b, args->row_at, (uint32_t)(b->len - args->row_at - sizeof(uint32_t)));
    patch_int4(b, args->row_at + sizeof(uint32_t), args->fields);
}

static void field(struct args *args, enum arg_type type, uint32_t len)
{
    args->fields++;
    put_int4(&args->bytes, (uint32_t)type);
    put_int4(&args->bytes, len);
}

void pg_field_int8(struct args *args, int64_t value)
{
    field(args, ARG_INT8, sizeof value);
    put_int8(&args->bytes, (uint64_t)value);
}

void pg_field_int4(struct args *args, int32_t value)
{
    field(args, ARG_INT4, sizeof value);
    put_int4(&args->bytes, (uint32_t)value);
}

void pg_field_int2(struct args *args, int16_t value)
{
    const uint16_t big = htobe16((uint16_t)value);
    field(args, ARG_INT2, sizeof value);
    (void)buf_add(&args->bytes, &big, sizeof big);
}

void pg_field_int8_or_null(struct args *args, int64_t value)
{
    if (value != 0)
        pg_field_int8(args, value);
    else
        field(args, ARG_INT8, UINT32_MAX);
}

void pg_field_int4_or_null(struct args *args, int32_t value)
{
    if (value != 0)
        pg_field_int4(args, value);
    else
        field(args, ARG_INT4, UINT32_MAX);
}

void pg_field_int2_or_null(struct args *args, int16_t value)
{
    if (value != 0)
        pg_field_int2(args, value);
    else
        field(args, ARG_INT2, UINT32_MAX);
}

void pg_field_bool(struct args *args, bool value)
{
    field(args, ARG_BOOL, 1);
    (void)buf_putc(&args->bytes, (char)value);
}

void pg_field_text(struct args *args, struct str s)
{
    args->fields++;
    put_int4(&args->bytes, ARG_TEXT);
    put_text(&args->bytes, s);
}

void pg_field_name(struct args *args, struct str s)
{
    pg_field_text(args, empty_if_absent(s));
}

void pg_field_option(struct args *args, struct str s)
{
    pg_field_text(args, absent_if_empty(s));
}

/* ---- Text ------------------------------------------------------------------------------------ */

static bool is_escaped(const char *p, const char *end)
{
    return end - p >= PG_ESCAPED_BYTES && (unsigned char)p[0] == 0xf4 &&
           (unsigned char)p[1] == 0x8f && (unsigned char)p[2] >= 0xbc;
}

/* How many bytes from `p` on stay as they are. */
static size_t run_of_text(const char *p, const char *end)
{
    const char *start = p;
    while (p < end) {
        if ((unsigned char)*p < 0x80) {
            if (*p == '\0')
                break;
            p++;
            continue;
        }
        int len = utf8_next(p, end);
        if (len < 0 || is_escaped(p, end))
            break;
        p += len;
    }
    return (size_t)(p - start);
}

void pg_text_encode(struct str s, struct buf *out)
{
    const char *p = s.ptr, *end = s.ptr + s.len;
    while (p < end) {
        size_t run = run_of_text(p, end);
        (void)buf_add(out, p, run);
        p += run;
        if (p < end) {
            char escaped[PG_ESCAPED_BYTES];
            (void)utf8_encode(0x10ff00u + (unsigned char)*p, escaped);
            (void)buf_add(out, escaped, sizeof escaped);
            p++;
        }
    }
}

struct str pg_text_decode(struct str s, struct arena *arena)
{
    char *copy = arena_dup(arena, s);
    if (!copy)
        return (struct str){NULL, 0};
    char *out = memchr(copy, 0xf4, s.len);
    if (!out)
        return (struct str){copy, s.len};
    const char *end = copy + s.len;
    for (const char *p = out; p < end;) {
        if (is_escaped(p, end)) {
            *out++ = (char)(((unsigned char)p[2] & 3) << 6 | ((unsigned char)p[3] & 0x3f));
            p += PG_ESCAPED_BYTES;
        } else {
            *out++ = *p++;
        }
    }
    *out = '\0';
    return (struct str){copy, (size_t)(out - copy)};
}
