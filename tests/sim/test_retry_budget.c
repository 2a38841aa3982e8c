/* Retry budgets in the simulator: what they do to a service that fails in part. */
#include "sim/compare.h"

#include "check.h"
#include "sim/service.h"

static struct comparison run(const char *name, struct compare_options *options)
{
    struct comparison comparison;
    struct redrive_err err = {0};
    options->n_strategies = 1;
    options->strategies[0] = strategy_find(str_of(name));
    assert_non_null(options->strategies[0]);
    assert_int_equal(compare_options_check(options, &err), 0);
    if (compare_run(options, &comparison, &err) < 0)
        fail_msg("%s", err.message);
    return comparison;
}

static uint64_t calls_between(const struct measure *m, int64_t from_s, int64_t to_s)
{
    uint64_t calls = 0;
    for (int64_t s = from_s; s < to_s && s < (int64_t)m->n_seconds; s++)
        calls += m->seconds[s].ok + m->seconds[s].failed;
    return calls;
}

/* While jobs arrive: what waits then is retried later, as the budget allows. */
static double calls_per_job(const char *name, double error_rate)
{
    struct compare_options options;
    compare_options_init(&options);
    options.outage_ms = 0;
    options.duration_ms = 300 * 1000;
    options.jobs_per_s = 50;
    options.capacity_per_s = 0;
    options.error_rate = error_rate;
    options.attempts = 4;
    struct comparison c = run(name, &options);
    const double calls = (double)calls_between(&c.rows[0], 0, options.duration_ms / 1000);
    const double per_job = calls / (double)c.rows[0].figures.submitted;
    assert_int_equal(c.rows[0].figures.completed + c.rows[0].figures.dead,
                     c.rows[0].figures.submitted);
    comparison_release(&c);
    return per_job;
}

/* A tenth of 50 jobs/s, and one more a second: 1.12. */
TEST(calls_per_job_stay_near_one_and_the_ratio)
{
    double with = 0, without = 0;
    for (int percent = 0; percent <= 100; percent += 10) {
        with = calls_per_job("retry-budget", percent / 100.0);
        without = calls_per_job("full-jitter", percent / 100.0);
        assert_true(with >= 0.999 && with <= 1.13);
        assert_true(without >= with - 0.01);
        if (percent >= 20)
            assert_true(with > 1.09); /* the budget is used up, not left alone */
    }
    assert_true(without > 3.5);
}

/* A service that takes 30 calls a second, and gets slower beyond; 20 jobs a second; one minute in
 * which most calls hang. */
static void brownout(struct compare_options *options)
{
    compare_options_init(options);
    options->outage_ms = 60 * 1000;
    options->duration_ms = 900 * 1000;
    options->brownout = 0.9;
    options->timeout_ms = 2000;
    options->capacity_per_s = 30;
    options->overload_waits = true;
}

/* The share of calls that succeed in the last five minutes in which jobs arrive. */
static double late_success(const char *name)
{
    struct compare_options options;
    uint64_t ok = 0;
    brownout(&options);
    struct comparison c = run(name, &options);
    for (size_t s = 600; s < 900 && s < c.rows[0].n_seconds; s++)
        ok += c.rows[0].seconds[s].ok;
    const double share = (double)ok / (double)calls_between(&c.rows[0], 600, 900);
    comparison_release(&c);
    return share;
}

TEST(without_a_budget_overload_outlives_its_cause)
{
    assert_true(late_success("full-jitter") < 0.2);
    assert_true(late_success("retry-budget") > 0.95);
}

/* ---- The service ----------------------------------------------------------------------------- */

TEST(a_brownout_fails_a_share_of_the_calls)
{
    const struct service_outage outage = {1000, 100000};
    const struct service_config config = {
        .outages = &outage, .n_outages = 1, .brownout = 0.25, .latency_ms = 10};
    struct service service;
    int failed = 0;
    service_init(&service, &config, 1);
    for (int i = 0; i < 10000; i++)
        failed += service_call(&service, 1000 + i).failure != NULL;
    assert_in_range(failed, 2300, 2700);
    for (int i = 0; i < 1000; i++)
        assert_null(service_call(&service, 101000 + i).failure);
}

TEST(overload_makes_calls_slow_until_they_time_out)
{
    const struct service_config config = {
        .capacity = 10, .overload_waits = true, .latency_ms = 10, .timeout_ms = 1000};
    struct service service;
    service_init(&service, &config, 1);
    for (int i = 0; i < 10; i++) {
        const struct service_answer answer = service_call(&service, 0);
        assert_null(answer.failure);
        assert_in_range(answer.takes_ms, 100 * i, 100 * i + 100);
    }
    const struct service_answer late = service_call(&service, 0);
    assert_non_null(late.failure);
    assert_int_equal(late.takes_ms, 1000);
    /* It was worked on all the same: the next is not earlier for it. */
    assert_in_range(service_call(&service, 1000).takes_ms, 100, 200);
}
