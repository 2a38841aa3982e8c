/* measure.c - counts the events of a run. */
#include "sim/measure.h"

#include <stdlib.h>
#include <string.h>

#include "core/state.h"

void measure_init(struct measure *m, int64_t outage_start_ms, int64_t outage_end_ms,
                  int64_t arrivals_end_ms)
{
    *m = (struct measure){
        .outage_start_ms = outage_start_ms,
        .outage_end_ms = outage_end_ms,
        .arrivals_end_ms = arrivals_end_ms,
        .figures = {.drain_ms = -1},
    };
}

void measure_release(struct measure *m)
{
    free(m->seconds);
    free(m->latencies);
    *m = (struct measure){0};
}

/* Makes space for `count` elements of `size` bytes; new memory is zeroed. */
static bool reserve(struct measure *m, void **array, size_t *capacity, size_t count, size_t size)
{
    if (count <= *capacity)
        return true;
    size_t wanted = *capacity ? *capacity : 256;
    while (wanted < count)
        wanted *= 2;
    char *grown = reallocarray(*array, wanted, size);
    if (!grown) {
        m->error = REDRIVE_E_NOMEM;
        return false;
    }
    memset(grown + *capacity * size, 0, (wanted - *capacity) * size);
    *array = grown;
    *capacity = wanted;
    return true;
}

static void count_call(struct measure *m, const struct sim_event *event)
{
    size_t second = (size_t)(event->started_ms / 1000);
    bool failed = event->decision->class_ != REDRIVE_CLASS_SUCCESS;
    void *array = m->seconds;
    m->figures.calls++;
    m->figures.wasted += failed;
    if (second >= MEASURE_MAX_SECONDS ||
        !reserve(m, &array, &m->seconds_capacity, second + 1, sizeof *m->seconds))
        return;
    m->seconds = array;
    if (second >= m->n_seconds)
        m->n_seconds = second + 1;
    if (failed)
        m->seconds[second].failed++;
    else
        m->seconds[second].ok++;
}

static void count_completion(struct measure *m, const struct sim_event *event)
{
    bool has_outage = m->outage_start_ms < m->outage_end_ms;
    m->figures.completed++;
    if (has_outage &&
        (event->submitted_ms < m->outage_start_ms || event->submitted_ms >= m->outage_end_ms))
        return;
    void *array = m->latencies;
    if (!reserve(m, &array, &m->latencies_capacity, m->n_latencies + 1, sizeof *m->latencies))
        return;
    m->latencies = array;
    m->latencies[m->n_latencies++] = event->at_ms - event->submitted_ms;
}

static void watch_backlog(struct measure *m, int64_t now_ms)
{
    if (m->outage_start_ms == m->outage_end_ms)
        return;
    if (now_ms < m->outage_start_ms) {
        if (m->backlog > m->normal_backlog)
            m->normal_backlog = m->backlog;
    } else if (now_ms >= m->outage_end_ms && now_ms <= m->arrivals_end_ms &&
               m->figures.drain_ms < 0 && m->backlog <= m->normal_backlog) {
        m->figures.drain_ms = now_ms - m->outage_end_ms;
    }
}

/* As the engine counts jobs of an arm: the first life of each. */
static void count_for_arm(struct measure *m, const struct sim_event *event)
{
    const bool is_completed = event->to == REDRIVE_STATE_COMPLETED;
    if (event->epoch > 1 || !state_has_ended(event->to))
        return;
    if (event->to == REDRIVE_STATE_CANCELLED) {
        m->arm.cancelled++;
        return;
    }
    m->arm.completed += is_completed;
    m->arm.dead += !is_completed;
    moments_add(&m->arm.attempts, event->attempts);
    if (is_completed)
        moments_add(&m->arm.time_ms, event->at_ms - event->first_start_ms);
}

void measure_observe(const struct sim_event *event, void *ctx)
{
    struct measure *m = ctx;
    if (event->type == SIM_SUBMITTED) {
        m->figures.submitted++;
        m->arm.submitted++;
        m->backlog++;
    } else if (event->type == SIM_REJECTED) {
        m->figures.rejected++;
    } else if (event->type == SIM_SETTLED) {
        if (event->from == REDRIVE_STATE_RUNNING && event->called)
            count_call(m, event);
        if (event->to == REDRIVE_STATE_COMPLETED)
            count_completion(m, event);
        else if (state_has_ended(event->to))
            m->figures.dead++;
        count_for_arm(m, event);
        m->backlog -= state_has_ended(event->to);
    }
    watch_backlog(m, event->at_ms);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The least latency that this share of the jobs does not exceed. */
static int64_t quantile_ms(const struct measure *m, unsigned percent)
{
    if (m->n_latencies == 0)
        return -1;
    size_t rank = (m->n_latencies * percent + 99) / 100;
    return m->latencies[rank - 1];
}

int measure_finish(struct measure *m)
{
    if (m->n_latencies > 0)
        qsort(m->latencies, m->n_latencies, sizeof *m->latencies, by_value);
    m->figures.p50_ms = quantile_ms(m, 50);
    m->figures.p99_ms = quantile_ms(m, 99);
    for (size_t i = 0; i < m->n_seconds; i++) {
        uint32_t calls = m->seconds[i].ok + m->seconds[i].failed;
        if (calls > m->figures.peak_per_s)
            m->figures.peak_per_s = calls;
    }
    return m->error;
}

uint64_t figures_lost(const struct figures *figures)
{
    return figures->dead + figures->rejected;
}
