/* probe.h - which of the waiting jobs is sent ahead to see whether a service is back.
 *
 * A parked job uses no attempt, but a probe is a real run: when it fails, its job has one attempt
 * less. If the oldest job were sent each time, an outage of eight recovery times would kill a job
 * that has eight attempts, while thousands beside it have used none. So the job with the most
 * attempts left goes, the oldest of these first: failed probes spread over all that wait, and a
 * job dies of them only when every other one is as close to its end.
 *
 * Jobs may be to blame themselves: a run of bad ones in front of the good ones would be probed to
 * its last job before the first good one is, at one recovery time each. So after a probe that has
 * failed the next one comes from the other end: among those with the most attempts left the oldest
 * and the newest go in turn. Whichever end the good ones are at, the second probe reaches one; and
 * whatever order is taken, a job is not sent twice before all others have been once.
 */
#ifndef CORE_BREAKER_PROBE_H
#define CORE_BREAKER_PROBE_H

#include <stdbool.h>
#include <stdint.h>

struct probe_candidate {
    uint32_t attempts; /* used in this epoch */
    uint32_t max_attempts;
    uint64_t age_order; /* the lower, the older; see probe_age */
};

/* The age order of the nth job: turned round where the newest goes first. */
static inline uint64_t probe_age(uint64_t n, bool takes_newest)
{
    return takes_newest ? UINT64_MAX - n : n;
}

/* Whether the newest is to be sent rather than the oldest, of those with the most attempts left,
 * after so many recoveries in a row have failed. */
static inline bool probe_takes_newest(uint32_t failed_recoveries)
{
    return failed_recoveries % 2 == 1;
}

/* Whether `a` is to be sent rather than `b`: a strict order, so that the best of any number can
 * be found in one walk or kept in an index. */
static inline bool probe_precedes(struct probe_candidate a, struct probe_candidate b)
{
    int64_t left_a = (int64_t)a.max_attempts - a.attempts;
    int64_t left_b = (int64_t)b.max_attempts - b.attempts;
    return left_a != left_b ? left_a > left_b : a.age_order < b.age_order;
}

#endif
