/* rng.h - randomness as an argument.
 *
 * A seed always gives the same numbers, on every machine. Not for secrets.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* One step of mixing: a bijection that spreads every bit over all others (splitmix64's). */
static inline uint64_t rng_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* A double in [0, 1) from 64 random bits. */
static inline double rng_unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1.0p-53;
}

/* A hash of bytes, for seeds and tables; not for adversaries. */
uint64_t rng_hash(const void *bytes, size_t len, uint64_t seed);

/* A stream of numbers (xoshiro256**). */
struct rng {
    uint64_t s[4];
};

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
double rng_double(struct rng *rng);                  /* [0, 1) */
uint64_t rng_below(struct rng *rng, uint64_t limit); /* [0, limit), 0 when limit is 0 */

/* A seed from the system, for programs that were given none. */
uint64_t rng_system_seed(void);

#endif
