/* id.h - UUIDv7: 48 bits of milliseconds, then randomness, so that ids sort by age.
 *
 * Ids of one generator rise strictly, also within a millisecond and when the clock goes back:
 * the random part counts up from where it was (RFC 9562, method 2).
 */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/text/str.h"

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

/* The time inside a UUIDv7, or -1 if the text is not one. */
int64_t id_time_ms(struct str text);

#endif
