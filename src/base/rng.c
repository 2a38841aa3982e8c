/* rng.c - splitmix64, xoshiro256** and seeds from the system. */
#include "base/rng.h"

#include <endian.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
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
    if (len > 0) {
        word = 0;
        memcpy(&word, p, len);
        h = rng_mix(rotl(h, 23) ^ le64toh(word));
    }
    return h;
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
