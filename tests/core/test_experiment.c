/* Experiments: which arm a job belongs to, how the job keeps it, and what figures of arms say. */
#include "core/experiment/arm.h"
#include "core/experiment/figures.h"

#include <math.h>
#include <stdio.h>

#include "core/trace/context.h"
#include "check.h"

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static struct arm ARMS[] = {
    {.name = "control", .share = 0.2, .members = "\"experiment\":\"patience/control\"}"},
    {.name = "slow", .share = 0.3, .members = "\"experiment\":\"patience/slow\",\"a\":1}"},
    {.name = "slower", .share = 0.5, .members = "\"experiment\":\"patience/slower\",\"b\":2}"},
};
static const struct experiment PATIENCE = {
    .name = "patience", .task = "call", .arms = ARMS, .n_arms = 3};

/* ---- Names ----------------------------------------------------------------------------------- */

TEST(a_name_needs_no_quoting)
{
    char longest[EXPERIMENT_NAME_MAX + 2];
    memset(longest, 'x', sizeof longest);
    assert_true(experiment_name_valid((struct str){longest, EXPERIMENT_NAME_MAX}));
    assert_false(experiment_name_valid((struct str){longest, EXPERIMENT_NAME_MAX + 1}));
    assert_true(experiment_name_valid(STR("azAZ09.-_")));
    static const char *const BAD[] = {"",    "a b", "a/b", "a\"b", "a\\b", "a:b",
                                      "a@b", "[",   "`",   "{",    "\x7f", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_false(experiment_name_valid(str_of(BAD[i])));
}

/* ---- The choice ------------------------------------------------------------------------------ */

/* The points are those of `printf patience/job-1 | sha256sum`: 0.2442, 0.3480 … */
TEST(an_arm_is_chosen_by_a_hash_that_anyone_can_compute)
{
    static const struct {
        const char *id;
        const char *arm;
    } CHOICES[] = {
        {"job-1", "slow"},    {"job-2", "slow"},   {"job-3", "slow"},
        {"job-4", "control"}, {"job-5", "slower"}, {"job-6", "slower"},
    };
    for (size_t i = 0; i < sizeof CHOICES / sizeof CHOICES[0]; i++)
        assert_string_equal(experiment_choose(&PATIENCE, str_of(CHOICES[i].id))->name,
                            CHOICES[i].arm);
}

TEST(shares_are_kept)
{
    size_t counts[3] = {0};
    char id[16];
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(id, sizeof id, "%d", i);
        counts[experiment_choose(&PATIENCE, str_of(id)) - ARMS]++;
    }
    /* Within five standard deviations. */
    for (size_t i = 0; i < 3; i++) {
        const double p = ARMS[i].share;
        assert_true(fabs((double)counts[i] - 10000 * p) < 5 * sqrt(10000 * p * (1 - p)));
    }
}

/* Two experiments one after the other must not give the same jobs to the first arm. */
TEST(another_experiment_is_another_division)
{
    struct arm halves[] = {{.name = "a", .share = 0.5}, {.name = "b", .share = 0.5}};
    const struct experiment one = {.name = "one", .arms = halves, .n_arms = 2};
    const struct experiment two = {.name = "two", .arms = halves, .n_arms = 2};
    size_t same = 0;
    char id[16];
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(id, sizeof id, "%d", i);
        same += experiment_choose(&one, str_of(id)) == experiment_choose(&two, str_of(id));
    }
    assert_true(same > 4750 && same < 5250);
}

/* ---- With the job ---------------------------------------------------------------------------- */

static void check_own(struct str policy, const char *expected)
{
    struct buf out;
    buf_init(&out, 1000);
    check_str(arm_own_policy(policy, &out), expected);
    buf_release(&out);
}

TEST(a_job_keeps_its_arm_beside_its_trace)
{
    struct arena arena;
    arena_init(&arena);
    struct str kept = arm_keep(&ARMS[1], (struct str){0}, &arena);
    check_str(kept, "{\"experiment\":\"patience/slow\",\"a\":1}");
    check_str(arm_kept(kept), "patience/slow");
    assert_int_equal(trace_kept(kept).len, 0);
    assert_true(trace_has_policy(kept));
    check_own(kept, "{\"a\":1}");

    kept = arm_keep(&ARMS[2], STR("{\"traceparent\":\"" TRACE "\"}"), &arena);
    check_str(kept, "{\"traceparent\":\"" TRACE "\",\"experiment\":\"patience/slower\",\"b\":2}");
    check_str(arm_kept(kept), "patience/slower");
    check_str(trace_kept(kept), TRACE);
    check_own(kept, "{\"b\":2}");

    /* Another id, another arm: the one before is replaced. */
    kept = arm_keep(&ARMS[0], kept, &arena);
    check_str(kept, "{\"traceparent\":\"" TRACE "\",\"experiment\":\"patience/control\"}");
    check_own(kept, "{}");
    arena_release(&arena);
}

TEST(a_policy_without_an_arm_is_left_alone)
{
    static const char *const NONE[] = {"", "{}", "{\"max_retries\":3}", "{\"experiment\":\"cut",
                                       "{\"x\":1,\"experiment\":\"patience/slow\"}"};
    for (size_t i = 0; i < sizeof NONE / sizeof NONE[0]; i++) {
        assert_int_equal(arm_kept(str_of(NONE[i])).len, 0);
        check_own(str_of(NONE[i]), NONE[i]);
    }
    assert_int_equal(arm_kept(STR("{\"traceparent\":\"" TRACE "\"}")).len, 0);
    check_own(STR("{\"experiment\":\"a/b\""), "{"); /* cut off: it is read as what it is */
}

TEST(a_kept_arm_is_taken_apart)
{
    struct str experiment, arm;
    assert_true(arm_split(STR("patience/slow"), &experiment, &arm));
    check_str(experiment, "patience");
    check_str(arm, "slow");
    static const char *const BAD[] = {"", "patience", "/slow", "patience/", "patience/slow/er"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_false(arm_split(str_of(BAD[i]), &experiment, &arm));
}

/* ---- Figures --------------------------------------------------------------------------------- */

static void check_near(double is, double expected)
{
    if (fabs(is - expected) > 5e-5)
        fail_msg("%.6f is not %.6f", is, expected);
}

static void check_estimate(struct estimate e, double value, double low, double high)
{
    assert_true(e.is_known);
    check_near(e.value, value);
    check_near(e.low, low);
    check_near(e.high, high);
}

static struct arm_figures shares(int64_t completed, int64_t dead)
{
    return (struct arm_figures){.completed = completed, .dead = dead};
}

TEST(shares_have_the_interval_of_wilson)
{
    struct arm_figures f = shares(90, 10);
    assert_int_equal(figures_ended(&f), 100);
    check_estimate(figures_estimate(&f, MEASURE_COMPLETED), 0.9, 0.825634, 0.944771);
    f = shares(0, 10);
    check_estimate(figures_estimate(&f, MEASURE_COMPLETED), 0, 0, 0.277533);
    f = shares(10, 0);
    check_estimate(figures_estimate(&f, MEASURE_COMPLETED), 1, 0.722467, 1);
    f = shares(0, 0);
    assert_false(figures_estimate(&f, MEASURE_COMPLETED).is_known);
}

/* The example of Newcombe (1998), method 10. */
TEST(shares_differ_by_the_interval_of_newcombe)
{
    const struct arm_figures base = shares(48, 32), other = shares(56, 14), none = shares(0, 0);
    struct estimate d = figures_difference(&base, &other, MEASURE_COMPLETED);
    check_estimate(d, 0.2, 0.052431, 0.333873);
    assert_true(estimate_is_significant(&d));
    d = figures_difference(&other, &base, MEASURE_COMPLETED);
    check_estimate(d, -0.2, -0.333873, -0.052431);
    assert_true(estimate_is_significant(&d));
    d = figures_difference(&base, &base, MEASURE_COMPLETED);
    assert_false(estimate_is_significant(&d));
    d = figures_difference(&none, &base, MEASURE_COMPLETED);
    assert_false(d.is_known || estimate_is_significant(&d));
    d = figures_difference(&base, &none, MEASURE_COMPLETED);
    assert_false(d.is_known || estimate_is_significant(&d));
}

/* Half of the jobs took one value, half another. */
static struct arm_figures halves(int64_t n, int64_t one, int64_t other)
{
    struct arm_figures f = {.completed = n};
    for (int64_t i = 0; i < n; i++) {
        moments_add(&f.attempts, i % 2 ? one : other);
        moments_add(&f.time_ms, i % 2 ? one : other);
    }
    return f;
}

TEST(means_have_the_interval_of_their_spread)
{
    /* The variance of 1 and 3, fifty times each, is 100/99. */
    const double half = 1.959964 * sqrt(100.0 / 99 / 100);
    struct arm_figures f = halves(100, 1, 3);
    check_estimate(figures_estimate(&f, MEASURE_ATTEMPTS), 2, 2 - half, 2 + half);
    check_estimate(figures_estimate(&f, MEASURE_TIME), 2, 2 - half, 2 + half);
    /* A mean of times is not below 0. */
    f = halves(30, 0, 1);
    f.time_ms.squares_low = 100000;
    assert_true(figures_estimate(&f, MEASURE_TIME).low == 0);
    /* Values that are all alike have no spread, whatever rounding makes of it. */
    f = halves(100, 1000003, 1000003);
    check_estimate(figures_estimate(&f, MEASURE_TIME), 1000003, 1000003, 1000003);
    f = halves(29, 1, 3);
    assert_false(figures_estimate(&f, MEASURE_ATTEMPTS).is_known);
    assert_false(figures_estimate(&f, MEASURE_TIME).is_known);
    f.dead = 1; /* the dead count for attempts, and not for times */
    assert_true(figures_estimate(&f, MEASURE_ATTEMPTS).is_known);
    assert_false(figures_estimate(&f, MEASURE_TIME).is_known);
}

TEST(means_differ_by_the_interval_of_welch)
{
    const struct arm_figures base = halves(100, 1, 3), other = halves(50, 2, 6);
    const double half = 1.959964 * sqrt(100.0 / 99 / 100 + 200.0 / 49 / 50);
    struct estimate d = figures_difference(&base, &other, MEASURE_TIME);
    check_estimate(d, 2, 2 - half, 2 + half);
    assert_true(estimate_is_significant(&d));
    d = figures_difference(&other, &base, MEASURE_ATTEMPTS);
    check_estimate(d, -2, -2 - half, -2 + half);
    assert_true(estimate_is_significant(&d));
    assert_string_equal(measure_name(MEASURE_COMPLETED), "completed");
    assert_string_equal(measure_name(MEASURE_ATTEMPTS), "attempts");
    assert_string_equal(measure_name(MEASURE_TIME), "time");
}

TEST(sums_do_not_overflow)
{
    struct moments most = {0}, none = {0};
    moments_add(&most, INT64_MAX);
    assert_true(most.sum == MOMENTS_MAX);
    const double square = (double)most.squares_high * 0x1.0p32 + (double)most.squares_low;
    assert_true(square == (double)MOMENTS_MAX * (double)MOMENTS_MAX);
    assert_true(most.squares_high < INT64_MAX >> 31 && most.squares_low < INT64_MAX >> 31);
    moments_add(&none, -5);
    assert_true(none.sum == 0 && none.squares_high == 0 && none.squares_low == 0);
}
