#include "core/limit/budget.h"

#include <math.h>

#include "base/rng.h"
#include "check.h"

static const struct budget_config TENTH = {.ratio = 0.1, .window_ms = 10000, .min_per_second = 1};
/* One that time does not fill: the least reserve, which is taken first. */
static const struct budget_config SHARE_ONLY = {
    .ratio = 0.1, .window_ms = 10000, .min_per_second = 0.01};

static void start_firsts(struct budget *b, const struct budget_config *config, int n,
                         int64_t now_ms)
{
    for (int i = 0; i < n; i++)
        budget_start(b, config, false, now_ms);
}

static uint32_t start_retries(struct budget *b, const struct budget_config *config, int64_t now_ms)
{
    uint32_t n = 0;
    for (; budget_room(b, config, now_ms) > 0; n++)
        budget_start(b, config, true, now_ms);
    return n;
}

TEST(a_new_budget_has_its_reserve)
{
    struct budget b;
    budget_init(&b, &TENTH, 5000);
    assert_int_equal(budget_room(&b, &TENTH, 5000), 10);
    assert_true(budget_is_full(&b, &TENTH, 5000));
    budget_init(&b, &SHARE_ONLY, 5000);
    assert_int_equal(budget_room(&b, &SHARE_ONLY, 5000), 1); /* a tenth of one would never do */
}

TEST(retries_are_a_share_of_first_attempts)
{
    struct budget b;
    budget_init(&b, &SHARE_ONLY, 0);
    assert_int_equal(start_retries(&b, &SHARE_ONLY, 0), 1);
    start_firsts(&b, &SHARE_ONLY, 9, 100);
    assert_int_equal(budget_room(&b, &SHARE_ONLY, 100), 0);
    start_firsts(&b, &SHARE_ONLY, 1, 100);
    assert_int_equal(budget_room(&b, &SHARE_ONLY, 100),
                     1); /* 0.1 times 10 is 1, not a little less */
    start_firsts(&b, &SHARE_ONLY, 90, 5000);
    assert_int_equal(start_retries(&b, &SHARE_ONLY, 5000), 10);
    struct budget_status status;
    budget_status(&b, &SHARE_ONLY, 5000, &status);
    assert_int_equal(status.firsts, 100);
    assert_int_equal(status.retries, 11);
    assert_int_equal(status.room, 0);
    assert_true(status.tokens < 0.1);
}

TEST(what_is_older_than_the_window_does_not_count)
{
    struct budget b;
    budget_init(&b, &SHARE_ONLY, 0);
    assert_int_equal(start_retries(&b, &SHARE_ONLY, 0), 1);
    start_firsts(&b, &SHARE_ONLY, 100, 0);
    assert_int_equal(budget_room(&b, &SHARE_ONLY, 9999), 10);
    assert_int_equal(budget_room(&b, &SHARE_ONLY, 10000), 0);
    /* Retries of the past make room as well. */
    assert_int_equal(start_retries(&b, &SHARE_ONLY, 9000), 10);
    start_firsts(&b, &SHARE_ONLY, 50, 9500);
    assert_int_equal(budget_room(&b, &SHARE_ONLY, 9999), 5);
    assert_int_equal(budget_room(&b, &SHARE_ONLY, 10000), 0); /* 10 retries for 50 first attempts */
    assert_int_equal(budget_room(&b, &SHARE_ONLY, 19500), 0); /* and both are gone */
}

TEST(the_reserve_fills_with_time)
{
    struct budget b;
    budget_init(&b, &TENTH, 0);
    assert_int_equal(budget_wait_ms(&b, &TENTH, 0), 0);
    assert_int_equal(start_retries(&b, &TENTH, 0), 10);
    assert_false(budget_is_full(&b, &TENTH, 0));
    const int64_t wait_ms = budget_wait_ms(&b, &TENTH, 0);
    assert_in_range(wait_ms, 1000, 1001);
    assert_int_equal(budget_room(&b, &TENTH, 999), 0);
    assert_int_equal(budget_room(&b, &TENTH, wait_ms), 1);
    assert_int_equal(start_retries(&b, &TENTH, 2500), 2);
    assert_int_equal(budget_room(&b, &TENTH, 3000), 1); /* the half was not lost */
    assert_false(budget_is_full(&b, &TENTH, 11999));
    assert_true(budget_is_full(&b, &TENTH, 12000));
    assert_int_equal(budget_room(&b, &TENTH, 1000000), 10);
}

/* It says more than a new one: what it has counted makes room, or takes it. */
TEST(a_budget_with_counts_is_not_full)
{
    struct budget b;
    budget_init(&b, &TENTH, 0);
    start_firsts(&b, &TENTH, 10, 0);
    assert_false(budget_is_full(&b, &TENTH, 0));
    budget_start(&b, &TENTH, true, 9000);
    assert_false(budget_is_full(&b, &TENTH, 10000)); /* the first attempts are gone */
    assert_true(budget_is_full(&b, &TENTH, 19000));
}

/* A share of 0 leaves the reserve; of 1, each first attempt may be retried once. */
TEST(shares_of_0_and_of_1)
{
    const struct budget_config none = {.ratio = 0, .window_ms = 10000, .min_per_second = 0.1};
    const struct budget_config one = {.ratio = 1, .window_ms = 10000, .min_per_second = 0.1};
    struct budget b;
    budget_init(&b, &none, 0);
    start_firsts(&b, &none, 1000, 0);
    assert_int_equal(start_retries(&b, &none, 0), 1);
    assert_int_equal(start_retries(&b, &none, 10000), 1);
    budget_init(&b, &one, 0);
    start_firsts(&b, &one, 1000, 0);
    assert_int_equal(start_retries(&b, &one, 0), 1001);
}

/* Over any stretch of time: at most the share of the first attempts, and what time gives. */
TEST(the_bound_holds_for_any_order_of_starts)
{
    struct rng rng;
    rng_seed(&rng, 7);
    struct budget b;
    int64_t now_ms = 0;
    double firsts = 0, retries = 0;
    budget_init(&b, &TENTH, now_ms);
    for (int i = 0; i < 200000; i++) {
        now_ms += (int64_t)rng_below(&rng, 20);
        if (rng_below(&rng, 3) > 0) {
            budget_start(&b, &TENTH, false, now_ms);
            firsts++;
        } else if (budget_room(&b, &TENTH, now_ms) > 0) {
            assert_int_equal(budget_wait_ms(&b, &TENTH, now_ms), 0);
            budget_start(&b, &TENTH, true, now_ms);
            retries++;
        }
        assert_true(retries <= 0.1 * firsts + (double)now_ms / 1000 + 10 + 1e-6);
    }
    assert_true(retries > 0.1 * firsts); /* it is not too small either */
}

/* The sequence that the tests of gRPC have: 4 tokens at most, 1.6 for a success. */
TEST(tokens_go_as_those_of_grpc)
{
    static const struct {
        bool has_failed;
        double tokens;
        bool may_retry;
    } STEPS[] = {
        {true, 3, true},    {false, 4, true},   {true, 3, true},    {true, 2, false},
        {true, 1, false},   {true, 0, false},   {true, 0, false},   {false, 1.6, false},
        {false, 3.2, true}, {true, 2.2, true},  {true, 1.2, false}, {false, 2.8, true},
        {true, 1.8, false}, {false, 3.4, true}, {true, 2.4, true},
    };
    const struct budget_config grpc = {
        .max_tokens = 4, .token_ratio = 1.6, .min_per_second = BUDGET_LEAST_PER_SECOND};
    struct budget b;
    struct budget_status status;
    budget_init(&b, &grpc, 1000);
    assert_true(budget_is_full(&b, &grpc, 1000));
    for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        budget_settle(&b, &grpc, STEPS[i].has_failed, 1000);
        budget_status(&b, &grpc, 1000, &status);
        assert_true(fabs(status.tokens - STEPS[i].tokens) < 1e-6);
        assert_int_equal(status.room > 0, STEPS[i].may_retry);
    }
}

TEST(starts_take_no_tokens_and_time_gives_some)
{
    const struct budget_config grpc = {.max_tokens = 10, .token_ratio = 0.1, .min_per_second = 0.5};
    struct budget b;
    budget_init(&b, &grpc, 0);
    budget_start(&b, &grpc, true, 0);
    budget_start(&b, &grpc, false, 0);
    budget_take_back(&b, &grpc, true, 0);
    assert_int_equal(budget_room(&b, &grpc, 0), 5); /* as many as may fail before half is reached */
    for (int i = 0; i < 20; i++)
        budget_settle(&b, &grpc, true, 0);
    assert_int_equal(budget_room(&b, &grpc, 0), 0);
    const int64_t wait_ms = budget_wait_ms(&b, &grpc, 0);
    assert_in_range(wait_ms, 10000, 10001);
    assert_int_equal(budget_room(&b, &grpc, wait_ms - 2), 0);
    assert_int_equal(budget_room(&b, &grpc, wait_ms), 1);
    assert_false(budget_is_full(&b, &grpc, 19999));
    assert_true(budget_is_full(&b, &grpc, 20000));
}

TEST(a_start_that_is_taken_back_does_not_count)
{
    struct budget b;
    struct budget_status status;
    budget_init(&b, &SHARE_ONLY, 0);
    start_firsts(&b, &SHARE_ONLY, 10, 0);
    assert_int_equal(start_retries(&b, &SHARE_ONLY, 500), 2); /* by share, and the reserve */
    for (int i = 0; i < 2; i++)
        budget_take_back(&b, &SHARE_ONLY, true, 3500); /* of a slot before the newest one */
    assert_int_equal(budget_room(&b, &SHARE_ONLY, 3500), 2);
    budget_take_back(&b, &SHARE_ONLY, true, 3500); /* there is none left */
    budget_take_back(&b, &SHARE_ONLY, false, 3500);
    budget_status(&b, &SHARE_ONLY, 3500, &status);
    assert_int_equal(status.firsts, 9);
    assert_int_equal(status.retries, 0);
    assert_int_equal(status.room, 1);
    budget_take_back(&b, &SHARE_ONLY, false, 20000); /* the window has left it */
    assert_true(budget_is_full(&b, &SHARE_ONLY, 20000));
}

TEST(by_share_results_change_nothing)
{
    struct budget b;
    budget_init(&b, &TENTH, 0);
    budget_settle(&b, &TENTH, true, 0);
    budget_settle(&b, &TENTH, false, 0);
    assert_true(budget_is_full(&b, &TENTH, 0));
}

TEST(a_clock_that_goes_back_gives_nothing)
{
    struct budget b;
    budget_init(&b, &TENTH, 100000);
    start_firsts(&b, &TENTH, 10, 100000);
    assert_int_equal(start_retries(&b, &TENTH, 100000), 11);
    assert_int_equal(budget_room(&b, &TENTH, 40000), 0);
    assert_int_equal(start_retries(&b, &TENTH, 99500), 0);
    assert_in_range(budget_wait_ms(&b, &TENTH, 40000), 1000, 1001);
    /* Once it has been seen, time goes on from there. */
    budget_start(&b, &TENTH, true, 40000);
    assert_int_equal(budget_room(&b, &TENTH, 41000), 1);
}

TEST(starts_of_a_clock_that_was_ahead_grow_old)
{
    struct budget b;
    struct budget_status status;
    budget_init(&b, &TENTH, 3600000);
    start_firsts(&b, &TENTH, 10, 3600000);
    assert_false(budget_follow_clock(&b, 3599000));
    assert_true(budget_follow_clock(&b, 5000));
    assert_false(budget_follow_clock(&b, 5000));
    budget_status(&b, &TENTH, 5000, &status);
    assert_int_equal(status.firsts, 10);
    budget_status(&b, &TENTH, 5000 + TENTH.window_ms, &status);
    assert_int_equal(status.firsts, 0);
}

TEST(each_mark_follows_a_clock_that_was_set_back)
{
    struct budget b;
    budget_init(&b, &TENTH, 5000);
    assert_false(budget_follow_clock(&b, 5000));
    b.slot_ms = 60000;
    assert_true(budget_follow_clock(&b, 5000));
    b.tokens_ms = 60000;
    assert_true(budget_follow_clock(&b, 5000));
    assert_int_equal(b.slot_ms, 5000);
    assert_int_equal(b.tokens_ms, 5000);
    assert_false(budget_follow_clock(&b, 5000));
}

TEST(a_smaller_budget_cuts_what_was_saved_up)
{
    const struct budget_config small = {.ratio = 0.1, .window_ms = 2000, .min_per_second = 1};
    struct budget b;
    budget_init(&b, &TENTH, 0);
    assert_int_equal(budget_room(&b, &small, 0), 2);
}

TEST(numbers_out_of_range_are_refused)
{
    static const struct budget_config BAD[] = {
        {.ratio = 0.1, .window_ms = 10000, .min_per_second = 0.001},
        {.ratio = 0.1, .window_ms = 10000, .min_per_second = 1e9},
        {.ratio = 0.1, .window_ms = 10000, .min_per_second = -1},
        {.ratio = -0.1, .window_ms = 10000, .min_per_second = 1},
        {.ratio = 1.1, .window_ms = 10000, .min_per_second = 1},
        {.ratio = 0.1, .window_ms = 999, .min_per_second = 1},
        {.ratio = 0.1, .window_ms = 3600001, .min_per_second = 1},
        {.max_tokens = 0.5, .token_ratio = 0.1, .min_per_second = 1},
        {.max_tokens = 1e9, .token_ratio = 0.1, .min_per_second = 1},
        {.max_tokens = 4, .token_ratio = -1, .min_per_second = 1},
        {.max_tokens = 4, .token_ratio = 1e9, .min_per_second = 1},
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_false(budget_config_is_valid(&BAD[i]));
    assert_true(budget_config_is_valid(&TENTH));
    assert_true(budget_config_is_valid(&(struct budget_config){0}));
    assert_true(budget_config_is_valid(
        &(struct budget_config){.max_tokens = 4, .token_ratio = 1.6, .min_per_second = 1}));
}
