/* policy.c - defaults and checks of retry policies, and the named profiles. */
#include "core/retry/policy.h"

#include <stdio.h>

#include "base/err.h"
#include "base/text/str.h"
#include "base/time/duration.h"
#include "core/check.h"
#include "core/classify/classify.h"
#include "core/retry/backoff.h"
#include "core/vocabulary.h"

void redrive_policy_init(struct redrive_policy *policy)
{
    *policy = (struct redrive_policy){
        .backoff =
            {
                .strategy = REDRIVE_STRATEGY_EXPONENTIAL,
                .initial_delay_ms = 1000,
                .min_delay_ms = 100,
                .max_delay_ms = 60 * 1000,
                .multiplier = 3,
                .backoff_factor = 1.5,
                .exponent = 4,
                .jitter = {.mode = REDRIVE_JITTER_FULL},
            },
        .max_retries = 5,
        .total_timeout_ms = 300 * 1000,
        .enable_dlq = true,
        .dlq_retention_days = 7,
    };
}

void policy_init_queue(struct redrive_policy *policy)
{
    redrive_policy_init(policy);
    policy->backoff.jitter.mode = REDRIVE_JITTER_AUTO;
    policy->total_timeout_ms = 0;
    policy->dlq_retention_days = 30;
}

static int check_jitter(const struct redrive_jitter *jitter, const char *where,
                        struct redrive_err *err)
{
    int rc = 0;
    switch (jitter->mode) {
    case REDRIVE_JITTER_ADD:
        rc = RANGES_CHECK(where, err, {"jitter.min", jitter->min, 0, 10},
                          {"jitter.max", jitter->max, jitter->min, 10});
        break;
    case REDRIVE_JITTER_SPREAD:
        rc = RANGES_CHECK(where, err, {"jitter.max", jitter->max, 0, 1});
        break;
    case REDRIVE_JITTER_STEP:
        rc = RANGES_CHECK(where, err,
                          {"jitter.max (ms)", (double)jitter->step_ms, 0, (double)DURATION_MAX_MS});
        break;
    case REDRIVE_JITTER_NONE:
    case REDRIVE_JITTER_FULL:
    case REDRIVE_JITTER_EQUAL:
    case REDRIVE_JITTER_AUTO:
    case REDRIVE_JITTER_DECORRELATED: break;
    default: rc = err_set(err, REDRIVE_E_INVALID, "%sjitter.mode is unknown", where);
    }
    return rc;
}

static int check_delays(const struct redrive_backoff *b, const char *where, struct redrive_err *err)
{
    if (b->n_delays == 0 || !b->delays_ms)
        return err_set(err, REDRIVE_E_INVALID, "%sstrategy delays has no list of delays", where);
    if (b->n_delays > REDRIVE_DELAYS_MAX)
        return err_set(err, REDRIVE_E_RANGE, "%sthere are over %d delays", where,
                       REDRIVE_DELAYS_MAX);
    int rc = 0;
    for (size_t i = 0; i < b->n_delays && rc == 0; i++)
        rc = RANGES_CHECK(where, err,
                          {"delays (ms)", (double)b->delays_ms[i], 0, (double)DURATION_MAX_MS});
    return rc;
}

int backoff_check(const struct redrive_backoff *b, const char *where, struct redrive_err *err)
{
    if ((unsigned)b->strategy >= REDRIVE_STRATEGY_COUNT)
        return err_set(err, REDRIVE_E_INVALID, "%sstrategy is unknown", where);
    if (b->strategy == REDRIVE_STRATEGY_CUSTOM && !b->custom) {
        err_set(err, REDRIVE_E_INVALID, "%sstrategy custom has no callback", where);
        err_hint(err, "set backoff.custom; configuration files cannot name a C function");
        return REDRIVE_E_INVALID;
    }

    int rc = b->strategy == REDRIVE_STRATEGY_DELAYS ? check_delays(b, where, err) : 0;
    if (rc < 0)
        return rc;

    const double longest = (double)DURATION_MAX_MS;
    rc = RANGES_CHECK(where, err, {"initial_delay (ms)", (double)b->initial_delay_ms, 0, longest},
                      {"min_delay (ms)", (double)b->min_delay_ms, 0, longest},
                      {"max_delay (ms)", (double)b->max_delay_ms, 0, longest},
                      {"multiplier", b->multiplier, 1, 1000},
                      {"backoff_factor", b->backoff_factor, 0, longest / 1000},
                      {"exponent", b->exponent, 0, 10});
    if (rc < 0)
        return rc;
    if (b->max_delay_ms < b->min_delay_ms) {
        err_set(err, REDRIVE_E_RANGE, "%smax_delay is less than min_delay", where);
        err_detail(err, "max_delay %lld ms, min_delay %lld ms", (long long)b->max_delay_ms,
                   (long long)b->min_delay_ms);
        return REDRIVE_E_RANGE;
    }
    return check_jitter(&b->jitter, where, err);
}

static int check_match(const struct redrive_match *match, const char *name, struct redrive_err *err)
{
    if (match->n_types > 0 && !match->types)
        return err_set(err, REDRIVE_E_INVALID, "%s counts types but has none", name);
    for (size_t i = 0; i < match->n_types; i++)
        if (!match->types[i])
            return err_set(err, REDRIVE_E_INVALID, "%s: type %zu is NULL", name, i + 1);
    return 0;
}

int redrive_policy_check(const struct redrive_policy *policy, struct redrive_err *err)
{
    int rc = backoff_check(&policy->backoff, "", err);
    if (rc == 0)
        rc = check_match(&policy->retry_on, "retry_on", err);
    if (rc == 0)
        rc = check_match(&policy->give_up_on, "give_up_on", err);
    if (rc < 0)
        return rc;
    rc = RANGES_CHECK(
        "", err, {"max_retries", policy->max_retries, 0, REDRIVE_MAX_RETRIES},
        {"total_timeout (ms)", (double)policy->total_timeout_ms, 0, (double)DURATION_MAX_MS},
        {"dlq_retention_days", policy->dlq_retention_days, 0, 36500});
    for (int c = 0; c < REDRIVE_CLASS_COUNT && rc == 0; c++) {
        const struct redrive_class_rule *rule = policy->on[c];
        if (!rule)
            continue;
        char where[48];
        snprintf(where, sizeof where, "on.%s: ", vocabulary_word(VOCABULARY_CLASS, c));
        rc = backoff_check(&rule->backoff, where, err);
        if (rc == 0)
            rc = RANGES_CHECK(where, err,
                              {"max_retries", rule->max_retries, -1, REDRIVE_MAX_RETRIES});
    }
    return rc;
}

int64_t redrive_policy_delay(const struct redrive_policy *policy, uint32_t n, const char *job_id,
                             uint32_t epoch)
{
    return backoff_delay_ms(&policy->backoff, n, backoff_seed(str_of(job_id), epoch));
}

int32_t policy_max_retries(const struct redrive_policy *policy, enum redrive_class class_)
{
    const struct redrive_class_rule *rule = policy->on[class_];
    return rule && rule->max_retries >= 0 ? rule->max_retries : policy->max_retries;
}

uint32_t policy_max_attempts(const struct redrive_policy *policy)
{
    int32_t most = policy->max_retries;
    for (int c = 0; c < REDRIVE_CLASS_COUNT; c++)
        if (policy->on[c] && policy->on[c]->max_retries > most)
            most = policy->on[c]->max_retries;
    return (uint32_t)most + 1;
}

const struct redrive_backoff *policy_backoff(const struct redrive_policy *policy,
                                             enum redrive_class class_)
{
    const struct redrive_class_rule *rule = policy->on[class_];
    return rule ? &rule->backoff : &policy->backoff;
}

bool policy_matches(const struct redrive_match *match, enum redrive_class class_,
                    const struct redrive_failure *failure)
{
    if (match->classes >> class_ & 1)
        return true;
    for (size_t i = 0; i < match->n_types; i++)
        if (type_name_matches_any(match->types[i], failure))
            return true;
    return false;
}

/* ---- Profiles -------------------------------------------------------------------------------- */

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
