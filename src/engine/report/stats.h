/* stats.h - all figures of a store in one place.
 *
 * Read through any store handle, outside of a transaction, by any process: counters that all
 * processes add up, sizes, breakers, and what workers that are alive tell of themselves. The parts
 * are read one after the other, so that under load they may differ by what happened in between.
 *
 * docs/monitoring.md says what each figure means.
 */
#ifndef ENGINE_REPORT_STATS_H
#define ENGINE_REPORT_STATS_H

#include "base/json/writer.h"
#include "base/mem/arena.h"
#include "core/breaker/health.h"
#include "engine/gates/view.h"
#include "engine/event.h"
#include "engine/report/experiments.h"
#include "engine/report/worker_row.h"
#include "store/store.h"

/* By what counters are told apart. */
enum stats_label {
    STATS_TASK,
    STATS_QUEUE,
    STATS_PARTITION, /* a task within a queue */
    STATS_CLASS,
    STATS_LABEL_COUNT
};

/* The counters of one task, queue, partition or class, by enum engine_event_kind. */
struct stats_row {
    struct str name;  /* of a partition: its task */
    struct str queue; /* of a partition */
    uint64_t counts[ENGINE_EVENT_COUNT];
};
struct stats_rows {
    struct stats_row *rows; /* by name, then queue */
    size_t n;
};

/* The jobs of one task, over all of its queues. */
struct task_count {
    struct str task;
    uint64_t by_state[REDRIVE_STATE_COUNT];
};

struct stats {
    int64_t at_ms;
    struct str tenant; /* absent: all of them together */
    uint64_t counts[ENGINE_EVENT_COUNT];
    uint64_t unclassified;
    struct stats_rows by[STATS_LABEL_COUNT];
    struct experiment_page experiments; /* by counters alone: see experiments_count */
    double average_retries;             /* retries for each job that has ended */

    uint64_t by_state[REDRIVE_STATE_COUNT];
    struct count_page queues;
    struct count_page partitions; /* by task, then queue; of stats_read_all */
    struct task_count *tasks;     /* by name; likewise */
    size_t n_tasks;
    int64_t oldest_ready_ms; /* created, of the oldest queued job; 0: none is */
    int64_t next_ready_ms;   /* when the first time-locked job is due; 0: none is */

    struct breaker_page breakers;
    uint32_t breakers_by_state[REDRIVE_BREAKER_STATE_COUNT];

    struct limit_page limits; /* of stats_read_all */

    struct worker_page workers;
    double tasks_per_second; /* of all workers together */
    struct {
        double p50_ms;
        double p90_ms;
        double p99_ms;
    } run_time; /* of all workers together */
    struct redrive_health health;

    struct arena arena;
};

/* What stats_write_json and the summary have. An absent tenant: all of them. NULL thresholds are
 * the default ones. `ret` must be zeroed or released; after a failure it is empty. */
int stats_read(struct store *store, struct str tenant, const struct health_thresholds *thresholds,
               int64_t now_ms, struct stats *ret, struct redrive_err *err);
/* The same with the jobs of each task, and the limits. */
int stats_read_all(struct store *store, struct str tenant,
                   const struct health_thresholds *thresholds, int64_t now_ms, struct stats *ret,
                   struct redrive_err *err);
void stats_release(struct stats *stats);

/* Only the health, which costs a few rows however many jobs there are. The page has the workers
 * that are alive, for the caller to release. */
int stats_health(struct store *store, const struct health_thresholds *thresholds, int64_t now_ms,
                 struct redrive_health *ret, struct worker_page *ret_workers,
                 struct redrive_err *err);

/* The native document: everything. */
void stats_write_json(struct json_writer *w, const struct stats *stats);

/* The same without what grows with the number of tasks, queues and workers: the totals, and the
 * `max_queues` queues that have most to do. */
void stats_write_summary_json(struct json_writer *w, const struct stats *stats, size_t max_queues);

/* execution_stats, circuit_breaker_stats and dead_letter_stats; rates in percent. A breaker that is
 * half open counts as open, and one that is disabled as neither open nor closed. */
void stats_write_retry_json(struct json_writer *w, const struct stats *stats);

/* status, health_score, success_rate, error_rate, latency_factor, breakers, breakers_open and
 * workers, into an object that is open. */
void health_write_members(struct json_writer *w, const struct redrive_health *health,
                          size_t workers);

#endif
