/* run_times.h - how long attempts ran and how long jobs waited, as histograms that only grow.
 *
 * Kept from the events of this process's engine, for Prometheus, which wants to add up and
 * subtract: what the store knows of run times fades. Attempts that other processes settled, and
 * jobs that they started, are counted by them. One histogram for each queue, task and outcome of
 * each tenant, up to a number; what comes then is counted under empty names. Any thread.
 */
#ifndef SERVER_METRICS_RUN_TIMES_H
#define SERVER_METRICS_RUN_TIMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "base/text/str.h"
#include "engine/event.h"

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

#endif
