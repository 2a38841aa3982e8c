/* process.c - the series that are this process's own. */
#include "server/metrics/metrics.h"
#include "server/metrics/text.h"

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

void metrics_write_process(const struct metrics_process *process, struct buf *out)
{
    write_store(process, out);
    write_histograms(process, out);
    write_process(&process->facts, out);
}
