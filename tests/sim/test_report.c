#include "check.h"

#include <jansson.h>

#include "sim/compare.h"

/* Three strategies with figures made up for the test. */
static struct comparison made_up(uint64_t dead_a, uint64_t wasted_a, uint64_t dead_b,
                                 uint64_t wasted_b)
{
    struct comparison c;
    compare_options_init(&c.options);
    c.options.n_strategies = 3;
    c.options.duration_ms = 780000;
    c.outage_start_ms = 60000;
    c.outage_end_ms = 240000;
    for (size_t i = 0; i < 3; i++)
        measure_init(&c.rows[i], 60000, 240000, 780000);
    c.rows[0].figures = (struct figures){.submitted = 100, .dead = dead_a, .wasted = wasted_a};
    c.rows[1].figures = (struct figures){.submitted = 100, .dead = dead_b, .wasted = wasted_b};
    c.rows[2].figures = (struct figures){.submitted = 100, .dead = 99, .wasted = 1};
    return c;
}

static void expect_reading(struct comparison c, const char *expected)
{
    struct buf out;
    buf_init(&out, 4096);
    comparison_read(&c, &out);
    assert_string_equal(buf_cstr(&out), expected);
    buf_release(&out);
}

TEST(the_least_waste_without_loss_is_named)
{
    expect_reading(made_up(0, 50, 0, 7),
                   "Of the strategies that lost no job, exponential wasted the fewest calls: 7; "
                   "the next is no delay with 50.");
}

TEST(a_single_survivor_is_named)
{
    expect_reading(made_up(0, 50, 3, 7), "Only no delay lost no job; it wasted 50 calls.");
}

TEST(if_all_lose_the_least_loss_is_named)
{
    expect_reading(made_up(9, 50, 3, 70),
                   "Every strategy lost jobs; exponential lost the fewest, 3 of 100.");
}

TEST(equals_are_called_equal)
{
    expect_reading(made_up(0, 5, 0, 5),
                   "no delay and exponential lost no job and wasted the same, 5 calls.");
}

TEST(all_equals_are_named)
{
    struct comparison c = made_up(0, 5, 0, 5);
    c.options.n_strategies = 4;
    c.rows[2].figures = c.rows[0].figures;
    c.rows[3].figures = (struct figures){.submitted = 100, .dead = 1};
    expect_reading(c, "no delay, exponential and exponential, full jitter lost no job and wasted "
                      "the same, 5 calls.");
}

TEST(strategies_that_do_not_differ_are_not_ranked)
{
    struct comparison c = made_up(0, 0, 0, 0);
    c.options.n_strategies = 2;
    expect_reading(c, "No strategy lost a job or wasted a call.");
    c = made_up(0, 1, 0, 1);
    c.options.n_strategies = 2;
    expect_reading(c, "No strategy lost a job; each wasted 1 call.");
    c = made_up(3, 9, 3, 9);
    c.options.n_strategies = 2;
    expect_reading(c, "Every strategy lost 3 of 100 jobs; each wasted 9 calls.");
}

TEST(equal_losses_are_told_apart_by_waste)
{
    struct comparison c = made_up(3, 9, 3, 8);
    c.options.n_strategies = 2;
    expect_reading(c, "Every strategy lost 3 of 100 jobs; exponential wasted the fewest calls: 8.");
    expect_reading(made_up(3, 9, 3, 8), "Every strategy lost jobs; no delay and exponential lost "
                                        "the fewest, 3 of 100.");
}

TEST(a_single_strategy_is_not_compared)
{
    struct comparison c = made_up(0, 0, 0, 0);
    c.options.n_strategies = 1;
    expect_reading(c, "No job was lost and no call wasted.");
    c.rows[0].figures.wasted = 1;
    expect_reading(c, "No job was lost; 1 call was wasted.");
    c.rows[0].figures.dead = 2;
    c.rows[0].figures.wasted = 50;
    expect_reading(c, "Lost: 2 of 100 jobs; 50 calls were wasted.");
}

TEST(without_jobs_there_is_nothing_to_compare)
{
    struct comparison c = made_up(0, 0, 0, 0);
    for (size_t i = 0; i < 3; i++)
        c.rows[i].figures = (struct figures){0};
    expect_reading(c, "No job arrived: there is nothing to compare.");
}

TEST(refused_jobs_are_lost_jobs)
{
    struct comparison c = made_up(0, 5, 0, 7);
    c.rows[0].figures.submitted = 60;
    c.rows[0].figures.rejected = 40;
    expect_reading(c, "Only exponential lost no job; it wasted 7 calls. Your policy refused 40 "
                      "jobs while its breaker was open; they count as lost.");
    assert_int_equal(comparison_best(&c), 1);
}

static void expect_description(const struct comparison *c, const char *expected)
{
    struct buf out;
    buf_init(&out, 4096);
    comparison_describe(c, &out);
    assert_string_equal(buf_cstr(&out), expected);
    buf_release(&out);
}

TEST(the_description_has_a_subject_without_an_outage)
{
    struct comparison c = made_up(0, 0, 0, 0);
    c.options.outage_ms = 0;
    c.options.attempts = 1;
    expect_description(&c, "20 jobs/s for 780 s, 1 attempt each; the service takes 80 calls/s");
}

TEST(a_configured_policy_has_its_own_attempts)
{
    struct comparison c = made_up(0, 0, 0, 0);
    struct redrive_policy policy;
    redrive_policy_init(&policy);
    policy.max_retries = 2;
    struct strategy own = strategy_of_config(&(struct strategy_config){.policy = &policy});
    c.options.outage_ms = 0;
    c.options.capacity_per_s = 0;
    c.options.strategies[2] = &own;
    expect_description(&c, "20 jobs/s for 780 s, 8 attempts each (your policy: 3)");
    c.options.strategies[0] = &own;
    c.options.n_strategies = 1;
    expect_description(&c, "20 jobs/s for 780 s, 3 attempts each");
}

TEST(the_description_says_what_was_simulated)
{
    struct comparison c = made_up(0, 0, 0, 0);
    expect_description(&c, "20 jobs/s for 780 s, 8 attempts each; the service is down from 60 s to "
                           "240 s; it takes 80 calls/s");
}

TEST(json_holds_options_and_figures)
{
    struct comparison c = made_up(0, 50, 0, 7);
    c.rows[0].figures.drain_ms = -1;
    c.rows[1].figures.drain_ms = 76000;
    struct buf out;
    buf_init(&out, 65536);
    comparison_json(&c, &out);

    json_t *root = json_loads(buf_cstr(&out), 0, NULL);
    buf_release(&out);
    assert_non_null(root);
    const char *best;
    json_int_t outage_ms;
    json_int_t wasted;
    json_int_t drain_ms;
    json_t *never;
    assert_int_equal(json_unpack(root, "{s:s, s:{s:I}, s:[{s:o}, {s:I, s:I}, {}]}", "best", &best,
                                 "options", "outage_ms", &outage_ms, "strategies", "drain_ms",
                                 &never, "wasted_calls", &wasted, "drain_ms", &drain_ms),
                     0);
    assert_string_equal(best, "exponential");
    assert_int_equal(outage_ms, 180000);
    assert_int_equal(wasted, 7);
    assert_int_equal(drain_ms, 76000);
    assert_true(json_is_null(never));
    json_decref(root);
}

TEST(work_beyond_its_bound_is_refused)
{
    struct compare_options options;
    struct comparison c;
    struct redrive_err err;
    compare_options_init(&options);
    options.outage_ms = 5000;
    options.n_strategies = 2;
    options.max_events = 1000000;
    assert_int_equal(compare_run(&options, &c, &err), 0);
    comparison_release(&c);
    /* One strategy fits, the second one does not. */
    options.max_events = 8000;
    assert_int_equal(compare_run(&options, &c, &err), REDRIVE_E_RANGE);
    assert_non_null(strstr(err.message, "too much"));
}

TEST(the_series_is_what_the_picture_draws)
{
    struct comparison c = made_up(0, 0, 0, 0);
    struct measure_second seconds[4] = {{.ok = 2}, {.failed = 4}, {.ok = 1}, {.ok = 1}};
    struct json_writer w;
    struct buf out;
    c.options.n_strategies = 1;
    c.options.outage_ms = 0;
    c.options.duration_ms = 4000;
    c.rows[0].seconds = seconds;
    c.rows[0].n_seconds = 4;
    buf_init(&out, 10000);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    comparison_write_series(&c, &w);
    json_end_object(&w);
    assert_string_equal(buf_cstr(&out), "{\"step_ms\":1000,\"calls_per_s\":[[2,4,1,1]]}");
    buf_release(&out);
}
