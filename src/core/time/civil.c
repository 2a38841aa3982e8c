/* civil.c - days from dates and dates from days. */
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
