/* retry_after.c - how long a server asks to wait, by seconds or by a date. */
#include <string.h>

#include "core/retry/policy.h"
#include "core/time/civil.h"
#include "redrive.h"

#define MAX_S (INT64_C(100) * 365 * CIVIL_DAY_S)

static const char *const DAYS[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const MONTHS[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

static bool skip(struct str *s, size_t n)
{
    *s = (struct str){s->ptr + n, s->len - n};
    return true;
}

/* Exactly `n` digits. */
static bool take_digits(struct str *s, size_t n, int *ret)
{
    if (s->len < n)
        return false;
    int value = 0;
    for (size_t i = 0; i < n; i++) {
        if (!str_is_digit(s->ptr[i]))
            return false;
        value = value * 10 + (s->ptr[i] - '0');
    }
    *ret = value;
    return skip(s, n);
}

/* `len` bytes of one of the names, or all of it when 0; gives its number from 0. */
static bool take_name(struct str *s, const char *const *names, int n_names, size_t len, int *ret)
{
    for (int i = 0; i < n_names; i++) {
        struct str name = {names[i], len > 0 ? len : strlen(names[i])};
        if (str_starts_with(*s, name)) {
            *ret = i;
            return skip(s, name.len);
        }
    }
    return false;
}

/* RFC 9110: a year of two digits that seems to be over 50 years ahead is of the last century. */
static int64_t full_year(int two_digits, int64_t now_ms)
{
    int64_t this_year = civil_from_seconds(floor_div(now_ms, 1000)).year;
    int64_t year = this_year - this_year % 100 + two_digits;
    return year > this_year + 50 ? year - 100 : year;
}

/* a, A: day of the week, short or whole; d: day; e: day with a space for its 0; b: month;
 * Y, y: year; H, M, S. */
static bool take_field(char field, struct str *s, int64_t now_ms, struct civil *date)
{
    int n = 0;
    bool ok;
    switch (field) {
    case 'a': return take_name(s, DAYS, 7, 3, &n);
    case 'A': return take_name(s, DAYS, 7, 0, &n);
    case 'd': return take_digits(s, 2, &date->day);
    case 'e':
        if (s->len > 0 && s->ptr[0] == ' ')
            return skip(s, 1) && take_digits(s, 1, &date->day);
        return take_digits(s, 2, &date->day);
    case 'b':
        ok = take_name(s, MONTHS, 12, 0, &n);
        date->month = n + 1;
        return ok;
    case 'Y':
        ok = take_digits(s, 4, &n);
        date->year = n;
        return ok;
    case 'y':
        ok = take_digits(s, 2, &n);
        date->year = full_year(n, now_ms);
        return ok;
    case 'H': return take_digits(s, 2, &date->hour);
    case 'M': return take_digits(s, 2, &date->minute);
    case 'S': return take_digits(s, 2, &date->second);
    default: return false;
    }
}

static bool parse_date(const char *format, struct str value, int64_t now_ms, struct civil *ret)
{
    bool is_field = false;
    *ret = (struct civil){0};
    for (const char *f = format; *f; f++) {
        if (*f == '%' && !is_field) {
            is_field = true;
            continue;
        }
        bool ok = is_field ? take_field(*f, &value, now_ms, ret)
                           : value.len > 0 && value.ptr[0] == *f && skip(&value, 1);
        if (!ok)
            return false;
        is_field = false;
    }
    return value.len == 0 && ret->day >= 1 &&
           ret->day <= civil_days_in_month(ret->year, ret->month) && ret->hour < 24 &&
           ret->minute < 60 && ret->second <= 60; /* a leap second */
}

static bool parse_seconds(struct str value, int64_t *ret)
{
    int64_t seconds = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (!str_is_digit(value.ptr[i]))
            return false;
        seconds = seconds * 10 + (value.ptr[i] - '0');
        if (seconds > MAX_S)
            seconds = MAX_S;
    }
    *ret = seconds;
    return value.len > 0;
}

int64_t redrive_retry_after_ms(const char *value, int64_t now_ms)
{
    int64_t ms;
    return value && retry_after_parse(str_of(value), now_ms, &ms) ? ms : 0;
}

bool retry_after_parse(struct str value, int64_t now_ms, int64_t *ret_ms)
{
    static const char *const formats[] = {
        "%a, %d %b %Y %H:%M:%S GMT",
        "%A, %d-%b-%y %H:%M:%S GMT",
        "%a %b %e %H:%M:%S %Y",
    };
    value = str_trim(value);
    int64_t seconds;
    if (parse_seconds(value, &seconds)) {
        *ret_ms = seconds * 1000;
        return true;
    }
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct civil date;
        if (parse_date(formats[i], value, now_ms, &date)) {
            int64_t at_ms = civil_to_seconds(&date) * 1000;
            *ret_ms = at_ms > now_ms ? at_ms - now_ms : 0;
            return true;
        }
    }
    return false;
}
