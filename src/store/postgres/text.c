#include "store/postgres/text.h"

#include "base/text/utf8.h"

#define ESCAPED_BYTES 4

static bool is_escaped(const char *p, const char *end)
{
    return end - p >= ESCAPED_BYTES && (unsigned char)p[0] == 0xf4 && (unsigned char)p[1] == 0x8f &&
           (unsigned char)p[2] >= 0xbc;
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
            char escaped[ESCAPED_BYTES];
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
            p += ESCAPED_BYTES;
        } else {
            *out++ = *p++;
        }
    }
    *out = '\0';
    return (struct str){copy, (size_t)(out - copy)};
}
