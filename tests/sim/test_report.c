#include "check.h"

#include <jansson.h>

#include "sim/report.h"

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

static void the_least_waste_without_loss_is_named(void **state)
{
    (void)state;
    expect_reading(made_up(0, 50, 0, 7),
                   "Of the strategies that lost no job, exponential wasted the fewest calls: 7; "
                   "the next is no delay with 50.");
}

static void a_single_survivor_is_named(void **state)
{
    (void)state;
    expect_reading(made_up(0, 50, 3, 7), "Only no delay lost no job; it wasted 50 calls.");
}

static void if_all_lose_the_least_loss_is_named(void **state)
{
    (void)state;
    expect_reading(made_up(9, 50, 3, 70),
                   "Every strategy lost jobs; exponential lost the fewest, 3 of 100.");
}

static void equals_are_called_equal(void **state)
{
    (void)state;
    expect_reading(made_up(0, 5, 0, 5),
                   "no delay and exponential lost no job and wasted the same, 5 calls.");
}

static void the_description_says_what_was_simulated(void **state)
{
    (void)state;
    struct comparison c = made_up(0, 0, 0, 0);
    struct buf out;
    buf_init(&out, 4096);
    comparison_describe(&c, &out);
    assert_string_equal(buf_cstr(&out),
                        "20 jobs/s for 780 s, 8 attempts each; the service is down from 60 s to "
                        "240 s; it takes 80 calls/s");
    buf_release(&out);
}

static void json_holds_options_and_figures(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_least_waste_without_loss_is_named),   T(a_single_survivor_is_named),
        T(if_all_lose_the_least_loss_is_named),     T(equals_are_called_equal),
        T(the_description_says_what_was_simulated), T(json_holds_options_and_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
