/* civil.c - days from dates and dates from days, and times as RFC 3339 writes them. */
#include "core/time/civil.h"

/* Years are counted from March, so that the leap day is the last of its year and every month's
 * start follows from one formula. */
#define DAYS_TO_1970 719468 /* from 0000-03-01 */
#define DAYS_400     146097
#define DAYS_100     36524
#define DAYS_4       1461
#define DAYS_1       365

bool civil_is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int civil_days_in_month(int64_t year, int month)
{
    static const int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return DAYS[month - 1] + (month == 2 && civil_is_leap(year));
}

/* Day of the March year on which a month starts; 0 is March. Five months always have 153 days. */
static int month_start(int month_from_march)
{
    return (153 * month_from_march + 2) / 5;
}

int64_t civil_to_days(int64_t year, int month, int day)
{
    if (year > CIVIL_YEAR_MAX)
        year = CIVIL_YEAR_MAX;
    if (year < -CIVIL_YEAR_MAX)
        year = -CIVIL_YEAR_MAX;
    year -= month <= 2;
    int64_t days = year * DAYS_1 + floor_div(year, 4) - floor_div(year, 100) + floor_div(year, 400);
    return days + month_start((month + 9) % 12) + day - 1 - DAYS_TO_1970;
}

/* The last century of four, and the last year of four, are a day longer than the others: their
 * extra day must not start a fifth. */
static int64_t whole(int64_t *days, int64_t unit, int64_t most)
{
    int64_t n = *days / unit;
    if (n > most)
        n = most;
    *days -= n * unit;
    return n;
}

struct civil civil_from_days(int64_t days)
{
    days += DAYS_TO_1970;
    int64_t year = 400 * floor_div(days, DAYS_400);
    days = floor_mod(days, DAYS_400);
    year += 100 * whole(&days, DAYS_100, 3);
    year += 4 * whole(&days, DAYS_4, INT64_MAX);
    year += whole(&days, DAYS_1, 3);

    int month_from_march = (5 * (int)days + 2) / 153;
    int month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    return (struct civil){
        .year = year + (month <= 2),
        .month = month,
        .day = (int)days - month_start(month_from_march) + 1,
    };
}

int civil_weekday(int64_t days)
{
    return (int)floor_mod(days + 4, 7); /* 1970-01-01 was a Thursday */
}

int64_t civil_to_seconds(const struct civil *c)
{
    int64_t in_day = INT64_C(3600) * c->hour + INT64_C(60) * c->minute + c->second;
    return civil_to_days(c->year, c->month, c->day) * CIVIL_DAY_S + in_day;
}

struct civil civil_from_seconds(int64_t seconds)
{
    int in_day = (int)floor_mod(seconds, CIVIL_DAY_S);
    struct civil c = civil_from_days(floor_div(seconds, CIVIL_DAY_S));
    c.hour = in_day / 3600;
    c.minute = in_day / 60 % 60;
    c.second = in_day % 60;
    return c;
}

/* ---- RFC 3339 -------------------------------------------------------------------------------- */

/* Reads exactly `digits` digits from the front. */
static bool take_number(struct str *s, size_t digits, int *ret)
{
    *ret = 0;
    if (s->len < digits)
        return false;
    for (size_t i = 0; i < digits; i++) {
        if (s->ptr[i] < '0' || s->ptr[i] > '9')
            return false;
        *ret = *ret * 10 + (s->ptr[i] - '0');
    }
    *s = (struct str){s->ptr + digits, s->len - digits};
    return true;
}

static bool take(struct str *s, char c)
{
    if (s->len == 0 || s->ptr[0] != c)
        return false;
    *s = (struct str){s->ptr + 1, s->len - 1};
    return true;
}

static bool take_date(struct str *s, struct civil *c)
{
    int year;
    if (!take_number(s, 4, &year) || !take(s, '-') || !take_number(s, 2, &c->month) ||
        !take(s, '-') || !take_number(s, 2, &c->day))
        return false;
    c->year = year;
    return c->month >= 1 && c->month <= 12 && c->day >= 1 &&
           c->day <= civil_days_in_month(year, c->month);
}

static bool take_fraction(struct str *s, int *ret_ms)
{
    int scale = 100, digit;
    if (!take_number(s, 1, &digit))
        return false;
    *ret_ms = 0;
    do {
        *ret_ms += digit * scale;
        scale /= 10;
    } while (take_number(s, 1, &digit));
    return true;
}

static bool take_time(struct str *s, struct civil *c, int *ret_ms)
{
    if (!take_number(s, 2, &c->hour) || !take(s, ':') || !take_number(s, 2, &c->minute))
        return false;
    if (take(s, ':')) {
        if (!take_number(s, 2, &c->second) || (take(s, '.') && !take_fraction(s, ret_ms)))
            return false;
    }
    return c->hour <= 23 && c->minute <= 59 && c->second <= 59;
}

static bool take_offset(struct str *s, int *ret_s)
{
    int hours, minutes, sign;
    if (take(s, 'Z') || take(s, 'z'))
        return true;
    if (take(s, '+'))
        sign = 1;
    else if (take(s, '-'))
        sign = -1;
    else
        return false;
    if (!take_number(s, 2, &hours) || !take(s, ':') || !take_number(s, 2, &minutes))
        return false;
    *ret_s = sign * (hours * 3600 + minutes * 60);
    return hours <= 14 && minutes <= 59;
}

bool moment_read(struct str text, struct moment *ret)
{
    *ret = (struct moment){0};
    if (!take_date(&text, &ret->local))
        return false;
    ret->has_time = text.len > 0;
    if (ret->has_time && (!(take(&text, 'T') || take(&text, 't') || take(&text, ' ')) ||
                          !take_time(&text, &ret->local, &ret->ms)))
        return false;
    ret->has_offset = text.len > 0;
    return !ret->has_offset || (take_offset(&text, &ret->offset_s) && text.len == 0);
}

bool moment_parse(struct str text, int64_t *ret_ms)
{
    struct moment m;
    if (!moment_read(text, &m) || !m.has_offset)
        return false;
    const int64_t ms = (civil_to_seconds(&m.local) - m.offset_s) * 1000 + m.ms;
    if (ms < 0)
        return false;
    *ret_ms = ms;
    return true;
}

bool moment_looks_like_one(struct str text)
{
    int year;
    return take_number(&text, 4, &year) && take(&text, '-');
}
