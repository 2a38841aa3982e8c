/* strategies.c - the table of strategies and their policies. */
#include "sim/strategies.h"

#include "core/retry/policy.h"

#define LONGEST_MS (INT64_C(7) * 24 * 3600 * 1000)

#define EXPONENTIAL(jitter_mode)                                                       \
    {                                                                                  \
        .strategy = REDRIVE_STRATEGY_EXPONENTIAL, .initial_delay_ms = 1000,            \
        .max_delay_ms = 60 * 1000, .multiplier = 2, .jitter = {.mode = (jitter_mode)}, \
    }

static const struct strategy TABLE[] = {
    {"none", "no delay", {.strategy = REDRIVE_STRATEGY_IMMEDIATE, .multiplier = 1}, 0, NULL},
    {"exponential", "exponential", EXPONENTIAL(REDRIVE_JITTER_NONE), SIM_BREAKER_NONE, NULL},
    {"full-jitter", "exponential, full jitter", EXPONENTIAL(REDRIVE_JITTER_FULL), SIM_BREAKER_NONE,
     NULL},
    /* c^4 + 15 + rand(10)·(c + 1) seconds with c = n − 1; Faktory draws rand(30). */
    {"sidekiq",
     "sidekiq/faktory curve",
     {.strategy = REDRIVE_STRATEGY_POLYNOMIAL,
      .initial_delay_ms = 15 * 1000,
      .max_delay_ms = LONGEST_MS,
      .multiplier = 1,
      .exponent = 4,
      .jitter = {.mode = REDRIVE_JITTER_STEP, .step_ms = 10 * 1000}},
     SIM_BREAKER_NONE,
     NULL},
    {"breaker-burns", "breaker that burns attempts", EXPONENTIAL(REDRIVE_JITTER_FULL),
     SIM_BREAKER_BURNS, NULL},
    {"breaker-parks", "breaker that parks", EXPONENTIAL(REDRIVE_JITTER_FULL), SIM_BREAKER_OBEYS,
     NULL},
};

const struct strategy *strategies(size_t *ret_n)
{
    *ret_n = sizeof TABLE / sizeof TABLE[0];
    return TABLE;
}

const struct strategy *strategy_find(struct str name)
{
    size_t n;
    const struct strategy *all = strategies(&n);
    for (size_t i = 0; i < n; i++)
        if (str_is(name, all[i].name))
            return &all[i];
    return NULL;
}

struct strategy strategy_of_config(const struct strategy_config *configured)
{
    return (struct strategy){
        .name = STRATEGY_CONFIGURED,
        .title = "your policy",
        .breaker = SIM_BREAKER_OBEYS,
        .configured = configured,
    };
}

uint32_t strategy_attempts(const struct strategy *strategy, uint32_t attempts)
{
    if (strategy->configured)
        return policy_max_attempts(strategy->configured->policy);
    return attempts;
}

void strategy_policy(const struct strategy *strategy, uint32_t attempts, struct redrive_policy *ret)
{
    if (strategy->configured) {
        *ret = *strategy->configured->policy;
        return;
    }
    redrive_policy_init(ret);
    ret->backoff = strategy->backoff;
    ret->max_retries = (int32_t)attempts - 1;
    ret->total_timeout_ms = 0;
}
