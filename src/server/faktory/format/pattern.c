/* pattern.c - compiles patterns and matches them bit by bit. */
#include "server/faktory/format/pattern.h"

static void set(uint64_t *words, unsigned bit)
{
    words[bit / 64] |= UINT64_C(1) << bit % 64;
}

static bool is_set(const uint64_t *words, unsigned bit)
{
    return words[bit / 64] >> bit % 64 & 1;
}

/* A byte of the pattern, which may come after a `\\`; `*at` goes behind it. */
static unsigned char literal(struct str text, size_t *at)
{
    if (text.ptr[*at] == '\\' && *at + 1 < text.len)
        ++*at;
    return (unsigned char)text.ptr[(*at)++];
}

/* `[abc]`, `[a-z]`, `[^a]`; without its end it goes to the end of the pattern. `*at` is behind the
 * first bracket, and goes behind the last. */
static void accept_class(struct faktory_pattern *p, struct str text, size_t *at)
{
    bool has[256] = {false};
    const bool is_negated = *at < text.len && text.ptr[*at] == '^';
    if (is_negated)
        ++*at;
    while (*at < text.len && text.ptr[*at] != ']') {
        unsigned char from = literal(text, at), to = from;
        if (*at + 1 < text.len && text.ptr[*at] == '-' && text.ptr[*at + 1] != ']') {
            ++*at;
            to = literal(text, at);
        }
        for (int byte = from < to ? from : to; byte <= (from < to ? to : from); byte++)
            has[byte] = true;
    }
    if (*at < text.len)
        ++*at;
    for (int byte = 0; byte < 256; byte++)
        if (has[byte] != is_negated)
            set(p->accepts[byte], p->n);
    p->n++;
}

bool faktory_pattern_init(struct faktory_pattern *p, struct str text)
{
    *p = (struct faktory_pattern){0};
    if (text.len > FAKTORY_PATTERN_MAX)
        return false;
    for (size_t i = 0; i < text.len;) {
        if (text.ptr[i] == '*') {
            set(p->stays, p->n);
            i++;
        } else if (text.ptr[i] == '?') {
            for (int byte = 0; byte < 256; byte++)
                set(p->accepts[byte], p->n);
            p->n++;
            i++;
        } else if (text.ptr[i] == '[') {
            i++;
            accept_class(p, text, &i);
        } else {
            set(p->accepts[literal(text, &i)], p->n++);
        }
    }
    p->n_words = p->n / 64 + 1;
    return true;
}

/* Bit i of `at`: the signs before the i-th fit what has been read so far. */
static uint64_t step(const struct faktory_pattern *p, unsigned char byte, uint64_t *at)
{
    uint64_t carry = 0, any = 0;
    for (unsigned i = 0; i < p->n_words; i++) {
        const uint64_t moved = at[i] & p->accepts[byte][i];
        at[i] = moved << 1 | carry | (at[i] & p->stays[i]);
        carry = moved >> 63;
        any |= at[i];
    }
    return any;
}

bool faktory_pattern_fits(const struct faktory_pattern *p, struct str text)
{
    uint64_t at[FAKTORY_PATTERN_WORDS] = {1};
    const bool ends_open = is_set(p->stays, p->n);
    for (size_t i = 0; i < text.len; i++) {
        if (ends_open && is_set(at, p->n))
            return true;
        if (step(p, (unsigned char)text.ptr[i], at) == 0)
            return false;
    }
    return is_set(at, p->n);
}
