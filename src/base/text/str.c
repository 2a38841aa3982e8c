/* str.c - compares, copies and matches slices; the nearest of a list of words. */
#include "base/text/str.h"

#include <stdlib.h>

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

bool str_eq_nocase(struct str a, struct str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    return true;
}

bool str_starts_with(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_eq((struct str){s.ptr, prefix.len}, prefix);
}

bool str_contains(struct str haystack, struct str needle)
{
    if (needle.len == 0)
        return true;
    return haystack.len >= needle.len &&
           memmem(haystack.ptr, haystack.len, needle.ptr, needle.len) != NULL;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

struct str str_trim(struct str s)
{
    while (s.len > 0 && is_space(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && is_space(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

bool str_has_control(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] < ' ' || s.ptr[i] == 0x7f)
            return true;
    return false;
}

bool str_is_token(struct str s)
{
    static const char MARKS[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < s.len; i++) {
        const char c = s.ptr[i];
        const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || str_is_digit(c);
        if (!is_word && (c == '\0' || !strchr(MARKS, c)))
            return false;
    }
    return s.len > 0;
}

int str_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool str_read_hex(struct str text, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < text.len; i++) {
        const int digit = str_hex_digit(text.ptr[i]);
        if (digit < 0)
            return false;
        *ret = *ret << 4 | (uint64_t)digit;
    }
    return text.len > 0 && text.len <= 16;
}

char *str_dup(struct str s)
{
    char *copy = malloc(s.len + 1);
    if (!copy)
        return NULL;
    if (s.len > 0)
        memcpy(copy, s.ptr, s.len);
    copy[s.len] = '\0';
    return copy;
}

char *str_pack(char **at, struct str s)
{
    char *copy = *at;
    if (s.len > 0)
        memcpy(copy, s.ptr, s.len);
    copy[s.len] = '\0';
    *at += s.len + 1;
    return copy;
}

bool str_copy(char *dst, size_t size, struct str src)
{
    size_t len = src.len;
    bool whole = len < size;
    if (!whole) {
        len = size - 1;
        while (len > 0 && ((unsigned char)src.ptr[len] & 0xC0) == 0x80)
            len--;
    }
    if (len > 0)
        memcpy(dst, src.ptr, len);
    dst[len] = '\0';
    return whole;
}

/* On a mismatch it goes back to the last `*` only, and lets that one swallow a byte more: earlier
 * stars never need to be tried again. */
bool str_glob(const char *pattern, struct str s)
{
    const char *star = NULL;
    size_t star_at = 0;
    size_t i = 0;

    while (i < s.len) {
        if (*pattern == '*') {
            star = pattern++;
            star_at = i;
        } else if (*pattern != '\0' && (*pattern == '?' || *pattern == s.ptr[i])) {
            pattern++;
            i++;
        } else if (star) {
            pattern = star + 1;
            i = ++star_at;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool is_separator(char c)
{
    return c == '.' || c == ':' || c == '/' || c == '\\' || c == '$';
}

struct str str_last_component(struct str name)
{
    size_t i = name.len;
    while (i > 0 && !is_separator(name.ptr[i - 1]))
        i--;
    return (struct str){name.ptr + i, name.len - i};
}

/* ---- The nearest word ------------------------------------------------------------------------ */

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

const char *nearest(struct str given, const char *const *words, size_t n_words)
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

/* The only word that `given` is the beginning of, or NULL. */
static const char *completed(struct str given, const char *const *words, size_t n_words)
{
    const char *found = NULL;
    for (size_t i = 0; i < n_words; i++) {
        if (!str_starts_with(str_of(words[i]), given))
            continue;
        if (found)
            return NULL;
        found = words[i];
    }
    return found;
}

const char *suggest(struct str given, const char *const *words, size_t n_words)
{
    const char *word = given.len > 0 ? completed(given, words, n_words) : NULL;
    return word ? word : nearest(given, words, n_words);
}
