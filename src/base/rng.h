/* rng.h - randomness as an argument, and ids that are made of it.
 *
 * A seed always gives the same numbers, on every machine. Not for secrets.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/str.h"

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

/* ---- Ids ------------------------------------------------------------------------------------- */

/* UUIDv7: 48 bits of milliseconds, then randomness, so that ids sort by age.
 *
 * Ids of one generator rise strictly, also within a millisecond and when the clock goes back:
 * the random part counts up from where it was (RFC 9562, method 2).
 */

#define ID_UUID_LEN 36

struct id_gen {
    struct rng rng;
    int64_t last_ms;
    uint64_t high; /* 12 bits, after the time */
    uint64_t low;  /* 62 bits */
};

void id_gen_init(struct id_gen *gen, uint64_t seed);

/* Writes the canonical text and a terminator. */
void id_next(struct id_gen *gen, int64_t now_ms, char out[ID_UUID_LEN + 1]);

#endif
