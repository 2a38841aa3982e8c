/* civil.h - calendar dates as numbers and back.
 *
 * The Gregorian calendar without end in both directions (year 0 is 1 BC), days of 86400 seconds
 * counted from 1970-01-01. Knows nothing of time zones: the caller says whose clock it is.
 */
#ifndef CORE_TIME_CIVIL_H
#define CORE_TIME_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

#define CIVIL_DAY_S 86400

struct civil {
    int64_t year;
    int month; /* 1–12 */
    int day;   /* 1–31 */
    int hour;
    int minute;
    int second;
};

/* Quotient and remainder for a positive divisor, rounded so that the remainder is never negative:
 * a second before 1970 belongs to the day before. */
static inline int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static inline int64_t floor_mod(int64_t a, int64_t b)
{
    return a % b + (a % b < 0 ? b : 0);
}

bool civil_is_leap(int64_t year);
int civil_days_in_month(int64_t year, int month);

/* Days since 1970-01-01. `month` is 1–12; a day outside of its month counts on into the next or
 * back into the last. Years beyond ±CIVIL_YEAR_MAX are taken as that. */
#define CIVIL_YEAR_MAX INT64_C(36000000000)
int64_t civil_to_days(int64_t year, int month, int day);

/* The date of a day; hour, minute and second are 0. Any day whose seconds fit an int64_t. */
struct civil civil_from_days(int64_t days);

/* 0 is Sunday. */
int civil_weekday(int64_t days);

/* Seconds since 1970-01-01 00:00:00 on the same clock. civil_to_seconds follows the rules of
 * civil_to_days, and so stays within ±2^60; civil_from_seconds takes any number. */
int64_t civil_to_seconds(const struct civil *c);
struct civil civil_from_seconds(int64_t seconds);

#endif
