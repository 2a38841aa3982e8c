/* rng.c - splitmix64, xoshiro256**, seeds from the system, and ids. */
#include "base/rng.h"

#include <endian.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

/* Fewer than eight bytes, the first in the lowest place. Two loads that overlap or three bytes are
 * quicker than a memcpy of a length that the compiler does not know. */
static uint64_t last_bytes(const unsigned char *p, size_t len)
{
    uint32_t first, last;
    if (len < 4)
        return (uint64_t)p[0] | (uint64_t)p[len / 2] << (len / 2 * 8) |
               (uint64_t)p[len - 1] << ((len - 1) * 8);
    memcpy(&first, p, 4);
    memcpy(&last, p + len - 4, 4);
    return (uint64_t)le32toh(first) | (uint64_t)le32toh(last) << ((len - 4) * 8);
}

/* Eight bytes a step, read in little-endian order so that every machine agrees. */
uint64_t rng_hash(const void *bytes, size_t len, uint64_t seed)
{
    const unsigned char *p = bytes;
    uint64_t h = rng_mix(seed ^ (uint64_t)len);
    uint64_t word;

    for (; len >= 8; p += 8, len -= 8) {
        memcpy(&word, p, 8);
        h = rng_mix(rotl(h, 23) ^ le64toh(word));
    }
    return len > 0 ? rng_mix(rotl(h, 23) ^ last_bytes(p, len)) : h;
}

void rng_seed(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->s[i] = seed = rng_mix(seed);
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

double rng_double(struct rng *rng)
{
    return rng_unit(rng_next(rng));
}

/* Numbers past the last whole multiple of limit are drawn again, so that none is favoured. */
uint64_t rng_below(struct rng *rng, uint64_t limit)
{
    if (limit == 0)
        return 0;
    uint64_t uneven = -limit % limit;
    uint64_t x;
    do
        x = rng_next(rng);
    while (x < uneven);
    return x % limit;
}

uint64_t rng_system_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) == sizeof seed)
        return seed;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return rng_mix((uint64_t)now.tv_sec ^ (uint64_t)now.tv_nsec << 32);
}

/* ---- Ids ------------------------------------------------------------------------------------- */

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
