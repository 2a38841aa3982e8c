/* civil.h - calendar dates as numbers and back.
 *
 * The Gregorian calendar without end in both directions (year 0 is 1 BC), days of 86400 seconds
 * counted from 1970-01-01. Knows nothing of time zones: the caller says whose clock it is.
 */
#ifndef CORE_TIME_CIVIL_H
#define CORE_TIME_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/str.h"

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

/* ---- RFC 3339 -------------------------------------------------------------------------------- */

/* Points in time as people and programs write them: RFC 3339.
 *
 *     2026-03-28T12:00:00.123Z      a space may stand for the T, t and z for T and Z; there may be
 *                                   any number of decimals, those beyond the millisecond are cut
 *     2026-03-28T12:00+02:00        so far from UTC, 14 hours at most; seconds may be left out
 *
 * Second 60 is refused: a clock that counts from 1970 does not have it.
 */

#define MOMENT_EXPECTED "a time such as 2026-03-28T12:00:00Z"

/* What was written: without a time of day it is 00:00, without an offset whose clock it is on is
 * left open. */
struct moment {
    struct civil local;
    int ms;
    bool has_time;
    bool has_offset; /* never without a time */
    int offset_s;
};

/* Reads what may lack its offset, or its time of day and offset. False: it is no time. */
bool moment_read(struct str text, struct moment *ret);

/* Reads what is whole, in milliseconds since 1970: a client on the network may be in any time zone,
 * so a time without Z or an offset is refused. False: it is no such time, or one before 1970. */
bool moment_parse(struct str text, int64_t *ret_ms);

/* Whether the text begins as a date does, and not as a duration. */
bool moment_looks_like_one(struct str text);

#endif
