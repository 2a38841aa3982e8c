/* suggest.c - edit distance, and the nearest of a list of words. */
#include "base/text/suggest.h"

#define WORD_MAX 64

static int fold(char c)
{
    if (c == '_')
        return '-';
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;
    return least < c ? least : c;
}

/* Optimal string alignment distance, three rows at a time. */
static unsigned distance(struct str a, struct str b)
{
    unsigned rows[3][WORD_MAX + 1];
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b.len; j++)
        last[j] = (unsigned)j;
    for (size_t i = 1; i <= a.len; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b.len; j++) {
            unsigned differs = fold(a.ptr[i - 1]) != fold(b.ptr[j - 1]);
            row[j] = min3(last[j] + 1, row[j - 1] + 1, last[j - 1] + differs);
            if (i > 1 && j > 1 && fold(a.ptr[i - 1]) == fold(b.ptr[j - 2]) &&
                fold(a.ptr[i - 2]) == fold(b.ptr[j - 1]) && before[j - 2] + 1 < row[j])
                row[j] = before[j - 2] + 1;
        }
        unsigned *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[b.len];
}

const char *suggest(struct str given, const char *const *words, size_t n_words)
{
    const char *best = NULL;
    unsigned best_distance = 0;

    if (given.len == 0 || given.len > WORD_MAX)
        return NULL;
    for (size_t i = 0; i < n_words; i++) {
        struct str word = str_of(words[i]);
        if (word.len > WORD_MAX)
            continue;
        unsigned d = distance(given, word);
        /* A third of the letters may differ; more is another word. */
        size_t longest = word.len > given.len ? word.len : given.len;
        if (d > (longest < 6 ? 1 : longest / 3))
            continue;
        if (!best || d < best_distance) {
            best = words[i];
            best_distance = d;
        }
    }
    return best;
}
