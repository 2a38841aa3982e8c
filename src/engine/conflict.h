/* conflict.h - how often a transaction is tried that others get in the way of.
 *
 *     struct conflict conflict;
 *     conflict_init(&conflict, rng);
 *     while (conflict_try(&conflict))
 *         … make the transaction; return unless it met another …
 *     … it is given up …
 *
 * A few processes that all change the same thing need a few tries; from the third one on they also
 * step back for a moment, so that one of them gets through. A try may last as long as a store waits
 * for a lock of others, and everybody waits with it: then a transaction is given up after about one
 * such wait.
 */
#ifndef ENGINE_CONFLICT_H
#define ENGINE_CONFLICT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

struct conflict {
    struct rng *rng; /* borrowed */
    int tries;
    int64_t started_ms; /* monotonic */
};

void conflict_init(struct conflict *conflict, struct rng *rng);
/* Whether to try, at first or again; steps back before it says so. */
bool conflict_try(struct conflict *conflict);

#endif
