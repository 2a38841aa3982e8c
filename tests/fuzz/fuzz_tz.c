/* fuzz_tz - any bytes as a time zone file; what is accepted must answer consistently. */
#include <stdint.h>
#include <stdlib.h>

#include "core/cron/cron.h"
#include "core/time/tz.h"

#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_instant(const struct tz *tz, int64_t utc_s)
{
    struct tz_span span = tz_span_at(tz, utc_s);
    CHECK(span.offset_s >= TZ_OFFSET_MIN_S && span.offset_s <= TZ_OFFSET_MAX_S);
    CHECK(span.until_s > utc_s || span.until_s == INT64_MAX);
    struct civil local = tz_local(tz, utc_s);
    int64_t at[2];
    int found = tz_local_to_utc(tz, &local, at);
    if (utc_s > INT64_C(1) << 59 || utc_s < -(INT64_C(1) << 59))
        return;
    CHECK(tz_offset_at(tz, span.until_s - 1) == span.offset_s);
    CHECK(found == 2 ? at[0] < at[1] && at[0] <= utc_s : found == 1 && at[0] == utc_s);
}

static void check_ticks(const struct tz *tz, const char *text, int64_t after_ms)
{
    struct cron cron;
    int64_t tick_ms, again_ms;
    CHECK(cron_parse(str_of(text), &cron, NULL) == 0);
    for (int i = 0; i < 5; i++) {
        if (cron_next(&cron, tz, after_ms, &tick_ms) < 0)
            return;
        CHECK(tick_ms > after_ms);
        CHECK(cron_next(&cron, tz, after_ms + (tick_ms - after_ms) / 2, &again_ms) == 0);
        CHECK(again_ms == tick_ms);
        after_ms = tick_ms;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t INSTANTS[] = {
        INT64_MIN,  INT64_MIN + 1,       -(INT64_C(1) << 60), INT64_C(-5000000000), -1,        0,
        1711846800, INT64_C(4102444800), INT64_C(1) << 60,    INT64_MAX - 1,        INT64_MAX,
    };
    struct tz tz;
    struct redrive_err err = {0};
    int rc = tz_parse(&tz, data, size, &err);
    if (rc < 0) {
        CHECK(err.code == rc && err.message[0]);
        CHECK(!tz.transitions && tz.n_transitions == 0);
        return 0;
    }
    for (size_t i = 0; i < sizeof INSTANTS / sizeof INSTANTS[0]; i++)
        check_instant(&tz, INSTANTS[i]);
    for (size_t i = 0; i < tz.n_transitions && i < 16; i++) {
        int64_t at_s = tz.transitions[i].at_s;
        check_instant(&tz, at_s);
        if (at_s > INT64_MIN)
            check_instant(&tz, at_s - 1);
        if (at_s > -INT64_C(1000000000000) && at_s < INT64_C(1000000000000)) {
            check_ticks(&tz, "*/30 * * * *", at_s * 1000 - 7200000);
            check_ticks(&tz, "30 2 * * *", at_s * 1000 - 86400000);
        }
    }
    check_ticks(&tz, "0 0 29 2 *", INT64_C(1711846800000));
    check_ticks(&tz, "15 1-3 * * sun", INT64_C(1711846800000));
    tz_release(&tz);
    return 0;
}
