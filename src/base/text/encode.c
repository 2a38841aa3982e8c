/* encode.c - base64 with the standard alphabet; text as a part of a URL. */
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
