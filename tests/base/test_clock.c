#include "check.h"

#include "base/time/clock.h"

static void expect(int64_t wall_ms, const char *text)
{
    char out[CLOCK_TEXT_MAX];
    assert_string_equal(clock_format(wall_ms, out), text);
}

static void times_have_milliseconds_and_are_utc(void **state)
{
    (void)state;
    expect(0, "1970-01-01T00:00:00.000Z");
    expect(INT64_C(1777636800007), "2026-05-01T12:00:00.007Z");
    expect(INT64_C(951827696789), "2000-02-29T12:34:56.789Z");
}

static void times_before_1970_count_down(void **state)
{
    (void)state;
    expect(-1, "1969-12-31T23:59:59.999Z");
    expect(-1000, "1969-12-31T23:59:59.000Z");
}

static void years_may_have_more_than_four_digits(void **state)
{
    (void)state;
    expect(INT64_C(253402300799999), "9999-12-31T23:59:59.999Z");
    expect(INT64_C(253402300800000), "10000-01-01T00:00:00.000Z");
}

CHECK_FILE(clock)
{
    const struct CMUnitTest tests[] = {
        T(times_have_milliseconds_and_are_utc),
        T(times_before_1970_count_down),
        T(years_may_have_more_than_four_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
