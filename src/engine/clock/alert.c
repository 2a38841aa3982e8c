#include "engine/clock/alert.h"

#include <stdio.h>
#include <stdlib.h>

double alert_value(const struct config_condition *when, const struct alert_facts *facts)
{
    switch (when->metric) {
    case CONFIG_METRIC_DEAD_LETTERS: return facts->dead_letters;
    case CONFIG_METRIC_RETRY_BACKLOG: return facts->retry_backlog;
    case CONFIG_METRIC_ERROR_RATE: return facts->error_rate;
    case CONFIG_METRIC_HEALTH_SCORE:
    default: return facts->health_score;
    }
}

bool alert_holds(const struct config_condition *when, double value)
{
    switch (when->compare) {
    case CONFIG_ABOVE: return value > when->number;
    case CONFIG_AT_LEAST: return value >= when->number;
    case CONFIG_BELOW: return value < when->number;
    case CONFIG_AT_MOST:
    default: return value <= when->number;
    }
}

enum alert_step alert_advance(struct alert_state *s, bool holds, int64_t now_ms)
{
    if (holds) {
        s->clear_ms = 0;
        if (s->firing)
            return ALERT_NOTHING;
        s->firing = true;
        s->since_ms = now_ms;
        return ALERT_BEGINS;
    }
    if (!s->firing)
        return ALERT_NOTHING;
    /* A clock that was set back starts the wait anew. */
    if (s->clear_ms == 0 || s->clear_ms > now_ms)
        s->clear_ms = now_ms;
    if (now_ms - s->clear_ms < ALERT_CLEAR_MS)
        return ALERT_NOTHING;
    s->firing = false;
    s->clear_ms = 0;
    return ALERT_IS_OVER;
}

static bool window_begins(const struct alert_state *s, uint64_t runs, uint64_t failures)
{
    return s->window_ms == 0 || runs < s->runs || failures < s->failures;
}

static double next_window(struct alert_state *s, uint64_t runs, uint64_t failures,
                          uint32_t min_runs, int64_t now_ms)
{
    uint64_t ran = window_begins(s, runs, failures) ? 0 : runs - s->runs;
    s->rate = ran > 0 && ran >= min_runs ? (double)(failures - s->failures) / (double)ran : 0;
    s->window_ms = now_ms;
    s->runs = runs;
    s->failures = failures;
    return s->rate;
}

double alert_window(struct alert_state *s, uint64_t runs, uint64_t failures, uint32_t min_runs,
                    int64_t now_ms)
{
    if (!window_begins(s, runs, failures) && now_ms - s->window_ms < ALERT_WINDOW_MS &&
        now_ms >= s->window_ms)
        return s->rate;
    return next_window(s, runs, failures, min_runs, now_ms);
}

double alert_window_end(struct alert_state *s, uint64_t runs, uint64_t failures, uint32_t min_runs,
                        int64_t now_ms)
{
    const bool has_enough =
        !window_begins(s, runs, failures) && runs > s->runs && runs - s->runs >= min_runs;
    return has_enough ? next_window(s, runs, failures, min_runs, now_ms)
                      : alert_window(s, runs, failures, min_runs, now_ms);
}

double alert_rounded(const struct config_condition *when, double value)
{
    char text[32];
    if (when->metric != CONFIG_METRIC_ERROR_RATE && when->metric != CONFIG_METRIC_HEALTH_SCORE)
        return value;
    (void)snprintf(text, sizeof text, "%.3g", value);
    return strtod(text, NULL);
}
