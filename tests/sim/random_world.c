#include "random_world.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "faults.h"

static double between(struct rng *rng, double low, double high)
{
    return low + (high - low) * rng_double(rng);
}

static int64_t below(struct rng *rng, int64_t limit)
{
    return (int64_t)rng_below(rng, (uint64_t)limit);
}

static bool one_in(struct rng *rng, uint64_t n)
{
    return rng_below(rng, n) == 0;
}

/* Spans from a millisecond to hours, each order of magnitude as likely as the next. */
static int64_t any_span_ms(struct rng *rng, int max_digits)
{
    int64_t span = 1;
    for (int64_t digits = below(rng, max_digits + 1); digits > 0; digits--)
        span *= 10;
    return below(rng, span);
}

static int64_t custom_delay(uint32_t n, uint64_t seed, void *ctx)
{
    (void)ctx;
    return (int64_t)(rng_mix(seed ^ n) % 30000) - 1000;
}

static const int64_t DELAYS_MS[] = {0, 5000, 100, INT64_C(40) * 24 * 3600 * 1000, 30000};

static void random_backoff(struct rng *rng, struct redrive_backoff *b)
{
    *b = (struct redrive_backoff){
        .strategy = (enum redrive_strategy)below(rng, REDRIVE_STRATEGY_COUNT),
        .initial_delay_ms = any_span_ms(rng, 5),
        .min_delay_ms = one_in(rng, 2) ? 0 : any_span_ms(rng, 4),
        .multiplier = one_in(rng, 4) ? 1 : between(rng, 1, 10),
        .backoff_factor = between(rng, 0, 20),
        .exponent = one_in(rng, 2) ? (double)below(rng, 6) : between(rng, 0, 5),
        .jitter = {.mode = (enum redrive_jitter_mode)below(rng, REDRIVE_JITTER_COUNT),
                   .min = between(rng, 0, 0.5),
                   .max = between(rng, 0.5, 1),
                   .step_ms = any_span_ms(rng, 5)},
        .delays_ms = DELAYS_MS,
        .n_delays = 1 + (size_t)below(rng, 5),
        .custom = custom_delay,
    };
    b->max_delay_ms = b->min_delay_ms + any_span_ms(rng, 6);
}

static int32_t random_retries(struct rng *rng)
{
    return (int32_t)(one_in(rng, 4) ? below(rng, 3) : below(rng, 31));
}

static void random_match(struct rng *rng, struct redrive_match *match, const char **types)
{
    match->classes = one_in(rng, 2) ? (uint32_t)rng_next(rng) & (uint32_t)rng_next(rng) : 0;
    match->n_types = (size_t)below(rng, 3);
    match->types = types;
    for (size_t i = 0; i < match->n_types; i++)
        types[i] = FAULT_PATTERNS[below(rng, FAULT_N_PATTERNS)];
}

static void random_policy(struct random_world *w, struct rng *rng)
{
    struct redrive_policy *policy = &w->policy;
    *policy = (struct redrive_policy){
        .max_retries = random_retries(rng),
        .total_timeout_ms = one_in(rng, 2) ? 0 : 1 + below(rng, 10000) * (1 + any_span_ms(rng, 3)),
        .enable_dlq = !one_in(rng, 4),
        .dlq_retention_days = 7,
    };
    random_backoff(rng, &policy->backoff);
    for (int class_ = 0; class_ < REDRIVE_CLASS_COUNT; class_++) {
        if (!one_in(rng, 4))
            continue;
        w->rules[class_].max_retries = one_in(rng, 2) ? -1 : random_retries(rng);
        random_backoff(rng, &w->rules[class_].backoff);
        policy->on[class_] = &w->rules[class_];
    }
    if (one_in(rng, 4))
        random_match(rng, &policy->retry_on, w->retry_types);
    if (one_in(rng, 4))
        random_match(rng, &policy->give_up_on, w->give_up_types);
}

static void random_breaker(struct random_world *w, struct rng *rng)
{
    w->has_breaker = !one_in(rng, 5);
    w->breaker = (struct redrive_breaker_config){
        .failure_threshold = (uint32_t)below(rng, 12),
        .failure_rate = one_in(rng, 3) ? 0 : between(rng, 0.1, 1),
        .min_calls = (uint32_t)(1 + below(rng, 40)),
        .window_ms = 10 + any_span_ms(rng, 5),
        .window_calls = one_in(rng, 3) ? (uint32_t)(1 + below(rng, 100)) : 0,
        .slow_call_ms = one_in(rng, 3) ? 1 + any_span_ms(rng, 3) : 0,
        .slow_rate = between(rng, 0, 1),
        .recovery_timeout_ms = 1 + any_span_ms(rng, 5),
        .recovery_multiplier = one_in(rng, 2) ? 1 : between(rng, 1, 4),
        .recovery_max_ms = 1 + any_span_ms(rng, 6),
        .recovery_jitter = one_in(rng, 2) ? 0 : between(rng, 0, 1),
        .half_open_max = (uint32_t)(1 + below(rng, one_in(rng, 2) ? 1 : REDRIVE_MAX_PROBES)),
        .success_threshold = (uint32_t)(1 + below(rng, one_in(rng, 2) ? 1 : 6)),
        .half_open_rate = one_in(rng, 3) ? between(rng, 0.05, 1) : 0,
        .probe_lease_ms = 1 + any_span_ms(rng, 5),
        .on_open = one_in(rng, 8)   ? REDRIVE_ON_OPEN_DEAD_LETTER
                   : one_in(rng, 8) ? REDRIVE_ON_OPEN_REJECT
                                    : REDRIVE_ON_OPEN_PARK,
        .release_rate = between(rng, 1, 50),
        .release_growth = between(rng, 0, 50),
    };
}

static void random_service(struct random_world *w, struct rng *rng, int64_t busy_ms)
{
    struct service_config *s = &w->service;
    *s = (struct service_config){
        .outages = w->outages,
        .n_outages = (size_t)below(rng, RANDOM_MAX_OUTAGES + 1),
        .outage_hangs = one_in(rng, 4),
        .rate_limit = one_in(rng, 5) ? between(rng, 0.5, 50) : 0,
        .retry_after_ms = one_in(rng, 2) ? 0 : any_span_ms(rng, 5),
        .capacity = one_in(rng, 4) ? between(rng, 1, 50) : 0,
        .error_rate = one_in(rng, 4)   ? 1
                      : one_in(rng, 3) ? 0.05
                                       : rng_double(rng),
        .faults = w->faults,
        .n_faults = (size_t)(1 + below(rng, RANDOM_MAX_FAULTS)),
        .latency_ms = any_span_ms(rng, 4),
        .slow_rate = one_in(rng, 4) ? between(rng, 0, 0.3) : 0,
        .slow_ms = any_span_ms(rng, 5),
        .timeout_ms = one_in(rng, 2) ? 0 : 1 + any_span_ms(rng, 5),
        .sound_from_ms = busy_ms,
    };
    for (size_t i = 0; i < s->n_outages; i++)
        w->outages[i] = (struct service_outage){below(rng, busy_ms), any_span_ms(rng, 6)};
    for (size_t i = 0; i < s->n_faults; i++) {
        const struct fault *fault = &FAULTS[below(rng, (int64_t)FAULTS_OF_SERVICES)];
        w->faults[i] = (struct service_fault){fault->failure, between(rng, 0.1, 1)};
    }
}

static double rare(struct rng *rng)
{
    return one_in(rng, 2) ? 0 : between(rng, 0, one_in(rng, 4) ? 0.5 : 0.05);
}

static void random_hands(struct random_world *w, struct rng *rng, int64_t busy_ms)
{
    w->hands = (struct sim_hands){
        .crash = rare(rng),
        .stall = rare(rng),
        .release = rare(rng),
        .snooze = rare(rng),
        .schedule = rare(rng),
        .deadline = rare(rng),
        .cancel = rare(rng),
        .kill = rare(rng),
        .run_now = rare(rng),
        .redrive = rare(rng),
        .breaker = one_in(rng, 4) ? 20.0 * 1000 / (double)busy_ms : 0,
        .span_ms = 1 + any_span_ms(rng, 6),
        .until_ms = busy_ms,
    };
}

static void must(int r, const struct redrive_err *err, uint64_t seed)
{
    if (r == 0)
        return;
    fprintf(stderr, "seed %llu: the random world is not valid: %s\n", (unsigned long long)seed,
            err->message);
    abort();
}

void random_world_init(struct random_world *w, uint64_t seed)
{
    struct rng rng;
    struct redrive_err err = {0};

    *w = (struct random_world){0};
    rng_seed(&rng, seed);
    random_policy(w, &rng);
    random_breaker(w, &rng);
    must(redrive_policy_check(&w->policy, &err), &err, seed);
    must(redrive_breaker_config_check(&w->breaker, &err), &err, seed);

    uint32_t jobs = (uint32_t)(20 + below(&rng, 400));
    double per_s = between(&rng, 0.5, 50);
    int64_t busy_ms = (int64_t)(jobs / per_s * 1000 * between(&rng, 1, 3)) + 1;
    random_service(w, &rng, busy_ms);
    random_hands(w, &rng, busy_ms);
    w->config = (struct sim_config){
        .seed = seed,
        .arrivals_per_s = per_s,
        .arrivals_even = one_in(&rng, 2),
        .arrivals_until_ms = busy_ms,
        .max_jobs = jobs,
        .workers = (uint32_t)(1 + below(&rng, 30)),
        .lease_ms = 1 + any_span_ms(&rng, 5),
        .restart_ms = 1 + any_span_ms(&rng, 5),
        .policy = &w->policy,
        .breaker_mode = w->has_breaker ? SIM_BREAKER_OBEYS : SIM_BREAKER_NONE,
        .breaker = &w->breaker,
        .service = &w->service,
        .hands = &w->hands,
        .max_events = 10000 + 2000 * (uint64_t)jobs,
    };
}
