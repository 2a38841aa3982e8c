/* metrics.h - metrics in the format of Prometheus.
 *
 * Writers over what stats.h has read, the run times that were kept and what the kernel knows. There
 * are two kinds, and a series is of one kind only:
 *
 *   - of the store: what all processes have done together. Every server of a store exports the same
 *     values, so that they are aggregated with max, never with sum.
 *   - of this process: what it alone has done since it started. They are aggregated with sum.
 *
 * docs/monitoring.md lists them with their kind. Each family has its HELP and TYPE and is written
 * in one piece.
 */
#ifndef SERVER_METRICS_METRICS_H
#define SERVER_METRICS_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "base/os/log.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "config/config.h"
#include "core/trace/span.h"
#include "engine/event.h"
#include "engine/report/stats.h"
#include "engine/store_status.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Breakers that have a series of their own, those that are not closed first, and retry budgets,
 * those with the least room first. Keys made of payloads have no end; redrive_breakers counts all
 * breakers. */
#define METRICS_MAX_BREAKERS 200

/* Arms of experiments that have series, the first by the names of the experiments: those that have
 * ended stay in the store. */
#define METRICS_MAX_ARMS 200

/* What the kernel knows about this process; 0: it could not be found out. */
struct process_facts {
    double cpu_seconds; /* user and system */
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t open_fds;
    uint64_t max_fds;
    int64_t started_ms; /* wall clock */
};

/* `started_ms` is the caller's. */
struct process_facts process_facts(int64_t started_ms);

/* ---- Run times ---------------------------------------------------------------------------------
 *
 * How long attempts ran and how long jobs waited, as histograms that only grow.
 *
 * Kept from the events of this process's engine, for Prometheus, which wants to add up and
 * subtract: what the store knows of run times fades. Attempts that other processes settled, and
 * jobs that they started, are counted by them. One histogram for each queue, task and outcome of
 * each tenant, up to a number; what comes then is counted under empty names. Any thread.
 */

/* Upper bounds in seconds; the last bucket has none. */
#define RUN_TIMES_BOUNDS(XX) \
    XX(0.005)                \
    XX(0.01)                 \
    XX(0.025)                \
    XX(0.05) XX(0.1) XX(0.25) XX(0.5) XX(1) XX(2.5) XX(5) XX(10) XX(30) XX(60) XX(300) XX(1800)
#define RUN_TIMES_N_BOUNDS 15

#define RUN_TIMES_MAX 1000

struct run_time {
    enum engine_event_kind kind; /* STARTED: how long jobs waited; else how long attempts ran */
    struct str queue;
    struct str task;
    uint64_t counts[RUN_TIMES_N_BOUNDS + 1]; /* not added up */
    uint64_t sum_ms;
};

struct run_times;

/* NULL without memory. */
struct run_times *run_times_new(void);
void run_times_free(struct run_times *times);

/* The wall time at which it began to count. */
int64_t run_times_since_ms(const struct run_times *times);

/* An engine_event_fn, but for its context's type: counts a start, or an attempt that has ended. */
void run_times_event(struct run_times *times, const struct engine_event *event);

/* The histograms of a tenant by queue, task and kind, in the arena; returns how many. An absent
 * tenant: all of them added up. Running out of memory shows in the arena. */
size_t run_times_read(struct run_times *times, struct str tenant, struct arena *arena,
                      struct run_time **ret);

/* Calls with every histogram and its tenant, in no order; they are valid during the call. */
void run_times_each(struct run_times *times,
                    void (*each)(struct str tenant, const struct run_time *time, void *ctx),
                    void *ctx);

/* ---- Writers --------------------------------------------------------------------------------- */

struct metrics_process {
    const struct store_status_view *store_status;
    bool store_is_read; /* the store could be read just now */
    const struct run_time *run_times;
    size_t n_run_times;
    struct process_facts facts;
    int64_t certificate_end_ms;       /* 0: the process has no certificate */
    const struct trace_counts *spans; /* NULL: there is no tracing */
};

/* Failures are the buffer's, or out of memory. */
int metrics_write_store(const struct stats *stats, struct buf *out);
void metrics_write_process(const struct metrics_process *process, struct buf *out);

/* ---- A server for workers ----------------------------------------------------------------------
 *
 * An HTTP server that has nothing but GET /metrics, for workers.
 *
 * It has the series of this process only: those of the store are a server's to export. Access is as
 * everywhere: without tokens programs of this machine may read, else a token with the scope `read`
 * is needed. The values are those of the token's tenant, or without tokens of all together.
 */

struct metrics_server;

/* All are borrowed until it has stopped. */
struct metrics_server_options {
    const struct config *config; /* listen.metrics must be set */
    struct run_times *times;
    struct store_status *store_status;
    const struct tracing *tracing; /* NULL: none */
    const struct log *log;
};

/* Fails as tls_identity_load and http_server_start do. */
int metrics_server_start(const struct metrics_server_options *options, struct metrics_server **ret,
                         struct redrive_err *err);
uint16_t metrics_server_port(const struct metrics_server *server);
/* NULL does nothing. */
void metrics_server_stop(struct metrics_server *server);

#endif
