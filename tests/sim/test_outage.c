/* What parking is for: through a short and a long outage no job dies of waiting, and nobody else
 * who loses nothing calls the dead service less. */
#include "check.h"

#include <stdlib.h>

#include "sim/compare.h"

static const int64_t OUTAGES_MS[] = {180 * 1000, 900 * 1000};
static const double CAPACITIES[] = {50, 80, 0};

static const struct figures *row(const struct comparison *c, const char *name)
{
    for (size_t i = 0; i < c->options.n_strategies; i++)
        if (!strcmp(c->options.strategies[i]->name, name))
            return &c->rows[i].figures;
    fail_msg("no strategy %s", name);
    return NULL;
}

/* Runs every outage with every capacity, each with a seed of its own, and hands the comparison
 * over. */
static void for_each_outage(void (*check)(const struct comparison *c))
{
    uint64_t seed = 1;
    for (size_t o = 0; o < sizeof OUTAGES_MS / sizeof OUTAGES_MS[0]; o++) {
        for (size_t k = 0; k < sizeof CAPACITIES / sizeof CAPACITIES[0]; k++) {
            struct compare_options options;
            struct comparison comparison;
            compare_options_init(&options);
            options.outage_ms = OUTAGES_MS[o];
            options.capacity_per_s = CAPACITIES[k];
            options.seed = seed++;
            assert_int_equal(compare_options_check(&options, NULL), 0);
            assert_int_equal(compare_run(&options, &comparison, NULL), 0);
            check(&comparison);
            comparison_release(&comparison);
        }
    }
}

static void check_parking(const struct comparison *c)
{
    const struct figures *parks = row(c, "breaker-parks");
    assert_int_equal(parks->dead, 0);
    assert_int_equal(parks->completed, parks->submitted);
    assert_true(parks->drain_ms >= 0);
    for (size_t i = 0; i < c->options.n_strategies; i++) {
        const struct figures *other = &c->rows[i].figures;
        assert_int_equal(other->submitted, parks->submitted);
        assert_int_equal(other->completed + other->dead, other->submitted);
        if (other != parks && other->dead == 0)
            assert_true(other->wasted > 20 * parks->wasted);
    }
    /* The comparison means something: the others do suffer. */
    assert_true(row(c, "none")->dead > 3000);
    assert_true(row(c, "full-jitter")->dead > 2000);
    assert_true(row(c, "breaker-burns")->dead > 2000);
    assert_int_equal(row(c, "sidekiq")->dead, 0);
}

TEST(parking_loses_nothing_and_wastes_least)
{
    for_each_outage(check_parking);
}

TEST(without_an_outage_all_are_equal)
{
    struct compare_options options;
    struct comparison c;
    compare_options_init(&options);
    options.outage_ms = 0;
    options.duration_ms = 60 * 1000;
    assert_int_equal(compare_run(&options, &c, NULL), 0);
    for (size_t i = 0; i < options.n_strategies; i++) {
        assert_int_equal(c.rows[i].figures.wasted, 0);
        assert_int_equal(c.rows[i].figures.calls, c.rows[0].figures.submitted);
        assert_int_equal(c.rows[i].figures.p99_ms, c.rows[0].figures.p99_ms);
    }
    comparison_release(&c);
}

struct spread {
    uint32_t most; /* attempts of any job at the time it went as a probe */
};

static void watch_probes(const struct sim_event *e, void *ctx)
{
    struct spread *spread = ctx;
    if (e->type == SIM_STARTED && e->permit.probe != 0 && e->attempts > spread->most)
        spread->most = e->attempts;
}

/* In 900 s about thirty probes fail, and thousands of jobs wait that have used no attempt. */
TEST(no_job_is_the_probe_twice_while_others_wait)
{
    const struct strategy *parks = strategy_find(STR("breaker-parks"));
    struct spread spread = {0};
    struct redrive_policy policy;
    struct redrive_breaker_config breaker;
    struct sim_totals totals;
    struct service_outage outage = {60000, 900000};
    struct service_config service = {.outages = &outage, .n_outages = 1, .latency_ms = 50};

    assert_string_equal(parks->name, "breaker-parks");
    strategy_policy(parks, 8, &policy);
    redrive_breaker_config_init(&breaker);
    struct sim_config config = {.seed = 1,
                                .arrivals_per_s = 20,
                                .arrivals_until_ms = 1000000,
                                .max_jobs = UINT32_MAX,
                                .workers = 10,
                                .lease_ms = 30000,
                                .policy = &policy,
                                .breaker_mode = SIM_BREAKER_OBEYS,
                                .breaker = &breaker,
                                .service = &service,
                                .observe = watch_probes,
                                .observe_ctx = &spread};
    assert_int_equal(sim_run(&config, &totals, NULL), 0);
    assert_int_equal(totals.in_state[REDRIVE_STATE_DEAD_LETTER], 0);
    assert_int_equal(spread.most, 1);
}

static void expect_refusal(const struct compare_options *options, const char *message)
{
    struct redrive_err err = {0};
    assert_int_equal(compare_options_check(options, &err), REDRIVE_E_RANGE);
    assert_string_equal(err.message, message);
}

TEST(options_that_cannot_be_meant_are_refused)
{
    struct compare_options options;
    compare_options_init(&options);
    assert_int_equal(compare_options_check(&options, NULL), 0);
    options.attempts = 0;
    expect_refusal(&options, "attempts is out of range");

    compare_options_init(&options);
    options.duration_ms = 240 * 1000;
    expect_refusal(&options, "the run ends before the outage does");

    compare_options_init(&options);
    options.jobs_per_s = 50000;
    expect_refusal(&options, "too many jobs to simulate");
}
