#include "core/cron/cron.h"

#include "zones.h"

/* ---- Reading --------------------------------------------------------------------------------- */

static struct cron cron_of(const char *text)
{
    struct cron cron;
    struct redrive_err err = {0};
    if (cron_parse(str_of(text), &cron, &err) < 0)
        fail_msg("`%s`: %s: %s", text, err.message, err.detail);
    return cron;
}

static void check_same(const char *a, const char *b)
{
    struct cron ca = cron_of(a), cb = cron_of(b);
    assert_int_equal(ca.minutes, cb.minutes);
    assert_int_equal(ca.hours, cb.hours);
    assert_int_equal(ca.days, cb.days);
    assert_int_equal(ca.months, cb.months);
    assert_int_equal(ca.weekdays, cb.weekdays);
    assert_int_equal(ca.either_day, cb.either_day);
}

TEST(a_star_is_every_value)
{
    struct cron c = cron_of("* * * * *");
    assert_int_equal(c.minutes, (UINT64_C(1) << 60) - 1);
    assert_int_equal(c.hours, (1u << 24) - 1);
    assert_int_equal(c.days, UINT32_MAX - 1);
    assert_int_equal(c.months, (1u << 13) - 2);
    assert_int_equal(c.weekdays, 127);
    assert_false(c.either_day);
}

TEST(lists_ranges_and_steps_are_read)
{
    struct cron c = cron_of("0,30,5-7 1-10/3 5/10 */4 2");
    assert_int_equal(c.minutes, 1 | UINT64_C(1) << 30 | 7 << 5);
    assert_int_equal(c.hours, 1 << 1 | 1 << 4 | 1 << 7 | 1 << 10);
    assert_int_equal(c.days, 1 << 5 | 1 << 15 | 1 << 25);
    assert_int_equal(c.months, 1 << 1 | 1 << 5 | 1 << 9);
    assert_int_equal(c.weekdays, 1 << 2);
    check_same("5/15 * * * *", "5-59/15 * * * *");
    check_same("*/60 */24 */31 */12 */7", "0 0 */31 1 */7");
    check_same("59 23 31 12 6", "59-59 23-23 31/1 12/12 6/7");
    check_same("007 * * * *", "7 * * * *");
}

TEST(names_are_numbers_in_any_case)
{
    check_same("0 0 * jan-MAR,Dec Mon-fri", "0 0 * 1-3,12 1-5");
    check_same("0 0 * feb/2 *", "0 0 * 2,4,6,8,10,12 *");
    check_same("0 0 * 1-jun wed,sat", "0 0 * 1-6 3,6");
}

TEST(zero_and_seven_are_sunday)
{
    check_same("0 0 * * 0", "0 0 * * 7");
    check_same("0 0 * * sun", "0 0 * * 0");
    check_same("0 0 * * 5-7", "0 0 * * 0,5,6");
    check_same("0 0 * * fri-sun", "0 0 * * 0,5,6");
    check_same("0 0 * * sun-tue", "0 0 * * 0,1,2");
    check_same("0 0 * * 0-7", "0 0 * * 0-6");
    check_same("0 0 * * 1/2", "0 0 * * 1,3,5");
    check_same("0 0 * * 7/2", "0 0 * * 0");
    check_same("0 0 * * sun-sun", "0 0 * * 0");
}

TEST(shorthands_stand_for_expressions)
{
    check_same("@yearly", "0 0 1 1 *");
    check_same("@annually", "0 0 1 1 *");
    check_same("@monthly", "0 0 1 * *");
    check_same("@weekly", "0 0 * * 0");
    check_same(" @Daily\n", "0 0 * * *");
    check_same("@midnight", "0 0 * * *");
    check_same("@hourly", "0 * * * *");
    check_same("\t0   0 1\t1 * ", "0 0 1 1 *");
}

TEST(days_are_either_only_when_both_are_restricted)
{
    assert_true(cron_of("0 0 13 * fri").either_day);
    assert_true(cron_of("0 0 1-31 * 1-5").either_day);
    assert_false(cron_of("0 0 */2 * fri").either_day);
    assert_false(cron_of("0 0 13 * *").either_day);
    assert_false(cron_of("0 0 13 * */2").either_day);
    assert_true(cron_of("0 0 13,* * 5,*").either_day);
}

static void check_refused(const char *text, int code, const char *message, const char *detail,
                          const char *hint)
{
    struct redrive_err err = {0};
    struct cron untouched = {.minutes = 42}, cron = untouched;
    int rc = cron_parse(str_of(text), &cron, &err);
    if (rc != code)
        fail_msg("`%s` gave %d (%s)", text, rc, err.message);
    assert_string_equal(err.message, message);
    assert_string_equal(err.detail, detail);
    assert_string_equal(err.hint, hint);
    assert_int_equal(cron_parse(str_of(text), &cron, NULL), code);
    assert_int_equal(cron.minutes, untouched.minutes);
}

TEST(mistakes_are_named_with_field_and_position)
{
#define INVALID "invalid cron expression: "
    check_refused("60 * * * *", REDRIVE_E_RANGE, INVALID "minute 60 is out of range",
                  "minute (field 1), position 1: expected 0 to 59", "");
    check_refused("0 24 * * *", REDRIVE_E_RANGE, INVALID "hour 24 is out of range",
                  "hour (field 2), position 3: expected 0 to 23", "");
    check_refused(" 0 0  0 * *", REDRIVE_E_RANGE, INVALID "day of month 0 is out of range",
                  "day of month (field 3), position 7: expected 1 to 31", "");
    check_refused("0 0 1 1,13 *", REDRIVE_E_RANGE, INVALID "month 13 is out of range",
                  "month (field 4), position 9: expected 1 to 12 or jan to dec", "");
    check_refused("0 0 1 1 8", REDRIVE_E_RANGE, INVALID "day of week 8 is out of range",
                  "day of week (field 5), position 9: expected 0 to 7 or sun to sat", "");
    check_refused("99999999999999999999999 * * * *", REDRIVE_E_RANGE,
                  INVALID "minute 99999999999999999999 is out of range",
                  "minute (field 1), position 1: expected 0 to 59", "");
    check_refused("*/0 * * * *", REDRIVE_E_RANGE, INVALID "step 0 is out of range",
                  "minute (field 1), position 3: expected 1 to 60", "");
    check_refused("0 */25 * * *", REDRIVE_E_RANGE, INVALID "step 25 is out of range",
                  "hour (field 2), position 5: expected 1 to 24", "");
    check_refused("*/ * * * *", REDRIVE_E_PARSE, INVALID "the minute field ends too early",
                  "minute (field 1), position 3: expected 1 to 60", "");
    check_refused("0, * * * *", REDRIVE_E_PARSE, INVALID "the minute field ends too early",
                  "minute (field 1), position 3: expected 0 to 59", "");
    check_refused("5- * * * *", REDRIVE_E_PARSE, INVALID "the minute field ends too early",
                  "minute (field 1), position 3: expected 0 to 59", "");
    check_refused("0 0 * 1- *", REDRIVE_E_PARSE, INVALID "the month field ends too early",
                  "month (field 4), position 9: expected 1 to 12 or jan to dec", "");
    check_refused("-5 * * * *", REDRIVE_E_PARSE, INVALID "unexpected `-`",
                  "minute (field 1), position 1: expected 0 to 59", "");
    check_refused("x * * * *", REDRIVE_E_PARSE, INVALID "unexpected `x`",
                  "minute (field 1), position 1: expected 0 to 59", "");
    check_refused("5x * * * *", REDRIVE_E_PARSE, INVALID "unexpected `x`",
                  "minute (field 1), position 2: expected `,`, `-`, `/` or the end of the field",
                  "");
    check_refused("*5 * * * *", REDRIVE_E_PARSE, INVALID "unexpected `5`",
                  "minute (field 1), position 2: expected `,`, `-`, `/` or the end of the field",
                  "");
    check_refused("1/2/3 * * * *", REDRIVE_E_PARSE, INVALID "unexpected `/`",
                  "minute (field 1), position 4: expected `,`, `-`, `/` or the end of the field",
                  "");
    check_refused("\x01 * * * *", REDRIVE_E_PARSE, INVALID "unexpected byte 0x01",
                  "minute (field 1), position 1: expected 0 to 59", "");
    check_refused("\xC3\xA4 * * * *", REDRIVE_E_PARSE, INVALID "unexpected byte 0xc3",
                  "minute (field 1), position 1: expected 0 to 59", "");
}

TEST(ranges_that_run_backwards_are_refused)
{
    check_refused("0 22-2 * * *", REDRIVE_E_RANGE, INVALID "the range runs backwards",
                  "hour (field 2), position 6: expected a value that is not lower than the first",
                  "write two ranges, separated by a comma");
    check_refused("0 0 * * fri-mon", REDRIVE_E_RANGE, INVALID "the range runs backwards",
                  "day of week (field 5), position 13: expected a value that is not lower than "
                  "the first",
                  "write two ranges, separated by a comma");
    check_refused("0 0 * * 5-0", REDRIVE_E_RANGE, INVALID "the range runs backwards",
                  "day of week (field 5), position 11: expected a value that is not lower than "
                  "the first",
                  "write two ranges, separated by a comma");
}

TEST(misspelt_names_get_the_nearest)
{
    const char *month = "month (field 4), position 7: expected 1 to 12 or jan to dec";
    const char *weekday = "day of week (field 5), position 9: expected 0 to 7 or sun to sat";
    check_refused("0 0 1 janury *", REDRIVE_E_UNKNOWN, INVALID "unknown month `janury`", month,
                  "did you mean `jan`?");
    check_refused("0 0 1 agu *", REDRIVE_E_UNKNOWN, INVALID "unknown month `agu`", month,
                  "did you mean `aug`?");
    check_refused("0 0 * * Monday", REDRIVE_E_UNKNOWN, INVALID "unknown day of week `Monday`",
                  weekday, "did you mean `mon`?");
    check_refused("0 0 * * wde", REDRIVE_E_UNKNOWN, INVALID "unknown day of week `wde`", weekday,
                  "did you mean `wed`?");
    check_refused("0 0 * * xsat", REDRIVE_E_UNKNOWN, INVALID "unknown day of week `xsat`", weekday,
                  "did you mean `sat`?");
    check_refused("0 0 * * xyzzyxyzzyxyzzyxyzzyxyzzy", REDRIVE_E_UNKNOWN,
                  INVALID "unknown day of week `xyzzyxyzzyxyzzyxyzzy`", weekday, "");
    check_refused("@dayly", REDRIVE_E_UNKNOWN, INVALID "unknown name",
                  "expected @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly",
                  "did you mean `@daily`?");
    check_refused("@reboot", REDRIVE_E_UNKNOWN, INVALID "unknown name",
                  "expected @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly",
                  "");
}

TEST(there_are_five_fields)
{
    const char *expected = "expected 5: minute, hour, day of month, month, day of week";
    check_refused("", REDRIVE_E_PARSE, INVALID "0 fields", expected, "");
    check_refused(NULL, REDRIVE_E_PARSE, INVALID "0 fields", expected, "");
    check_refused("* * * *", REDRIVE_E_PARSE, INVALID "4 fields", expected, "");
    check_refused("0 * * * * *", REDRIVE_E_PARSE, INVALID "6 fields", expected,
                  "seconds and years have no field");
}

TEST(what_can_never_fire_is_refused)
{
    const char *message = INVALID "it would never fire";
    const char *detail = "none of its months has a day that it names";
    check_refused("0 0 31 2 *", REDRIVE_E_INVALID, message, detail, "");
    check_refused("0 0 30 2 *", REDRIVE_E_INVALID, message, detail, "");
    check_refused("0 0 31 2,4,6,9,11 */2", REDRIVE_E_INVALID, message, detail, "");
    cron_of("0 0 29 2 *");
    cron_of("0 0 31 2,3 *");
    cron_of("0 0 31 2 mon"); /* the Mondays of February */
}

/* ---- Ticks ----------------------------------------------------------------------------------- */

static int64_t next_s(const char *text, const struct tz *tz, int64_t after_s)
{
    struct cron cron = cron_of(text);
    int64_t tick_ms;
    assert_int_equal(cron_next(&cron, tz, after_s * 1000, &tick_ms), 0);
    assert_int_equal(tick_ms % 1000, 0);
    return tick_ms / 1000;
}

TEST(ticks_are_strictly_later)
{
    struct cron cron = cron_of("*/2 * * * *");
    int64_t tick;
    assert_int_equal(cron_next(&cron, tz_utc(), 0, &tick), 0);
    assert_int_equal(tick, 120000);
    assert_int_equal(cron_next(&cron, tz_utc(), 119999, &tick), 0);
    assert_int_equal(tick, 120000);
    assert_int_equal(cron_next(&cron, tz_utc(), -1, &tick), 0);
    assert_int_equal(tick, 0);
    assert_int_equal(cron_next(&cron, tz_utc(), -120000, &tick), 0);
    assert_int_equal(tick, 0);
    assert_int_equal(cron_next(&cron, tz_utc(), -120001, &tick), 0);
    assert_int_equal(tick, -120000);
}

TEST(days_match_either_way_or_both)
{
    const struct tz *tz = tz_utc();
    /* September 2024: the 13th is a Friday, the 1st a Sunday. */
    assert_int_equal(next_s("0 0 13 * fri", tz, utc(2024, 9, 1, 0, 0)), utc(2024, 9, 6, 0, 0));
    assert_int_equal(next_s("0 0 13 * fri", tz, utc(2024, 10, 11, 0, 0)), utc(2024, 10, 13, 0, 0));
    assert_int_equal(next_s("0 0 */12 * fri", tz, utc(2024, 9, 1, 0, 0)), utc(2024, 9, 13, 0, 0));
}

TEST(rare_ticks_are_found)
{
    const struct tz *tz = tz_utc();
    assert_int_equal(next_s("0 0 29 2 *", tz, utc(2024, 2, 29, 0, 0)), utc(2028, 2, 29, 0, 0));
    assert_int_equal(next_s("0 0 29 2 *", tz, utc(2096, 2, 29, 0, 0)), utc(2104, 2, 29, 0, 0));
    /* 29 February on a Sunday, over the year 2100. */
    assert_int_equal(next_s("0 0 29 2 */7", tz, utc(2088, 2, 29, 0, 0)), utc(2128, 2, 29, 0, 0));
    assert_int_equal(next_s("59 23 31 12 *", tz, utc(2024, 12, 31, 23, 59)),
                     utc(2025, 12, 31, 23, 59));
    assert_int_equal(next_s("@yearly", tz, utc(2024, 1, 1, 0, 0)), utc(2025, 1, 1, 0, 0));
}

TEST(the_ends_of_time_have_no_next_tick)
{
    struct cron cron = cron_of("0 0 1 1 *");
    int64_t tick = 42;
    assert_int_equal(cron_next(&cron, tz_utc(), INT64_MAX, &tick), REDRIVE_E_NOT_FOUND);
    assert_int_equal(tick, 42);
    assert_int_equal(cron_next(&cron, tz_utc(), INT64_MIN, &tick), 0);
    assert_true(tick > INT64_MIN);
}

/* A span of local time in which a tick falls can be one that no clock of the zone ever shows. */
TEST(a_zone_may_never_show_a_time)
{
    struct cron cron = cron_of("30 * 29 2 *");
    struct tz_transition flips[2 * 12];
    struct tz tz = {.transitions = flips, .n_transitions = 0};
    /* Every 29 February of 41 years is jumped over, and given back in March. */
    for (int64_t year = 2004; year < 2048; year += 4) {
        flips[tz.n_transitions++] = (struct tz_transition){utc(year, 2, 29, 0, 0), 86400};
        flips[tz.n_transitions++] = (struct tz_transition){utc(year, 3, 10, 0, 0), 0};
    }
    int64_t tick;
    assert_int_equal(cron_next(&cron, &tz, utc(2004, 1, 1, 0, 0) * 1000, &tick),
                     REDRIVE_E_NOT_FOUND);
    /* What names an hour comes after the gap. */
    cron = cron_of("30 5 29 2 *");
    assert_int_equal(cron_next(&cron, &tz, utc(2004, 1, 1, 0, 0) * 1000, &tick), 0);
    assert_int_equal(tick, utc(2004, 2, 29, 0, 0) * 1000);
}

TEST(clocks_set_back_and_forward_again_repeat_nothing)
{
    /* At 03:00 it becomes 02:00, and ten minutes later 03:10 again. */
    struct tz_transition flips[] = {{utc(2024, 1, 1, 3, 0), -3600}, {utc(2024, 1, 1, 3, 10), 0}};
    struct tz tz = {.transitions = flips, .n_transitions = 2};
    const int64_t before = utc(2024, 1, 1, 0, 0);
    assert_int_equal(next_s("30 2 * * *", &tz, before), utc(2024, 1, 1, 2, 30));
    assert_int_equal(next_s("30 2 * * *", &tz, utc(2024, 1, 1, 2, 30)), utc(2024, 1, 2, 2, 30));
    assert_int_equal(next_s("5 2 * * *", &tz, before), utc(2024, 1, 1, 2, 5));
    assert_int_equal(next_s("5 2 * * *", &tz, utc(2024, 1, 1, 2, 5)), utc(2024, 1, 2, 2, 5));
    assert_int_equal(next_s("5 3 * * *", &tz, before), utc(2024, 1, 1, 3, 10));
}

static void check_ticks(const char *text, const char *zone, int64_t from, int64_t to,
                        const int64_t *expected, size_t n)
{
    struct tz tz;
    zone_load(zone, &tz);
    int64_t at = from - 1;
    for (size_t i = 0; i < n; i++) {
        at = next_s(text, &tz, at);
        if (at != expected[i])
            fail_msg("`%s` in %s: tick %zu is %lld, not %lld", text, zone, i, (long long)at,
                     (long long)expected[i]);
    }
    assert_true(next_s(text, &tz, at) >= to);
    tz_release(&tz);
}
#define CHECK_TICKS(text, zone, from, to, ...)                        \
    check_ticks(text, zone, from, to, (const int64_t[]){__VA_ARGS__}, \
                sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

TEST(a_time_in_a_gap_fires_at_its_end)
{
    /* Berlin, 31 March 2024: 02:00 became 03:00 at 01:00 UTC. */
    const int64_t from = utc(2024, 3, 30, 23, 0), to = utc(2024, 3, 31, 22, 0);
    CHECK_TICKS("30 2 * * *", "Europe/Berlin", from, to, utc(2024, 3, 31, 1, 0));
    CHECK_TICKS("0,15,30 2 * * *", "Europe/Berlin", from, to, utc(2024, 3, 31, 1, 0));
    CHECK_TICKS("*/5 2 * * *", "Europe/Berlin", from, to, utc(2024, 3, 31, 1, 0));
    CHECK_TICKS("0 2,3 * * *", "Europe/Berlin", from, to, utc(2024, 3, 31, 1, 0));
    CHECK_TICKS("30 2,3 * * *", "Europe/Berlin", from, to, utc(2024, 3, 31, 1, 0),
                utc(2024, 3, 31, 1, 30));
    CHECK_TICKS("59 1 * * *", "Europe/Berlin", from, to, utc(2024, 3, 31, 0, 59));
    CHECK_TICKS("0 3 * * *", "Europe/Berlin", from, to, utc(2024, 3, 31, 1, 0));
    /* New York, 10 March 2024: at 07:00 UTC. */
    CHECK_TICKS("30 2 * * *", "America/New_York", utc(2024, 3, 10, 5, 0), utc(2024, 3, 11, 4, 0),
                utc(2024, 3, 10, 7, 0));
}

TEST(a_time_that_repeats_fires_on_the_first_pass)
{
    /* Berlin, 27 October 2024: 03:00 became 02:00 at 01:00 UTC. */
    const int64_t from = utc(2024, 10, 26, 22, 0), to = utc(2024, 10, 27, 23, 0);
    CHECK_TICKS("30 2 * * *", "Europe/Berlin", from, to, utc(2024, 10, 27, 0, 30));
    CHECK_TICKS("0 3 * * *", "Europe/Berlin", from, to, utc(2024, 10, 27, 2, 0));
    CHECK_TICKS("0 2,3 * * *", "Europe/Berlin", from, to, utc(2024, 10, 27, 0, 0),
                utc(2024, 10, 27, 2, 0));
    CHECK_TICKS("30 1 * * *", "America/New_York", utc(2024, 11, 3, 4, 0), utc(2024, 11, 4, 5, 0),
                utc(2024, 11, 3, 5, 30));
    /* Asked between the two passes, and within the second. */
    struct tz tz;
    zone_load("Europe/Berlin", &tz);
    assert_int_equal(next_s("30 2 * * *", &tz, utc(2024, 10, 27, 1, 0)), utc(2024, 10, 28, 1, 30));
    assert_int_equal(next_s("30 2 * * *", &tz, utc(2024, 10, 27, 1, 29)), utc(2024, 10, 28, 1, 30));
    tz_release(&tz);
}

TEST(intervals_follow_elapsed_time)
{
    struct tz tz;
    zone_load("Europe/Berlin", &tz);
    static const char *const EVERY_HOUR[] = {"15 * * * *", "15 */1 * * *", "15 0-23 * * *"};
    for (int i = 0; i < 3; i++) {
        int64_t at = utc(2024, 3, 30, 0, 15);
        for (int n = 0; n < 24 * 365; n++) {
            int64_t next = next_s(EVERY_HOUR[i], &tz, at);
            assert_int_equal(next - at, 3600);
            at = next;
        }
    }
    tz_release(&tz);
}

TEST(half_hour_changes_are_followed)
{
    /* Lord Howe, 6 October 2024: 02:00 became 02:30 at 15:30 UTC the day before. */
    CHECK_TICKS("15 2 * * *", "Australia/Lord_Howe", utc(2024, 10, 5, 13, 30),
                utc(2024, 10, 6, 13, 0), utc(2024, 10, 5, 15, 30));
    CHECK_TICKS("45 2 * * *", "Australia/Lord_Howe", utc(2024, 10, 5, 13, 30),
                utc(2024, 10, 6, 13, 0), utc(2024, 10, 5, 15, 45));
    /* 7 April 2024: 02:00 became 01:30 at 15:00 UTC the day before. */
    CHECK_TICKS("45 1 * * *", "Australia/Lord_Howe", utc(2024, 4, 6, 13, 0),
                utc(2024, 4, 7, 13, 30), utc(2024, 4, 6, 14, 45));
    CHECK_TICKS("*/30 * * * *", "Australia/Lord_Howe", utc(2024, 4, 6, 14, 0),
                utc(2024, 4, 6, 16, 0), utc(2024, 4, 6, 14, 0), utc(2024, 4, 6, 14, 30),
                utc(2024, 4, 6, 15, 0), utc(2024, 4, 6, 15, 30));
}

TEST(a_day_without_midnight_still_has_its_daily_tick)
{
    /* São Paulo, 4 November 2018: 00:00 became 01:00 at 03:00 UTC. */
    CHECK_TICKS("@daily", "America/Sao_Paulo", utc(2018, 11, 3, 3, 0), utc(2018, 11, 6, 2, 0),
                utc(2018, 11, 3, 3, 0), utc(2018, 11, 4, 3, 0), utc(2018, 11, 5, 2, 0));
    CHECK_TICKS("0 */6 * * *", "America/Sao_Paulo", utc(2018, 11, 4, 3, 0), utc(2018, 11, 5, 2, 0),
                utc(2018, 11, 4, 3, 0), utc(2018, 11, 4, 8, 0), utc(2018, 11, 4, 14, 0),
                utc(2018, 11, 4, 20, 0));
    /* The midnight that comes twice: 18 February 2018, 00:00 became 23:00 of the day before. */
    CHECK_TICKS("@daily", "America/Sao_Paulo", utc(2018, 2, 17, 2, 0), utc(2018, 2, 19, 3, 0),
                utc(2018, 2, 17, 2, 0), utc(2018, 2, 18, 3, 0));
    /* Beirut, 31 March 2024; Casablanca leaves summer time for Ramadan and comes back. */
    CHECK_TICKS("@daily", "Asia/Beirut", utc(2024, 3, 29, 22, 0), utc(2024, 3, 31, 21, 0),
                utc(2024, 3, 29, 22, 0), utc(2024, 3, 30, 22, 0));
    CHECK_TICKS("30 2 * * *", "Africa/Casablanca", utc(2024, 4, 13, 12, 0), utc(2024, 4, 15, 1, 30),
                utc(2024, 4, 14, 2, 0));
}

TEST(a_day_that_is_left_out_fires_as_the_next_begins)
{
    /* Samoa had no 30 December 2011. */
    CHECK_TICKS("30 2 * * *", "Pacific/Apia", utc(2011, 12, 29, 10, 0), utc(2011, 12, 31, 10, 0),
                utc(2011, 12, 29, 12, 30), utc(2011, 12, 30, 10, 0), utc(2011, 12, 30, 12, 30));
}
