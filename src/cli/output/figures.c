/* figures.c - formats spans, ages and rates; reads and prints points in time. */
#include "cli/output/figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/time/duration.h"
#include "core/time/civil.h"
#include "core/vocabulary.h"

const char *figure_span(int64_t ms, char out[FIGURE_MAX])
{
    int64_t s = ms / 1000;
    if (ms < 0)
        ms = s = 0;
    if (s == 0)
        (void)snprintf(out, FIGURE_MAX, "%" PRId64 "ms", ms);
    else if (s < 60)
        (void)snprintf(out, FIGURE_MAX, "%" PRId64 "s", s);
    else if (s < 3600)
        (void)snprintf(out, FIGURE_MAX, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    else if (s < 86400)
        (void)snprintf(out, FIGURE_MAX, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
    else
        (void)snprintf(out, FIGURE_MAX, "%" PRId64 "d%02" PRId64 "h", s / 86400, s / 3600 % 24);
    return out;
}

const char *figure_until(int64_t at_ms, int64_t now_ms, char out[FIGURE_MAX])
{
    if (at_ms == 0)
        return "-";
    return at_ms <= now_ms ? "now" : figure_span(at_ms - now_ms, out);
}

const char *figure_since(int64_t at_ms, int64_t now_ms, char out[FIGURE_MAX])
{
    return at_ms == 0 ? "-" : figure_span(now_ms - at_ms, out);
}

const char *figure_rate(double per_second, char out[FIGURE_MAX])
{
    int digits = per_second < 10 ? 2 : per_second < 100 ? 1 : 0;
    (void)snprintf(out, FIGURE_MAX, "%.*f", digits, per_second);
    return out;
}

enum style figure_health_style(struct str status)
{
    return str_is(status, "healthy")    ? STYLE_GREEN
           : str_is(status, "degraded") ? STYLE_YELLOW
                                        : STYLE_RED;
}

enum style figure_breaker_style(struct str state)
{
    switch (vocabulary_find(VOCABULARY_BREAKER_STATE, state)) {
    case REDRIVE_BREAKER_CLOSED: return STYLE_GREEN;
    case REDRIVE_BREAKER_OPEN:
    case REDRIVE_BREAKER_FORCED_OPEN: return STYLE_RED;
    case REDRIVE_BREAKER_HALF_OPEN:
    case REDRIVE_BREAKER_DISABLED: return STYLE_YELLOW;
    default: return STYLE_PLAIN;
    }
}

/* ---- Points in time -------------------------------------------------------------------------- */

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
