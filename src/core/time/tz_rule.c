/* tz_rule.c - parses POSIX TZ strings and computes their changes. */
#include "core/time/tz_rule.h"

#include "base/err.h"
#include "core/time/civil.h"

#define HOUR_S         3600
#define MAX_RULE_HOURS 167 /* of a date's time: a week less an hour, RFC 8536 */

/* Reads from left to right; the first thing that is not as expected is remembered and stops it. */
struct reader {
    struct str text;
    size_t at;
    const char *expected; /* NULL: all is well */
    size_t failed_at;
};

static bool expect(struct reader *r, bool met, const char *what)
{
    if (!met && !r->expected) {
        r->expected = what;
        r->failed_at = r->at;
    }
    return r->expected == NULL;
}

static char peek(const struct reader *r)
{
    if (r->at == r->text.len)
        return '\0';
    return r->text.ptr[r->at];
}

static bool accept(struct reader *r, char c)
{
    if (r->expected || r->at == r->text.len || r->text.ptr[r->at] != c)
        return false;
    r->at++;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* At least three letters, or between < and > letters, digits and signs. */
static void read_name(struct reader *r)
{
    bool quoted = accept(r, '<');
    size_t start = r->at;
    while (is_letter(peek(r)) ||
           (quoted && (is_digit(peek(r)) || peek(r) == '+' || peek(r) == '-')))
        r->at++;
    bool long_enough = r->at - start >= 3;
    if (!long_enough)
        r->at = start;
    expect(r, long_enough, "a name of three letters or more");
    if (quoted)
        expect(r, accept(r, '>'), "`>`");
}

static int read_number(struct reader *r, int min, int max, const char *what)
{
    int n = 0;
    size_t start = r->at;
    while (r->at - start < 3 && is_digit(peek(r)))
        n = n * 10 + (r->text.ptr[r->at++] - '0');
    bool met = r->at > start && n >= min && n <= max;
    if (!met)
        r->at = start;
    expect(r, met, what);
    return n;
}

/* [+-]hh[:mm[:ss]] */
static int32_t read_time(struct reader *r, int max_hours)
{
    int sign = accept(r, '-') ? -1 : 1;
    if (sign > 0)
        accept(r, '+');
    int32_t seconds = HOUR_S * read_number(r, 0, max_hours, "hours");
    if (accept(r, ':')) {
        seconds += 60 * read_number(r, 0, 59, "minutes");
        if (accept(r, ':'))
            seconds += read_number(r, 0, 59, "seconds");
    }
    return sign * seconds;
}

static struct tz_date read_date(struct reader *r)
{
    struct tz_date date = {.time_s = 2 * HOUR_S};

    expect(r, accept(r, ','), "`,` and a date");
    if (accept(r, 'M')) {
        date.form = TZ_DATE_MONTH;
        date.month = read_number(r, 1, 12, "a month from 1 to 12");
        expect(r, accept(r, '.'), "`.`");
        date.week = read_number(r, 1, 5, "a week from 1 to 5");
        expect(r, accept(r, '.'), "`.`");
        date.day = read_number(r, 0, 6, "a weekday from 0 to 6");
    } else if (accept(r, 'J')) {
        date.form = TZ_DATE_JULIAN;
        date.day = read_number(r, 1, 365, "a day from 1 to 365");
    } else {
        date.form = TZ_DATE_DAY;
        date.day = read_number(r, 0, 365, "a day from 0 to 365");
    }
    if (accept(r, '/'))
        date.time_s = read_time(r, MAX_RULE_HOURS);
    return date;
}

int tz_rule_parse(struct str text, struct tz_rule *ret, struct redrive_err *err)
{
    struct reader r = {.text = text};
    struct tz_rule rule = {0};

    read_name(&r);
    rule.std_offset_s = -read_time(&r, 24);
    if (!r.expected && r.at < text.len) {
        rule.has_dst = true;
        read_name(&r);
        bool given = peek(&r) != ',' && peek(&r) != '\0';
        rule.dst_offset_s = given ? -read_time(&r, 24) : rule.std_offset_s + HOUR_S;
        rule.dst_start = read_date(&r);
        rule.dst_end = read_date(&r);
    }
    if (!expect(&r, r.at == text.len, "the end")) {
        err_set(err, REDRIVE_E_PARSE, "invalid time zone rule");
        err_detail(err, "position %zu: expected %s", r.failed_at + 1, r.expected);
        return REDRIVE_E_PARSE;
    }
    *ret = rule;
    return 0;
}

/* Seconds from 1970 to the date's moment in a year, on the clock that it is told by. */
static int64_t date_in_year(const struct tz_date *date, int64_t year)
{
    int64_t day = 0;
    switch (date->form) {
    case TZ_DATE_MONTH: {
        int64_t first = civil_to_days(year, date->month, 1);
        int day_of_month = 1 + (date->day - civil_weekday(first) + 7) % 7 + 7 * (date->week - 1);
        if (day_of_month > civil_days_in_month(year, date->month))
            day_of_month -= 7;
        day = first + day_of_month - 1;
        break;
    }
    case TZ_DATE_JULIAN: {
        bool after_leap_day = date->day >= 60 && civil_is_leap(year);
        day = civil_to_days(year, 1, 1) + date->day - 1 + after_leap_day;
        break;
    }
    case TZ_DATE_DAY: day = civil_to_days(year, 1, 1) + date->day; break;
    }
    return day * CIVIL_DAY_S + date->time_s;
}

struct change {
    int64_t at_s; /* UTC */
    int32_t offset_s;
};

/* The two changes of a year, in their order. */
static void changes_of_year(const struct tz_rule *rule, int64_t year, struct change ret[2])
{
    struct change start = {date_in_year(&rule->dst_start, year) - rule->std_offset_s,
                           rule->dst_offset_s};
    struct change end = {date_in_year(&rule->dst_end, year) - rule->dst_offset_s,
                         rule->std_offset_s};
    bool south = end.at_s < start.at_s;
    ret[south] = start;
    ret[!south] = end;
}

/* A date can lie up to a week outside of its year, so that the changes next to an instant belong
 * to its year or to one of two on either side. */
struct tz_span tz_rule_span_at(const struct tz_rule *rule, int64_t utc_s)
{
    struct tz_span span = {rule->std_offset_s, INT64_MAX};
    int64_t latest = INT64_MIN;

    if (!rule->has_dst)
        return span;
    int64_t year = civil_from_seconds(utc_s).year;
    for (int64_t y = year - 2; y <= year + 2; y++) {
        struct change changes[2];
        changes_of_year(rule, y, changes);
        for (int i = 0; i < 2; i++) {
            if (changes[i].at_s > utc_s) {
                if (changes[i].at_s < span.until_s)
                    span.until_s = changes[i].at_s;
            } else if (changes[i].at_s >= latest) {
                latest = changes[i].at_s;
                span.offset_s = changes[i].offset_s;
            }
        }
    }
    return span;
}
