/* metrics.c - writes the series of the store and of this process as Prometheus reads them. */
#include "server/metrics/metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/json/writer.h"
#include "base/text/buf.h"
#include "base/text/str.h"

#define METRICS_LABELS_MAX 4

/* Up to the first without a name. */
struct metrics_labels {
    struct {
        const char *name;
        struct str value;
    } of[METRICS_LABELS_MAX];
};

#define LABELS(...) ((struct metrics_labels){{__VA_ARGS__}})
#define NO_LABELS   ((struct metrics_labels){0})

/* HELP and TYPE; the samples of the family follow. */
static void metrics_family(struct buf *out, const char *name, const char *type, const char *help)
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

static void put_series(struct buf *out, const char *name, const struct metrics_labels *labels)
{
    size_t n = 0;
    (void)buf_puts(out, name);
    for (; n < METRICS_LABELS_MAX && labels->of[n].name; n++) {
        (void)buf_printf(out, "%c%s=\"", n == 0 ? '{' : ',', labels->of[n].name);
        put_escaped(out, labels->of[n].value);
        (void)buf_putc(out, '"');
    }
    (void)buf_puts(out, n > 0 ? "} " : " ");
}

static void metrics_count(struct buf *out, const char *name, struct metrics_labels labels,
                          uint64_t value)
{
    put_series(out, name, &labels);
    (void)buf_printf(out, "%" PRIu64 "\n", value);
}

static void metrics_number(struct buf *out, const char *name, struct metrics_labels labels,
                           double value)
{
    struct json_writer w;
    put_series(out, name, &labels);
    json_writer_init(&w, out);
    json_put_double(&w, value);
    (void)buf_putc(out, '\n');
}

/* A family with one sample, without labels. */
static void metrics_gauge(struct buf *out, const char *name, const char *help, double value)
{
    metrics_family(out, name, "gauge", help);
    metrics_number(out, name, NO_LABELS, value);
}

/* ---- The series of the store ----------------------------------------------------------------- */

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

/* ---- Experiments ----------------------------------------------------------------------------- */

/* The labels of an arm; with an outcome, three. */
static struct metrics_labels arm_labels(const struct experiment_row *row, const struct arm_row *arm,
                                        const char *outcome)
{
    return LABELS({"experiment", row->name}, {"arm", arm->name},
                  {outcome ? "outcome" : NULL, str_of(outcome ? outcome : "")});
}

enum arm_series {
    ARM_SUBMITTED,
    ARM_FINISHED,
    ARM_ATTEMPTS,
    ARM_SECONDS,
    ARM_SERIES
};

static void write_arm(enum arm_series series, const char *name, const struct experiment_row *row,
                      const struct arm_row *arm, struct buf *out)
{
    const struct arm_figures *f = &arm->figures;
    switch (series) {
    case ARM_SUBMITTED:
        metrics_count(out, name, arm_labels(row, arm, NULL), (uint64_t)f->submitted);
        break;
    case ARM_FINISHED:
        metrics_count(out, name, arm_labels(row, arm, "completed"), (uint64_t)f->completed);
        metrics_count(out, name, arm_labels(row, arm, "dead"), (uint64_t)f->dead);
        metrics_count(out, name, arm_labels(row, arm, "cancelled"), (uint64_t)f->cancelled);
        break;
    case ARM_ATTEMPTS:
        metrics_count(out, name, arm_labels(row, arm, NULL), (uint64_t)f->attempts.sum);
        break;
    case ARM_SECONDS:
    case ARM_SERIES:
    default:
        metrics_number(out, name, arm_labels(row, arm, NULL), (double)f->time_ms.sum / 1000);
        break;
    }
}

/* The first lives of jobs, as in `redrive experiment report`. */
static void write_experiments(const struct stats *s, struct buf *out)
{
    static const struct {
        const char *name, *help;
    } FAMILIES[ARM_SERIES] = {
        {"redrive_experiment_jobs_submitted_total", "Jobs that were submitted, by arm."},
        {"redrive_experiment_jobs_finished_total", "Jobs that ended, by arm and outcome."},
        {"redrive_experiment_attempts_total", "Attempts of jobs that were completed or died."},
        {"redrive_experiment_completion_seconds_total",
         "Time from the first start to completion, of jobs that were completed."},
    };
    const struct experiment_page *page = &s->experiments;
    for (int series = 0; series < ARM_SERIES; series++) {
        const char *name = FAMILIES[series].name;
        size_t n_arms = 0;
        metrics_family(out, name, "counter", FAMILIES[series].help);
        for (size_t i = 0; i < page->n; i++)
            for (size_t k = 0; k < page->rows[i].n_arms && n_arms < METRICS_MAX_ARMS; k++, n_arms++)
                write_arm((enum arm_series)series, name, &page->rows[i], &page->rows[i].arms[k],
                          out);
    }
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

/* ---- Retry budgets --------------------------------------------------------------------------- */

static int least_room_first(const void *left, const void *right)
{
    const struct limit_info *a = *(const struct limit_info *const *)left;
    const struct limit_info *b = *(const struct limit_info *const *)right;
    if (a->budget.status.room != b->budget.status.room)
        return a->budget.status.room < b->budget.status.room ? -1 : 1;
    return str_compare(a->key, b->key);
}

static int write_budgets(const struct stats *s, struct buf *out)
{
    const struct limit_info **sorted = calloc(s->limits.n + 1, sizeof(struct limit_info *));
    size_t n = 0;
    if (!sorted)
        return REDRIVE_E_NOMEM;
    for (size_t i = 0; i < s->limits.n; i++)
        if (budget_is_set(&s->limits.limits[i].budget.config))
            sorted[n++] = &s->limits.limits[i];
    qsort(sorted, n, sizeof(struct limit_info *), least_room_first);
    metrics_family(out, "redrive_retry_budget_room_jobs", "gauge",
                   "Retries that may start now; 0 while a budget is overdrawn.");
    for (size_t i = 0; i < n && i < METRICS_MAX_BREAKERS; i++)
        metrics_count(out, "redrive_retry_budget_room_jobs", LABELS({"limit", sorted[i]->key}),
                      sorted[i]->budget.status.room);
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
    write_experiments(stats, out);
    write_sizes(stats, out);
    int rc = write_breakers(stats, out);
    if (rc == 0)
        rc = write_budgets(stats, out);
    write_workers(stats, out);
    return rc;
}

/* ---- The series of this process -------------------------------------------------------------- */

#define BOUND_TEXT(seconds) #seconds,

/* ---- Histograms ------------------------------------------------------------------------------ */

static struct metrics_labels labels_of(const struct run_time *time, const char *le)
{
    struct metrics_labels labels = LABELS({"queue", time->queue}, {"task", time->task});
    size_t n = 2;
    if (time->kind != ENGINE_EVENT_STARTED) {
        labels.of[n].name = "outcome";
        labels.of[n++].value = str_of(engine_event_name(time->kind));
    }
    labels.of[n].name = le ? "le" : NULL;
    labels.of[n].value = str_of(le ? le : "");
    return labels;
}

static void write_histogram(const struct run_time *time, const char *const names[3],
                            struct buf *out)
{
    static const char *const BOUNDS[] = {RUN_TIMES_BOUNDS(BOUND_TEXT) "+Inf"};
    uint64_t sum = 0;
    for (size_t i = 0; i <= RUN_TIMES_N_BOUNDS; i++) {
        sum += time->counts[i];
        metrics_count(out, names[0], labels_of(time, BOUNDS[i]), sum);
    }
    metrics_number(out, names[1], labels_of(time, NULL), (double)time->sum_ms / 1000);
    metrics_count(out, names[2], labels_of(time, NULL), sum);
}

static void write_histograms(const struct metrics_process *p, struct buf *out)
{
    static const char *const DURATION[] = {"redrive_attempt_duration_seconds_bucket",
                                           "redrive_attempt_duration_seconds_sum",
                                           "redrive_attempt_duration_seconds_count"};
    static const char *const WAIT[] = {"redrive_queue_wait_seconds_bucket",
                                       "redrive_queue_wait_seconds_sum",
                                       "redrive_queue_wait_seconds_count"};
    metrics_family(out, "redrive_attempt_duration_seconds", "histogram",
                   "How long attempts ran that were settled through this process, by outcome.");
    for (size_t i = 0; i < p->n_run_times; i++)
        if (p->run_times[i].kind != ENGINE_EVENT_STARTED)
            write_histogram(&p->run_times[i], DURATION, out);
    metrics_family(out, "redrive_queue_wait_seconds", "histogram",
                   "From the time a job was due to its start through this process.");
    for (size_t i = 0; i < p->n_run_times; i++)
        if (p->run_times[i].kind == ENGINE_EVENT_STARTED)
            write_histogram(&p->run_times[i], WAIT, out);
}

/* ---- The store, as this process sees it ------------------------------------------------------ */

/* Kinds of which there has been none are left out, but for the one that matters most: an alert
 * needs a series that can rise. */
static void write_store(const struct metrics_process *p, struct buf *out)
{
    char name[32];
    metrics_gauge(out, "redrive_store_up",
                  "1 while this process can read the store and its transactions succeed.",
                  p->store_is_read && !p->store_status->is_failing);
    metrics_family(out, "redrive_store_errors_total", "counter",
                   "Transactions of this process that the store failed, by kind of error.");
    for (int i = 1; i < STORE_STATUS_KINDS; i++)
        if (p->store_status->errors[i] > 0 || -i == REDRIVE_E_IO)
            metrics_count(out, "redrive_store_errors_total",
                          LABELS({"kind", str_of(store_status_kind_name(-i, name))}),
                          p->store_status->errors[i]);
}

/* ---- The process ----------------------------------------------------------------------------- */

/* Named as the client libraries of Prometheus name them. What the kernel does not provide is left
 * out.
 */
static void write_process(const struct process_facts *f, struct buf *out)
{
    metrics_family(out, "process_cpu_seconds_total", "counter",
                   "Processor time of this process, user and system.");
    metrics_number(out, "process_cpu_seconds_total", NO_LABELS, f->cpu_seconds);
    if (f->resident_bytes > 0)
        metrics_gauge(out, "process_resident_memory_bytes", "Resident memory of this process.",
                      (double)f->resident_bytes);
    if (f->virtual_bytes > 0)
        metrics_gauge(out, "process_virtual_memory_bytes", "Virtual memory of this process.",
                      (double)f->virtual_bytes);
    if (f->open_fds > 0)
        metrics_gauge(out, "process_open_fds", "Open file descriptors.", (double)f->open_fds);
    if (f->max_fds > 0)
        metrics_gauge(out, "process_max_fds", "Open file descriptors that are allowed.",
                      (double)f->max_fds);
    metrics_gauge(out, "process_start_time_seconds", "When this process started, in Unix time.",
                  (double)f->started_ms / 1000);
    metrics_family(out, "redrive_build_info", "gauge", "1; the version is a label.");
    metrics_count(out, "redrive_build_info", LABELS({"version", STR(REDRIVE_VERSION)}), 1);
}

/* ---- Spans of traces ------------------------------------------------------------------------- */

static void write_spans(const struct trace_counts *spans, struct buf *out)
{
    metrics_family(out, "redrive_trace_spans_sent_total", "counter",
                   "Spans that a collector has taken from this process.");
    metrics_count(out, "redrive_trace_spans_sent_total", NO_LABELS, spans ? spans->sent : 0);
    metrics_family(out, "redrive_trace_spans_dropped_total", "counter",
                   "Spans that this process has dropped, since no collector took them in time.");
    metrics_count(out, "redrive_trace_spans_dropped_total", NO_LABELS, spans ? spans->dropped : 0);
}

void metrics_write_process(const struct metrics_process *process, struct buf *out)
{
    write_store(process, out);
    write_histograms(process, out);
    write_spans(process->spans, out);
    if (process->certificate_end_ms > 0)
        metrics_gauge(out, "redrive_certificate_end_time_seconds",
                      "When the TLS certificate of this process ends, in Unix time.",
                      (double)process->certificate_end_ms / 1000);
    write_process(&process->facts, out);
}

/* ---- What the kernel knows about this process ------------------------------------------------ */

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void read_memory(struct process_facts *ret)
{
    FILE *file = fopen("/proc/self/statm", "re");
    uint64_t total, resident;
    const long page = sysconf(_SC_PAGESIZE);
    if (!file)
        return;
    if (fscanf(file, "%" SCNu64 " %" SCNu64, &total, &resident) == 2 && page > 0) {
        ret->virtual_bytes = total * (uint64_t)page;
        ret->resident_bytes = resident * (uint64_t)page;
    }
    (void)fclose(file);
}

/* Without the one that reads the directory. */
static uint64_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t n = 0;
    if (!dir)
        return 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        n += entry->d_name[0] != '.';
    (void)closedir(dir);
    return n > 0 ? n - 1 : 0;
}

struct process_facts process_facts(int64_t started_ms)
{
    struct process_facts facts = {.started_ms = started_ms};
    struct rusage usage;
    struct rlimit limit;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        facts.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        facts.max_fds = limit.rlim_cur;
    facts.open_fds = count_fds();
    read_memory(&facts);
    return facts;
}
