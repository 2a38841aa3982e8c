#include "core/breaker/breaker.h"

#include "check.h"

#include <math.h>

static struct redrive_breaker_config config(void)
{
    struct redrive_breaker_config c;
    redrive_breaker_config_init(&c);
    return c;
}

/* How many go in the second that starts at `from_ms`, asked every 10 ms. */
static uint32_t gone_in_second(struct release *r, const struct redrive_breaker_config *c,
                               int64_t from_ms)
{
    uint32_t gone = 0;
    for (int64_t t = from_ms + 10; t <= from_ms + 1000; t += 10)
        gone += release_take(r, c, t, 1000000);
    return gone;
}

TEST(the_first_goes_at_once)
{
    struct redrive_breaker_config c = config();
    struct release r;
    release_start(&r, &c, 5000);
    assert_int_equal(release_next_ms(&r), 5000);
    assert_int_equal(release_take(&r, &c, 5000, 100), 1);
    assert_int_equal(release_take(&r, &c, 5000, 100), 0);
    assert_int_equal(release_next_ms(&r), 5100);
}

TEST(the_pace_grows_with_each_healthy_second)
{
    struct redrive_breaker_config c = config();
    struct release r;
    release_start(&r, &c, 0);
    release_take(&r, &c, 0, 1);
    assert_in_range(gone_in_second(&r, &c, 0), 9, 11);
    assert_in_range(gone_in_second(&r, &c, 1000), 19, 21);
    assert_in_range(gone_in_second(&r, &c, 2000), 29, 31);
}

TEST(a_failure_halves_it_and_growth_starts_anew)
{
    struct redrive_breaker_config c = config();
    struct release r;
    release_start(&r, &c, 0);
    gone_in_second(&r, &c, 0);
    gone_in_second(&r, &c, 1000);
    gone_in_second(&r, &c, 2000);
    assert_true(fabs(r.rate - 40) < 1e-9);
    release_failed(&r, &c, 3000);
    assert_true(fabs(r.rate - 20) < 1e-9);
    assert_in_range(gone_in_second(&r, &c, 3000), 19, 21);
    for (int i = 0; i < 20; i++)
        release_failed(&r, &c, 4000);
    assert_true(fabs(r.rate - 1) < 1e-9);
}

TEST(a_failure_in_mid_second_starts_a_new_one)
{
    struct redrive_breaker_config c = config();
    struct release r;
    release_start(&r, &c, 0);
    release_take(&r, &c, 500, 100);
    release_failed(&r, &c, 700);
    release_take(&r, &c, 1600, 100);
    assert_true(fabs(r.rate - 5) < 1e-9);
    release_take(&r, &c, 1700, 100);
    assert_true(fabs(r.rate - 15) < 1e-9);
}

TEST(failures_do_not_take_away_what_was_earned)
{
    struct redrive_breaker_config c = config();
    c.release_rate = 1;
    c.release_growth = 0;
    struct release r;
    release_start(&r, &c, 0);
    uint32_t gone = 0;
    for (int64_t t = 900; t <= 60000; t += 900) {
        release_failed(&r, &c, t);
        gone += release_take(&r, &c, t, 100);
    }
    assert_in_range(gone, 58, 61);
}

TEST(no_more_than_a_seconds_worth_is_saved_up)
{
    struct redrive_breaker_config c = config();
    struct release r;
    release_start(&r, &c, 0);
    uint32_t gone = release_take(&r, &c, 3600 * 1000, UINT32_MAX);
    assert_true((double)gone <= r.rate);
    assert_in_range(r.rate, 36000, 36020);
}

TEST(no_more_go_than_wait)
{
    struct redrive_breaker_config c = config();
    struct release r;
    release_start(&r, &c, 0);
    assert_int_equal(release_take(&r, &c, 900, 3), 3);
    assert_int_equal(release_take(&r, &c, 900, 0), 0);
}

TEST(a_clock_that_goes_back_lets_nobody_go)
{
    struct redrive_breaker_config c = config();
    c.release_rate = 0.5;
    struct release r;
    release_start(&r, &c, 10000);
    assert_int_equal(release_take(&r, &c, 10000, 9), 1);
    assert_int_equal(release_take(&r, &c, 9000, 9), 0);
    assert_int_equal(release_take(&r, &c, 10500, 9), 0);
    assert_int_equal(release_take(&r, &c, 11000, 9), 1);
}

TEST(a_clock_that_was_set_back_goes_on_from_there)
{
    struct redrive_breaker_config c = config();
    struct release r;
    release_start(&r, &c, 3600000);
    assert_int_equal(release_take(&r, &c, 3600000, 100), 1);
    assert_int_equal(release_take(&r, &c, 5000, 100), 0);
    assert_int_equal(release_next_ms(&r), 5100);
    assert_in_range(gone_in_second(&r, &c, 5000), 9, 11);
}
