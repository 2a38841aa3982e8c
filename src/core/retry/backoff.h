/* backoff.h - how long to wait before retry n.
 *
 * A delay is a pure function of (backoff, n, seed): the same job always gets the same schedule, on
 * every machine, so any schedule can be replayed. Arithmetic saturates at the longest duration; n
 * may be anything. Rules and formulas are documented at struct redrive_backoff.
 */
#ifndef CORE_RETRY_BACKOFF_H
#define CORE_RETRY_BACKOFF_H

#include "base/text/str.h"
#include "redrive.h"

/* What a failing side may ask for at most. */
#define BACKOFF_MAX_ASKED_MS (INT64_C(3600) * 1000)

/* The seed of one epoch of a job; retry n mixes its number in. */
uint64_t backoff_seed(struct str job_id, uint32_t epoch);

/* n counts from 1; the backoff has passed its check. */
int64_t backoff_delay_ms(const struct redrive_backoff *backoff, uint32_t n, uint64_t seed);

/* The least and the most that backoff_delay_ms can give over all seeds. A custom strategy is
 * asked with seed 0. */
void backoff_bounds_ms(const struct redrive_backoff *backoff, uint32_t n, int64_t *ret_min,
                       int64_t *ret_max);

/* A delay that the failing side asked for is a floor: max(own, asked) plus up to 10 % of it, so
 * that a thousand jobs that were asked to wait 60 seconds do not all run in the same second. Asked
 * is capped at BACKOFF_MAX_ASKED_MS; the result may exceed max_delay. */
int64_t backoff_honour_asked_ms(int64_t own_ms, int64_t asked_ms, uint32_t n, uint64_t seed);

#endif
