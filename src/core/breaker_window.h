/* breaker_window.h - what a breaker looks back on: how the calls of the last while went.
 *
 * Ten buckets, each a tenth of the time window wide. They begin at multiples of their width, so
 * that the counts of two processes can be added up bucket by bucket. A clock that goes back counts
 * in the newest bucket.
 */
#ifndef CORE_BREAKER_WINDOW_H
#define CORE_BREAKER_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "redrive.h"

#define BREAKER_BUCKETS 10

struct breaker_counts {
    uint32_t calls;
    uint32_t failures;
};

struct breaker_window {
    int64_t start_ms; /* of the newest bucket */
    uint32_t newest;
    struct breaker_counts buckets[BREAKER_BUCKETS];
};

/* Empties it; start_ms stays. */
void breaker_window_clear(struct breaker_window *w);

/* Turns it to now: what is older than the window is gone. */
void breaker_window_advance(struct breaker_window *w, const struct redrive_breaker_config *config,
                            int64_t now_ms);

/* One more call. */
void breaker_window_add(struct breaker_window *w, const struct redrive_breaker_config *config,
                        bool failed, int64_t now_ms);

/* `n` more successes, at a time that may lie back. */
void breaker_window_add_successes(struct breaker_window *w,
                                  const struct redrive_breaker_config *config, uint32_t n,
                                  int64_t at_ms);

/* Adds the successes of `more`, which has nothing else, each to the bucket of its time. */
void breaker_window_merge(struct breaker_window *w, const struct redrive_breaker_config *config,
                          const struct breaker_window *more);

/* Everything in it, as of the last time that it was turned to. */
struct breaker_counts breaker_window_sum(const struct breaker_window *w);

#endif
