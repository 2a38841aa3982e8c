/* service.c - decides how a call ends, and when. */
#include "sim/service.h"

#include <errno.h>
#include <math.h>

static const struct redrive_failure refused = {
    .errnum = ECONNREFUSED, .message = "connection refused", .failed = true};
static const struct redrive_failure overloaded = {
    .http_status = 503, .message = "overloaded", .failed = true};
static const struct redrive_failure timed_out = {
    .errnum = ETIMEDOUT, .message = "timed out", .failed = true};

static void bucket_fill(struct service_bucket *bucket, double rate, int64_t now_ms)
{
    bucket->tokens += rate * (double)(now_ms - bucket->filled_ms) / 1000.0;
    if (bucket->tokens > fmax(rate, 1))
        bucket->tokens = fmax(rate, 1);
    bucket->filled_ms = now_ms;
}

static bool bucket_take(struct service_bucket *bucket, double rate, int64_t now_ms)
{
    if (rate <= 0)
        return true;
    bucket_fill(bucket, rate, now_ms);
    if (bucket->tokens < 1)
        return false;
    bucket->tokens -= 1;
    return true;
}

void service_init(struct service *service, const struct service_config *config, uint64_t seed)
{
    *service = (struct service){
        .config = *config,
        .limit = {.tokens = fmax(config->rate_limit, 1)},
        .capacity = {.tokens = fmax(config->capacity, 1)},
        .too_many = {.http_status = 429,
                     .message = "too many requests",
                     .retry_after_ms = config->retry_after_ms,
                     .failed = true},
    };
    rng_seed(&service->rng, seed);
    for (size_t i = 0; i < config->n_faults; i++)
        service->total_weight += config->faults[i].weight;
}

static bool is_down(const struct service_config *config, int64_t now_ms)
{
    for (size_t i = 0; i < config->n_outages; i++) {
        const struct service_outage *outage = &config->outages[i];
        if (now_ms >= outage->start_ms && now_ms - outage->start_ms < outage->length_ms)
            return true;
    }
    return false;
}

static const struct redrive_failure *draw_fault(struct service *service)
{
    const struct service_config *config = &service->config;
    if (config->n_faults == 0)
        return &overloaded;
    double at = rng_double(&service->rng) * service->total_weight;
    for (size_t i = 0; i + 1 < config->n_faults; i++) {
        at -= config->faults[i].weight;
        if (at < 0)
            return &config->faults[i].failure;
    }
    return &config->faults[config->n_faults - 1].failure;
}

static int64_t draw_latency_ms(struct service *service)
{
    const struct service_config *config = &service->config;
    double half = (double)config->latency_ms / 2;
    double takes = half - half * log(1 - rng_double(&service->rng));
    if (config->slow_rate > 0 && rng_double(&service->rng) < config->slow_rate)
        takes += (double)config->slow_ms;
    return takes < 1 ? 1 : (int64_t)takes;
}

static bool is_hit(struct service *service, int64_t now_ms)
{
    const double share = service->config.brownout;
    return is_down(&service->config, now_ms) &&
           (share <= 0 || share >= 1 || rng_double(&service->rng) < share);
}

/* How long the call waits for those before it. */
static int64_t wait_for_turn_ms(struct service *service, int64_t now_ms)
{
    const struct service_config *config = &service->config;
    if (!config->overload_waits || config->capacity <= 0)
        return 0;
    const double begins_ms = fmax((double)now_ms, service->busy_until_ms);
    service->busy_until_ms = begins_ms + 1000 / config->capacity;
    return (int64_t)(begins_ms - (double)now_ms);
}

static bool has_capacity(struct service *service, int64_t now_ms)
{
    const struct service_config *config = &service->config;
    return config->overload_waits || bucket_take(&service->capacity, config->capacity, now_ms);
}

struct service_answer service_call(struct service *service, int64_t now_ms)
{
    const struct service_config *config = &service->config;
    struct service_answer answer = {.takes_ms = draw_latency_ms(service)};
    bool sound = config->sound_from_ms > 0 && now_ms >= config->sound_from_ms;

    if (sound)
        return answer;
    if (is_hit(service, now_ms)) {
        answer.failure = &refused;
        if (config->outage_hangs && config->timeout_ms > 0)
            answer.takes_ms = INT64_MAX;
    } else if (!bucket_take(&service->limit, config->rate_limit, now_ms)) {
        answer.failure = &service->too_many;
    } else if (!has_capacity(service, now_ms)) {
        answer.failure = &overloaded;
    } else if (config->error_rate > 0 && rng_double(&service->rng) < config->error_rate) {
        answer.failure = draw_fault(service);
    }
    if (answer.failure != &refused && answer.failure != &service->too_many)
        answer.takes_ms += wait_for_turn_ms(service, now_ms);
    if (config->timeout_ms > 0 && answer.takes_ms > config->timeout_ms) {
        answer.takes_ms = config->timeout_ms;
        answer.failure = &timed_out;
    }
    return answer;
}
