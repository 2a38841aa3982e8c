/* figures.c - formats spans, ages and rates. */
#include "cli/output/figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

enum style figure_health_style(const char *status)
{
    return strcmp(status, "healthy") == 0    ? STYLE_GREEN
           : strcmp(status, "degraded") == 0 ? STYLE_YELLOW
                                             : STYLE_RED;
}

enum style figure_breaker_style(enum redrive_breaker_state state)
{
    switch (state) {
    case REDRIVE_BREAKER_OPEN:
    case REDRIVE_BREAKER_FORCED_OPEN: return STYLE_RED;
    case REDRIVE_BREAKER_HALF_OPEN:
    case REDRIVE_BREAKER_DISABLED: return STYLE_YELLOW;
    case REDRIVE_BREAKER_CLOSED:
    case REDRIVE_BREAKER_STATE_COUNT:
    default: return STYLE_GREEN;
    }
}

void figure_add_str(struct table *t, struct str s)
{
    table_addf(t, "%.*s", (int)s.len, s.ptr ? s.ptr : "");
}
