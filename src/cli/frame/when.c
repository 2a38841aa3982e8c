/* when.c - reads and prints local times. */
#include "cli/frame/when.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/time/duration.h"
#include "core/time/moment.h"

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
    struct moment m;
    if (!moment_read(str_of(text), &m) || m.local.year < 1970) {
        err_set(err, REDRIVE_E_USAGE, "%s: '%s' is not a time", label, text);
        err_detail(err, "expected 2026-03-28, 2026-03-28T12:00 or, in UTC, 2026-03-28T12:00Z");
        return REDRIVE_E_USAGE;
    }
    *ret_ms = (to_utc_s(&m.local, m.has_offset ? tz_utc() : tz) - m.offset_s) * 1000 + m.ms;
    return 0;
}

bool when_looks_like_date(const char *text)
{
    return moment_looks_like_one(str_of(text));
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
