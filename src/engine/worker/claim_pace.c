/* claim_pace.c - how many jobs a worker claims before it has a free slot for them. */
#include "engine/worker/claim_pace.h"

#include "core/retry/policy.h"

/* The weight of a turn, and of a run that was longer or shorter than the estimate, is 1 to so many.
 * A process that waits for a processor makes short runs look longer now and then. */
#define TURN_WEIGHT  8
#define LONG_WEIGHT  4
#define SHORT_WEIGHT 16

bool claim_ahead_is_allowed(const struct config_task *task)
{
    const struct redrive_breaker_config *breaker = &task->breaker.config;
    const struct config_limits *limits = &task->limits;
    const bool has_limit =
        limits->concurrency > 0 || limits->rate.count > 0 || budget_is_set(&limits->budget);
    const bool counts_slow = breaker->slow_call_ms > 0 && breaker->slow_rate > 0;
    return !has_limit && !counts_slow && policy_max_attempts(&task->retry) > 1;
}

uint32_t claim_ahead_max(uint32_t n_slots)
{
    return n_slots < CLAIM_AHEAD_MAX / CLAIM_AHEAD_PER_SLOT ? n_slots * CLAIM_AHEAD_PER_SLOT
                                                            : CLAIM_AHEAD_MAX;
}

void claim_pace_init(struct claim_pace *pace, uint32_t n_slots, uint32_t max)
{
    *pace = (struct claim_pace){.n_slots = n_slots, .max = max};
}

static int64_t at_least_one(int64_t us)
{
    return us > 0 ? us : 1;
}

void claim_pace_turn(struct claim_pace *pace, int64_t us)
{
    us = at_least_one(us);
    pace->turn_us = pace->turn_us == 0 ? us : pace->turn_us + (us - pace->turn_us) / TURN_WEIGHT;
}

void claim_pace_run(struct claim_pace *pace, int64_t us)
{
    us = at_least_one(us);
    if (pace->run_us == 0)
        pace->run_us = us;
    else if (us >= pace->run_us)
        pace->run_us += (us - pace->run_us) / LONG_WEIGHT;
    else
        pace->run_us -= (pace->run_us - us + SHORT_WEIGHT - 1) / SHORT_WEIGHT;
}

uint32_t claim_pace_ahead(const struct claim_pace *pace)
{
    if (pace->run_us == 0 || pace->turn_us == 0)
        return 0;
    const int64_t n = pace->turn_us / pace->run_us < pace->max
                          ? pace->turn_us * pace->n_slots / pace->run_us
                          : pace->max;
    return n < pace->max ? (uint32_t)n : pace->max;
}

bool claim_pace_is_due(const struct claim_pace *pace, uint32_t n_claimed)
{
    return n_claimed == 0 || (int64_t)n_claimed * pace->run_us / pace->n_slots >= pace->turn_us / 2;
}
