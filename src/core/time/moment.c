/* moment.c - parses RFC 3339 times. */
#include "core/time/moment.h"

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
