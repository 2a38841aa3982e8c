#include "core/time/tz.h"

#include "core/time/civil.h"
#include "zones.h"

static struct tz_rule rule_of(const char *text)
{
    struct tz_rule rule;
    struct redrive_err err = {0};
    if (tz_rule_parse(str_of(text), &rule, &err) < 0)
        fail_msg("%s: %s", text, err.detail);
    return rule;
}

static void check_refused(const char *text, const char *detail)
{
    struct tz_rule rule;
    struct redrive_err err = {0};
    assert_int_equal(tz_rule_parse(str_of(text), &rule, &err), REDRIVE_E_PARSE);
    assert_string_equal(err.detail, detail);
    assert_int_equal(tz_rule_parse(str_of(text), &rule, NULL), REDRIVE_E_PARSE);
}

TEST(a_zone_without_summer_time_never_changes)
{
    struct tz_rule rule = rule_of("<+03>-3");
    struct tz_span span = tz_rule_span_at(&rule, 0);
    assert_int_equal(span.offset_s, 3 * 3600);
    assert_int_equal(span.until_s, INT64_MAX);
    rule = rule_of("NST3:30");
    assert_int_equal(tz_rule_span_at(&rule, 0).offset_s, -(3 * 3600 + 30 * 60));
    rule = rule_of("LMT+0:53:28");
    assert_int_equal(tz_rule_span_at(&rule, 0).offset_s, -(53 * 60 + 28));
}

TEST(spans_end_where_clocks_change)
{
    struct tz_rule rule = rule_of("CET-1CEST,M3.5.0,M10.5.0/3");
    struct tz_span winter = tz_rule_span_at(&rule, utc(2040, 1, 15, 0, 0));
    assert_int_equal(winter.offset_s, 3600);
    assert_int_equal(winter.until_s, utc(2040, 3, 25, 1, 0));
    struct tz_span summer = tz_rule_span_at(&rule, winter.until_s);
    assert_int_equal(summer.offset_s, 7200);
    assert_int_equal(summer.until_s, utc(2040, 10, 28, 1, 0));
    assert_int_equal(tz_rule_span_at(&rule, summer.until_s - 1).offset_s, 7200);
    assert_int_equal(tz_rule_span_at(&rule, summer.until_s).offset_s, 3600);
}

TEST(summer_may_lie_across_the_new_year)
{
    struct tz_rule rule = rule_of("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0");
    assert_int_equal(tz_rule_span_at(&rule, utc(2050, 1, 1, 0, 0)).offset_s, 11 * 3600);
    assert_int_equal(tz_rule_span_at(&rule, utc(2050, 7, 1, 0, 0)).offset_s, 10 * 3600 + 1800);
}

TEST(winter_may_be_the_exception)
{
    struct tz_rule rule = rule_of("IST-1GMT0,M10.5.0,M3.5.0/1");
    assert_int_equal(tz_rule_span_at(&rule, utc(2050, 1, 1, 0, 0)).offset_s, 0);
    assert_int_equal(tz_rule_span_at(&rule, utc(2050, 7, 1, 0, 0)).offset_s, 3600);
}

TEST(times_of_change_may_leave_their_day)
{
    /* The Saturday before the last Sunday, 23:00; Saturday after the fourth Thursday, 02:00. */
    struct tz_rule rule = rule_of("<-02>2<-01>,M3.5.0/-1,M10.5.0/0");
    assert_int_equal(tz_rule_span_at(&rule, utc(2050, 1, 1, 0, 0)).until_s, utc(2050, 3, 27, 1, 0));
    rule = rule_of("EET-2EEST,M3.4.4/50,M10.4.4/50");
    assert_int_equal(tz_rule_span_at(&rule, utc(2050, 1, 1, 0, 0)).until_s, utc(2050, 3, 26, 0, 0));
}

TEST(changes_may_leave_their_year)
{
    /* Both changes of a year lie in the last week of the year before. */
    struct tz_rule rule = rule_of("AAA0BBB,0/-160,0/-100");
    assert_int_equal(tz_rule_span_at(&rule, utc(2050, 12, 30, 0, 0)).offset_s, 0);
    assert_int_equal(tz_rule_span_at(&rule, utc(2050, 12, 26, 0, 0)).offset_s, 3600);
    assert_int_equal(tz_rule_span_at(&rule, utc(2050, 12, 30, 0, 0)).until_s,
                     utc(2051, 12, 25, 8, 0));
    /* And in the first week of the year after. */
    rule = rule_of("AAA0BBB,365/100,365/160");
    assert_int_equal(tz_rule_span_at(&rule, utc(2051, 1, 1, 0, 0)).until_s, utc(2051, 1, 5, 4, 0));
    assert_int_equal(tz_rule_span_at(&rule, utc(2051, 1, 6, 0, 0)).offset_s, 3600);
}

TEST(julian_days_skip_the_leap_day)
{
    struct tz_rule rule = rule_of("AAA0BBB,J60/0,J300/0");
    assert_int_equal(tz_rule_span_at(&rule, utc(2023, 1, 1, 0, 0)).until_s, utc(2023, 3, 1, 0, 0));
    assert_int_equal(tz_rule_span_at(&rule, utc(2024, 1, 1, 0, 0)).until_s, utc(2024, 3, 1, 0, 0));
    rule = rule_of("AAA0BBB,J59/0,J300/0");
    assert_int_equal(tz_rule_span_at(&rule, utc(2024, 1, 1, 0, 0)).until_s, utc(2024, 2, 28, 0, 0));
    rule = rule_of("AAA0BBB,59/0,300/0");
    assert_int_equal(tz_rule_span_at(&rule, utc(2023, 1, 1, 0, 0)).until_s, utc(2023, 3, 1, 0, 0));
    assert_int_equal(tz_rule_span_at(&rule, utc(2024, 1, 1, 0, 0)).until_s, utc(2024, 2, 29, 0, 0));
}

TEST(summer_time_may_last_all_year)
{
    struct tz_rule rule = rule_of("EST5EDT,0/0,J365/25");
    for (int64_t t = utc(2030, 12, 20, 0, 0); t < utc(2031, 1, 10, 0, 0); t += 1800)
        assert_int_equal(tz_rule_span_at(&rule, t).offset_s, -4 * 3600);
}

TEST(summer_time_that_ends_as_it_starts_never_is)
{
    struct tz_rule rule = rule_of("AAA0BBB,100/0,100/1");
    for (int64_t t = utc(2030, 4, 5, 0, 0); t < utc(2030, 4, 20, 0, 0); t += 1800)
        assert_int_equal(tz_rule_span_at(&rule, t).offset_s, 0);
}

TEST(libc_agrees_for_a_century)
{
    static const char *const RULES[] = {
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "EST5EDT,M3.2.0,M11.1.0",
        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
        "NZST-12NZDT,M9.5.0,M4.1.0/3",
        "IST-2IDT,M3.4.4/26,M10.5.0",
        "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
        "EET-2EEST,M3.4.4/50,M10.4.4/50",
        "IST-1GMT0,M10.5.0,M3.5.0/1",
        "AAA3BBB1:30,J59/3:15,J300/1",
        "AAA-5BBB,59,299/22:10:05",
        "<+05>-5",
    };
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++) {
        struct tz_rule rule = rule_of(RULES[i]);
        zone_of_libc(RULES[i]);
        for (int64_t t = utc(2000, 1, 1, 0, 0); t < utc(2100, 1, 1, 0, 0); t += 7919 * 4) {
            struct tm tm;
            time_t time = (time_t)t;
            localtime_r(&time, &tm);
            if (tz_rule_span_at(&rule, t).offset_s != tm.tm_gmtoff)
                fail_msg("%s at %lld", RULES[i], (long long)t);
        }
    }
}

TEST(what_is_no_rule_is_refused_with_its_position)
{
    check_refused("", "position 1: expected a name of three letters or more");
    check_refused("CE-1", "position 1: expected a name of three letters or more");
    check_refused("<+3-3", "position 6: expected `>`");
    check_refused("<+03", "position 5: expected `>`");
    check_refused("<+0>-3", "position 2: expected a name of three letters or more");
    check_refused("CET", "position 4: expected hours");
    check_refused("CET-25", "position 5: expected hours");
    check_refused("CET-1:60", "position 7: expected minutes");
    check_refused("CET-1:00:x", "position 10: expected seconds");
    check_refused("CET-1CEST", "position 10: expected `,` and a date");
    check_refused("CET-1CEST,M3.5.0", "position 17: expected `,` and a date");
    check_refused("CET-1C,M3.5.0,M10.5.0", "position 6: expected a name of three letters or more");
    check_refused("CET-1CEST,M13.5.0,M10.5.0", "position 12: expected a month from 1 to 12");
    check_refused("CET-1CEST,M3-5.0,M10.5.0", "position 13: expected `.`");
    check_refused("CET-1CEST,M3.6.0,M10.5.0", "position 14: expected a week from 1 to 5");
    check_refused("CET-1CEST,M3.5,M10.5.0", "position 15: expected `.`");
    check_refused("CET-1CEST,M3.5.7,M10.5.0", "position 16: expected a weekday from 0 to 6");
    check_refused("CET-1CEST,J0,J5", "position 12: expected a day from 1 to 365");
    check_refused("CET-1CEST,366,5", "position 11: expected a day from 0 to 365");
    check_refused("CET-1CEST,M3.5.0/168,M10.5.0", "position 18: expected hours");
    check_refused("CET-1CEST,M3.5.0,M10.5.0/", "position 26: expected hours");
    check_refused("CET-1CEST,M3.5.0,M10.5.0x", "position 25: expected the end");
    check_refused("CET-1CEST-1000,M3.5.0,M10.5.0", "position 11: expected hours");
}
