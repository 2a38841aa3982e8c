#include "check.h"

#include "base/time/clock.h"

static void expect(int64_t wall_ms, const char *text)
{
    char out[CLOCK_TEXT_MAX];
    assert_string_equal(clock_format(wall_ms, out), text);
}

TEST(times_have_milliseconds_and_are_utc)
{
    expect(0, "1970-01-01T00:00:00.000Z");
    expect(INT64_C(1777636800007), "2026-05-01T12:00:00.007Z");
    expect(INT64_C(951827696789), "2000-02-29T12:34:56.789Z");
}

TEST(times_before_1970_count_down)
{
    expect(-1, "1969-12-31T23:59:59.999Z");
    expect(-1000, "1969-12-31T23:59:59.000Z");
}

TEST(years_may_have_more_than_four_digits)
{
    expect(INT64_C(253402300799999), "9999-12-31T23:59:59.999Z");
    expect(INT64_C(253402300800000), "10000-01-01T00:00:00.000Z");
}
