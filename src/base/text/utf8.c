/* utf8.c - checks, counts and writes UTF-8 sequences. */
#include "base/text/utf8.h"

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
