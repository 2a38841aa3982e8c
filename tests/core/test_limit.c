#include "core/limit/limit.h"

#include "base/rng.h"
#include "check.h"
#include "core/elapsed.h"

static struct rate rate_of(const char *text)
{
    struct rate rate;
    assert_int_equal(rate_parse(str_of(text), &rate, NULL), 0);
    return rate;
}

TEST(rates_are_read)
{
    struct rate r = rate_of("60/min");
    assert_int_equal(r.count, 60);
    assert_int_equal(r.period_s, 60);
    assert_int_equal(r.burst, 0);
    assert_int_equal(rate_of("10/s").period_s, 1);
    assert_int_equal(rate_of("5/h").period_s, 3600);
    assert_int_equal(rate_of("1000/d").period_s, 86400);
    assert_int_equal(rate_of("1/s").count, 1);
    assert_int_equal(rate_of("1000000000/d").count, RATE_MAX_COUNT);
}

static void check_refused(const char *text, int code, const char *message)
{
    struct rate rate = {.count = 42};
    struct redrive_err err = {0};
    assert_int_equal(rate_parse(str_of(text), &rate, &err), code);
    assert_string_equal(err.message, message);
    assert_string_equal(err.detail,
                        "expected a number from 1 to 1000000000, `/`, and s, min, h or d");
    assert_int_equal(rate.count, 42);
}

TEST(what_is_no_rate_is_refused)
{
    check_refused("", REDRIVE_E_PARSE, "invalid rate: it does not start with a number");
    check_refused("/min", REDRIVE_E_PARSE, "invalid rate: it does not start with a number");
    check_refused("x/min", REDRIVE_E_PARSE, "invalid rate: it does not start with a number");
    check_refused("-1/min", REDRIVE_E_PARSE, "invalid rate: it does not start with a number");
    check_refused(" 1/min", REDRIVE_E_PARSE, "invalid rate: it does not start with a number");
    check_refused("0/min", REDRIVE_E_RANGE, "invalid rate: the number is out of range");
    check_refused("1000000001/s", REDRIVE_E_RANGE, "invalid rate: the number is out of range");
    check_refused("99999999999999999999999/s", REDRIVE_E_RANGE,
                  "invalid rate: the number is out of range");
    check_refused("60", REDRIVE_E_PARSE, "invalid rate: no `/` after the number");
    check_refused("1.5/s", REDRIVE_E_PARSE, "invalid rate: no `/` after the number");
    check_refused("60 /min", REDRIVE_E_PARSE, "invalid rate: no `/` after the number");
    check_refused("60/", REDRIVE_E_UNKNOWN, "invalid rate: unknown unit of time");
    check_refused("60/m", REDRIVE_E_UNKNOWN, "invalid rate: unknown unit of time");
    check_refused("60/MIN", REDRIVE_E_UNKNOWN, "invalid rate: unknown unit of time");
    check_refused("60/min ", REDRIVE_E_UNKNOWN, "invalid rate: unknown unit of time");
}

TEST(a_full_bucket_gives_its_burst_then_the_rate)
{
    struct rate rate = rate_of("60/min");
    struct bucket b;
    bucket_init(&b, &rate, 5000);
    assert_int_equal(bucket_wait_ms(&b, &rate, 5000), 0);
    assert_int_equal(bucket_take(&b, &rate, 5000, 100), 60);
    assert_int_equal(bucket_take(&b, &rate, 5000, 1), 0);
    assert_int_equal(bucket_wait_ms(&b, &rate, 5000), 1000);
    assert_int_equal(bucket_take(&b, &rate, 5999, 1), 0);
    assert_int_equal(bucket_wait_ms(&b, &rate, 5999), 1);
    assert_int_equal(bucket_take(&b, &rate, 6000, 5), 1);
    assert_int_equal(bucket_take(&b, &rate, 8500, 1), 1);
    assert_int_equal(bucket_take(&b, &rate, 8500, 5), 1);
}

TEST(long_idle_gives_no_more_than_the_burst)
{
    struct rate rate = {.count = 10, .period_s = 1, .burst = 25};
    struct bucket b;
    bucket_init(&b, &rate, 0);
    assert_int_equal(bucket_take(&b, &rate, 0, 1000), 25);
    assert_int_equal(bucket_take(&b, &rate, INT64_MAX, 1000), 25);
    bucket_init(&b, &rate, INT64_MIN);
    assert_int_equal(bucket_take(&b, &rate, INT64_MIN, 25), 25);
    assert_int_equal(bucket_take(&b, &rate, INT64_MAX, UINT32_MAX), 25);

    struct rate most = {.count = RATE_MAX_COUNT, .period_s = 1, .burst = UINT32_MAX};
    bucket_init(&b, &most, 0);
    assert_int_equal(bucket_take(&b, &most, 0, UINT32_MAX), UINT32_MAX);
    assert_int_equal(bucket_take(&b, &most, 1, UINT32_MAX), RATE_MAX_COUNT / 1000);
}

TEST(an_empty_struct_fills_up_from_the_epoch)
{
    struct rate rate = rate_of("5/h");
    struct bucket b = {0};
    assert_int_equal(bucket_take(&b, &rate, INT64_C(1700000000000), 10), 5);
}

TEST(a_token_that_is_given_back_can_be_taken_again)
{
    const struct rate rate = {.count = 1, .period_s = 60, .burst = 2};
    struct bucket b;
    bucket_init(&b, &rate, 0);
    bucket_give(&b, &rate, 5);
    assert_int_equal(bucket_take(&b, &rate, 0, 10), 2);
    bucket_give(&b, &rate, 1);
    assert_int_equal(bucket_wait_ms(&b, &rate, 0), 0);
    assert_int_equal(bucket_take(&b, &rate, 0, 10), 1);
    bucket_give(&b, &rate, UINT32_MAX);
    assert_int_equal(bucket_take(&b, &rate, 0, 10), 2);
}

TEST(a_smaller_burst_cuts_the_bucket_down)
{
    struct rate before = rate_of("100/s"), after = rate_of("3/h");
    struct bucket b;
    bucket_init(&b, &before, 0);
    assert_int_equal(bucket_take(&b, &after, 0, 100), 3);
    assert_int_equal(bucket_wait_ms(&b, &after, 0), 1200000);
}

TEST(readings_out_of_order_mint_nothing)
{
    struct rate rate = rate_of("1000/s");
    struct bucket b;
    bucket_init(&b, &rate, 10000);
    bucket_take(&b, &rate, 10000, 1000);
    uint32_t given = 0;
    for (int i = 0; i < 1000; i++) {
        given += bucket_take(&b, &rate, 10000 - ELAPSED_SLACK_MS, 10);
        given += bucket_take(&b, &rate, 9999, 10);
        given += bucket_take(&b, &rate, 10000, 10);
    }
    assert_int_equal(given, 0);
    assert_int_equal(bucket_wait_ms(&b, &rate, 9990), 11);
    assert_int_equal(bucket_take(&b, &rate, 10001, 10), 1);
}

TEST(a_clock_that_was_set_back_goes_on_from_there)
{
    struct rate rate = rate_of("10/s");
    struct bucket b;
    int64_t now = INT64_C(1700000000000);
    bucket_init(&b, &rate, now);
    assert_int_equal(bucket_take(&b, &rate, now, 4), 4);
    now -= 3600 * 1000;
    assert_int_equal(bucket_wait_ms(&b, &rate, now), 0);
    assert_int_equal(bucket_take(&b, &rate, now, 10), 6);
    assert_int_equal(bucket_wait_ms(&b, &rate, now), 100);
    assert_int_equal(bucket_take(&b, &rate, now + 100, 10), 1);
    assert_int_equal(bucket_wait_ms(&b, &rate, now - 3600 * 1000), 100);
}

/* In any window: given <= burst + rate · t, in exact arithmetic. */
TEST(no_window_gets_more_than_burst_and_rate)
{
    enum {
        N = 400
    };
    struct rng rng;
    rng_seed(&rng, 3);
    static const uint32_t PERIODS[] = {1, 60, 3600, 86400};
    for (int round = 0; round < 200; round++) {
        struct rate rate = {.count = 1 + (uint32_t)rng_below(&rng, 2000),
                            .period_s = PERIODS[rng_below(&rng, 4)],
                            .burst = (uint32_t)rng_below(&rng, 50)};
        int64_t burst = rate.burst ? rate.burst : rate.count;
        int64_t period_ms = rate.period_s * INT64_C(1000);
        int64_t at[N], total[N + 1] = {0}, now = (int64_t)rng_below(&rng, 1000000);
        struct bucket b;
        bucket_init(&b, &rate, now);
        for (int i = 0; i < N; i++) {
            at[i] = now;
            total[i + 1] = total[i] + bucket_take(&b, &rate, now, (uint32_t)rng_below(&rng, 100));
            now += (int64_t)rng_below(&rng, 1 + (uint64_t)period_ms / 20);
            assert_in_range(b.parts, 0, burst * BUCKET_TOKEN);
        }
        for (int i = 0; i < N; i++)
            for (int j = i; j < N; j++)
                assert_true((total[j + 1] - total[i] - burst) * period_ms <=
                            rate.count * (at[j] - at[i]));
    }
}

TEST(nothing_is_lost_over_the_long_run)
{
    static const char *const RATES[] = {"7/h", "1000/d", "59/min", "3/s", "999/s", "1/d"};
    for (size_t i = 0; i < sizeof RATES / sizeof RATES[0]; i++) {
        struct rate rate = rate_of(RATES[i]);
        struct bucket b;
        int64_t start = 12345, given = 0, now = start;
        bucket_init(&b, &rate, now);
        for (int n = 0; n < 20000; n++) {
            now += bucket_wait_ms(&b, &rate, now);
            uint32_t got = bucket_take(&b, &rate, now, 1);
            assert_int_equal(got, 1); /* the wait was long enough */
            given += got;
        }
        int64_t earned = (now - start) * rate.count / (rate.period_s * INT64_C(1000));
        assert_in_range(given, rate.count + earned - 1, rate.count + earned);
    }
}

TEST(slots_are_given_up_to_their_number)
{
    struct slots s = {.max = 3};
    assert_int_equal(slots_take(&s, 2), 2);
    assert_int_equal(slots_take(&s, 2), 1);
    assert_int_equal(slots_take(&s, 1), 0);
    slots_give(&s, 1);
    assert_int_equal(slots_take(&s, 5), 1);
    s.max = 1;
    assert_int_equal(slots_take(&s, 1), 0);
    slots_give(&s, 2);
    assert_int_equal(slots_take(&s, 1), 0);
    slots_give(&s, 100);
    assert_int_equal(s.used, 0);
    assert_int_equal(slots_take(&s, 1), 1);
}

TEST(slots_without_a_maximum_are_free)
{
    struct slots s = {0};
    assert_int_equal(slots_take(&s, 1000000), 1000000);
    assert_int_equal(s.used, 1000000);
    assert_int_equal(slots_take(&s, UINT32_MAX), UINT32_MAX - 1000000);
    assert_int_equal(slots_take(&s, 1), 0);
}
