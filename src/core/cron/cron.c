/* cron.c - the next tick of an expression, over the changes of a time zone. */
#include "core/cron/cron.h"

#define ALL_HOURS 0xFFFFFFu
#define HOUR_S    3600

/* 29 February falls on a given weekday every 28 years, or 40 over a year like 2100. */
#define HORIZON_S (INT64_C(41) * 366 * CIVIL_DAY_S)

/* A local time that was shown longer ago than this is in the past in every zone. */
#define LOOK_BACK_S (TZ_OFFSET_MAX_S - TZ_OFFSET_MIN_S)

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The lowest value from `from` on whose bit is set, or -1. */
static int next_bit(uint64_t bits, int from)
{
    bits = bits >> from << from;
    return bits ? __builtin_ctzll(bits) : -1;
}

static bool day_matches(const struct cron *cron, int64_t days, int day_of_month)
{
    bool by_month = cron->days >> day_of_month & 1;
    bool by_week = cron->weekdays >> civil_weekday(days) & 1;
    return cron->either_day ? by_month || by_week : by_month && by_week;
}

/* The first matching day from `days` on, or one that starts at `to` or later. */
static int64_t next_day(const struct cron *cron, int64_t days, int64_t to)
{
    while (days * CIVIL_DAY_S < to) {
        struct civil date = civil_from_days(days);
        if (!(cron->months >> date.month & 1)) {
            days += civil_days_in_month(date.year, date.month) - date.day + 1;
            continue;
        }
        if (day_matches(cron, days, date.day))
            break;
        days++;
    }
    return days;
}

/* The first matching second of a day from `second` on, or -1. */
static int next_in_day(const struct cron *cron, int second)
{
    int hour = second / HOUR_S;
    int minute = -1;
    if (cron->hours >> hour & 1)
        minute = next_bit(cron->minutes, second % HOUR_S / 60);
    if (minute < 0) {
        hour = next_bit(cron->hours, hour + 1);
        minute = next_bit(cron->minutes, 0);
    }
    return hour < 0 ? -1 : hour * HOUR_S + minute * 60;
}

/* The first matching local time in [from, to). Jumps over months, days and hours that do not
 * match. */
static bool next_local(const struct cron *cron, int64_t from, int64_t to, int64_t *ret)
{
    from = floor_div(from + 59, 60) * 60;
    while (from < to) {
        int64_t start = floor_div(from, CIVIL_DAY_S);
        int64_t days = next_day(cron, start, to);
        int second = next_in_day(cron, days == start ? (int)floor_mod(from, CIVIL_DAY_S) : 0);
        if (second >= 0) {
            *ret = days * CIVIL_DAY_S + second;
            return *ret < to;
        }
        from = (days + 1) * CIVIL_DAY_S;
    }
    return false;
}

/* Walks over the zone's spans of constant offset, in each of which local time simply runs on.
 * `shown` is the latest local time that clocks have shown up to the start of a span: local times
 * between it and the first of the span were jumped over, those below it come again. */
static bool next_tick(const struct cron *cron, const struct tz *tz, int64_t first, int64_t *ret)
{
    const bool names_hours = cron->hours != ALL_HOURS;
    const int64_t limit = first + HORIZON_S;
    int64_t at = first - LOOK_BACK_S;
    int64_t shown = at + tz_offset_at(tz, at);

    while (at < limit) {
        struct tz_span span = tz_span_at(tz, at);
        int64_t until = min_of(span.until_s, limit);
        int64_t from = max_of(at, first) + span.offset_s;
        int64_t local;

        if (names_hours) {
            if (at >= first && next_local(cron, shown, at + span.offset_s, &local)) {
                *ret = at;
                return true;
            }
            from = max_of(from, shown);
        }
        if (next_local(cron, from, until + span.offset_s, &local)) {
            *ret = local - span.offset_s;
            return true;
        }
        shown = max_of(shown, until + span.offset_s);
        at = until;
    }
    return false;
}

int cron_next(const struct cron *cron, const struct tz *tz, int64_t after_ms, int64_t *ret_ms)
{
    int64_t tick, tick_ms;
    if (!next_tick(cron, tz, floor_div(after_ms, 1000) + 1, &tick) ||
        __builtin_mul_overflow(tick, 1000, &tick_ms))
        return REDRIVE_E_NOT_FOUND;
    *ret_ms = tick_ms;
    return 0;
}
