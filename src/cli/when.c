#include "cli/when.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/duration.h"
#include "base/err.h"
#include "core/civil.h"

/* Reads exactly `digits` digits. */
static bool take_number(const char **p, int digits, int *ret)
{
    *ret = 0;
    for (int i = 0; i < digits; i++, (*p)++) {
        if (!isdigit((unsigned char)**p))
            return false;
        *ret = *ret * 10 + (**p - '0');
    }
    return true;
}

static bool take(const char **p, char c)
{
    if (**p != c)
        return false;
    (*p)++;
    return true;
}

static bool take_date(const char **p, struct civil *c)
{
    int year;
    if (!take_number(p, 4, &year) || !take(p, '-') || !take_number(p, 2, &c->month) ||
        !take(p, '-') || !take_number(p, 2, &c->day))
        return false;
    c->year = year;
    return year >= 1970 && c->month >= 1 && c->month <= 12 && c->day >= 1 &&
           c->day <= civil_days_in_month(year, c->month);
}

/* `.5`, `.123`: up to nine digits, of which three count. */
static bool take_fraction(const char **p, int *ret_ms)
{
    int scale = 100, digits = 0;
    for (*ret_ms = 0; isdigit((unsigned char)**p) && digits < 9; (*p)++, digits++) {
        *ret_ms += (**p - '0') * scale;
        scale /= 10;
    }
    return digits > 0;
}

static bool take_time(const char **p, struct civil *c, int *ret_ms)
{
    if (!take_number(p, 2, &c->hour) || !take(p, ':') || !take_number(p, 2, &c->minute))
        return false;
    if (take(p, ':')) {
        if (!take_number(p, 2, &c->second))
            return false;
        if (take(p, '.') && !take_fraction(p, ret_ms))
            return false;
    }
    return c->hour <= 23 && c->minute <= 59 && c->second <= 59;
}

/* `Z` or `+02:00`; false: neither, and nothing is taken. */
static bool take_offset(const char **p, int *ret_s)
{
    const char *at = *p;
    int hours, minutes, sign = *at == '-' ? -1 : 1;
    *ret_s = 0;
    if (take(p, 'Z'))
        return true;
    if (*at != '+' && *at != '-')
        return false;
    at++;
    if (!take_number(&at, 2, &hours) || !take(&at, ':') || !take_number(&at, 2, &minutes) ||
        hours > 14 || minutes > 59)
        return false;
    *ret_s = sign * (hours * 3600 + minutes * 60);
    *p = at;
    return true;
}

/* The C library knows the machine's zone; of a time that comes twice it may choose either. */
static int64_t machine_to_utc_s(const struct civil *c)
{
    struct tm tm = {.tm_year = (int)c->year - 1900,
                    .tm_mon = c->month - 1,
                    .tm_mday = c->day,
                    .tm_hour = c->hour,
                    .tm_min = c->minute,
                    .tm_sec = c->second,
                    .tm_isdst = -1};
    return (int64_t)mktime(&tm);
}

static int64_t to_utc_s(const struct civil *c, const struct tz *tz)
{
    int64_t utc_s[2];
    if (!tz)
        return machine_to_utc_s(c);
    tz_local_to_utc(tz, c, utc_s);
    return utc_s[0];
}

int when_parse(const char *label, const char *text, const struct tz *tz, int64_t *ret_ms,
               struct redrive_err *err)
{
    struct civil c = {0};
    const char *p = text;
    int ms = 0, offset_s = 0;
    bool has_offset = false;
    bool good = take_date(&p, &c);
    if (good && *p != '\0') {
        good = (take(&p, 'T') || take(&p, ' ')) && take_time(&p, &c, &ms);
        has_offset = good && take_offset(&p, &offset_s);
    }
    if (!good || *p != '\0') {
        err_set(err, REDRIVE_E_USAGE, "%s: '%s' is not a time", label, text);
        err_detail(err, "expected 2026-03-28, 2026-03-28T12:00 or, in UTC, 2026-03-28T12:00Z");
        return REDRIVE_E_USAGE;
    }
    *ret_ms = (to_utc_s(&c, has_offset ? tz_utc() : tz) - offset_s) * 1000 + ms;
    return 0;
}

bool when_looks_like_date(const char *text)
{
    return strspn(text, "0123456789") == 4 && text[4] == '-';
}

const char *when_format(const struct tz *tz, int64_t at_ms, char out[WHEN_TEXT_MAX])
{
    struct civil c = tz_local(tz, at_ms / 1000);
    int offset = tz_offset_at(tz, at_ms / 1000) / 60;
    int size = snprintf(out, WHEN_TEXT_MAX, "%04lld-%02d-%02dT%02d:%02d:%02d", (long long)c.year,
                        c.month, c.day, c.hour, c.minute, c.second);
    if (offset == 0)
        snprintf(out + size, WHEN_TEXT_MAX - (size_t)size, "Z");
    else
        snprintf(out + size, WHEN_TEXT_MAX - (size_t)size, "%c%02d:%02d", offset < 0 ? '-' : '+',
                 abs(offset) / 60, abs(offset) % 60);
    return out;
}

const char *when_span(int64_t ms, char out[WHEN_TEXT_MAX])
{
    _Static_assert(WHEN_TEXT_MAX >= DURATION_TEXT_MAX, "any duration fits");
    return duration_format(ms >= 1000 || ms <= -1000 ? ms / 1000 * 1000 : ms, out);
}
