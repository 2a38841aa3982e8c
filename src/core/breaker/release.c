/* release.c - credit for the jobs that may be released, second by second. */
#include "core/breaker/release.h"

#include <math.h>

#define SLOWEST 1.0

void release_start(struct release *r, const struct redrive_breaker_config *config, int64_t now_ms)
{
    *r = (struct release){
        .rate = config->release_rate > SLOWEST ? config->release_rate : SLOWEST,
        .credit = 1,
        .credit_ms = now_ms,
        .grown_ms = now_ms,
    };
}

/* A second's worth may be saved up; at a slow pace two jobs, or fractions would be lost. */
static void cap_credit(struct release *r)
{
    r->credit = fmin(r->credit, fmax(r->rate, 2));
}

/* Gives what has been earned since the last look: to the end of each second at that second's
 * pace. More than a second's worth is never kept, so a long silence is settled in one step. A
 * clock that goes back earns nothing until it has caught up. */
static void earn(struct release *r, const struct redrive_breaker_config *config, int64_t now_ms)
{
    int64_t silent_s = (now_ms - r->grown_ms) / 1000 - 2;
    if (silent_s > 0) {
        r->rate += config->release_growth * (double)silent_s;
        r->grown_ms += silent_s * 1000;
        r->credit_ms = r->grown_ms;
        r->credit = r->rate;
    }
    while (now_ms > r->credit_ms) {
        int64_t second_ends_ms = r->grown_ms + 1000;
        int64_t until_ms = now_ms < second_ends_ms ? now_ms : second_ends_ms;
        r->credit += r->rate * (double)(until_ms - r->credit_ms) / 1000;
        r->credit_ms = until_ms;
        if (until_ms == second_ends_ms) {
            r->grown_ms = second_ends_ms;
            r->rate += config->release_growth;
        }
        cap_credit(r);
    }
}

uint32_t release_take(struct release *r, const struct redrive_breaker_config *config,
                      int64_t now_ms, uint32_t waiting)
{
    earn(r, config, now_ms);
    double whole = floor(r->credit + 1e-9);
    uint32_t n = whole < (double)waiting ? (uint32_t)whole : waiting;
    r->credit -= n;
    return n;
}

void release_failed(struct release *r, const struct redrive_breaker_config *config, int64_t now_ms)
{
    earn(r, config, now_ms);
    r->rate = r->rate / 2 > SLOWEST ? r->rate / 2 : SLOWEST;
    cap_credit(r);
    if (now_ms > r->grown_ms)
        r->grown_ms = now_ms;
}

int64_t release_next_ms(const struct release *r)
{
    if (r->credit >= 1)
        return r->credit_ms;
    return r->credit_ms + (int64_t)ceil((1 - r->credit) / r->rate * 1000);
}
