/* id.c - generates UUIDv7 ids. */
#include "base/id.h"

#define HIGH_MAX UINT64_C(0xfff)
#define LOW_MAX  UINT64_C(0x3fffffffffffffff)

void id_gen_init(struct id_gen *gen, uint64_t seed)
{
    *gen = (struct id_gen){.last_ms = -1};
    rng_seed(&gen->rng, seed);
}

/* Within a millisecond the number goes up by a random step: ids rise, yet the next one cannot be
 * guessed from the last. A carry out of the random part moves the time on by one. */
static void step(struct id_gen *gen)
{
    uint64_t by = 1 + (rng_next(&gen->rng) & 0xffffffff);
    if (gen->low <= LOW_MAX - by) {
        gen->low += by;
        return;
    }
    gen->low = rng_next(&gen->rng) & (LOW_MAX >> 1);
    if (gen->high < HIGH_MAX) {
        gen->high++;
        return;
    }
    gen->high = 0;
    gen->last_ms++;
}

static void put_hex(char **out, uint64_t value, int digits)
{
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
        *(*out)++ = "0123456789abcdef"[value >> shift & 0xf];
}

void id_next(struct id_gen *gen, int64_t now_ms, char out[ID_UUID_LEN + 1])
{
    if (now_ms > gen->last_ms) {
        gen->last_ms = now_ms;
        gen->high = rng_next(&gen->rng) & HIGH_MAX;
        gen->low = rng_next(&gen->rng) & (LOW_MAX >> 1);
    } else {
        step(gen);
    }

    uint64_t ms = (uint64_t)gen->last_ms;
    uint64_t low = gen->low | UINT64_C(0x8000000000000000); /* the variant, binary 10 */
    put_hex(&out, ms >> 16 & 0xffffffff, 8);
    *out++ = '-';
    put_hex(&out, ms & 0xffff, 4);
    *out++ = '-';
    put_hex(&out, 0x7000 | gen->high, 4);
    *out++ = '-';
    put_hex(&out, low >> 48, 4);
    *out++ = '-';
    put_hex(&out, low & UINT64_C(0xffffffffffff), 12);
    *out = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int64_t id_time_ms(struct str text)
{
    int64_t ms = 0;
    if (text.len != ID_UUID_LEN || text.ptr[14] != '7')
        return -1;
    for (int i = 0; i < ID_UUID_LEN; i++) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            if (text.ptr[i] != '-')
                return -1;
            continue;
        }
        int digit = hex_digit(text.ptr[i]);
        if (digit < 0)
            return -1;
        if (i < 13)
            ms = ms << 4 | digit;
    }
    return ms;
}
