#include "core/health.h"

#include <math.h>

#include "core/elapsed.h"

/* A weight that falls to 1/e in a minute, or an hour, has halved after ln 2 of it. */
#define RECENT_HALF_LIFE_MS   41589
#define BASELINE_HALF_LIFE_MS 2495330

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

void health_record(struct health *h, bool success, double latency_ms, int64_t now_ms)
{
    double left = faded(elapsed_take(&h->updated_ms, now_ms));
    h->events = h->events * left + 1;
    h->failures = h->failures * left + !success;
    if (success && latency_ms >= 0) {
        quantile_add(&h->recent, latency_ms, now_ms);
        quantile_add(&h->baseline, latency_ms, now_ms);
    }
}

static double error_rate(const struct health *h, int64_t now_ms)
{
    double left = faded(elapsed_since(h->updated_ms, now_ms));
    return h->failures * left / fmax(h->events * left, 1);
}

static double latency_factor(const struct health *h, int64_t now_ms)
{
    /* The baseline has seen the same values and forgets less. */
    if (quantile_count(&h->recent, now_ms) < HEALTH_MIN_SAMPLES)
        return 1;
    return fmin(1, quantile_get(&h->baseline, 0.9) / quantile_get(&h->recent, 0.9));
}

void health_read(const struct health *h, const struct health_thresholds *thresholds,
                 uint32_t breakers, uint32_t breakers_open, int64_t now_ms,
                 struct redrive_health *ret)
{
    double share_open = breakers ? fmin(1, (double)breakers_open / breakers) : 0;
    double errors = error_rate(h, now_ms);
    double factor = latency_factor(h, now_ms);
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
