/* fuzz_cron - any text as a cron expression, and a time to ask it about.
 *
 * The text goes up to the first newline; up to eight bytes behind it are the time. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/cron/cron.h"

#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_masks(const struct cron *c)
{
    CHECK(c->minutes != 0 && c->minutes >> 60 == 0);
    CHECK(c->hours != 0 && c->hours >> 24 == 0);
    CHECK(c->days != 0 && !(c->days & 1));
    CHECK(c->months != 0 && !(c->months & 1) && c->months >> 13 == 0);
    CHECK(c->weekdays != 0 && c->weekdays >> 7 == 0);
}

static void check_matches(const struct cron *c, int64_t tick_ms)
{
    struct civil t = civil_from_seconds(tick_ms / 1000);
    int weekday = civil_weekday(floor_div(tick_ms, INT64_C(86400000)));
    bool by_day = c->days >> t.day & 1, by_weekday = c->weekdays >> weekday & 1;
    CHECK(tick_ms % 60000 == 0);
    CHECK(c->minutes >> t.minute & 1);
    CHECK(c->hours >> t.hour & 1);
    CHECK(c->months >> t.month & 1);
    CHECK(c->either_day ? by_day || by_weekday : by_day && by_weekday);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
    size_t len = newline ? (size_t)(newline - data) : size;
    int64_t after_ms = 0, tick_ms, again_ms;
    if (newline)
        memcpy(&after_ms, newline + 1, size - len - 1 < 8 ? size - len - 1 : 8);

    struct cron cron;
    struct redrive_err err = {0};
    int rc = cron_parse((struct str){(const char *)data, len}, &cron, &err);
    if (rc < 0) {
        CHECK(err.code == rc && err.message[0] && err.detail[0]);
        return 0;
    }
    CHECK(err.code == 0);
    check_masks(&cron);

    /* Only a tick that does not fit may be missing. */
    rc = cron_next(&cron, tz_utc(), after_ms, &tick_ms);
    if (rc < 0) {
        CHECK(rc == REDRIVE_E_NOT_FOUND && after_ms > INT64_MAX - INT64_C(42) * 366 * 86400000);
        return 0;
    }
    CHECK(tick_ms > after_ms);
    check_matches(&cron, tick_ms);
    CHECK(cron_next(&cron, tz_utc(), tick_ms - 1, &again_ms) == 0 && again_ms == tick_ms);
    return 0;
}
