/* Points in time as people write them. */
#include "check.h"

#include "cli/output/figures.h"

static int64_t parse(const char *text)
{
    int64_t at_ms = -1;
    struct redrive_err err = {0};
    if (when_parse("--at", text, tz_utc(), &at_ms, &err) < 0)
        fail_msg("%s: %s", text, err.message);
    return at_ms;
}

TEST(every_form_is_read)
{
    assert_int_equal(parse("1970-01-01"), 0);
    assert_int_equal(parse("2026-03-28T12:00"), 1774699200000);
    assert_int_equal(parse("2026-03-28 12:00"), 1774699200000);
    assert_int_equal(parse("2026-03-28T12:00Z"), 1774699200000);
    assert_int_equal(parse("2026-03-28T12:00:05Z"), 1774699205000);
    assert_int_equal(parse("2026-03-28T12:00:05.25Z"), 1774699205250);
    assert_int_equal(parse("2026-03-28T12:00:00.123456789Z"), 1774699200123);
    assert_int_equal(parse("2026-03-28T12:00+02:00"), 1774699200000 - 7200000);
    assert_int_equal(parse("2026-03-28T12:00-05:30"), 1774699200000 + 19800000);
    assert_int_equal(parse("2028-02-29"), 1835395200000);
}

TEST(anything_else_is_refused)
{
    static const char *const WRONG[] = {
        "",
        "now",
        "2026",
        "2026-3-28",
        "2026-03-28T",
        "2026-02-29",
        "2026-13-01",
        "2026-00-01",
        "2026-01-00",
        "2026-03-28T24:00",
        "1969-01-01",
        "12026-01-01",
        "2026-03-28T12:60",
        "2026-03-28T12",
        "2026-03-28T12:00:60",
        "2026-03-28Z",
        " 2026-03-28",
        "2026-03-28 ",
        "2026-03-28T12:00+2",
        "2026-03-28T12:00+15:00",
        "2026-03-28T12:00:00.Z",
        "2026-03-28T12:00ZZ",
        "2026/03/28",
        "+026-03-28",
        "2026-03-2x",
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        int64_t at_ms = -1;
        struct redrive_err err = {0};
        if (when_parse("--at", WRONG[i], tz_utc(), &at_ms, &err) != REDRIVE_E_USAGE)
            fail_msg("'%s' was read as a time", WRONG[i]);
        assert_int_equal(at_ms, -1);
        assert_non_null(strstr(err.message, "--at: '"));
    }
}

TEST(what_is_written_is_read_back)
{
    char text[WHEN_TEXT_MAX];
    assert_string_equal(when_format(tz_utc(), 1774699205000, text), "2026-03-28T12:00:05Z");
    assert_int_equal(parse(text), 1774699205000);
}

TEST(spans_are_cut_to_the_second)
{
    char text[WHEN_TEXT_MAX];
    assert_string_equal(when_span(3725999, text), "1h2m5s");
    assert_string_equal(when_span(999, text), "999ms");
    assert_string_equal(when_span(0, text), "0s");
}

TEST(a_date_does_not_look_like_a_duration)
{
    assert_true(when_looks_like_date("2026-03-28"));
    assert_false(when_looks_like_date("90m"));
    assert_false(when_looks_like_date("2026s"));
    assert_false(when_looks_like_date(""));
}
