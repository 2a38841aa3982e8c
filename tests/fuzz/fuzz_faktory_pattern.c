/* A pattern up to the first line break, a text behind it: the pattern of MUTATE agrees with a plain
 * matcher that tries every way, and one that is too long is refused. */
#include "fuzz.h"

#include <string.h>

#include "server/faktory/format/request.h"

#define TEXT_MAX 1024

/* ---- The plain matcher ----------------------------------------------------------------------- */

/* What has been tried in vain, by place in the pattern and in the text: each pair is tried once. */
static bool is_hopeless[FAKTORY_PATTERN_MAX + 1][TEXT_MAX + 1];

/* A byte of a class, perhaps behind a backslash; gives what follows it. */
static const char *class_byte(const char *p, const char *end, unsigned char *ret)
{
    if (*p == '\\' && p + 1 < end)
        p++;
    *ret = (unsigned char)*p;
    return p + 1;
}

/* Whether the class whose first sign is at `p` has the byte; gives what follows its bracket. A `-`
 * before the bracket is one of the bytes, and a class without an end goes on to that of the
 * pattern. */
static const char *read_class(const char *p, const char *end, unsigned char byte, bool *ret)
{
    bool is_negated = p < end && *p == '^', is_in = false;
    if (is_negated)
        p++;
    while (p < end && *p != ']') {
        unsigned char low, high;
        p = class_byte(p, end, &low);
        high = low;
        if (end - p >= 2 && p[0] == '-' && p[1] != ']')
            p = class_byte(p + 1, end, &high);
        is_in |= low <= high ? byte >= low && byte <= high : byte >= high && byte <= low;
    }
    *ret = is_in != is_negated;
    return p < end ? p + 1 : end;
}

/* Whether one sign of the pattern, other than `*`, stands for the byte; gives what follows it. */
static const char *read_sign(const char *p, const char *end, unsigned char byte, bool *ret)
{
    unsigned char wanted;
    if (*p == '[')
        return read_class(p + 1, end, byte, ret);
    if (*p == '?') {
        *ret = true;
        return p + 1;
    }
    p = class_byte(p, end, &wanted);
    *ret = wanted == byte;
    return p;
}

static bool fits_from(struct str pattern, size_t i, struct str text, size_t j)
{
    const char *end = pattern.ptr + pattern.len;
    bool fits = false, stands_for = false;
    if (i == pattern.len)
        return j == text.len;
    if (is_hopeless[i][j])
        return false;
    if (pattern.ptr[i] == '*') {
        fits = fits_from(pattern, i + 1, text, j) ||
               (j < text.len && fits_from(pattern, i, text, j + 1));
    } else if (j < text.len) {
        const char *next = read_sign(pattern.ptr + i, end, (unsigned char)text.ptr[j], &stands_for);
        fits = stands_for && fits_from(pattern, (size_t)(next - pattern.ptr), text, j + 1);
    }
    is_hopeless[i][j] = !fits;
    return fits;
}

/* ---- Both ------------------------------------------------------------------------------------ */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct faktory_pattern compiled;
    const char *bytes = (const char *)data;
    const char *line_break = size ? memchr(bytes, '\n', size) : NULL;
    const struct str pattern = {bytes, line_break ? (size_t)(line_break - bytes) : size};
    struct str text = {bytes + pattern.len, size - pattern.len};
    if (line_break) {
        text.ptr++;
        text.len--;
    }
    if (text.len > TEXT_MAX)
        return 0;
    const bool is_taken = faktory_pattern_init(&compiled, pattern);
    FUZZ_CHECK(is_taken == (pattern.len <= FAKTORY_PATTERN_MAX));
    if (!is_taken)
        return 0;
    for (size_t i = 0; i <= pattern.len; i++)
        memset(is_hopeless[i], 0, text.len + 1);
    FUZZ_CHECK(faktory_pattern_fits(&compiled, text) == fits_from(pattern, 0, text, 0));
    return 0;
}
