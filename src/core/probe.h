/* probe.h - which of the waiting jobs is sent ahead to see whether a service is back.
 *
 * A parked job uses no attempt, but a probe is a real run: when it fails, its job has one attempt
 * less. If the oldest job were sent each time, an outage of eight recovery times would kill a job
 * that has eight attempts, while thousands beside it have used none. So the job with the most
 * attempts left goes, the oldest of these first: failed probes spread over all that wait, and a
 * job dies of them only when every other one is as close to its end.
 */
#ifndef CORE_PROBE_H
#define CORE_PROBE_H

#include <stdbool.h>
#include <stdint.h>

struct probe_candidate {
    uint32_t attempts; /* used in this epoch */
    uint32_t max_attempts;
    uint64_t age_order; /* the lower, the older */
};

/* Whether `a` is to be sent rather than `b`: a strict order, so that the best of any number can
 * be found in one walk or kept in an index. */
static inline bool probe_precedes(struct probe_candidate a, struct probe_candidate b)
{
    int64_t left_a = (int64_t)a.max_attempts - a.attempts;
    int64_t left_b = (int64_t)b.max_attempts - b.attempts;
    return left_a != left_b ? left_a > left_b : a.age_order < b.age_order;
}

#endif
