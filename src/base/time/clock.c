/* clock.c - reads the system's clocks and writes timestamps. */
#include "base/time/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_wall_ms(void)
{
    return read_ns(CLOCK_REALTIME) / 1000000;
}

int64_t clock_monotonic_ms(void)
{
    return read_ns(CLOCK_MONOTONIC) / 1000000;
}

int64_t clock_monotonic_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

/* So many digits, and a character behind them. */
static char *put_digits(char *to, int value, int n, char after)
{
    for (int i = n; i-- > 0; value /= 10)
        to[i] = (char)('0' + value % 10);
    to[n] = after;
    return to + n + 1;
}

/* By hand, because it is done for every line of the log and for every job that is handed out. */
static void format_plain(const struct tm *tm, int ms, char *out)
{
    out = put_digits(out, tm->tm_year + 1900, 4, '-');
    out = put_digits(out, tm->tm_mon + 1, 2, '-');
    out = put_digits(out, tm->tm_mday, 2, 'T');
    out = put_digits(out, tm->tm_hour, 2, ':');
    out = put_digits(out, tm->tm_min, 2, ':');
    out = put_digits(out, tm->tm_sec, 2, '.');
    out = put_digits(out, ms, 3, 'Z');
    *out = '\0';
}

const char *clock_format(int64_t wall_ms, char out[CLOCK_TEXT_MAX])
{
    int64_t ms = wall_ms % 1000;
    if (ms < 0)
        ms += 1000;
    time_t seconds = (time_t)((wall_ms - ms) / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    if (tm.tm_year >= -900 && tm.tm_year < 8100) {
        format_plain(&tm, (int)ms, out);
        return out;
    }
    size_t len = strftime(out, CLOCK_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + len, CLOCK_TEXT_MAX - len, ".%03dZ", (int)ms);
    return out;
}
