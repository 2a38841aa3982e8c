/* Experiments in the simulator: each job has the policy of its arm, and the report is right about
 * what differs and what does not. */
#include "check.h"

#include "core/retry/policy.h"
#include "sim/compare.h"

static struct arm ARMS[2] = {{.name = "control", .share = 0.5}, {.name = "other", .share = 0.5}};
static const struct experiment EXPERIMENT = {
    .name = "trial", .task = "call", .arms = ARMS, .n_arms = 2};

/* A policy of so many attempts, with a fixed delay. */
static void set_arm(struct arm *arm, int32_t attempts, int64_t delay_ms)
{
    policy_init_queue(&arm->policy);
    arm->policy.backoff.strategy = REDRIVE_STRATEGY_FIXED;
    arm->policy.backoff.initial_delay_ms = delay_ms;
    arm->policy.backoff.jitter.mode = REDRIVE_JITTER_NONE;
    arm->policy.max_retries = attempts - 1;
}

/* No breaker: arms differ by their own failures alone. */
static struct comparison run(double error_rate, double jobs_per_s, uint64_t seed)
{
    static struct redrive_breaker_config breaker;
    static struct compare_arms arms;
    struct compare_options options;
    struct comparison ret;
    struct redrive_err err = {0};
    redrive_breaker_config_init(&breaker);
    breaker.failure_threshold = 0;
    breaker.failure_rate = 0;
    compare_options_init(&options);
    options.outage_ms = 0;
    options.duration_ms = 60 * 1000;
    options.jobs_per_s = jobs_per_s;
    options.capacity_per_s = 0;
    options.error_rate = error_rate;
    options.seed = seed;
    const struct strategy_config task = {.breaker = &breaker};
    compare_choose_arms(&options, &EXPERIMENT, &task, &arms);
    if (compare_run(&options, &ret, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return ret;
}

TEST(a_job_is_decided_by_the_policy_of_its_arm)
{
    set_arm(&ARMS[0], 1, 1000);
    set_arm(&ARMS[1], 6, 1000);
    struct comparison c = run(1, 20, 1);
    const struct arm_figures *control = &c.rows[0].arm, *other = &c.rows[1].arm;
    assert_true(control->submitted > 500 && other->submitted > 500);
    assert_true(control->dead == control->submitted && other->dead == other->submitted);
    assert_true(control->attempts.sum == control->dead && other->attempts.sum == 6 * other->dead);
    assert_true(c.rows[0].figures.calls == (uint64_t)control->attempts.sum);
    assert_true(c.rows[1].figures.calls == (uint64_t)other->attempts.sum);
    comparison_release(&c);
}

/* As many arms hear of the same jobs as there are: none is counted twice. */
TEST(jobs_are_divided_and_timed)
{
    set_arm(&ARMS[0], 3, 1000);
    set_arm(&ARMS[1], 3, 5000);
    struct comparison c = run(0.3, 50, 1);
    const struct arm_figures *control = &c.rows[0].arm, *other = &c.rows[1].arm;
    assert_true(control->submitted == (int64_t)c.rows[0].figures.submitted);
    assert_true(figures_ended(control) == control->submitted);
    assert_true(figures_ended(other) == other->submitted);
    const struct estimate time = figures_difference(control, other, MEASURE_TIME);
    const struct estimate completed = figures_difference(control, other, MEASURE_COMPLETED);
    assert_true(estimate_is_significant(&time) && time.value > 1000);
    assert_false(estimate_is_significant(&completed));
    /* 0.3 cubed of the jobs die, in both. */
    const struct estimate share = figures_estimate(other, MEASURE_COMPLETED);
    assert_true(share.low < 0.973 && share.high > 0.973);
    struct buf text;
    buf_init(&text, 1000);
    comparison_describe(&c, &text);
    assert_string_equal(buf_cstr(&text), "50 jobs/s for 60 s, 3 attempts each");
    buf_release(&text);
    comparison_release(&c);
}

/* Two arms of the same policy differ by chance alone: one interval in twenty may say otherwise.
 * With 300 runs, 15 are expected; more than 30 or fewer than 3 would be a chance of one in 5,000.
 */
TEST(arms_that_are_alike_seldom_look_different)
{
    int wrong[MEASURE_KINDS] = {0};
    set_arm(&ARMS[0], 3, 1000);
    set_arm(&ARMS[1], 3, 1000);
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct comparison c = run(0.4, 20, seed);
        for (int kind = 0; kind < MEASURE_KINDS; kind++) {
            const struct estimate d =
                figures_difference(&c.rows[0].arm, &c.rows[1].arm, (enum measure_kind)kind);
            assert_true(d.is_known);
            wrong[kind] += estimate_is_significant(&d);
        }
        comparison_release(&c);
    }
    for (int kind = 0; kind < MEASURE_KINDS; kind++)
        if (wrong[kind] < 3 || wrong[kind] > 30)
            fail_msg("%s: %d of 300", measure_name((enum measure_kind)kind), wrong[kind]);
}

TEST(arms_of_different_length_are_described)
{
    struct buf text;
    set_arm(&ARMS[0], 1, 1000);
    set_arm(&ARMS[1], 6, 1000);
    struct comparison c = run(0, 1, 1);
    buf_init(&text, 1u << 20);
    comparison_describe(&c, &text);
    assert_string_equal(buf_cstr(&text), "1 jobs/s for 60 s, 1 to 6 attempts each");
    buf_reset(&text);
    assert_int_equal(chart_svg(&c, &text), 0);
    /* Each arm has a line of its own look. */
    assert_non_null(strstr(buf_cstr(&text), ">control<"));
    assert_non_null(strstr(buf_cstr(&text), ">other<"));
    assert_non_null(strstr(buf_cstr(&text), "stroke=\"#d55e00\""));
    assert_non_null(strstr(buf_cstr(&text), "stroke=\"#e69f00\""));
    buf_release(&text);
    comparison_release(&c);
}
