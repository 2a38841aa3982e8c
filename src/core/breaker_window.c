#include "core/breaker_window.h"

#include <string.h>

static int64_t width_ms(const struct redrive_breaker_config *config)
{
    return config->window_ms / BREAKER_BUCKETS;
}

void breaker_window_clear(struct breaker_window *w)
{
    memset(w->buckets, 0, sizeof w->buckets);
}

void breaker_window_advance(struct breaker_window *w, const struct redrive_breaker_config *config,
                            int64_t now_ms)
{
    const int64_t width = width_ms(config);
    int64_t steps = now_ms / width - w->start_ms / width;
    if (steps <= 0)
        return;
    w->start_ms = now_ms / width * width;
    if (steps >= BREAKER_BUCKETS) {
        breaker_window_clear(w);
        return;
    }
    while (steps-- > 0) {
        w->newest = (w->newest + 1) % BREAKER_BUCKETS;
        w->buckets[w->newest] = (struct breaker_counts){0};
    }
}

void breaker_window_add(struct breaker_window *w, const struct redrive_breaker_config *config,
                        bool failed, int64_t now_ms)
{
    breaker_window_advance(w, config, now_ms);
    w->buckets[w->newest].calls++;
    w->buckets[w->newest].failures += failed;
}

void breaker_window_add_successes(struct breaker_window *w,
                                  const struct redrive_breaker_config *config, uint32_t n,
                                  int64_t at_ms)
{
    const int64_t width = width_ms(config);
    breaker_window_advance(w, config, at_ms);
    const int64_t back = w->start_ms / width - at_ms / width;
    if (back < BREAKER_BUCKETS)
        w->buckets[(w->newest + BREAKER_BUCKETS - (uint32_t)back) % BREAKER_BUCKETS].calls += n;
}

void breaker_window_merge(struct breaker_window *w, const struct redrive_breaker_config *config,
                          const struct breaker_window *more)
{
    for (uint32_t back = BREAKER_BUCKETS; back-- > 0;) {
        const uint32_t at = (more->newest + BREAKER_BUCKETS - back) % BREAKER_BUCKETS;
        if (more->buckets[at].calls > 0)
            breaker_window_add_successes(w, config, more->buckets[at].calls,
                                         more->start_ms - (int64_t)back * width_ms(config));
    }
}

struct breaker_counts breaker_window_sum(const struct breaker_window *w)
{
    struct breaker_counts sum = {0};
    for (int i = 0; i < BREAKER_BUCKETS; i++) {
        sum.calls += w->buckets[i].calls;
        sum.failures += w->buckets[i].failures;
    }
    return sum;
}
