/* window.c - counts calls in buckets of time, or the last N calls in bits. */
#include "core/breaker/breaker.h"

#include <string.h>

static int64_t width_ms(const struct redrive_breaker_config *config)
{
    return config->window_ms / BREAKER_BUCKETS;
}

static uint32_t last_max(const struct redrive_breaker_config *config)
{
    return config->window_calls < REDRIVE_MAX_WINDOW_CALLS ? config->window_calls
                                                           : REDRIVE_MAX_WINDOW_CALLS;
}

static void push_bit(uint64_t words[BREAKER_LAST_WORDS], bool bit)
{
    for (int i = BREAKER_LAST_WORDS - 1; i > 0; i--)
        words[i] = words[i] << 1 | words[i - 1] >> 63;
    words[0] = words[0] << 1 | bit;
}

static uint32_t count_bits(const uint64_t words[BREAKER_LAST_WORDS], uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i += 64) {
        const uint64_t mask = n - i < 64 ? (UINT64_C(1) << (n - i)) - 1 : UINT64_MAX;
        count += (uint32_t)__builtin_popcountll(words[i / 64] & mask);
    }
    return count;
}

/* Without window_calls nothing is kept: what was there belongs to another configuration. */
static void add_last(struct breaker_last *last, const struct redrive_breaker_config *config,
                     bool failed, bool slow)
{
    const uint32_t max = last_max(config);
    if (max == 0) {
        if (last->calls > 0)
            *last = (struct breaker_last){0};
        return;
    }
    push_bit(last->failed, failed);
    push_bit(last->slow, slow);
    last->calls = last->calls < max ? last->calls + 1 : max;
}

void breaker_window_clear(struct breaker_window *w)
{
    memset(w->buckets, 0, sizeof w->buckets);
    w->last = (struct breaker_last){0};
}

void breaker_window_advance(struct breaker_window *w, const struct redrive_breaker_config *config,
                            int64_t now_ms)
{
    const int64_t width = width_ms(config);
    if (now_ms < w->start_ms + width)
        return;
    int64_t steps = now_ms / width - w->start_ms / width;
    w->start_ms = now_ms / width * width;
    if (steps >= BREAKER_BUCKETS) {
        memset(w->buckets, 0, sizeof w->buckets);
        return;
    }
    while (steps-- > 0) {
        w->newest = (w->newest + 1) % BREAKER_BUCKETS;
        w->buckets[w->newest] = (struct breaker_counts){0};
    }
}

bool breaker_window_follow_clock(struct breaker_window *w,
                                 const struct redrive_breaker_config *config, int64_t now_ms)
{
    const int64_t width = width_ms(config);
    if (!elapsed_mark_is_ahead(w->start_ms, now_ms))
        return false;
    w->start_ms = now_ms / width * width;
    return true;
}

void breaker_window_add(struct breaker_window *w, const struct redrive_breaker_config *config,
                        bool failed, bool slow, int64_t now_ms)
{
    breaker_window_advance(w, config, now_ms);
    w->buckets[w->newest].calls++;
    w->buckets[w->newest].failures += failed;
    w->buckets[w->newest].slow += slow;
    add_last(&w->last, config, failed, slow);
}

void breaker_window_set(struct breaker_window *w, const struct redrive_breaker_config *config,
                        struct breaker_counts counts, int64_t now_ms)
{
    breaker_window_clear(w);
    for (uint32_t i = 0; i < counts.calls; i++)
        breaker_window_add(w, config, i < counts.failures, i < counts.slow, now_ms);
}

void breaker_window_add_counts(struct breaker_window *w,
                               const struct redrive_breaker_config *config,
                               struct breaker_counts counts, int64_t at_ms)
{
    const int64_t width = width_ms(config);
    breaker_window_advance(w, config, at_ms);
    const int64_t back = w->start_ms / width - at_ms / width;
    if (back < BREAKER_BUCKETS) {
        struct breaker_counts *bucket =
            &w->buckets[(w->newest + BREAKER_BUCKETS - (uint32_t)back) % BREAKER_BUCKETS];
        bucket->calls += counts.calls;
        bucket->failures += counts.failures;
        bucket->slow += counts.slow;
    }
    for (uint32_t i = 0; i < counts.calls && i < last_max(config); i++)
        add_last(&w->last, config, false, false);
}

void breaker_window_merge(struct breaker_window *w, const struct redrive_breaker_config *config,
                          const struct breaker_window *more)
{
    for (uint32_t back = BREAKER_BUCKETS; back-- > 0;) {
        const uint32_t at = (more->newest + BREAKER_BUCKETS - back) % BREAKER_BUCKETS;
        if (more->buckets[at].calls > 0)
            breaker_window_add_counts(w, config, more->buckets[at],
                                      more->start_ms - (int64_t)back * width_ms(config));
    }
}

struct breaker_counts breaker_window_sum(const struct breaker_window *w,
                                         const struct redrive_breaker_config *config)
{
    struct breaker_counts sum = {0};
    if (config->window_calls > 0) {
        const uint32_t max = last_max(config);
        sum.calls = w->last.calls < max ? w->last.calls : max;
        sum.failures = count_bits(w->last.failed, sum.calls);
        sum.slow = count_bits(w->last.slow, sum.calls);
        return sum;
    }
    for (int i = 0; i < BREAKER_BUCKETS; i++) {
        sum.calls += w->buckets[i].calls;
        sum.failures += w->buckets[i].failures;
        sum.slow += w->buckets[i].slow;
    }
    return sum;
}
