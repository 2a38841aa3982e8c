#include "doors/faktory_time.h"

#include "core/civil.h"

/* Takes exactly `digits` digits. */
static bool take_number(struct str *s, int digits, int *ret)
{
    *ret = 0;
    if (s->len < (size_t)digits)
        return false;
    for (int i = 0; i < digits; i++) {
        char c = s->ptr[i];
        if (c < '0' || c > '9')
            return false;
        *ret = *ret * 10 + (c - '0');
    }
    s->ptr += digits;
    s->len -= (size_t)digits;
    return true;
}

static bool take_one_of(struct str *s, const char *chars, char *ret)
{
    if (s->len == 0 || *s->ptr == '\0' || !strchr(chars, *s->ptr))
        return false;
    *ret = *s->ptr;
    s->ptr++;
    s->len--;
    return true;
}

/* Decimals beyond the millisecond are cut. */
static bool take_fraction(struct str *s, int *ret_ms)
{
    char point;
    *ret_ms = 0;
    if (!take_one_of(s, ".", &point))
        return true;
    int digit, unit = 100, n = 0;
    for (; take_number(s, 1, &digit); n++, unit /= 10)
        *ret_ms += digit * unit;
    return n > 0;
}

static bool take_zone(struct str *s, int *ret_minutes)
{
    char sign, colon;
    int hours, minutes;
    *ret_minutes = 0;
    if (!take_one_of(s, "Zz+-", &sign))
        return false;
    if (sign == 'Z' || sign == 'z')
        return true;
    if (!take_number(s, 2, &hours) || !take_one_of(s, ":", &colon) || !take_number(s, 2, &minutes))
        return false;
    *ret_minutes = (hours * 60 + minutes) * (sign == '-' ? -1 : 1);
    return hours < 24 && minutes < 60;
}

bool faktory_time_read(struct str text, int64_t *ret_ms)
{
    struct civil c = {0};
    int year, ms, zone;
    char mark;
    bool is_whole = take_number(&text, 4, &year) && take_one_of(&text, "-", &mark) &&
                    take_number(&text, 2, &c.month) && take_one_of(&text, "-", &mark) &&
                    take_number(&text, 2, &c.day) && take_one_of(&text, "Tt ", &mark) &&
                    take_number(&text, 2, &c.hour) && take_one_of(&text, ":", &mark) &&
                    take_number(&text, 2, &c.minute) && take_one_of(&text, ":", &mark) &&
                    take_number(&text, 2, &c.second) && take_fraction(&text, &ms) &&
                    take_zone(&text, &zone) && text.len == 0;
    if (!is_whole || c.month < 1 || c.month > 12 || c.hour > 23 || c.minute > 59 || c.second > 60)
        return false;
    if (c.day < 1 || c.day > civil_days_in_month(year, c.month))
        return false;
    c.year = year;
    *ret_ms = (civil_to_seconds(&c) - (int64_t)zone * 60) * 1000 + ms;
    return *ret_ms >= 0;
}
