#include "check.h"

#include "core/time/civil.h"

#define NOON_MS INT64_C(1777636800000) /* 2026-05-01T12:00:00Z */

TEST(every_form_is_read)
{
    static const struct {
        const char *text;
        int64_t ms;
    } RIGHT[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:01Z", 1000},
        {"2026-05-01T12:00:00Z", NOON_MS},
        {"2026-05-01T12:00Z", NOON_MS},
        {"2026-05-01 12:00:00.1239z", NOON_MS + 123},
        {"2026-05-01t12:00:00Z", NOON_MS},
        {"2026-05-01T12:00:00.123456789Z", NOON_MS + 123},
        {"2026-05-01T12:00:00.123456789012345Z", NOON_MS + 123},
        {"2026-05-01T14:00:00.1+02:00", NOON_MS + 100},
        {"2026-05-01T14:00+02:00", NOON_MS},
        {"2026-05-01T06:30-05:30", NOON_MS},
        {"2026-05-02T02:00+14:00", NOON_MS},
        {"1969-12-31T23:30-01:00", INT64_C(1800000)},
        {"2028-02-29T00:00Z", INT64_C(1835395200000)},
    };
    for (size_t i = 0; i < sizeof RIGHT / sizeof RIGHT[0]; i++) {
        int64_t ms = -1;
        if (!moment_parse(str_of(RIGHT[i].text), &ms) || ms != RIGHT[i].ms)
            fail_msg("'%s' was read as %lld", RIGHT[i].text, (long long)ms);
    }
}

TEST(anything_else_is_refused)
{
    static const char *const WRONG[] = {
        "",
        "now",
        "2026-05-01",
        "2026-05-01Z",
        "2026-05-01T12:00:00",
        "2026-05-01T12:00",
        "2026-05-01T12Z",
        "2026-02-29T00:00Z",
        "2026-02-30T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-00-01T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "2026-05-01T24:00Z",
        "2026-05-01T12:60Z",
        "2026-05-01T23:59:60Z",
        "2026-05-01T12:00:00.Z",
        "2026-05-01T12:00.5Z",
        "2026-05-01T12:00:00Zx",
        "2026-05-01T12:00+2:00",
        "2026-05-01T12:00+02:60",
        "2026-05-01T12:00+15:00",
        "2026-05-01T12:00+02",
        "2026-05-01_12:00Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00+01:00",
        "12026-01-01T00:00Z",
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        int64_t ms = -1;
        if (moment_parse(str_of(WRONG[i]), &ms))
            fail_msg("'%s' was read as a time", WRONG[i]);
        assert_int_equal(ms, -1);
    }
}

TEST(what_is_left_out_is_told)
{
    struct moment m;
    assert_true(moment_read(STR("2026-05-01"), &m));
    assert_false(m.has_time || m.has_offset);
    assert_int_equal(m.local.day, 1);
    assert_true(moment_read(STR("2026-05-01 12:30:05.5"), &m));
    assert_true(m.has_time && !m.has_offset);
    assert_int_equal(m.local.minute, 30);
    assert_int_equal(m.ms, 500);
    assert_true(moment_read(STR("2026-05-01T12:30-05:30"), &m));
    assert_true(m.has_time && m.has_offset);
    assert_int_equal(m.offset_s, -19800);
    assert_false(moment_read(STR("2026-05-01T"), &m));
    assert_false(moment_read(STR("2026-05-01 "), &m));
}

TEST(a_date_is_told_from_a_duration)
{
    assert_true(moment_looks_like_one(STR("2026-")));
    assert_false(moment_looks_like_one(STR("2026s")));
    assert_false(moment_looks_like_one(STR("10m")));
    assert_false(moment_looks_like_one(STR("")));
}
