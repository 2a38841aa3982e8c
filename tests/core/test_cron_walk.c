/* cron_next beside a walk of three years minute by minute, as libc tells the time. */
#include "core/cron/cron.h"

#include "base/rng.h"
#include "zones.h"

/* Local time of every minute of some years, as libc tells it. */
struct calendar {
    int64_t first_s;
    int n;
    struct minute {
        int64_t local_min; /* minutes since 1970 on the local clock */
        int8_t minute, hour, day, month, weekday;
    } * minutes;
};

static void calendar_fill(struct calendar *c, const char *zone, int64_t first_s, int n)
{
    zone_of_libc(zone);
    *c = (struct calendar){first_s, n, malloc((size_t)n * sizeof *c->minutes)};
    for (int i = 0; i < n; i++) {
        struct tm tm;
        time_t t = (time_t)(first_s + i * INT64_C(60));
        localtime_r(&t, &tm);
        c->minutes[i] = (struct minute){((int64_t)t + tm.tm_gmtoff) / 60,
                                        (int8_t)tm.tm_min,
                                        (int8_t)tm.tm_hour,
                                        (int8_t)tm.tm_mday,
                                        (int8_t)(tm.tm_mon + 1),
                                        (int8_t)tm.tm_wday};
    }
}

/* An expression made from sets, so that the sets are known without reading it. */
struct sets {
    bool minute[60], hour[24], day[32], month[13], weekday[7];
    bool day_star, weekday_star, every_hour;
    char text[1024];
};

static void add_field(struct sets *s, struct rng *rng, bool *set, int first, int last, bool star)
{
    size_t len = strlen(s->text);
    if (star) {
        snprintf(s->text + len, sizeof s->text - len, "* ");
        for (int i = first; i <= last; i++)
            set[i] = true;
        return;
    }
    int n = 1 + (int)rng_below(rng, 3);
    for (int i = 0; i < n; i++) {
        int value = first + (int)rng_below(rng, (uint64_t)(last - first + 1));
        set[value] = true;
        len += (size_t)snprintf(s->text + len, sizeof s->text - len, "%d%s", value,
                                i < n - 1 ? "," : " ");
    }
}

static void sets_random(struct sets *s, struct rng *rng)
{
    memset(s, 0, sizeof *s);
    s->every_hour = rng_below(rng, 3) == 0;
    s->day_star = rng_below(rng, 2) == 0;
    s->weekday_star = rng_below(rng, 2) == 0;
    add_field(s, rng, s->minute, 0, 59, rng_below(rng, 4) == 0);
    add_field(s, rng, s->hour, 0, 4, s->every_hour); /* where clocks change */
    if (s->every_hour)
        memset(s->hour, true, sizeof s->hour);
    add_field(s, rng, s->day, 1, 31, s->day_star);
    add_field(s, rng, s->month, 1, 12, rng_below(rng, 3) > 0);
    add_field(s, rng, s->weekday, 0, 6, s->weekday_star);
}

static bool sets_match(const struct sets *s, const struct minute *m)
{
    bool by_day = s->day[m->day], by_weekday = s->weekday[m->weekday];
    bool both = s->day_star || s->weekday_star;
    return s->minute[m->minute] && s->hour[m->hour] && s->month[m->month] &&
           (both ? by_day && by_weekday : by_day || by_weekday);
}

/* Whether a local minute matches that no clock has shown. */
static bool sets_match_unseen(const struct sets *s, int64_t local_min)
{
    struct tm tm;
    time_t t = (time_t)(local_min * 60);
    gmtime_r(&t, &tm);
    struct minute m = {local_min,          (int8_t)tm.tm_min,       (int8_t)tm.tm_hour,
                       (int8_t)tm.tm_mday, (int8_t)(tm.tm_mon + 1), (int8_t)tm.tm_wday};
    return sets_match(s, &m);
}

/* Whether the i-th minute is a tick, by looking at nothing but the minutes up to it. */
static bool is_tick(const struct sets *s, const struct calendar *c, int i, int64_t latest_min)
{
    const struct minute *m = &c->minutes[i];
    if (s->every_hour)
        return sets_match(s, m);
    if (m->local_min <= latest_min)
        return false;
    for (int64_t unseen = latest_min + 1; unseen < m->local_min; unseen++)
        if (sets_match_unseen(s, unseen))
            return true;
    return sets_match(s, m);
}

/* Walks a calendar minute by minute beside cron_next. An expression that was refused must never
 * match. */
static void compare_with_walk(const struct sets *s, const struct calendar *c, const struct tz *tz,
                              const char *zone)
{
    struct cron cron;
    int64_t tick_ms = INT64_MAX, latest_min = c->minutes[0].local_min - 1;
    int rc = cron_parse(str_of(s->text), &cron, NULL);
    if (rc == 0)
        rc = cron_next(&cron, tz, c->first_s * 1000 - 1, &tick_ms);
    else
        assert_int_equal(rc, REDRIVE_E_INVALID);

    for (int i = 0; i < c->n; i++) {
        int64_t at_ms = (c->first_s + i * INT64_C(60)) * 1000;
        bool expected = is_tick(s, c, i, latest_min);
        if (expected != (tick_ms == at_ms))
            fail_msg("`%s` in %s: %s at %lld", s->text, zone, expected ? "no tick" : "a tick",
                     (long long)at_ms / 1000);
        if (expected)
            assert_int_equal(cron_next(&cron, tz, tick_ms, &tick_ms), 0);
        if (c->minutes[i].local_min > latest_min)
            latest_min = c->minutes[i].local_min;
    }
}

TEST(every_tick_of_three_years_is_what_a_minute_walk_finds)
{
    static const struct {
        const char *zone;
        int64_t year;
    } CASES[] = {
        {"Europe/Berlin", 2023},       {"America/New_York", 2023},
        {"Australia/Lord_Howe", 2023}, {"America/Sao_Paulo", 2016},
        {"Africa/Casablanca", 2023},   {"Pacific/Apia", 2010},
        {"Asia/Beirut", 2040},         {"UTC", 2023},
    };
    struct rng rng;
    rng_seed(&rng, 20240331);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct tz tz;
        struct calendar calendar;
        zone_load(CASES[i].zone, &tz);
        calendar_fill(&calendar, CASES[i].zone, utc(CASES[i].year, 1, 1, 0, 0), 3 * 365 * 1440);
        for (int n = 0; n < 12; n++) {
            struct sets sets;
            sets_random(&sets, &rng);
            compare_with_walk(&sets, &calendar, &tz, CASES[i].zone);
        }
        free(calendar.minutes);
        tz_release(&tz);
    }
}
