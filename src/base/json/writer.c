/* writer.c - commas, strings and numbers of the JSON writer; copies with another layout. */
#include "base/json/writer.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json/private.h"
#include "base/text/encode.h"

void json_writer_init(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out};
}

/* ---- Commas and colons between values -------------------------------------------------------- */

static uint64_t level_bit(const struct json_writer *w)
{
    return UINT64_C(1) << (w->depth - 1);
}

static bool in_object(const struct json_writer *w)
{
    return w->depth > 0 && (w->in_object & level_bit(w));
}

static void separate(struct json_writer *w)
{
    if (w->depth == 0)
        return;
    if (w->has_items & level_bit(w))
        buf_putc(w->out, ',');
    w->has_items |= level_bit(w);
}

static void before_value(struct json_writer *w)
{
    assert(w->after_key == in_object(w));
    if (!in_object(w))
        separate(w);
    w->after_key = false;
}

static void begin(struct json_writer *w, bool object)
{
    before_value(w);
    assert(w->depth < 64);
    w->depth++;
    w->has_items &= ~level_bit(w);
    if (object)
        w->in_object |= level_bit(w);
    else
        w->in_object &= ~level_bit(w);
    buf_putc(w->out, object ? '{' : '[');
}

static void end(struct json_writer *w, bool object)
{
    assert(w->depth > 0 && in_object(w) == object && !w->after_key);
    w->depth--;
    buf_putc(w->out, object ? '}' : ']');
}

void json_begin_object(struct json_writer *w)
{
    begin(w, true);
}

void json_end_object(struct json_writer *w)
{
    end(w, true);
}

void json_begin_array(struct json_writer *w)
{
    begin(w, false);
}

void json_end_array(struct json_writer *w)
{
    end(w, false);
}

/* ---- Strings --------------------------------------------------------------------------------- */

static void write_escape(struct buf *out, char c)
{
    switch (c) {
    case '"': buf_puts(out, "\\\""); break;
    case '\\': buf_puts(out, "\\\\"); break;
    case '\b': buf_puts(out, "\\b"); break;
    case '\f': buf_puts(out, "\\f"); break;
    case '\n': buf_puts(out, "\\n"); break;
    case '\r': buf_puts(out, "\\r"); break;
    case '\t': buf_puts(out, "\\t"); break;
    default: buf_printf(out, "\\u%04x", (unsigned)c);
    }
}

/* The end of what can be copied as it is: plain bytes and whole characters. */
static const char *skip_valid(const char *p, const char *end)
{
    while ((p = json_skip_plain(p, end)) < end && (unsigned char)*p >= 0x80) {
        int len = utf8_next(p, end);
        if (len < 0)
            break;
        p += len;
    }
    return p;
}

static void write_string(struct buf *out, struct str s)
{
    const char *p = s.ptr ? s.ptr : "";
    const char *text_end = p + s.len;

    buf_putc(out, '"');
    while (p < text_end) {
        const char *run_end = skip_valid(p, text_end);
        buf_add(out, p, (size_t)(run_end - p));
        p = run_end;
        if (p == text_end)
            break;
        if ((unsigned char)*p < 0x80) {
            write_escape(out, *p++);
        } else {
            buf_puts(out, "\xEF\xBF\xBD");
            p -= utf8_next(p, text_end);
        }
    }
    buf_putc(out, '"');
}

void json_key_str(struct json_writer *w, struct str key)
{
    assert(in_object(w) && !w->after_key);
    separate(w);
    write_string(w->out, key);
    buf_putc(w->out, ':');
    w->after_key = true;
}

void json_key(struct json_writer *w, const char *key)
{
    json_key_str(w, str_of(key));
}

void json_put_string(struct json_writer *w, struct str s)
{
    before_value(w);
    write_string(w->out, s);
}

void json_put_cstr(struct json_writer *w, const char *s)
{
    if (s)
        json_put_string(w, str_of(s));
    else
        json_put_null(w);
}

/* ---- Other values ---------------------------------------------------------------------------- */

/* Without printf, which would be a good part of the work where an answer is full of counts. */
static void put_whole(struct json_writer *w, bool is_negative, uint64_t value)
{
    char text[21];
    size_t at = sizeof text;
    do
        text[--at] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    if (is_negative)
        text[--at] = '-';
    before_value(w);
    buf_add(w->out, text + at, sizeof text - at);
}

void json_put_int(struct json_writer *w, int64_t value)
{
    put_whole(w, value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void json_put_uint(struct json_writer *w, uint64_t value)
{
    put_whole(w, false, value);
}

/* The significant digits of a positive number, as few as read back the same, and the power of ten
 * of the first. The character between the first digit and the others depends on the locale. */
static size_t shortest_digits(double value, char digits[20], int *ret_exponent)
{
    char text[40];
    for (int precision = 14; precision <= 16; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, value);
        if (strtod(text, NULL) == value)
            break;
    }
    size_t n = 0;
    const char *p = text;
    for (; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    *ret_exponent = atoi(p + 1);
    return n;
}

/* 0.00012, 12.5, 12500, 1.25e-7, 1.25e30: no exponent where people would not expect one. */
static void write_double(struct buf *out, double value)
{
    char digits[20];
    int exponent;
    size_t n = shortest_digits(value, digits, &exponent);
    size_t whole = exponent < 0 ? 0 : (size_t)exponent + 1; /* digits before the point */

    if (exponent < -5 || exponent > 16) {
        buf_add(out, digits, 1);
        if (n > 1) {
            buf_putc(out, '.');
            buf_add(out, digits + 1, n - 1);
        }
        buf_printf(out, "e%d", exponent);
    } else if (whole == 0) {
        buf_add(out, "0.0000", (size_t)(1 - exponent));
        buf_add(out, digits, n);
    } else if (n <= whole) {
        buf_add(out, digits, n);
        buf_add(out, "0000000000000000", whole - n);
    } else {
        buf_add(out, digits, whole);
        buf_putc(out, '.');
        buf_add(out, digits + whole, n - whole);
    }
}

void json_put_double(struct json_writer *w, double value)
{
    if (!isfinite(value)) {
        json_put_null(w);
        return;
    }
    before_value(w);
    if (signbit(value))
        buf_putc(w->out, '-');
    if (value == 0)
        buf_putc(w->out, '0');
    else
        write_double(w->out, fabs(value));
}

void json_put_bool(struct json_writer *w, bool value)
{
    before_value(w);
    buf_puts(w->out, value ? "true" : "false");
}

void json_put_null(struct json_writer *w)
{
    before_value(w);
    buf_puts(w->out, "null");
}

void json_put_raw(struct json_writer *w, struct str value)
{
    before_value(w);
    buf_add_str(w->out, value);
}

/* ---- Fields ---------------------------------------------------------------------------------- */

void json_open_object(struct json_writer *w, const char *key)
{
    json_key(w, key);
    json_begin_object(w);
}

void json_open_array(struct json_writer *w, const char *key)
{
    json_key(w, key);
    json_begin_array(w);
}

void json_field_cstr(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, key);
    json_put_cstr(w, value);
}

void json_field_string(struct json_writer *w, const char *key, struct str value)
{
    json_key(w, key);
    json_put_string(w, value);
}

void json_field_string_or_null(struct json_writer *w, const char *key, struct str value)
{
    json_key(w, key);
    if (value.len == 0)
        json_put_null(w);
    else
        json_put_string(w, value);
}

void json_field_int(struct json_writer *w, const char *key, int64_t value)
{
    json_key(w, key);
    json_put_int(w, value);
}

void json_field_double(struct json_writer *w, const char *key, double value)
{
    json_key(w, key);
    json_put_double(w, value);
}

void json_field_bool(struct json_writer *w, const char *key, bool value)
{
    json_key(w, key);
    json_put_bool(w, value);
}

/* ---- Layout ------------------------------------------------------------------------------------
 *
 * Copies JSON token by token, with or without the white space between.
 */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_mark(char c)
{
    return c == '{' || c == '}' || c == '[' || c == ']' || c == ':' || c == ',';
}

/* The next token at `at`, spaces passed over: a string with its quotes, one mark, or a run of other
 * bytes (a number, true, false, null). Empty at the end. */
static struct str next_token(struct str text, size_t *at)
{
    size_t i = *at;
    while (i < text.len && is_space(text.ptr[i]))
        i++;
    size_t start = i;
    if (i < text.len && text.ptr[i] == '"') {
        for (i++; i < text.len && text.ptr[i] != '"'; i++)
            i += text.ptr[i] == '\\';
        i++;
    } else if (i < text.len && is_mark(text.ptr[i])) {
        i++;
    } else {
        while (i < text.len && !is_space(text.ptr[i]) && !is_mark(text.ptr[i]))
            i++;
    }
    *at = i < text.len ? i : text.len;
    return (struct str){text.ptr + start, *at - start};
}

void json_compact(struct str text, struct buf *out)
{
    size_t at = 0;
    for (struct str t = next_token(text, &at); t.len > 0; t = next_token(text, &at))
        buf_add_str(out, t);
}

static void new_line(struct buf *out, size_t spaces)
{
    buf_putc(out, '\n');
    for (size_t i = 0; i < spaces; i++)
        buf_putc(out, ' ');
}

void json_indent(struct str text, size_t indent, struct buf *out)
{
    size_t at = 0, depth = 0;
    char before = 0;
    for (struct str t = next_token(text, &at); t.len > 0; t = next_token(text, &at)) {
        char mark = t.ptr[0];
        bool closes = mark == '}' || mark == ']';
        bool after_open = before == '{' || before == '[';
        depth -= closes;
        /* There is nothing between the brackets of an empty container. */
        if (before == ',' || closes != after_open)
            new_line(out, indent + 2 * depth);
        buf_add_str(out, t);
        if (mark == ':')
            buf_putc(out, ' ');
        depth += mark == '{' || mark == '[';
        before = mark;
    }
}
