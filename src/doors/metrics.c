#include "doors/metrics.h"

#include <inttypes.h>

#include "base/json_writer.h"

#define BOUND_TEXT(seconds) #seconds,

/* ---- The format ------------------------------------------------------------------------------ */

static void family(struct buf *out, const char *name, const char *type, const char *help)
{
    (void)buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_escaped(struct buf *out, struct str value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c == '\n')
            (void)buf_puts(out, "\\n");
        else if (c == '"' || c == '\\')
            (void)buf_printf(out, "\\%c", c);
        else
            (void)buf_putc(out, c);
    }
}

struct label {
    const char *name; /* NULL: there is none */
    struct str value;
};

static void put_labels(struct buf *out, const char *name, struct label a, struct label b)
{
    (void)buf_puts(out, name);
    if (!a.name)
        return;
    (void)buf_printf(out, "{%s=\"", a.name);
    put_escaped(out, a.value);
    if (b.name) {
        (void)buf_printf(out, "\",%s=\"", b.name);
        put_escaped(out, b.value);
    }
    (void)buf_puts(out, "\"}");
}

static void put_count(struct buf *out, const char *name, struct label a, struct label b,
                      uint64_t value)
{
    put_labels(out, name, a, b);
    (void)buf_printf(out, " %" PRIu64 "\n", value);
}

/* As JSON writes numbers: no locale, and they read back as the same value. */
static void put_number(struct buf *out, const char *name, struct label a, struct label b,
                       double value)
{
    struct json_writer w;
    put_labels(out, name, a, b);
    (void)buf_putc(out, ' ');
    json_writer_init(&w, out);
    json_put_double(&w, value);
    (void)buf_putc(out, '\n');
}

static const struct label NO_LABEL = {0};

static void gauge(struct buf *out, const char *name, const char *help, double value)
{
    family(out, name, "gauge", help);
    put_number(out, name, NO_LABEL, NO_LABEL, value);
}

/* ---- The families ---------------------------------------------------------------------------- */

static const struct {
    enum engine_event_kind kind;
    const char *outcome;
} OUTCOMES[] = {
    {ENGINE_EVENT_COMPLETED, "completed"}, {ENGINE_EVENT_RETRYING, "retried"},
    {ENGINE_EVENT_DEAD, "dead_letter"},    {ENGINE_EVENT_FAILED, "failed"},
    {ENGINE_EVENT_CANCELLED, "cancelled"}, {ENGINE_EVENT_RELEASED, "released"},
    {ENGINE_EVENT_PARKED, "parked"},       {ENGINE_EVENT_REDRIVEN, "redriven"},
};
#define N_OUTCOMES (sizeof OUTCOMES / sizeof OUTCOMES[0])

static void write_by_task(const struct stats *s, struct buf *out, const char *name,
                          const char *help, enum engine_event_kind kind)
{
    const struct stats_rows *tasks = &s->by[STATS_TASK];
    family(out, name, "counter", help);
    for (size_t i = 0; i < tasks->n; i++)
        put_count(out, name, (struct label){"task", tasks->rows[i].name}, NO_LABEL,
                  tasks->rows[i].counts[kind]);
}

static void write_counters(const struct stats *s, struct buf *out)
{
    const struct stats_rows *tasks = &s->by[STATS_TASK], *classes = &s->by[STATS_CLASS];
    write_by_task(s, out, "redrive_jobs_submitted_total", "Jobs that were submitted.",
                  ENGINE_EVENT_SUBMITTED);
    write_by_task(s, out, "redrive_jobs_started_total", "Attempts that began.",
                  ENGINE_EVENT_STARTED);
    family(out, "redrive_jobs_total", "counter", "What became of jobs and their attempts.");
    for (size_t i = 0; i < tasks->n; i++)
        for (size_t j = 0; j < N_OUTCOMES; j++)
            put_count(out, "redrive_jobs_total", (struct label){"task", tasks->rows[i].name},
                      (struct label){"outcome", str_of(OUTCOMES[j].outcome)},
                      tasks->rows[i].counts[OUTCOMES[j].kind]);
    family(out, "redrive_failures_total", "counter", "Attempts that failed, by class.");
    for (size_t i = 0; i < classes->n; i++) {
        const uint64_t *counts = classes->rows[i].counts;
        put_count(out, "redrive_failures_total", (struct label){"class", classes->rows[i].name},
                  NO_LABEL,
                  counts[ENGINE_EVENT_RETRYING] + counts[ENGINE_EVENT_DEAD] +
                      counts[ENGINE_EVENT_FAILED]);
    }
    family(out, "redrive_unclassified_errors_total", "counter",
           "Failures that no row of the classification table knew.");
    put_count(out, "redrive_unclassified_errors_total", NO_LABEL, NO_LABEL, s->unclassified);
}

static void write_sizes(const struct stats *s, struct buf *out)
{
    int64_t oldest_ms = s->oldest_ready_ms != 0 ? s->at_ms - s->oldest_ready_ms : 0;
    family(out, "redrive_queue_jobs", "gauge", "Jobs of a queue in each state.");
    for (size_t i = 0; i < s->queues.n; i++)
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            put_count(
                out, "redrive_queue_jobs", (struct label){"queue", s->queues.queues[i].queue},
                (struct label){"state", str_of(redrive_state_name((enum redrive_state)state))},
                s->queues.queues[i].by_state[state]);
    family(out, "redrive_queue_paused", "gauge", "1 while a queue is paused, else 0.");
    for (size_t i = 0; i < s->queues.n; i++)
        put_count(out, "redrive_queue_paused", (struct label){"queue", s->queues.queues[i].queue},
                  NO_LABEL, s->queues.queues[i].paused);
    gauge(out, "redrive_parked_jobs", "Jobs that wait for a breaker or a limit.",
          (double)s->by_state[REDRIVE_STATE_PARKED]);
    gauge(out, "redrive_dead_letter_jobs", "Jobs in the dead letters.",
          (double)s->by_state[REDRIVE_STATE_DEAD_LETTER]);
    gauge(out, "redrive_oldest_ready_seconds", "Age of the oldest job that is ready to run.",
          oldest_ms > 0 ? (double)oldest_ms / 1000 : 0);
}

/* One that only waits for a job to ask is as good as half open. */
static int breaker_number(const struct breaker_info *breaker)
{
    if (breaker->is_idle)
        return 1;
    switch (breaker->status.state) {
    case REDRIVE_BREAKER_HALF_OPEN: return 1;
    case REDRIVE_BREAKER_OPEN: return 2;
    case REDRIVE_BREAKER_FORCED_OPEN: return 3;
    case REDRIVE_BREAKER_DISABLED: return 4;
    case REDRIVE_BREAKER_CLOSED:
    default: return 0;
    }
}

static void write_breakers(const struct stats *s, struct buf *out)
{
    family(out, "redrive_breaker_state", "gauge",
           "0 closed, 1 half open, 2 open, 3 forced open, 4 disabled.");
    for (size_t i = 0; i < s->breakers.n; i++)
        put_count(out, "redrive_breaker_state",
                  (struct label){"breaker", s->breakers.breakers[i].key}, NO_LABEL,
                  (uint64_t)breaker_number(&s->breakers.breakers[i]));
}

static void write_workers(const struct stats *s, struct buf *out)
{
    uint64_t running = 0, places = 0;
    for (size_t i = 0; i < s->workers.n; i++) {
        running += s->workers.workers[i].running;
        places += s->workers.workers[i].places;
    }
    gauge(out, "redrive_workers", "Workers that have been heard of lately, remote ones included.",
          (double)s->workers.n);
    gauge(out, "redrive_worker_places", "Jobs that workers have room for at one time.",
          (double)places);
    gauge(out, "redrive_worker_running_jobs", "Jobs that workers have in hand.", (double)running);
    gauge(out, "redrive_health_score",
          "0 to 1: success rate, breakers and latency of about the last minute.",
          s->health.health_score);
    gauge(out, "redrive_success_ratio", "Share of runs that succeeded in about the last minute.",
          s->health.success_rate);
}

static void write_histogram(const struct run_time *time, struct buf *out)
{
    static const char *const BOUNDS[] = {RUN_TIMES_BOUNDS(BOUND_TEXT) "+Inf"};
    const struct label task = {"task", time->task};
    uint64_t sum = 0;
    for (size_t i = 0; i <= RUN_TIMES_N_BOUNDS; i++) {
        sum += time->counts[i];
        put_count(out, "redrive_job_duration_seconds_bucket", task,
                  (struct label){"le", str_of(BOUNDS[i])}, sum);
    }
    put_number(out, "redrive_job_duration_seconds_sum", task, NO_LABEL,
               (double)time->sum_ms / 1000);
    put_count(out, "redrive_job_duration_seconds_count", task, NO_LABEL, sum);
}

/* Kinds that there has been nothing of are left out, but for the one that matters most: an alert
 * needs a series that can rise. */
static void write_store(const struct pulse_state *pulse, bool is_read, struct buf *out)
{
    char name[32];
    gauge(out, "redrive_store_up", "1 while the store can be read and units of work succeed.",
          is_read && !pulse->is_failing);
    family(out, "redrive_store_errors_total", "counter",
           "Units of work of this process that the store failed, by kind of error.");
    for (int i = 1; i < PULSE_KINDS; i++)
        if (pulse->errors[i] > 0 || -i == REDRIVE_E_IO)
            put_count(out, "redrive_store_errors_total",
                      (struct label){"kind", str_of(pulse_kind_name(-i, name))}, NO_LABEL,
                      pulse->errors[i]);
}

void metrics_write(const struct metrics_facts *facts, struct buf *out)
{
    const struct stats *s = facts->stats;
    if (s) {
        write_counters(s, out);
        write_sizes(s, out);
        write_breakers(s, out);
        write_workers(s, out);
    }
    write_store(facts->pulse, s != NULL, out);
    family(out, "redrive_job_duration_seconds", "histogram",
           "How long runs took that were settled through this process.");
    for (size_t i = 0; i < facts->n_run_times; i++)
        write_histogram(&facts->run_times[i], out);
    gauge(out, "redrive_start_time_seconds", "When this process started, in Unix time.",
          (double)facts->started_ms / 1000);
    family(out, "redrive_build_info", "gauge", "1; the version is a label.");
    put_count(out, "redrive_build_info", (struct label){"version", STR(REDRIVE_VERSION)}, NO_LABEL,
              1);
}
