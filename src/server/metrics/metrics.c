/* metrics.c - the series of the store: counters, queues, breakers, workers. */
#include "server/metrics/metrics.h"

#include <stdlib.h>

#include "base/err.h"
#include "server/metrics/text.h"

#define QUEUE_TASK(queue_, task_) \
    {"queue", (queue_)},          \
    {                             \
        "task", (task_)           \
    }

/* ---- Counters -------------------------------------------------------------------------------- */

static void write_counter(const struct stats *s, struct buf *out, const char *name,
                          const char *help, enum engine_event_kind kind)
{
    const struct stats_rows *rows = &s->by[STATS_PARTITION];
    metrics_family(out, name, "counter", help);
    for (size_t i = 0; i < rows->n; i++)
        metrics_count(out, name, LABELS(QUEUE_TASK(rows->rows[i].queue, rows->rows[i].name)),
                      rows->rows[i].counts[kind]);
}

/* The outcome is called as the event, the state and the history call it. */
static void write_finished(const struct stats *s, struct buf *out)
{
    static const enum engine_event_kind ENDS[] = {ENGINE_EVENT_COMPLETED, ENGINE_EVENT_DEAD,
                                                  ENGINE_EVENT_FAILED, ENGINE_EVENT_CANCELLED};
    const struct stats_rows *rows = &s->by[STATS_PARTITION];
    metrics_family(out, "redrive_jobs_finished_total", "counter", "Jobs that ended, by outcome.");
    for (size_t i = 0; i < rows->n; i++)
        for (size_t end = 0; end < sizeof ENDS / sizeof ENDS[0]; end++)
            metrics_count(out, "redrive_jobs_finished_total",
                          LABELS(QUEUE_TASK(rows->rows[i].queue, rows->rows[i].name),
                                 {"outcome", str_of(engine_event_name(ENDS[end]))}),
                          rows->rows[i].counts[ENDS[end]]);
}

static void write_failures(const struct stats *s, struct buf *out)
{
    const struct stats_rows *classes = &s->by[STATS_CLASS];
    metrics_family(out, "redrive_failures_total", "counter",
                   "Failures by class, of attempts and of jobs that ended before one.");
    for (size_t i = 0; i < classes->n; i++) {
        const uint64_t *counts = classes->rows[i].counts;
        metrics_count(out, "redrive_failures_total", LABELS({"class", classes->rows[i].name}),
                      counts[ENGINE_EVENT_RETRYING] + counts[ENGINE_EVENT_DEAD] +
                          counts[ENGINE_EVENT_FAILED]);
    }
    metrics_family(out, "redrive_unclassified_failures_total", "counter",
                   "Failures that no row of the classification table knew.");
    metrics_count(out, "redrive_unclassified_failures_total", NO_LABELS, s->unclassified);
}

static void write_counters(const struct stats *s, struct buf *out)
{
    write_counter(s, out, "redrive_jobs_submitted_total", "Jobs that were submitted.",
                  ENGINE_EVENT_SUBMITTED);
    write_finished(s, out);
    write_counter(s, out, "redrive_jobs_parked_total",
                  "Times that a job began to wait for a breaker or a limit.", ENGINE_EVENT_PARKED);
    write_counter(s, out, "redrive_jobs_redriven_total",
                  "Dead or failed jobs that were started anew.", ENGINE_EVENT_REDRIVEN);
    write_counter(s, out, "redrive_attempts_started_total", "Attempts that began.",
                  ENGINE_EVENT_STARTED);
    write_counter(s, out, "redrive_attempts_retried_total",
                  "Attempts that failed and were given another try.", ENGINE_EVENT_RETRYING);
    write_counter(s, out, "redrive_attempts_released_total",
                  "Attempts that were given back and do not count.", ENGINE_EVENT_RELEASED);
    write_failures(s, out);
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static void write_sizes(const struct stats *s, struct buf *out)
{
    int64_t oldest_ms = s->oldest_ready_ms != 0 ? s->at_ms - s->oldest_ready_ms : 0;
    metrics_family(out, "redrive_jobs", "gauge", "Jobs that the store has, by state.");
    for (size_t i = 0; i < s->partitions.n; i++)
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            metrics_count(
                out, "redrive_jobs",
                LABELS(QUEUE_TASK(s->partitions.counts[i].queue, s->partitions.counts[i].task),
                       {"state", str_of(redrive_state_name((enum redrive_state)state))}),
                s->partitions.counts[i].by_state[state]);
    metrics_family(out, "redrive_queue_paused", "gauge", "1 while a queue is paused, else 0.");
    for (size_t i = 0; i < s->queues.n; i++)
        metrics_count(out, "redrive_queue_paused", LABELS({"queue", s->queues.counts[i].queue}),
                      s->queues.counts[i].paused);
    metrics_gauge(out, "redrive_oldest_ready_seconds",
                  "Age of the oldest job that is ready to run; 0 when none is.",
                  oldest_ms > 0 ? (double)oldest_ms / 1000 : 0);
}

/* ---- Breakers -------------------------------------------------------------------------------- */

/* One that only waits for a job to ask is as good as half open. */
static enum redrive_breaker_state state_of(const struct breaker_info *breaker)
{
    return breaker->is_idle ? REDRIVE_BREAKER_HALF_OPEN : breaker->status.state;
}

static int breaker_number(const struct breaker_info *breaker)
{
    switch (state_of(breaker)) {
    case REDRIVE_BREAKER_HALF_OPEN: return 1;
    case REDRIVE_BREAKER_OPEN: return 2;
    case REDRIVE_BREAKER_FORCED_OPEN: return 3;
    case REDRIVE_BREAKER_DISABLED: return 4;
    case REDRIVE_BREAKER_CLOSED:
    case REDRIVE_BREAKER_STATE_COUNT:
    default: return 0;
    }
}

static int closed_last(const void *left, const void *right)
{
    const struct breaker_info *a = *(const struct breaker_info *const *)left;
    const struct breaker_info *b = *(const struct breaker_info *const *)right;
    const bool a_closed = breaker_number(a) == 0, b_closed = breaker_number(b) == 0;
    return a_closed != b_closed ? a_closed - b_closed : str_compare(a->key, b->key);
}

static int write_breakers(const struct stats *s, struct buf *out)
{
    uint64_t by_state[REDRIVE_BREAKER_STATE_COUNT] = {0};
    const size_t n = s->breakers.n;
    const struct breaker_info **sorted = calloc(n + 1, sizeof(struct breaker_info *));
    if (!sorted)
        return REDRIVE_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        sorted[i] = &s->breakers.breakers[i];
        by_state[state_of(sorted[i])]++;
    }
    qsort(sorted, n, sizeof(struct breaker_info *), closed_last);
    metrics_family(out, "redrive_breakers", "gauge", "Breakers by state.");
    for (int state = 0; state < REDRIVE_BREAKER_STATE_COUNT; state++)
        metrics_count(out, "redrive_breakers",
                      LABELS({"state", str_of(redrive_breaker_state_name(
                                           (enum redrive_breaker_state)state))}),
                      by_state[state]);
    metrics_family(out, "redrive_breaker_state", "gauge",
                   "0 closed, 1 half open, 2 open, 3 forced open, 4 disabled.");
    for (size_t i = 0; i < n && i < METRICS_MAX_BREAKERS; i++)
        metrics_count(out, "redrive_breaker_state", LABELS({"breaker", sorted[i]->key}),
                      (uint64_t)breaker_number(sorted[i]));
    free(sorted);
    return 0;
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void write_workers(const struct stats *s, struct buf *out)
{
    uint64_t running = 0, slots = 0;
    for (size_t i = 0; i < s->workers.n; i++) {
        running += s->workers.workers[i].running;
        slots += s->workers.workers[i].slots;
    }
    metrics_gauge(out, "redrive_workers", "Workers that are alive, remote ones included.",
                  (double)s->workers.n);
    metrics_gauge(out, "redrive_worker_slots", "Jobs that all workers can run at one time.",
                  (double)slots);
    metrics_gauge(out, "redrive_worker_slots_used", "Jobs that workers are running.",
                  (double)running);
    metrics_gauge(out, "redrive_health_score",
                  "0 to 1: success rate, breakers and latency of about the last minute.",
                  s->health.health_score);
    metrics_gauge(out, "redrive_success_ratio",
                  "Share of attempts that succeeded in about the last minute.",
                  s->health.success_rate);
}

int metrics_write_store(const struct stats *stats, struct buf *out)
{
    write_counters(stats, out);
    write_sizes(stats, out);
    int rc = write_breakers(stats, out);
    write_workers(stats, out);
    return rc;
}
