#include "core/time/civil.h"

#include "check.h"

#include <time.h>

static void check_date(int64_t days, int64_t year, int month, int day)
{
    struct civil c = civil_from_days(days);
    assert_int_equal(c.year, year);
    assert_int_equal(c.month, month);
    assert_int_equal(c.day, day);
    assert_int_equal(civil_to_days(year, month, day), days);
}

TEST(known_days_have_their_dates)
{
    check_date(0, 1970, 1, 1);
    check_date(-1, 1969, 12, 31);
    check_date(11016, 2000, 2, 29);
    check_date(11017, 2000, 3, 1);
    check_date(-25509, 1900, 2, 28);
    check_date(-25508, 1900, 3, 1);
    check_date(-719468, 0, 3, 1);
    check_date(-719469, 0, 2, 29);
    check_date(2932896, 9999, 12, 31);
    check_date(-141427, 1582, 10, 15);
}

TEST(every_day_follows_the_one_before)
{
    struct civil c = {.year = -405, .month = 1, .day = 1};
    int64_t days = civil_to_days(c.year, c.month, c.day);
    int weekday = civil_weekday(days);

    for (int i = 0; i < 366 * 3000; i++, days++) {
        check_date(days, c.year, c.month, c.day);
        assert_int_equal(civil_weekday(days), weekday);
        weekday = (weekday + 1) % 7;
        if (++c.day > civil_days_in_month(c.year, c.month)) {
            c.day = 1;
            if (++c.month > 12) {
                c.month = 1;
                c.year++;
            }
        }
    }
}

TEST(libc_agrees_on_seconds)
{
    for (int64_t s = INT64_C(-70000000000); s < INT64_C(70000000000); s += 86400 * 97 + 12345) {
        struct tm tm;
        time_t t = (time_t)s;
        gmtime_r(&t, &tm);
        struct civil c = civil_from_seconds(s);
        assert_int_equal(c.year, tm.tm_year + 1900);
        assert_int_equal(c.month, tm.tm_mon + 1);
        assert_int_equal(c.day, tm.tm_mday);
        assert_int_equal(c.hour, tm.tm_hour);
        assert_int_equal(c.minute, tm.tm_min);
        assert_int_equal(c.second, tm.tm_sec);
        assert_int_equal(civil_weekday(floor_div(s, CIVIL_DAY_S)), tm.tm_wday);
        assert_int_equal(civil_to_seconds(&c), s);
    }
}

TEST(leap_years_follow_gregory)
{
    assert_true(civil_is_leap(2000));
    assert_true(civil_is_leap(2024));
    assert_true(civil_is_leap(-4));
    assert_false(civil_is_leap(1900));
    assert_false(civil_is_leap(2023));
    assert_int_equal(civil_days_in_month(2024, 2), 29);
    assert_int_equal(civil_days_in_month(2100, 2), 28);
    assert_int_equal(civil_days_in_month(2023, 12), 31);
}

TEST(days_outside_of_their_month_count_on)
{
    assert_int_equal(civil_to_days(2023, 4, 31), civil_to_days(2023, 5, 1));
    assert_int_equal(civil_to_days(2024, 3, 0), civil_to_days(2024, 2, 29));
}

TEST(the_ends_of_time_do_not_overflow)
{
    struct civil last = civil_from_seconds(INT64_MAX);
    assert_int_equal(last.year, INT64_C(292277026596));
    assert_int_equal(last.month, 12);
    assert_int_equal(last.day, 4);
    struct civil first = civil_from_seconds(INT64_MIN);
    assert_int_equal(first.year, INT64_C(-292277022657));
    assert_int_equal(first.month, 1);
    assert_int_equal(first.day, 27);
    assert_int_equal(civil_to_days(INT64_MAX, 1, 1), civil_to_days(CIVIL_YEAR_MAX, 1, 1));
    assert_int_equal(civil_to_days(INT64_MIN, 1, 1), civil_to_days(-CIVIL_YEAR_MAX, 1, 1));

    struct civil far = {INT64_MAX, 12, 31, 23, 59, 59};
    assert_true(civil_to_seconds(&far) < INT64_C(1) << 60);
    far.year = INT64_MIN;
    assert_true(civil_to_seconds(&far) > -(INT64_C(1) << 60));
}
