/* worker_row.h - workers that are alive, as every process can see them.
 *
 * A process that runs jobs tells of itself every few seconds: its name and host, how much it has
 * in hand, and what the engine knows of its work (runs, failures, run times, health). It is a row
 * of the store, so that every process can read statistics and health. A worker that stops takes its
 * row away; one that has not written for WORKER_GONE_MS counts as gone, and the next tick of any
 * process removes its row.
 *
 * For a process that runs jobs, on a timer of WORKER_EVERY_MS, and once more with `leaving` at the
 * end:
 *
 *     worker_op_init(&w->op, name, tenant);
 *     w->op.running = n_running;
 *     w->op.slots = n_slots;
 *     w->op.op.done = told;                    may start the timer again
 *     committer_submit(committer, &w->op.op);
 *
 * The name and the tenant are borrowed until `done`. A row that could not be written is no reason
 * to stop working: the next one will do.
 */
#ifndef ENGINE_REPORT_WORKER_ROW_H
#define ENGINE_REPORT_WORKER_ROW_H

#include <stdint.h>

#include "base/json/writer.h"
#include "core/breaker/health.h"
#include "core/quantile.h"
#include "engine/op.h"
#include "store/store.h"

#define WORKER_EVERY_MS 5000
#define WORKER_GONE_MS  60000

struct worker_op {
    struct op op;
    struct str name;   /* in leases and in the history; one row for each name */
    struct str tenant; /* absent: it works for all */
    uint32_t running;  /* jobs in hand */
    uint32_t slots;    /* how many jobs it can run at one time */
    bool leaving;      /* takes the row away */
};
void worker_op_init(struct worker_op *op, struct str name, struct str tenant);

/* Rows of workers elsewhere, written by the server through which they work. What the engine knows
 * of the work is in the row of the server, so that nothing is counted twice. A row of that name
 * that is there already is replaced. */
struct remote_worker {
    struct str name;
    struct str tenant;
    int64_t started_ms;
    uint32_t running;
    uint32_t slots;
    uint64_t runs;
    uint64_t failed;
    bool gone; /* takes the row away */
};
struct remote_workers_op {
    struct op op;
    const struct remote_worker *workers; /* borrowed */
    size_t n;
};
void remote_workers_op_init(struct remote_workers_op *op, const struct remote_worker *workers,
                            size_t n);

/* What a row tells. */
struct worker_info {
    struct str name;
    struct str tenant; /* absent: all */
    struct str host;   /* empty, and pid 0: it works through a server */
    int64_t pid;
    int64_t started_ms;
    int64_t seen_ms;
    uint32_t running;
    uint32_t slots;
    uint64_t runs; /* attempts that have ended since it started */
    uint64_t failed;
    double tasks_per_second; /* over about the last minute */
    double p50_ms;           /* of run times */
    double p90_ms;
    double p99_ms;
    struct health_share health;
};

struct worker_page {
    struct worker_info *workers; /* those that are alive, by tenant, then name */
    size_t n;
    size_t n_working;         /* those with slots: not a server that only tells of what others do */
    struct quantile run_time; /* of all of them together */
    struct arena arena;
};

/* Those that work for the tenant; absent: all. Needs no transaction. A row that cannot be read is
 * passed over: it is a hint, not the truth. */
int workers_read(struct store *store, struct str tenant, int64_t now_ms, struct worker_page *ret,
                 struct redrive_err *err);
void worker_page_release(struct worker_page *page);

/* Their health together with that of breakers. */
void workers_health(const struct worker_page *page, const struct health_thresholds *thresholds,
                    uint32_t breakers, uint32_t open, int64_t now_ms, struct redrive_health *ret);

/* One object; times are text, spans are seconds. */
void worker_write_json(struct json_writer *w, const struct worker_info *info);

/* ---- Within the engine ----------------------------------------------------------------------- */

/* Removes the rows of workers that are gone. */
int workers_sweep(struct engine *e, struct redrive_err *err);

#endif
