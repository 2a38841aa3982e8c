/* scan.c - checks the strings and numbers of the JSON reader, converts them, and keeps its first
 * error.
 */
#include "base/json/private.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem/arena.h"
#include "base/text/encode.h"

/* ---- The type of a value --------------------------------------------------------------------- */

int json_peek(struct json_reader *r)
{
    if (json_start_value(r) < 0)
        return r->error;
    switch (*r->p) {
    case 'n': return JSON_TYPE_NULL;
    case 'f': return JSON_TYPE_FALSE;
    case 't': return JSON_TYPE_TRUE;
    case '"': return JSON_TYPE_STRING;
    case '[': return JSON_TYPE_ARRAY;
    case '{': return JSON_TYPE_OBJECT;
    default:
        if (json_is_number_start(*r->p))
            return JSON_TYPE_NUMBER;
        return json_unexpected(r, r->p, "a value");
    }
}

const char *json_type_name(enum json_type type)
{
    static const char *const NAMES[] = {
        [JSON_TYPE_NULL] = "null",     [JSON_TYPE_FALSE] = "false",   [JSON_TYPE_TRUE] = "true",
        [JSON_TYPE_NUMBER] = "number", [JSON_TYPE_STRING] = "string", [JSON_TYPE_ARRAY] = "array",
        [JSON_TYPE_OBJECT] = "object",
    };
    return NAMES[type];
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static int fail(struct json_reader *r, const char *at, int code, const char *format, va_list args)
{
    if (r->error)
        return r->error;
    r->error = code;
    r->error_at = at;
    vsnprintf(r->error_text, sizeof r->error_text, format, args);
    utf8_make_printable(r->error_text);
    return code;
}

int json_fail_at(struct json_reader *r, const char *at, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    code = fail(r, at, code, format, args);
    va_end(args);
    return code;
}

int json_fail(struct json_reader *r, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    code = fail(r, r->token_at, code, format, args);
    va_end(args);
    return code;
}

int json_unexpected(struct json_reader *r, const char *at, const char *expected)
{
    char found[24];
    int len = at < r->end ? utf8_next(at, r->end) : 0;

    if (len == 0)
        snprintf(found, sizeof found, "the end of the text");
    else if (at == r->text && r->end - at >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0)
        snprintf(found, sizeof found, "a byte order mark");
    else if (len < 0 || (unsigned char)*at < 0x20 || *at == 0x7F)
        snprintf(found, sizeof found, "byte 0x%02X", (unsigned)(unsigned char)*at);
    else
        snprintf(found, sizeof found, *at == '\'' ? "\"%.*s\"" : "'%.*s'", len, at);
    return json_fail_at(r, at, REDRIVE_E_PARSE, "expected %s, found %s", expected, found);
}

int json_wrong_type(struct json_reader *r, const char *expected)
{
    int type = json_peek(r);
    if (type < 0)
        return r->error;
    const char *article = type == JSON_TYPE_ARRAY || type == JSON_TYPE_OBJECT    ? "an "
                          : type == JSON_TYPE_NUMBER || type == JSON_TYPE_STRING ? "a "
                                                                                 : "";
    return json_fail_at(r, r->p, REDRIVE_E_INVALID, "expected %s, found %s%s", expected, article,
                        json_type_name((enum json_type)type));
}

int json_error(const struct json_reader *r, struct redrive_err *err)
{
    if (!r->error)
        return 0;
    if (!r->error_at)
        return err_set(err, r->error, "%s", r->error_text);

    size_t line = 1;
    const char *line_start = r->text;
    for (const char *p = r->text; p < r->error_at; p++) {
        if (*p == '\n') {
            line++;
            line_start = p + 1;
        }
    }
    return err_set(err, r->error, "line %zu, column %zu: %s", line,
                   (size_t)(r->error_at - line_start) + 1, r->error_text);
}

/* ---- Strings --------------------------------------------------------------------------------- */

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static unsigned hex_value(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
}

/* Four digits that have been checked. */
static uint32_t read_hex4(const char *p)
{
    return hex_value(p[0]) << 12 | hex_value(p[1]) << 8 | hex_value(p[2]) << 4 | hex_value(p[3]);
}

static bool is_high_surrogate(uint32_t code)
{
    return code >= 0xD800 && code <= 0xDBFF;
}

static bool is_low_surrogate(uint32_t code)
{
    return code >= 0xDC00 && code <= 0xDFFF;
}

/* The digits after `\u`; returns their end, or NULL and the error. */
static const char *scan_hex4(struct json_reader *r, const char *p, uint32_t *ret)
{
    for (int i = 0; i < 4; i++) {
        if (p + i == r->end || !is_hex(p[i])) {
            json_unexpected(r, p + i, "four hex digits after \\u");
            return NULL;
        }
    }
    *ret = read_hex4(p);
    return p + 4;
}

/* `\uXXXX`, twice for a character outside the basic plane. */
__attribute__((noinline)) static const char *scan_unicode_escape(struct json_reader *r,
                                                                 const char *backslash)
{
    uint32_t code, low;
    const char *p = scan_hex4(r, backslash + 2, &code);
    if (!p)
        return NULL;
    if (is_low_surrogate(code)) {
        json_fail_at(r, backslash, REDRIVE_E_PARSE,
                     "expected a high surrogate escape first, found \\u%04X alone", code);
        return NULL;
    }
    if (!is_high_surrogate(code))
        return p;

    const char *second = p;
    if (r->end - p >= 2 && p[0] == '\\' && p[1] == 'u') {
        p = scan_hex4(r, p + 2, &low);
        if (!p)
            return NULL;
        if (is_low_surrogate(low))
            return p;
    }
    json_unexpected(r, second, "a low surrogate escape (\\uDC00 to \\uDFFF)");
    return NULL;
}

static const char *scan_escape(struct json_reader *r, const char *backslash)
{
    const char *p = backslash + 1;
    switch (p < r->end ? *p : '\0') {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't': return p + 1;
    case 'u': return scan_unicode_escape(r, backslash);
    default: json_unexpected(r, p, "one of \" \\ / b f n r t u after a backslash"); return NULL;
    }
}

const char *json_scan_string(struct json_reader *r, const char *p, bool *ret_escaped)
{
    bool escaped = false;

    while ((p = json_skip_plain(p, r->end)) < r->end && *p != '"') {
        if (*p == '\\') {
            escaped = true;
            p = scan_escape(r, p);
            if (!p)
                return NULL;
            continue;
        }
        int len = (unsigned char)*p < 0x80 ? 0 : utf8_next(p, r->end);
        if (len <= 0) {
            json_unexpected(r, p, len < 0 ? "UTF-8" : "'\"' to close the string");
            return NULL;
        }
        p += len;
    }
    if (p == r->end) {
        json_unexpected(r, p, "'\"' to close the string");
        return NULL;
    }
    *ret_escaped = escaped;
    return p;
}

/* ---- Decoding -------------------------------------------------------------------------------- */

size_t json_decode_next(const char **p, char out[4])
{
    const char *s = *p;
    if (*s != '\\') {
        out[0] = *s;
        *p = s + 1;
        return 1;
    }
    if (s[1] == 'u') {
        uint32_t code = read_hex4(s + 2);
        *p = s + 6;
        if (is_high_surrogate(code)) {
            code = 0x10000 + ((code - 0xD800) << 10) + (read_hex4(s + 8) - 0xDC00);
            *p = s + 12;
        }
        return utf8_encode(code, out);
    }
    switch (s[1]) {
    case 'b': out[0] = '\b'; break;
    case 'f': out[0] = '\f'; break;
    case 'n': out[0] = '\n'; break;
    case 'r': out[0] = '\r'; break;
    case 't': out[0] = '\t'; break;
    default: out[0] = s[1];
    }
    *p = s + 2;
    return 1;
}

int json_unescape(struct json_string s, struct buf *out)
{
    if (!s.escaped)
        return buf_add_str(out, s.raw);

    const char *p = s.raw.ptr;
    const char *end = p + s.raw.len;
    const char *backslash;
    while ((backslash = memchr(p, '\\', (size_t)(end - p)))) {
        char decoded[4];
        buf_add(out, p, (size_t)(backslash - p));
        p = backslash;
        size_t len = json_decode_next(&p, decoded);
        buf_add(out, decoded, len);
    }
    return buf_add(out, p, (size_t)(end - p));
}

int json_read_text(struct json_reader *r, struct arena *arena, struct str *ret)
{
    struct json_string s = {0};
    struct buf text;
    int rc = json_read_string(r, &s);
    *ret = s.raw;
    if (rc < 0 || !s.escaped)
        return rc;
    /* The decoded text is not longer than the raw one. */
    char *room = arena_alloc(arena, s.raw.len + 1);
    if (!room)
        return json_fail(r, REDRIVE_E_NOMEM, "out of memory");
    buf_init_fixed(&text, room, s.raw.len + 1);
    (void)json_unescape(s, &text);
    *ret = buf_str(&text);
    return 0;
}

bool json_escaped_is(struct json_string s, const char *text)
{
    size_t left = strlen(text);
    const char *p = s.raw.ptr;
    const char *end = p + s.raw.len;
    while (p < end) {
        char decoded[4];
        size_t len = json_decode_next(&p, decoded);
        if (len > left || memcmp(text, decoded, len) != 0)
            return false;
        text += len;
        left -= len;
    }
    return left == 0;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && str_is_digit(*p))
        p++;
    return p;
}

/* One digit or more. */
static const char *scan_digits(struct json_reader *r, const char *p)
{
    const char *end = skip_digits(p, r->end);
    if (end == p) {
        json_unexpected(r, p, "a digit");
        return NULL;
    }
    return end;
}

const char *json_scan_number(struct json_reader *r, const char *p)
{
    if (*p == '-')
        p++;
    if (p < r->end && *p == '0') {
        p++;
        if (p < r->end && str_is_digit(*p)) {
            json_unexpected(r, p, "no digit after a leading zero");
            return NULL;
        }
    } else if (!(p = scan_digits(r, p))) {
        return NULL;
    }
    if (p < r->end && *p == '.' && !(p = scan_digits(r, p + 1)))
        return NULL;
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < r->end && (*p == '+' || *p == '-'))
            p++;
        p = scan_digits(r, p);
    }
    return p;
}

/* Steps to a number and checks it; it goes from r->p to the end that is returned. */
static const char *start_number(struct json_reader *r, const char *expected)
{
    if (json_start_value(r) < 0)
        return NULL;
    if (json_is_number_start(*r->p))
        return json_scan_number(r, r->p);
    json_wrong_type(r, expected);
    return NULL;
}

static int refuse(struct json_reader *r, const char *end, int code, const char *expected)
{
    int len = end - r->p < 40 ? (int)(end - r->p) : 40;
    return json_fail_at(r, r->p, code, "expected %s, found %.*s%s", expected, len, r->p,
                        end - r->p > 40 ? "..." : "");
}

int json_read_int(struct json_reader *r, int64_t *ret)
{
    const char *end = start_number(r, "a whole number");
    if (!end)
        return r->error;

    const bool negative = *r->p == '-';
    const char *digits = r->p + negative;
    const uint64_t limit = (uint64_t)INT64_MAX + negative;
    uint64_t magnitude = 0;

    if (skip_digits(digits, end) != end)
        return refuse(r, end, REDRIVE_E_INVALID, "a whole number");
    /* 19 digits cannot overflow 64 bits; more cannot be in range, as there are no leading zeros. */
    for (const char *p = digits; p < end && p < digits + 19; p++)
        magnitude = magnitude * 10 + (uint64_t)(*p - '0');
    if (end - digits > 19 || magnitude > limit)
        return refuse(r, end, REDRIVE_E_RANGE, "a whole number of 64 bits");

    *ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    json_finish_value(r, end);
    return 0;
}

/* ---- Doubles --------------------------------------------------------------------------------- */

/* The value halfway between two doubles has at most 767 significant digits; what follows them
 * matters only in whether it is zero. */
#define MAX_DIGITS 768

/* Saturates far beyond what the digits of any text can make up for. */
static int64_t read_exponent(const char *p, const char *end)
{
    const int64_t most = INT64_C(1000000000000);
    const bool negative = *p == '-';
    int64_t exponent = 0;

    if (*p == '-' || *p == '+')
        p++;
    for (; p < end && exponent < most; p++)
        exponent = exponent * 10 + (*p - '0');
    return negative ? -exponent : exponent;
}

/* Up to 15 digits and powers of ten up to 22 are exact in a double, so that a single operation
 * rounds correctly. */
static bool convert_exactly(const char *digits, size_t n, int64_t exponent, double *ret)
{
    static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t value = 0;

    if (n > 15 || exponent < -22 || exponent > 22)
        return false;
    for (size_t i = 0; i < n; i++)
        value = value * 10 + (uint64_t)(digits[i] - '0');
    *ret = exponent < 0 ? (double)value / POWERS[-exponent] : (double)value * POWERS[exponent];
    return true;
}

/* The number without its sign is written anew as `digits`e`exponent`: bounded, and without a
 * decimal point, which strtod would take from the locale. */
static double convert(const char *p, const char *end)
{
    char text[MAX_DIGITS + 32];
    size_t n = 0;
    int64_t exponent = 0;
    bool fraction = false, rest = false;
    double value;

    for (; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        exponent -= fraction;
        if (n == 0 && *p == '0')
            continue;
        if (n < MAX_DIGITS) {
            text[n++] = *p;
        } else {
            exponent++;
            rest |= *p != '0';
        }
    }
    if (rest) {
        text[n++] = '1';
        exponent--;
    }
    if (p < end)
        exponent += read_exponent(p + 1, end);

    if (n == 0)
        return 0;
    if (convert_exactly(text, n, exponent, &value))
        return value;
    snprintf(text + n, sizeof text - n, "e%" PRId64, exponent);
    return strtod(text, NULL);
}

int json_read_double(struct json_reader *r, double *ret)
{
    const char *end = start_number(r, "a number");
    if (!end)
        return r->error;
    const bool negative = *r->p == '-';
    double value = convert(r->p + negative, end);
    if (isinf(value))
        return refuse(r, end, REDRIVE_E_RANGE, "a number within the range of a double");
    *ret = negative ? -value : value;
    json_finish_value(r, end);
    return 0;
}
