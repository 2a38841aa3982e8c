#include "check.h"

#include <stdlib.h>

#include "base/rng.h"
#include "random_world.h"
#include "sim/sim.h"

static uint64_t g_hash;

static void hash_event(const struct sim_event *e, void *ctx)
{
    (void)ctx;
    int64_t facts[] = {e->type,     e->at_ms,
                       e->job,      (int64_t)e->from,
                       e->epoch,    e->to,
                       e->attempts, e->process_after_ms,
                       e->breaker,  (int64_t)e->generation};
    g_hash = rng_hash(facts, sizeof facts, g_hash);
}

static uint64_t hash_of_run(uint64_t seed)
{
    struct random_world world;
    struct sim_totals totals;
    random_world_init(&world, seed);
    world.config.observe = hash_event;
    g_hash = 0;
    assert_int_equal(sim_run(&world.config, &totals, NULL), 0);
    return g_hash;
}

TEST(the_same_seed_gives_the_same_events)
{
    for (uint64_t seed = 1; seed <= 50; seed++)
        assert_int_equal(hash_of_run(seed), hash_of_run(seed));
    assert_int_not_equal(hash_of_run(1), hash_of_run(2));
}

/* Five jobs, a tenth of a second apart, and two workers. */
static struct sim_config a_config(const struct redrive_policy *policy,
                                  const struct service_config *service)
{
    return (struct sim_config){.seed = 1,
                               .arrivals_per_s = 10,
                               .arrivals_even = true,
                               .arrivals_until_ms = 10000,
                               .max_jobs = 5,
                               .workers = 2,
                               .lease_ms = 1000,
                               .policy = policy,
                               .service = service};
}

static void arrive(const struct sim_event *e, void *ctx)
{
    int64_t *arrivals = ctx;
    if (e->type == SIM_SUBMITTED)
        arrivals[e->job] = e->at_ms;
}

TEST(policies_that_differ_meet_the_same_arrivals)
{
    int64_t first[100] = {0};
    int64_t second[100] = {0};
    struct redrive_policy policy;
    struct sim_totals totals;
    struct service_config service = {.error_rate = 0.5, .latency_ms = 10};

    redrive_policy_init(&policy);
    struct sim_config config = a_config(&policy, &service);
    config.arrivals_even = false;
    config.max_jobs = 100;
    config.arrivals_until_ms = 100000;
    config.observe = arrive;
    config.observe_ctx = first;
    assert_int_equal(sim_run(&config, &totals, NULL), 0);
    policy.max_retries = 0;
    config.observe_ctx = second;
    assert_int_equal(sim_run(&config, &totals, NULL), 0);
    assert_memory_equal(first, second, sizeof first);
}

TEST(even_arrivals_are_even)
{
    int64_t arrivals[5];
    struct redrive_policy policy;
    struct sim_totals totals;
    struct service_config service = {0};

    redrive_policy_init(&policy);
    struct sim_config config = a_config(&policy, &service);
    config.observe = arrive;
    config.observe_ctx = arrivals;
    assert_int_equal(sim_run(&config, &totals, NULL), 0);
    assert_int_equal(totals.submitted, 5);
    assert_int_equal(totals.in_state[REDRIVE_STATE_COMPLETED], 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(arrivals[i], 100 * (i + 1));
}

TEST(a_run_that_takes_too_long_is_an_error)
{
    struct redrive_policy policy;
    struct sim_totals totals;
    struct redrive_err err = {0};
    struct service_config service = {0};

    redrive_policy_init(&policy);
    struct sim_config config = a_config(&policy, &service);
    config.max_events = 3;
    assert_int_equal(sim_run(&config, &totals, &err), REDRIVE_E_INTERNAL);
    assert_string_equal(err.message, "the simulation does not come to an end");
}

static void count_running(const struct sim_event *e, void *ctx)
{
    int *running = ctx;
    running[0] += e->to == REDRIVE_STATE_RUNNING;
    running[0] -= e->type == SIM_SETTLED && e->from == REDRIVE_STATE_RUNNING;
    if (running[0] > running[1])
        running[1] = running[0];
}

TEST(no_more_runs_at_a_time_than_workers)
{
    int running[2] = {0};
    struct redrive_policy policy;
    struct sim_totals totals;
    struct service_config service = {.latency_ms = 5000};

    redrive_policy_init(&policy);
    struct sim_config config = a_config(&policy, &service);
    config.observe = count_running;
    config.observe_ctx = running;
    assert_int_equal(sim_run(&config, &totals, NULL), 0);
    assert_int_equal(running[1], 2);
    assert_int_equal(totals.in_state[REDRIVE_STATE_COMPLETED], 5);
}
