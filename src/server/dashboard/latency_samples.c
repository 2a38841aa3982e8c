/* latency_samples.c - samples the histograms and computes percentiles of what they grew by. */
#include "server/dashboard/latency_samples.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem/map.h"
#include "base/time/clock.h"
#include "store/job_json.h"

#define N_BUCKETS (RUN_TIMES_N_BOUNDS + 1)

#define BOUND(seconds) seconds,
static const double BOUNDS[] = {RUN_TIMES_BOUNDS(BOUND)};

struct sample {
    int64_t at_ms;
    uint64_t wait[N_BUCKETS];
    uint64_t run[N_BUCKETS];
};

/* A ring: `n` samples, of which the next one goes to `next`. */
struct tenant_latencies {
    struct sample samples[LATENCY_SAMPLES];
    size_t n;
    size_t next;
};

struct latency_samples {
    pthread_mutex_t mutex; /* guards what follows */
    struct map tenants;    /* → struct tenant_latencies */
    int64_t last_ms;       /* when histograms were last noted; 0: never */
};

int latency_samples_new(struct latency_samples **ret, struct redrive_err *err)
{
    struct latency_samples *samples = calloc(1, sizeof *samples);
    *ret = samples;
    if (!samples)
        return err_nomem(err);
    pthread_mutex_init(&samples->mutex, NULL);
    map_init(&samples->tenants, (uint64_t)clock_monotonic_ns());
    return 0;
}

void latency_samples_free(struct latency_samples *samples)
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

static struct sample *sample_at(struct tenant_latencies *t, int64_t now_ms)
{
    const size_t last = (t->next + LATENCY_SAMPLES - 1) % LATENCY_SAMPLES;
    if (t->n > 0 && t->samples[last].at_ms == now_ms)
        return &t->samples[last];
    struct sample *sample = &t->samples[t->next];
    *sample = (struct sample){.at_ms = now_ms};
    t->next = (t->next + 1) % LATENCY_SAMPLES;
    t->n += t->n < LATENCY_SAMPLES;
    return sample;
}

/* NULL: there are too many tenants, or no memory. The mutex is held. */
static struct tenant_latencies *latencies_of(struct latency_samples *samples, struct str tenant)
{
    struct tenant_latencies *t = map_get(&samples->tenants, tenant);
    if (t || samples->tenants.count >= LATENCY_TENANTS_MAX)
        return t;
    t = calloc(1, sizeof *t);
    if (t && map_put(&samples->tenants, tenant, t) < 0) {
        free(t);
        return NULL;
    }
    /* One that was not there last time has had no jobs until then. */
    if (t && samples->last_ms != 0)
        (void)sample_at(t, samples->last_ms);
    return t;
}

struct noting {
    struct latency_samples *samples;
    int64_t now_ms;
};

static void note(struct str tenant, const struct run_time *time, void *ctx)
{
    const struct noting *noting = ctx;
    struct tenant_latencies *t = latencies_of(noting->samples, tenant);
    if (!t)
        return;
    struct sample *sample = sample_at(t, noting->now_ms);
    uint64_t *counts = time->kind == ENGINE_EVENT_STARTED ? sample->wait : sample->run;
    for (size_t i = 0; i < N_BUCKETS; i++)
        counts[i] += time->counts[i];
}

void latency_samples_take(struct latency_samples *samples, struct run_times *times, int64_t now_ms)
{
    struct noting noting = {samples, now_ms};
    pthread_mutex_lock(&samples->mutex);
    run_times_each(times, note, &noting);
    samples->last_ms = now_ms;
    pthread_mutex_unlock(&samples->mutex);
}

/* ---- Reading --------------------------------------------------------------------------------- */

double latency_percentile(const uint64_t counts[N_BUCKETS], double share)
{
    uint64_t all = 0, below = 0;
    for (size_t i = 0; i < N_BUCKETS; i++)
        all += counts[i];
    if (all == 0)
        return -1;
    const double rank = share * (double)all;
    for (size_t i = 0; i < RUN_TIMES_N_BOUNDS; i++) {
        const double from = i > 0 ? BOUNDS[i - 1] : 0;
        if ((double)(below + counts[i]) >= rank && counts[i] > 0)
            return from + (BOUNDS[i] - from) * (rank - (double)below) / (double)counts[i];
        below += counts[i];
    }
    return BOUNDS[RUN_TIMES_N_BOUNDS - 1]; /* or more: the last bucket has no end */
}

/* What it grew by; returns how many there are. */
static uint64_t growth(const uint64_t from[N_BUCKETS], const uint64_t to[N_BUCKETS],
                       uint64_t ret[N_BUCKETS])
{
    uint64_t all = 0;
    for (size_t i = 0; i < N_BUCKETS; i++) {
        ret[i] = to[i] > from[i] ? to[i] - from[i] : 0;
        all += ret[i];
    }
    return all;
}

static void write_percentiles(struct json_writer *w, const char *key,
                              const uint64_t counts[N_BUCKETS], uint64_t all)
{
    json_key(w, key);
    if (all == 0) {
        json_put_null(w);
        return;
    }
    json_begin_object(w);
    json_field_double(w, "p50", latency_percentile(counts, 0.5));
    json_field_double(w, "p95", latency_percentile(counts, 0.95));
    json_field_double(w, "p99", latency_percentile(counts, 0.99));
    json_end_object(w);
}

static void write_span(struct json_writer *w, const struct sample *from, const struct sample *to)
{
    uint64_t counts[N_BUCKETS];
    json_begin_object(w);
    job_write_time(w, "at", to->at_ms);
    json_field_double(w, "seconds", (double)(to->at_ms - from->at_ms) / 1000);
    uint64_t all = growth(from->wait, to->wait, counts);
    json_field_int(w, "started", (int64_t)all);
    write_percentiles(w, "wait", counts, all);
    all = growth(from->run, to->run, counts);
    json_field_int(w, "ended", (int64_t)all);
    write_percentiles(w, "run", counts, all);
    json_end_object(w);
}

void latency_samples_write(struct latency_samples *samples, struct str tenant, int64_t span_ms,
                           struct json_writer *w)
{
    pthread_mutex_lock(&samples->mutex);
    const struct tenant_latencies *t = map_get(&samples->tenants, tenant);
    const size_t n = t ? t->n : 0;
    for (size_t i = 1; i < n; i++) {
        const size_t at = (t->next + LATENCY_SAMPLES - n + i) % LATENCY_SAMPLES;
        const struct sample *to = &t->samples[at];
        const struct sample *from = &t->samples[(at + LATENCY_SAMPLES - 1) % LATENCY_SAMPLES];
        if (to->at_ms > from->at_ms && to->at_ms > samples->last_ms - span_ms)
            write_span(w, from, to);
    }
    pthread_mutex_unlock(&samples->mutex);
}
