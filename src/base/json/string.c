/* string.c - strings of the JSON reader: checking them in place, decoding them on demand. */
#include "base/json/private.h"

#include "base/text/encode.h"

/* ---- Checking -------------------------------------------------------------------------------- */

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
