/* profile.c - the named profiles: retry schedules of well-known kinds of work, to start from. */
#include "core/retry/policy.h"

#include "base/err.h"
#include "base/text/suggest.h"

#define SECONDS(n) ((n)*INT64_C(1000))
#define MINUTES(n) SECONDS((n)*60)
#define HOURS(n)   MINUTES((n)*60)
#define DAYS(n)    HOURS((n)*24)

#define COMMON .enable_dlq = true, .dlq_retention_days = 7

#define EXPONENTIAL(initial, factor, most)                                                    \
    {                                                                                         \
        .strategy = REDRIVE_STRATEGY_EXPONENTIAL, .min_delay_ms = 100, .backoff_factor = 1.5, \
        .exponent = 4, .initial_delay_ms = (initial), .multiplier = (factor),                 \
        .max_delay_ms = (most)                                                                \
    }
#define LINEAR(initial, step_seconds, most)                                                       \
    {                                                                                             \
        .strategy = REDRIVE_STRATEGY_LINEAR, .min_delay_ms = 100, .multiplier = 1, .exponent = 4, \
        .initial_delay_ms = (initial), .backoff_factor = (step_seconds), .max_delay_ms = (most)   \
    }

static const struct policy_profile PROFILES[] = {
    {"records",
     "records pipeline: 2, 4, 8, 16, 32 minutes",
     {.backoff = EXPONENTIAL(MINUTES(2), 2, HOURS(1)), .max_retries = 5, COMMON}},
    {"handler",
     "in-process handler: 1, 3, 9, 27, 60 seconds within 5 minutes",
     {.backoff = EXPONENTIAL(SECONDS(1), 3, MINUTES(1)),
      .max_retries = 5,
      .total_timeout_ms = MINUTES(5),
      COMMON}},
    {"tasks-network",
     "task API, network errors: 5, 10, 20, 40 seconds",
     {.backoff = EXPONENTIAL(SECONDS(5), 2, MINUTES(10)), .max_retries = 4, COMMON}},
    {"tasks-rate-limit",
     "task API, rate limits: 5, 10, 20 seconds, each plus 10 to 30 %",
     {.backoff = {.strategy = REDRIVE_STRATEGY_EXPONENTIAL,
                  .initial_delay_ms = SECONDS(5),
                  .min_delay_ms = 100,
                  .max_delay_ms = MINUTES(10),
                  .multiplier = 2,
                  .backoff_factor = 1.5,
                  .exponent = 4,
                  .jitter = {.mode = REDRIVE_JITTER_ADD, .min = 0.1, .max = 0.3}},
      .max_retries = 3,
      COMMON}},
    {"tasks-database",
     "task API, database errors: 5, 10, 15 seconds",
     {.backoff = LINEAR(SECONDS(5), 5, MINUTES(10)), .max_retries = 3, COMMON}},
    {"thumbnail",
     "thumbnail worker: 3 attempts, 5 seconds apart",
     {.backoff = {.strategy = REDRIVE_STRATEGY_FIXED,
                  .initial_delay_ms = SECONDS(5),
                  .min_delay_ms = 100,
                  .max_delay_ms = MINUTES(1),
                  .multiplier = 1,
                  .exponent = 4},
      .max_retries = 2,
      COMMON}},
    {"joke",
     "webhook fetch: 5 attempts, 2, 4, 8, 16 seconds",
     {.backoff = EXPONENTIAL(SECONDS(2), 2, MINUTES(5)), .max_retries = 4, COMMON}},
    {"joke-linear",
     "webhook fetch, linear: 5 attempts, 2, 4, 6, 8 seconds",
     {.backoff = LINEAR(SECONDS(2), 2, MINUTES(1)), .max_retries = 4, COMMON}},
    {"periodic",
     "periodic task: 3 attempts, 2, 4 seconds",
     {.backoff = LINEAR(SECONDS(2), 2, MINUTES(1)), .max_retries = 2, COMMON}},
    {"rescue",
     "rescue of stalled work: 3 attempts, 5, 10 seconds",
     {.backoff = LINEAR(SECONDS(5), 5, MINUTES(1)), .max_retries = 2, COMMON}},
    {"faktory",
     "Faktory's own curve: 25 retries over about three weeks",
     {.backoff = {.strategy = REDRIVE_STRATEGY_POLYNOMIAL,
                  .initial_delay_ms = SECONDS(15),
                  .min_delay_ms = 100,
                  .max_delay_ms = DAYS(40),
                  .multiplier = 1,
                  .backoff_factor = 1.5,
                  .exponent = 4,
                  .jitter = {.mode = REDRIVE_JITTER_STEP, .step_ms = SECONDS(30)}},
      .max_retries = 25,
      COMMON}},
};

#define N_PROFILES (sizeof PROFILES / sizeof PROFILES[0])

const struct policy_profile *policy_profiles(size_t *ret_n)
{
    *ret_n = N_PROFILES;
    return PROFILES;
}

const struct policy_profile *policy_profile_find(struct str name)
{
    for (size_t i = 0; i < N_PROFILES; i++)
        if (str_is(name, PROFILES[i].name))
            return &PROFILES[i];
    return NULL;
}

int redrive_policy_profile(struct redrive_policy *policy, const char *name, struct redrive_err *err)
{
    const struct policy_profile *found = policy_profile_find(str_of(name));
    if (found) {
        *policy = found->policy;
        return 0;
    }
    const char *names[N_PROFILES];
    for (size_t i = 0; i < N_PROFILES; i++)
        names[i] = PROFILES[i].name;
    const char *nearest = suggest(str_of(name), names, N_PROFILES);
    err_set(err, REDRIVE_E_UNKNOWN, "unknown profile '%s'", name);
    if (nearest)
        err_hint(err, "did you mean '%s'?", nearest);
    else
        err_hint(err, "`redrive policy list` names them all");
    return REDRIVE_E_UNKNOWN;
}
