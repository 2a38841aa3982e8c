/* Adaptive concurrency in the simulator: it finds what a service can take, and keeps to it. */
#include "check.h"
#include "sim/compare.h"

#define CAPACITY 80.0

struct seen {
    uint64_t calls;
    uint64_t refused;
    int64_t from_ms;
    int64_t to_ms;
};

static void count(const struct sim_event *event, void *ctx)
{
    struct seen *seen = ctx;
    if (event->type != SIM_SETTLED || event->at_ms < seen->from_ms || event->at_ms >= seen->to_ms)
        return;
    seen->calls++;
    seen->refused += event->decision->is_overload;
}

/* A service that nothing is known of: it takes 80 calls a second and refuses the rest, or works on
 * them later than anyone waits. Jobs arrive twice as fast as it can take them. */
static struct seen run(const struct service_config *service, const struct adaptive_config *adaptive,
                       uint64_t seed)
{
    struct redrive_policy policy;
    struct redrive_breaker_config breaker;
    struct redrive_err err = {0};
    struct sim_totals totals;
    struct seen seen = {.from_ms = 60 * 1000, .to_ms = 300 * 1000};
    redrive_policy_init(&policy);
    redrive_breaker_config_init(&breaker);
    const struct sim_config config = {
        .seed = seed,
        .arrivals_per_s = 2 * CAPACITY,
        .arrivals_until_ms = 300 * 1000,
        .max_jobs = UINT32_MAX,
        .workers = 500,
        .lease_ms = 30 * 1000,
        .policy = &policy,
        .names = {.task = "call"},
        .breaker = &breaker,
        .adaptive = adaptive,
        .service = service,
        .observe = count,
        .observe_ctx = &seen,
    };
    if (sim_run(&config, &totals, &err) < 0)
        fail_msg("%s", err.message);
    return seen;
}

static const struct adaptive_config USUAL = {ADAPTIVE_FLOOR, ADAPTIVE_CEILING};

static double per_second(const struct seen *seen)
{
    return (double)(seen->calls - seen->refused) * 1000 / (double)(seen->to_ms - seen->from_ms);
}

TEST(it_finds_a_rate_limit_and_keeps_to_it)
{
    const struct service_config service = {.rate_limit = CAPACITY, .latency_ms = 250};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const struct seen seen = run(&service, &USUAL, seed);
        assert_true(per_second(&seen) >= 0.9 * CAPACITY && per_second(&seen) <= 1.1 * CAPACITY);
        assert_true((double)seen.refused < 0.02 * (double)seen.calls);
    }
    const struct seen without = run(&service, NULL, 1);
    assert_true((double)without.refused > 0.3 * (double)without.calls);
}

TEST(it_finds_the_capacity_of_a_service_that_gets_slow)
{
    const struct service_config service = {
        .capacity = CAPACITY, .overload_waits = true, .latency_ms = 250, .timeout_ms = 2000};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const struct seen seen = run(&service, &USUAL, seed);
        assert_true(per_second(&seen) >= 0.9 * CAPACITY);
        assert_true((double)seen.refused < 0.02 * (double)seen.calls);
    }
    const struct seen without = run(&service, NULL, 1);
    assert_true(per_second(&without) < 0.1 * CAPACITY);
}

TEST(it_keeps_to_its_floor_and_its_ceiling)
{
    const struct service_config service = {.latency_ms = 250};
    const struct adaptive_config few = {5, 5};
    const struct seen seen = run(&service, &few, 1);
    assert_true(per_second(&seen) > 18 && per_second(&seen) < 22); /* 5 calls of 250 ms */
}
