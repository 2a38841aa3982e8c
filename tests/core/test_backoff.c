#include "core/retry/backoff.h"

#include "check.h"

#include <math.h>

#include "base/time/duration.h"
#include "core/retry/policy.h"

static struct redrive_backoff plain(enum redrive_strategy strategy)
{
    struct redrive_policy policy;
    redrive_policy_init(&policy);
    policy.backoff.strategy = strategy;
    policy.backoff.jitter.mode = REDRIVE_JITTER_NONE;
    return policy.backoff;
}

TEST(strategies_follow_their_formulas)
{
    struct redrive_backoff b = plain(REDRIVE_STRATEGY_EXPONENTIAL);
    assert_int_equal(backoff_delay_ms(&b, 1, 0), 1000);
    assert_int_equal(backoff_delay_ms(&b, 4, 0), 27000);
    assert_int_equal(backoff_delay_ms(&b, 5, 0), 60000);
    b = plain(REDRIVE_STRATEGY_LINEAR);
    assert_int_equal(backoff_delay_ms(&b, 4, 0), 5500);
    b = plain(REDRIVE_STRATEGY_FIXED);
    assert_int_equal(backoff_delay_ms(&b, 9, 0), 1000);
    b = plain(REDRIVE_STRATEGY_IMMEDIATE);
    b.jitter.mode = REDRIVE_JITTER_FULL;
    assert_int_equal(backoff_delay_ms(&b, 9, 0), 0);
    b = plain(REDRIVE_STRATEGY_POLYNOMIAL);
    b.max_delay_ms = DURATION_MAX_MS;
    assert_int_equal(backoff_delay_ms(&b, 1, 0), 1000);
    assert_int_equal(backoff_delay_ms(&b, 11, 0), 10001000);
    b.exponent = 2.5;
    assert_int_equal(backoff_delay_ms(&b, 5, 0), 33000);
}

TEST(retry_zero_is_taken_for_the_first)
{
    struct redrive_backoff b = plain(REDRIVE_STRATEGY_EXPONENTIAL);
    assert_int_equal(backoff_delay_ms(&b, 0, 0), 1000);
}

static int64_t ten_times_n(uint32_t n, uint64_t seed, void *ctx)
{
    (void)seed;
    return *(int64_t *)ctx * 10 * n;
}

TEST(a_custom_strategy_is_asked_and_clamped)
{
    int64_t unit = 100;
    struct redrive_backoff b = plain(REDRIVE_STRATEGY_CUSTOM);
    b.custom = ten_times_n;
    b.custom_ctx = &unit;
    assert_int_equal(backoff_delay_ms(&b, 3, 0), 3000);
    unit = INT64_MAX / 1000;
    assert_int_equal(backoff_delay_ms(&b, 3, 0), 60000);
    unit = -5;
    assert_int_equal(backoff_delay_ms(&b, 3, 0), 100);
}

TEST(huge_numbers_saturate)
{
    static const uint32_t NS[] = {10000, 100000, UINT32_MAX};
    for (int s = 0; s < REDRIVE_STRATEGY_CUSTOM; s++) {
        for (int m = 0; m < REDRIVE_JITTER_DECORRELATED; m++) {
            for (int i = 0; i < 3; i++) {
                struct redrive_backoff b = plain((enum redrive_strategy)s);
                b.max_delay_ms = DURATION_MAX_MS;
                b.delays_ms = &b.max_delay_ms;
                b.n_delays = 1;
                b.initial_delay_ms = DURATION_MAX_MS;
                b.multiplier = 1000;
                b.exponent = 10;
                b.jitter =
                    (struct redrive_jitter){(enum redrive_jitter_mode)m, 1, 10, DURATION_MAX_MS};
                int64_t ms = backoff_delay_ms(&b, NS[i], 12345);
                assert_true(ms >= 0 && ms <= DURATION_MAX_MS);
            }
        }
    }
}

TEST(the_same_seed_gives_the_same_delay)
{
    struct redrive_backoff b = plain(REDRIVE_STRATEGY_EXPONENTIAL);
    for (int m = REDRIVE_JITTER_FULL; m < REDRIVE_JITTER_COUNT; m++) {
        b.jitter = (struct redrive_jitter){(enum redrive_jitter_mode)m, 0.1, 0.3, 5000};
        uint64_t seed = backoff_seed(STR("0190-job"), 2);
        assert_int_equal(backoff_delay_ms(&b, 3, seed), backoff_delay_ms(&b, 3, seed));
        assert_int_not_equal(backoff_delay_ms(&b, 3, seed),
                             backoff_delay_ms(&b, 3, backoff_seed(STR("0190-job"), 3)));
        assert_int_not_equal(backoff_delay_ms(&b, 3, seed),
                             backoff_delay_ms(&b, 3, backoff_seed(STR("0191-job"), 2)));
    }
}

/* Draws many delays and checks that they fill the stated bounds and never leave them. */
static void check_spread(const struct redrive_backoff *b, uint32_t n, int64_t expect_min,
                         int64_t expect_max)
{
    int64_t min, max, least = INT64_MAX, most = 0;
    backoff_bounds_ms(b, n, &min, &max);
    assert_int_equal(min, expect_min);
    assert_int_equal(max, expect_max);
    for (uint64_t seed = 0; seed < 5000; seed++) {
        int64_t ms = backoff_delay_ms(b, n, seed);
        assert_true(ms >= min && ms <= max);
        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    int64_t slack = (max - min) / 100 + 1;
    assert_true(least - min <= slack);
    assert_true(max - most <= slack);
}

TEST(jitter_fills_its_bounds)
{
    struct redrive_backoff b = plain(REDRIVE_STRATEGY_FIXED);
    b.initial_delay_ms = 10000;
    check_spread(&b, 2, 10000, 10000);
    b.jitter = (struct redrive_jitter){.mode = REDRIVE_JITTER_FULL};
    check_spread(&b, 2, 100, 10000);
    b.jitter = (struct redrive_jitter){.mode = REDRIVE_JITTER_EQUAL};
    check_spread(&b, 2, 5000, 10000);
    b.jitter = (struct redrive_jitter){.mode = REDRIVE_JITTER_ADD, .min = 0.1, .max = 0.3};
    check_spread(&b, 2, 11000, 13000);
    b.jitter = (struct redrive_jitter){.mode = REDRIVE_JITTER_SPREAD, .max = 0.2};
    check_spread(&b, 2, 8000, 12000);
    b.jitter = (struct redrive_jitter){.mode = REDRIVE_JITTER_STEP, .step_ms = 1000};
    check_spread(&b, 3, 10000, 13000);
    b.jitter = (struct redrive_jitter){.mode = REDRIVE_JITTER_DECORRELATED};
    check_spread(&b, 1, 10000, 30000);
    b.strategy = REDRIVE_STRATEGY_IMMEDIATE;
    check_spread(&b, 1, 0, 0);
}

TEST(decorrelated_grows_from_the_delay_before)
{
    struct redrive_backoff b = plain(REDRIVE_STRATEGY_FIXED);
    b.jitter.mode = REDRIVE_JITTER_DECORRELATED;
    int64_t min, max;
    backoff_bounds_ms(&b, 3, &min, &max);
    assert_int_equal(min, 1000);
    assert_int_equal(max, 27000);
    for (uint64_t seed = 0; seed < 1000; seed++) {
        int64_t before = 1000;
        for (uint32_t n = 1; n < 8; n++) {
            int64_t ms = backoff_delay_ms(&b, n, seed);
            assert_true(ms >= 1000 && ms <= 3 * before + 2 && ms <= 60000);
            before = ms;
        }
    }
}

TEST(the_floor_of_min_delay_holds_after_jitter)
{
    struct redrive_backoff b = plain(REDRIVE_STRATEGY_FIXED);
    b.jitter.mode = REDRIVE_JITTER_FULL;
    b.min_delay_ms = 900;
    for (uint64_t seed = 0; seed < 1000; seed++)
        assert_in_range(backoff_delay_ms(&b, 1, seed), 900, 1000);
}

TEST(jitter_never_exceeds_max_delay)
{
    struct redrive_backoff b = plain(REDRIVE_STRATEGY_EXPONENTIAL);
    b.jitter = (struct redrive_jitter){.mode = REDRIVE_JITTER_ADD, .min = 0.1, .max = 0.3};
    for (uint64_t seed = 0; seed < 100; seed++)
        assert_int_equal(backoff_delay_ms(&b, 9, seed), 60000);
}

TEST(full_jitter_at_the_cap_stays_uniform)
{
    struct redrive_policy policy;
    redrive_policy_init(&policy);
    double sum = 0;
    int at_cap = 0;
    for (uint64_t job = 0; job < 10000; job++) {
        int64_t ms = backoff_delay_ms(&policy.backoff, 8, job);
        sum += (double)ms;
        at_cap += ms == 60000;
    }
    assert_true(fabs(sum / 10000 - 30000) < 600);
    assert_true(at_cap < 100);
}

TEST(listed_delays_are_given_as_they_are_and_the_last_repeats)
{
    static const int64_t LIST_MS[] = {5000, 30000, 0, 600000};
    struct redrive_backoff b = {.strategy = REDRIVE_STRATEGY_DELAYS,
                                .min_delay_ms = 100,
                                .max_delay_ms = 60000,
                                .multiplier = 1,
                                .delays_ms = LIST_MS,
                                .n_delays = 4};
    static const int64_t EXPECTED[] = {5000, 5000, 30000, 0, 600000, 600000};
    for (uint32_t n = 0; n < 6; n++)
        assert_int_equal(backoff_delay_ms(&b, n, 7), EXPECTED[n]);
    assert_int_equal(backoff_delay_ms(&b, UINT32_MAX, 7), 600000);
    b.jitter = (struct redrive_jitter){.mode = REDRIVE_JITTER_ADD, .min = 0.1, .max = 0.3};
    int64_t least, most;
    backoff_bounds_ms(&b, 4, &least, &most);
    assert_int_equal(least, 660000);
    assert_int_equal(most, 780000);
    assert_int_equal(backoff_check(&b, "", NULL), 0);
    b.n_delays = 0;
    assert_int_equal(backoff_check(&b, "", NULL), REDRIVE_E_INVALID);
    b.n_delays = REDRIVE_DELAYS_MAX + 1;
    assert_int_equal(backoff_check(&b, "", NULL), REDRIVE_E_RANGE);
    static const int64_t NEGATIVE[] = {1, -1};
    b.delays_ms = NEGATIVE;
    b.n_delays = 2;
    assert_int_equal(backoff_check(&b, "", NULL), REDRIVE_E_RANGE);
}

TEST(auto_jitter_scatters_only_delays_that_grow_by_a_factor)
{
    static const int64_t LIST_MS[] = {1000};
    struct redrive_policy policy;
    policy_init_queue(&policy);
    policy.backoff.delays_ms = LIST_MS;
    policy.backoff.n_delays = 1;
    for (int s = 0; s < REDRIVE_STRATEGY_CUSTOM; s++) {
        int64_t least, most;
        policy.backoff.strategy = (enum redrive_strategy)s;
        backoff_bounds_ms(&policy.backoff, 2, &least, &most);
        bool grows = s == REDRIVE_STRATEGY_EXPONENTIAL || s == REDRIVE_STRATEGY_POLYNOMIAL;
        assert_int_equal(least < most, grows);
        assert_in_range(backoff_delay_ms(&policy.backoff, 2, 99), least, most);
    }
}

TEST(asked_delays_are_honoured_with_jitter_of_their_own)
{
    assert_int_equal(backoff_honour_asked_ms(1000, 0, 1, 5), 1000);
    assert_int_equal(backoff_honour_asked_ms(1000, -3, 1, 5), 1000);
    int64_t least = INT64_MAX, most = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        int64_t ms = backoff_honour_asked_ms(1000, 60000, 1, seed);
        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    assert_in_range(least, 60000, 60100);
    assert_in_range(most, 65900, 66000);
}

TEST(the_public_delay_is_the_same_function)
{
    struct redrive_policy policy;
    redrive_policy_init(&policy);
    assert_int_equal(redrive_policy_delay(&policy, 2, "job-1", 1),
                     backoff_delay_ms(&policy.backoff, 2, backoff_seed(STR("job-1"), 1)));
}
