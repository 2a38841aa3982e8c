/* window.h - what a breaker looks back on: how its recent calls went.
 *
 * Ten buckets, each a tenth of the time window wide. They begin at multiples of their width, so
 * that the counts of two processes can be added up bucket by bucket. A clock that goes back counts
 * in the newest bucket.
 *
 * With window_calls it looks back on the last so many calls instead, whenever they were: a bit for
 * each that says whether it failed, and one that says whether it was slow.
 */
#ifndef CORE_BREAKER_WINDOW_H
#define CORE_BREAKER_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "redrive.h"

#define BREAKER_BUCKETS 10

#define BREAKER_LAST_WORDS (REDRIVE_MAX_WINDOW_CALLS / 64)

struct breaker_counts {
    uint32_t calls;
    uint32_t failures;
    uint32_t slow; /* whether they failed or not */
};

/* The latest calls, the newest in the lowest bit of the first word. */
struct breaker_last {
    uint32_t calls; /* at most window_calls */
    uint64_t failed[BREAKER_LAST_WORDS];
    uint64_t slow[BREAKER_LAST_WORDS];
};

struct breaker_window {
    int64_t start_ms; /* of the newest bucket */
    uint32_t newest;
    struct breaker_counts buckets[BREAKER_BUCKETS];
    struct breaker_last last; /* empty without window_calls */
};

/* Empties it; start_ms stays. */
void breaker_window_clear(struct breaker_window *w);

/* Turns it to now: what is older than the window is gone. */
void breaker_window_advance(struct breaker_window *w, const struct redrive_breaker_config *config,
                            int64_t now_ms);

/* One more call. */
void breaker_window_add(struct breaker_window *w, const struct redrive_breaker_config *config,
                        bool failed, bool slow, int64_t now_ms);

/* More calls, at a time that may lie back. In which order they came is not known: with window_calls
 * they must all be successes that were not slow. */
void breaker_window_add_counts(struct breaker_window *w,
                               const struct redrive_breaker_config *config,
                               struct breaker_counts counts, int64_t at_ms);

/* Adds the calls of `more`, each to the bucket of its time; likewise. */
void breaker_window_merge(struct breaker_window *w, const struct redrive_breaker_config *config,
                          const struct breaker_window *more);

/* Everything in it, as of the last time that it was turned to. */
struct breaker_counts breaker_window_sum(const struct breaker_window *w,
                                         const struct redrive_breaker_config *config);

/* Sets it to these calls, of now, and nothing else. */
void breaker_window_set(struct breaker_window *w, const struct redrive_breaker_config *config,
                        struct breaker_counts counts, int64_t now_ms);

#endif
