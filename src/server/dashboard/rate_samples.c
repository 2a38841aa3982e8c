/* rate_samples.c - samples the counters and computes rates from them. */
#include "server/dashboard/rate_samples.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/event.h"
#include "server/dashboard/tenant_rings.h"
#include "store/job_json.h"
#include "store/store.h"

/* Times that the read took before the next one. */
#define REST_FACTOR 200
#define REST_MAX_MS 60000

struct sample {
    int64_t at_ms; /* first: tenant_rings.h */
    uint64_t counts[ENGINE_EVENT_COUNT];
};

struct rate_samples {
    struct tenant_rings rings; /* of struct sample */
};

int rate_samples_new(struct rate_samples **ret, struct redrive_err *err)
{
    struct rate_samples *samples = calloc(1, sizeof *samples);
    *ret = samples;
    if (!samples)
        return err_nomem(err);
    tenant_rings_init(&samples->rings, sizeof(struct sample), RATE_TENANTS_MAX);
    return 0;
}

void rate_samples_free(struct rate_samples *samples)
{
    if (!samples)
        return;
    tenant_rings_release(&samples->rings);
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

/* Counters with a label count the same again, by task, queue and class. The mutex is held. */
static void note(struct rate_samples *samples, const struct counter *counter, int64_t now_ms)
{
    const int kind = counter->label.len == 0 ? kind_of(counter->name) : -1;
    struct sample *sample =
        kind >= 0 ? tenant_rings_sample(&samples->rings, counter->tenant, now_ms) : NULL;
    if (sample)
        sample->counts[kind] += (uint64_t)counter->value;
}

int64_t rate_samples_take(struct rate_samples *samples, struct store *store, int64_t now_ms)
{
    const int64_t began_ms = clock_monotonic_ms();
    struct counter_page page = {0};
    const int rc = store_ops(store)->counters_list(store, (struct str){0}, &page, NULL);
    if (rc == 0) {
        pthread_mutex_lock(&samples->rings.mutex);
        for (size_t i = 0; i < page.n; i++)
            note(samples, &page.counters[i], now_ms);
        samples->rings.last_ms = now_ms;
        pthread_mutex_unlock(&samples->rings.mutex);
    }
    counter_page_release(&page);
    const int64_t rest_ms = (clock_monotonic_ms() - began_ms) * REST_FACTOR;
    if (rc != 0 || rest_ms < RATE_STEP_MS)
        return RATE_STEP_MS;
    return rest_ms < REST_MAX_MS ? rest_ms : REST_MAX_MS;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Counters that are smaller than before are those of another store, or of one that lost some. */
static void write_span(const void *earlier, const void *later, void *ctx)
{
    const struct sample *from = earlier, *to = later;
    struct json_writer *w = ctx;
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
    pthread_mutex_lock(&samples->rings.mutex);
    tenant_rings_each_span(&samples->rings, tenant, span_ms, write_span, w);
    pthread_mutex_unlock(&samples->rings.mutex);
}
