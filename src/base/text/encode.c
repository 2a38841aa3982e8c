/* encode.c - base64 with the standard alphabet; text as a part of a URL; UTF-8 sequences. */
#include "base/text/encode.h"

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *bytes, size_t len, char *out)
{
    const uint8_t *in = bytes;
    char *at = out;
    for (size_t i = 0; i < len; i += 3) {
        const size_t left = len - i;
        const uint32_t word = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
                              (left > 2 ? in[i + 2] : 0u);
        *at++ = ALPHABET[word >> 18];
        *at++ = ALPHABET[word >> 12 & 63];
        *at++ = (char)(left > 1 ? ALPHABET[word >> 6 & 63] : '=');
        *at++ = (char)(left > 2 ? ALPHABET[word & 63] : '=');
    }
    *at = '\0';
    return out;
}

static int value_of(char c)
{
    const char *at = c ? strchr(ALPHABET, c) : NULL;
    return at ? (int)(at - ALPHABET) : -1;
}

ptrdiff_t base64_decode(struct str text, uint8_t *out, size_t size)
{
    size_t n = 0, len = text.len;
    uint32_t word = 0;
    unsigned bits = 0;
    if (len % 4 == 0)
        for (int i = 0; i < 2 && len > 0 && text.ptr[len - 1] == '='; i++)
            len--;
    if (len % 4 == 1)
        return -1;
    for (size_t i = 0; i < len; i++) {
        const int value = value_of(text.ptr[i]);
        if (value < 0)
            return -1;
        word = word << 6 | (uint32_t)value;
        bits += 6;
        if (bits < 8)
            continue;
        bits -= 8;
        if (n == size)
            return -1;
        out[n++] = (uint8_t)(word >> bits);
    }
    /* Bits that no byte takes must be zero, or two texts would be the same bytes. */
    return (word & ((1u << bits) - 1)) == 0 ? (ptrdiff_t)n : -1;
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~", c));
}

void percent_encode(struct str text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.ptr[i];
        if (is_plain(c))
            buf_putc(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* Only the second byte has limits that depend on the first; they are what shuts out overlong
 * forms, surrogates and numbers past U+10FFFF. */
int utf8_next(const char *p, const char *end)
{
    unsigned char first = (unsigned char)p[0];
    unsigned char low = 0x80, high = 0xBF;
    int len;

    if (first < 0x80) {
        return 1;
    } else if (first < 0xC2) {
        return -1;
    } else if (first < 0xE0) {
        len = 2;
    } else if (first < 0xF0) {
        len = 3;
        low = first == 0xE0 ? 0xA0 : low;
        high = first == 0xED ? 0x9F : high;
    } else if (first < 0xF5) {
        len = 4;
        low = first == 0xF0 ? 0x90 : low;
        high = first == 0xF4 ? 0x8F : high;
    } else {
        return -1;
    }

    for (int i = 1; i < len; i++) {
        if (p + i == end || (unsigned char)p[i] < low || (unsigned char)p[i] > high)
            return -i;
        low = 0x80;
        high = 0xBF;
    }
    return len;
}

/* Eight bytes at a time while they are ASCII. */
static const char *skip_ascii(const char *p, const char *end)
{
    uint64_t word;
    while (end - p >= (ptrdiff_t)sizeof word) {
        memcpy(&word, p, sizeof word);
        if (word & UINT64_C(0x8080808080808080))
            break;
        p += sizeof word;
    }
    return p;
}

bool utf8_valid(struct str s)
{
    if (s.len == 0)
        return true;
    const char *p = s.ptr;
    const char *end = p + s.len;

    while ((p = skip_ascii(p, end)) < end) {
        /* One character, and with it the ASCII up to the next word. */
        int len = utf8_next(p, end);
        if (len < 0)
            return false;
        p += len;
    }
    return true;
}

size_t utf8_encode(uint32_t code_point, char out[4])
{
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        out[0] = (char)(0xC0 | code_point >> 6);
        out[1] = (char)(0x80 | (code_point & 0x3F));
        return 2;
    }
    if (code_point < 0x10000) {
        out[0] = (char)(0xE0 | code_point >> 12);
        out[1] = (char)(0x80 | (code_point >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code_point & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code_point >> 18);
    out[1] = (char)(0x80 | (code_point >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code_point >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code_point & 0x3F));
    return 4;
}

void utf8_make_printable(char *text)
{
    const char *end = text + strlen(text);
    for (char *p = text; p < end;) {
        int len = utf8_next(p, end);
        bool control = (len == 1 && ((unsigned char)*p < 0x20 || *p == 0x7F)) ||
                       (len == 2 && (unsigned char)p[0] == 0xC2 && (unsigned char)p[1] < 0xA0);
        size_t step = (size_t)(len < 0 ? -len : len);
        if (*p == '\n' || *p == '\t' || *p == '\r')
            *p = ' ';
        else if (len < 0 || control)
            memset(p, '?', step);
        p += step;
    }
}
