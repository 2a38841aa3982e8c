#include "doors/faktory_pattern.h"

static void set(uint64_t *words, unsigned bit)
{
    words[bit / 64] |= UINT64_C(1) << bit % 64;
}

static bool is_set(const uint64_t *words, unsigned bit)
{
    return words[bit / 64] >> bit % 64 & 1;
}

bool faktory_pattern_init(struct faktory_pattern *p, struct str text)
{
    *p = (struct faktory_pattern){0};
    if (text.len > FAKTORY_PATTERN_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '*') {
            set(p->stays, p->n);
        } else if (text.ptr[i] == '?') {
            for (int byte = 0; byte < 256; byte++)
                set(p->accepts[byte], p->n);
            p->n++;
        } else {
            set(p->accepts[(unsigned char)text.ptr[i]], p->n++);
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
