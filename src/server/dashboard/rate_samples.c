/* rate_samples.c - samples the counters and computes rates from them. */
#include "server/dashboard/rate_samples.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem/map.h"
#include "base/time/clock.h"
#include "engine/event.h"
#include "store/job_json.h"
#include "store/store.h"

/* Times that the read took before the next one. */
#define REST_FACTOR 200
#define REST_MAX_MS 60000

struct sample {
    int64_t at_ms;
    uint64_t counts[ENGINE_EVENT_COUNT];
};

/* A ring: `n` samples, of which the next one goes to `next`. */
struct tenant_rates {
    struct sample samples[RATE_SAMPLES];
    size_t n;
    size_t next;
};

struct rate_samples {
    pthread_mutex_t mutex; /* guards what follows */
    struct map tenants;    /* → struct tenant_rates */
    int64_t last_ms;       /* when counters were last noted; 0: never */
};

int rate_samples_new(struct rate_samples **ret, struct redrive_err *err)
{
    struct rate_samples *samples = calloc(1, sizeof *samples);
    *ret = samples;
    if (!samples)
        return err_nomem(err);
    pthread_mutex_init(&samples->mutex, NULL);
    map_init(&samples->tenants, (uint64_t)clock_monotonic_ns());
    return 0;
}

void rate_samples_free(struct rate_samples *samples)
{
    if (!samples)
        return;
    MAP_FOREACH (&samples->tenants, slot)
        free(slot->value);
    map_release(&samples->tenants);
    pthread_mutex_destroy(&samples->mutex);
    free(samples);
}

/* ---- Noting ---------------------------------------------------------------------------------- */

static int kind_of(struct str name)
{
    for (int kind = 0; kind < ENGINE_EVENT_COUNT; kind++)
        if (str_is(name, engine_event_counter((enum engine_event_kind)kind)))
            return kind;
    return -1;
}

static struct sample *sample_at(struct tenant_rates *rates, int64_t now_ms)
{
    const size_t last = (rates->next + RATE_SAMPLES - 1) % RATE_SAMPLES;
    if (rates->n > 0 && rates->samples[last].at_ms == now_ms)
        return &rates->samples[last];
    struct sample *sample = &rates->samples[rates->next];
    *sample = (struct sample){.at_ms = now_ms};
    rates->next = (rates->next + 1) % RATE_SAMPLES;
    rates->n += rates->n < RATE_SAMPLES;
    return sample;
}

/* The tenant's ring, or NULL: there are too many of them, or no memory. The mutex is held. */
static struct tenant_rates *rates_of(struct rate_samples *samples, struct str tenant)
{
    struct tenant_rates *rates = map_get(&samples->tenants, tenant);
    if (rates || samples->tenants.count >= RATE_TENANTS_MAX)
        return rates;
    rates = calloc(1, sizeof *rates);
    if (rates && map_put(&samples->tenants, tenant, rates) < 0) {
        free(rates);
        return NULL;
    }
    /* One that was not there last time has had no jobs until then. */
    if (rates && samples->last_ms != 0)
        (void)sample_at(rates, samples->last_ms);
    return rates;
}

/* Counters with a label count the same again, by task, queue and class. The mutex is held. */
static void note(struct rate_samples *samples, const struct counter *counter, int64_t now_ms)
{
    const int kind = counter->label.len == 0 ? kind_of(counter->name) : -1;
    struct tenant_rates *rates = kind >= 0 ? rates_of(samples, counter->tenant) : NULL;
    if (rates)
        sample_at(rates, now_ms)->counts[kind] += (uint64_t)counter->value;
}

int64_t rate_samples_take(struct rate_samples *samples, struct store *store, int64_t now_ms)
{
    const int64_t began_ms = clock_monotonic_ms();
    struct counter_page page = {0};
    const int rc = store_ops(store)->counters_list(store, (struct str){0}, &page, NULL);
    if (rc == 0) {
        pthread_mutex_lock(&samples->mutex);
        for (size_t i = 0; i < page.n; i++)
            note(samples, &page.counters[i], now_ms);
        samples->last_ms = now_ms;
        pthread_mutex_unlock(&samples->mutex);
    }
    counter_page_release(&page);
    const int64_t rest_ms = (clock_monotonic_ms() - began_ms) * REST_FACTOR;
    if (rc != 0 || rest_ms < RATE_STEP_MS)
        return RATE_STEP_MS;
    return rest_ms < REST_MAX_MS ? rest_ms : REST_MAX_MS;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Counters that are smaller than before are those of another store, or of one that lost some. */
static void write_span(struct json_writer *w, const struct sample *from, const struct sample *to)
{
    json_begin_object(w);
    job_write_time(w, "at", to->at_ms);
    json_field_double(w, "seconds", (double)(to->at_ms - from->at_ms) / 1000);
    for (int kind = 0; kind < ENGINE_EVENT_COUNT; kind++) {
        const uint64_t a = from->counts[kind], b = to->counts[kind];
        if (*engine_event_counter((enum engine_event_kind)kind))
            json_field_int(w, engine_event_name((enum engine_event_kind)kind),
                           b > a ? (int64_t)(b - a) : 0);
    }
    json_end_object(w);
}

void rate_samples_write(struct rate_samples *samples, struct str tenant, int64_t span_ms,
                        struct json_writer *w)
{
    pthread_mutex_lock(&samples->mutex);
    const struct tenant_rates *rates = map_get(&samples->tenants, tenant);
    const size_t n = rates ? rates->n : 0;
    for (size_t i = 1; i < n; i++) {
        const size_t at = (rates->next + RATE_SAMPLES - n + i) % RATE_SAMPLES;
        const size_t last = (rates->next + RATE_SAMPLES - 1) % RATE_SAMPLES;
        const struct sample *to = &rates->samples[at];
        const struct sample *from = &rates->samples[(at + RATE_SAMPLES - 1) % RATE_SAMPLES];
        if (to->at_ms > from->at_ms && to->at_ms > rates->samples[last].at_ms - span_ms)
            write_span(w, from, to);
    }
    pthread_mutex_unlock(&samples->mutex);
}
