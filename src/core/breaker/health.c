/* health.c - the health score of one process, and of several together. */
#include "core/breaker/health.h"

#include <math.h>

#include "core/elapsed.h"
#include "core/vocabulary.h"

/* A weight that falls to 1/e in a minute, or an hour, has halved after ln 2 of it. */
#define RECENT_HALF_LIFE_MS   41589
#define BASELINE_HALF_LIFE_MS 2495330

#define MINUTE_S  60.0
#define MINUTE_MS 60000.0

const struct health_thresholds HEALTH_THRESHOLDS_DEFAULT = {.healthy = 0.8, .degraded = 0.5};

void health_init(struct health *h, int64_t now_ms)
{
    *h = (struct health){.updated_ms = now_ms};
    quantile_init(&h->recent, RECENT_HALF_LIFE_MS, now_ms);
    quantile_init(&h->baseline, BASELINE_HALF_LIFE_MS, now_ms);
}

static double faded(int64_t elapsed_ms)
{
    return elapsed_ms == 0 ? 1 : exp2(-(double)elapsed_ms / RECENT_HALF_LIFE_MS);
}

void health_record(struct health *h, enum redrive_class class_, double latency_ms, int64_t now_ms)
{
    const bool success = class_ == REDRIVE_CLASS_SUCCESS;
    const bool failure = !success && !class_blames_the_job(class_);
    double left = faded(elapsed_take(&h->updated_ms, now_ms));
    h->events = h->events * left + 1;
    h->failures = h->failures * left + failure;
    if (success && latency_ms >= 0) {
        quantile_add(&h->recent, latency_ms, now_ms);
        quantile_add(&h->baseline, latency_ms, now_ms);
    }
}

static double latency_factor(const struct health *h, int64_t now_ms)
{
    /* The baseline has seen the same values and forgets less. */
    if (quantile_count(&h->recent, now_ms) < HEALTH_MIN_SAMPLES)
        return 1;
    return fmin(1, quantile_get(&h->baseline, 0.9) / quantile_get(&h->recent, 0.9));
}

void health_share(const struct health *h, int64_t now_ms, struct health_share *ret)
{
    double left = faded(elapsed_since(h->updated_ms, now_ms));
    *ret = (struct health_share){
        .events = h->events * left,
        .failures = h->failures * left,
        .latency_factor = latency_factor(h, now_ms),
        .at_ms = now_ms,
    };
}

static void fade(struct health_share *share, int64_t now_ms)
{
    double left = faded(elapsed_take(&share->at_ms, now_ms));
    share->events *= left;
    share->failures *= left;
}

void health_share_add(struct health_share *sum, const struct health_share *other, int64_t now_ms)
{
    struct health_share more = *other;
    fade(sum, now_ms);
    fade(&more, now_ms);
    double events = sum->events + more.events;
    sum->latency_factor =
        events > 0
            ? (sum->latency_factor * sum->events + more.latency_factor * more.events) / events
            : 1;
    sum->events = events;
    sum->failures += more.failures;
}

void health_share_read(const struct health_share *share, const struct health_thresholds *thresholds,
                       uint32_t breakers, uint32_t breakers_open, int64_t now_ms,
                       struct redrive_health *ret)
{
    struct health_share now = *share;
    fade(&now, now_ms);
    double share_open = breakers ? fmin(1, (double)breakers_open / breakers) : 0;
    double errors = now.failures / fmax(now.events, 1);
    double factor = now.events > 0 ? now.latency_factor : 1;
    double score = (1 - errors) * (1 - share_open) * factor;

    if (!thresholds)
        thresholds = &HEALTH_THRESHOLDS_DEFAULT;
    *ret = (struct redrive_health){
        .status = score >= thresholds->healthy    ? "healthy"
                  : score >= thresholds->degraded ? "degraded"
                                                  : "unhealthy",
        .health_score = score,
        .success_rate = 1 - errors,
        .error_rate = errors,
        .latency_factor = factor,
        .breakers = breakers,
        .breakers_open = breakers_open,
    };
}

void health_read(const struct health *h, const struct health_thresholds *thresholds,
                 uint32_t breakers, uint32_t breakers_open, int64_t now_ms,
                 struct redrive_health *ret)
{
    struct health_share share;
    health_share(h, now_ms, &share);
    health_share_read(&share, thresholds, breakers, breakers_open, now_ms, ret);
}

double health_share_rate(const struct health_share *share, int64_t since_ms, int64_t now_ms)
{
    struct health_share now = *share;
    fade(&now, now_ms);
    double seen_s = MINUTE_S * (1 - exp(-(double)elapsed_since(since_ms, now_ms) / MINUTE_MS));
    return now.events / fmax(seen_s, 1);
}
