/* samples.c - a ring of samples for each tenant; rates and percentiles of what they grew by. */
#include "server/dashboard/samples.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem/map.h"
#include "base/time/clock.h"
#include "engine/event.h"
#include "store/job_json.h"
#include "store/store.h"

/* Other tenants have none. */
#define RATE_TENANTS_MAX    256
#define LATENCY_TENANTS_MAX 64

/* Times that the read took before the next one. */
#define REST_FACTOR 200
#define REST_MAX_MS 60000

#define N_BUCKETS (RUN_TIMES_N_BOUNDS + 1)

#define BOUND(seconds) seconds,
static const double BOUNDS[] = {RUN_TIMES_BOUNDS(BOUND)};

/* A sample begins with its time, in wall-clock ms. */
struct rate_sample {
    int64_t at_ms;
    uint64_t counts[ENGINE_EVENT_COUNT];
};

struct latency_sample {
    int64_t at_ms;
    uint64_t wait[N_BUCKETS];
    uint64_t run[N_BUCKETS];
};

/* `n` samples, of which the next one goes to `next`. */
struct ring {
    size_t n;
    size_t next;
    _Alignas(max_align_t) char samples[];
};

struct samples {
    size_t sample_size;
    size_t tenants_max;
    /* The members of the object of a span. */
    void (*write)(const void *from, const void *to, struct json_writer *w);
    pthread_mutex_t mutex; /* guards what follows */
    struct map tenants;    /* → the tenant's ring */
    int64_t last_ms;       /* when tenants were last noted; 0: never */
};

static int samples_new(const struct samples *kind, struct samples **ret, struct redrive_err *err)
{
    struct samples *samples = *ret = malloc(sizeof *samples);
    if (!samples)
        return err_nomem(err);
    *samples = *kind;
    pthread_mutex_init(&samples->mutex, NULL);
    map_init(&samples->tenants, (uint64_t)clock_monotonic_ns());
    return 0;
}

void samples_free(struct samples *samples)
{
    if (!samples)
        return;
    MAP_FOREACH (&samples->tenants, slot)
        free(slot->value);
    map_release(&samples->tenants);
    pthread_mutex_destroy(&samples->mutex);
    free(samples);
}

/* ---- Rings: the mutex is held ---------------------------------------------------------------- */

static int64_t time_of(const void *sample)
{
    return *(const int64_t *)sample;
}

static void *sample_in(const struct samples *samples, struct ring *ring, size_t at)
{
    return ring->samples + at % SAMPLES_KEPT * samples->sample_size;
}

static void *sample_at(const struct samples *samples, struct ring *ring, int64_t now_ms)
{
    void *last = sample_in(samples, ring, ring->next + SAMPLES_KEPT - 1);
    if (ring->n > 0 && time_of(last) == now_ms)
        return last;
    void *sample = sample_in(samples, ring, ring->next);
    memset(sample, 0, samples->sample_size);
    *(int64_t *)sample = now_ms;
    ring->next = (ring->next + 1) % SAMPLES_KEPT;
    ring->n += ring->n < SAMPLES_KEPT;
    return sample;
}

static struct ring *ring_of(struct samples *samples, struct str tenant)
{
    struct ring *ring = map_get(&samples->tenants, tenant);
    if (ring || samples->tenants.count >= samples->tenants_max)
        return ring;
    ring = calloc(1, sizeof *ring + SAMPLES_KEPT * samples->sample_size);
    if (ring && map_put(&samples->tenants, tenant, ring) < 0) {
        free(ring);
        return NULL;
    }
    if (ring && samples->last_ms != 0)
        (void)sample_at(samples, ring, samples->last_ms);
    return ring;
}

/* The tenant's sample of this time: a new one that is zeroed, in place of the oldest when there are
 * enough, or the one that this time has already. NULL: there are too many tenants, or no memory. A
 * tenant that was not there at `last_ms` gets an empty sample of that time first, since it has had
 * no jobs until then. */
static void *sample_of(struct samples *samples, struct str tenant, int64_t now_ms)
{
    struct ring *ring = ring_of(samples, tenant);
    return ring ? sample_at(samples, ring, now_ms) : NULL;
}

static void write_span(const struct samples *samples, const void *from, const void *to,
                       struct json_writer *w)
{
    json_begin_object(w);
    job_write_time(w, "at", time_of(to));
    json_field_double(w, "seconds", (double)(time_of(to) - time_of(from)) / 1000);
    samples->write(from, to, w);
    json_end_object(w);
}

void samples_write(struct samples *samples, struct str tenant, int64_t span_ms,
                   struct json_writer *w)
{
    HOLD(&samples->mutex);
    struct ring *ring = map_get(&samples->tenants, tenant);
    for (size_t i = 1; ring && i < ring->n; i++) {
        const size_t at = ring->next + SAMPLES_KEPT - ring->n + i;
        const void *from = sample_in(samples, ring, at + SAMPLES_KEPT - 1);
        const void *to = sample_in(samples, ring, at);
        if (time_of(to) > time_of(from) && time_of(to) > samples->last_ms - span_ms)
            write_span(samples, from, to, w);
    }
}

/* ---- Rates ----------------------------------------------------------------------------------- */

/* Counters that are smaller than before are those of another store, or of one that lost some. */
static void write_rates(const void *earlier, const void *later, struct json_writer *w)
{
    const struct rate_sample *from = earlier, *to = later;
    for (int kind = 0; kind < ENGINE_EVENT_COUNT; kind++) {
        const uint64_t a = from->counts[kind], b = to->counts[kind];
        if (*engine_event_counter((enum engine_event_kind)kind))
            json_field_int(w, engine_event_name((enum engine_event_kind)kind),
                           b > a ? (int64_t)(b - a) : 0);
    }
}

int samples_new_rates(struct samples **ret, struct redrive_err *err)
{
    static const struct samples RATES = {.sample_size = sizeof(struct rate_sample),
                                         .tenants_max = RATE_TENANTS_MAX,
                                         .write = write_rates};
    return samples_new(&RATES, ret, err);
}

/* Counters with a label count the same again, by task, queue and class. */
static void note_counter(struct samples *rates, const struct counter *counter, int64_t now_ms)
{
    const int kind = counter->label.len == 0 ? engine_event_counted(counter->name) : -1;
    struct rate_sample *sample = kind >= 0 ? sample_of(rates, counter->tenant, now_ms) : NULL;
    if (sample)
        sample->counts[kind] += (uint64_t)counter->value;
}

int64_t samples_take_rates(struct samples *rates, struct store *store, int64_t now_ms)
{
    const int64_t began_ms = clock_monotonic_ms();
    RELEASED_BY(counter_page_release) struct counter_page page = {0};
    const int rc = store_ops(store)->counters_list(store, (struct str){0}, &page, NULL);
    if (rc == 0) {
        pthread_mutex_lock(&rates->mutex);
        for (size_t i = 0; i < page.n; i++)
            note_counter(rates, &page.counters[i], now_ms);
        rates->last_ms = now_ms;
        pthread_mutex_unlock(&rates->mutex);
    }
    const int64_t rest_ms = (clock_monotonic_ms() - began_ms) * REST_FACTOR;
    if (rc != 0 || rest_ms < SAMPLES_STEP_MS)
        return SAMPLES_STEP_MS;
    return rest_ms < REST_MAX_MS ? rest_ms : REST_MAX_MS;
}

/* ---- Latencies ------------------------------------------------------------------------------- */

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

/* Into an object that is open. */
static void write_percentiles(struct json_writer *w, const uint64_t counts[N_BUCKETS])
{
    json_field_double(w, "p50", latency_percentile(counts, 0.5));
    json_field_double(w, "p95", latency_percentile(counts, 0.95));
    json_field_double(w, "p99", latency_percentile(counts, 0.99));
}

/* How many there were between two samples, and the percentiles of these. */
static void write_growth(struct json_writer *w, const char *count_key, const char *key,
                         const uint64_t from[N_BUCKETS], const uint64_t to[N_BUCKETS])
{
    uint64_t counts[N_BUCKETS], all = 0;
    for (size_t i = 0; i < N_BUCKETS; i++) {
        counts[i] = to[i] > from[i] ? to[i] - from[i] : 0;
        all += counts[i];
    }
    json_field_int(w, count_key, (int64_t)all);
    json_key(w, key);
    if (all == 0) {
        json_put_null(w);
        return;
    }
    json_begin_object(w);
    write_percentiles(w, counts);
    json_end_object(w);
}

struct task_latency {
    struct str tenant, task;
    uint64_t counts[N_BUCKETS];
    uint64_t n, sum_ms;
};

static void add_task_time(struct str tenant, const struct run_time *time, void *ctx)
{
    struct task_latency *sum = ctx;
    if (time->kind == ENGINE_EVENT_STARTED || !str_eq(time->task, sum->task) ||
        (sum->tenant.ptr && !str_eq(tenant, sum->tenant)))
        return;
    sum->sum_ms += time->sum_ms;
    for (size_t i = 0; i < N_BUCKETS; i++) {
        sum->counts[i] += time->counts[i];
        sum->n += time->counts[i];
    }
}

void latency_write_task(void *run_times, struct str tenant, struct str task, struct json_writer *w)
{
    struct task_latency sum = {.tenant = tenant, .task = task};
    if (run_times)
        run_times_each(run_times, add_task_time, &sum);
    if (sum.n == 0) {
        json_put_null(w);
        return;
    }
    json_begin_object(w);
    json_field_int(w, "attempts", (int64_t)sum.n);
    json_field_double(w, "mean", (double)sum.sum_ms / 1000 / (double)sum.n);
    write_percentiles(w, sum.counts);
    json_end_object(w);
}

static void write_latencies(const void *earlier, const void *later, struct json_writer *w)
{
    const struct latency_sample *from = earlier, *to = later;
    write_growth(w, "started", "wait", from->wait, to->wait);
    write_growth(w, "ended", "run", from->run, to->run);
}

int samples_new_latencies(struct samples **ret, struct redrive_err *err)
{
    static const struct samples LATENCIES = {.sample_size = sizeof(struct latency_sample),
                                             .tenants_max = LATENCY_TENANTS_MAX,
                                             .write = write_latencies};
    return samples_new(&LATENCIES, ret, err);
}

struct noting {
    struct samples *latencies;
    int64_t now_ms;
};

static void note_time(struct str tenant, const struct run_time *time, void *ctx)
{
    const struct noting *noting = ctx;
    struct latency_sample *sample = sample_of(noting->latencies, tenant, noting->now_ms);
    if (!sample)
        return;
    uint64_t *counts = time->kind == ENGINE_EVENT_STARTED ? sample->wait : sample->run;
    for (size_t i = 0; i < N_BUCKETS; i++)
        counts[i] += time->counts[i];
}

void samples_take_latencies(struct samples *latencies, struct run_times *times, int64_t now_ms)
{
    struct noting noting = {latencies, now_ms};
    HOLD(&latencies->mutex);
    run_times_each(times, note_time, &noting);
    latencies->last_ms = now_ms;
}
