/* tail.c - a ring buffer of the last bytes. */
#include "run/exec/tail.h"

#include <stdlib.h>
#include <string.h>

void tail_release(struct tail *tail)
{
    free(tail->ring);
    *tail = (struct tail){0};
}

void tail_add(struct tail *tail, const char *bytes, size_t len)
{
    if (!tail->ring)
        tail->ring = malloc(TAIL_MAX_BYTES);
    size_t skip = len > TAIL_MAX_BYTES ? len - TAIL_MAX_BYTES : 0;
    tail->seen += skip;
    bytes += skip;
    len -= skip;
    while (tail->ring && len > 0) {
        size_t at = tail->seen % TAIL_MAX_BYTES;
        size_t n = TAIL_MAX_BYTES - at < len ? TAIL_MAX_BYTES - at : len;
        memcpy(tail->ring + at, bytes, n);
        tail->seen += n;
        bytes += n;
        len -= n;
    }
    tail->seen += len;
}

#define LINE_MAX_BYTES 1024

char *tail_text(const struct tail *tail)
{
    size_t len = tail->seen < TAIL_MAX_BYTES ? (size_t)tail->seen : TAIL_MAX_BYTES;
    char *text = tail->ring && len > 0 ? malloc(len + 1) : NULL;
    if (!text)
        return NULL;
    size_t first = (size_t)((tail->seen - len) % TAIL_MAX_BYTES);
    size_t until_end = TAIL_MAX_BYTES - first < len ? TAIL_MAX_BYTES - first : len;
    memcpy(text, tail->ring + first, until_end);
    memcpy(text + until_end, tail->ring, len - until_end);
    text[len] = '\0';
    for (char *nul = memchr(text, '\0', len); nul;
         nul = memchr(nul, '\0', len - (size_t)(nul - text)))
        *nul = ' ';
    char *line_end = tail->seen > len ? memchr(text, '\n', LINE_MAX_BYTES) : NULL;
    if (line_end)
        memmove(text, line_end + 1, len - (size_t)(line_end - text));
    return text;
}
