/* latency_samples.c - samples the histograms and computes percentiles of what they grew by. */
#include "server/dashboard/latency_samples.h"

#include <stdlib.h>

#include "base/err.h"
#include "server/dashboard/tenant_rings.h"
#include "store/job_json.h"

#define N_BUCKETS (RUN_TIMES_N_BOUNDS + 1)

#define BOUND(seconds) seconds,
static const double BOUNDS[] = {RUN_TIMES_BOUNDS(BOUND)};

struct sample {
    int64_t at_ms; /* first: tenant_rings.h */
    uint64_t wait[N_BUCKETS];
    uint64_t run[N_BUCKETS];
};

struct latency_samples {
    struct tenant_rings rings; /* of struct sample */
};

int latency_samples_new(struct latency_samples **ret, struct redrive_err *err)
{
    struct latency_samples *samples = calloc(1, sizeof *samples);
    *ret = samples;
    if (!samples)
        return err_nomem(err);
    tenant_rings_init(&samples->rings, sizeof(struct sample), LATENCY_TENANTS_MAX);
    return 0;
}

void latency_samples_free(struct latency_samples *samples)
{
    if (!samples)
        return;
    tenant_rings_release(&samples->rings);
    free(samples);
}

/* ---- Noting ---------------------------------------------------------------------------------- */

struct noting {
    struct latency_samples *samples;
    int64_t now_ms;
};

static void note(struct str tenant, const struct run_time *time, void *ctx)
{
    const struct noting *noting = ctx;
    struct sample *sample = tenant_rings_sample(&noting->samples->rings, tenant, noting->now_ms);
    if (!sample)
        return;
    uint64_t *counts = time->kind == ENGINE_EVENT_STARTED ? sample->wait : sample->run;
    for (size_t i = 0; i < N_BUCKETS; i++)
        counts[i] += time->counts[i];
}

void latency_samples_take(struct latency_samples *samples, struct run_times *times, int64_t now_ms)
{
    struct noting noting = {samples, now_ms};
    pthread_mutex_lock(&samples->rings.mutex);
    run_times_each(times, note, &noting);
    samples->rings.last_ms = now_ms;
    pthread_mutex_unlock(&samples->rings.mutex);
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

void latency_write_percentiles(struct json_writer *w, const uint64_t counts[N_BUCKETS])
{
    json_field_double(w, "p50", latency_percentile(counts, 0.5));
    json_field_double(w, "p95", latency_percentile(counts, 0.95));
    json_field_double(w, "p99", latency_percentile(counts, 0.99));
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
    latency_write_percentiles(w, counts);
    json_end_object(w);
}

static void write_span(const void *earlier, const void *later, void *ctx)
{
    const struct sample *from = earlier, *to = later;
    struct json_writer *w = ctx;
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
    pthread_mutex_lock(&samples->rings.mutex);
    tenant_rings_each_span(&samples->rings, tenant, span_ms, write_span, w);
    pthread_mutex_unlock(&samples->rings.mutex);
}
