/* measure.h - an observer that turns the events of a run into numbers.
 *
 * Calls are counted in the second in which they began. A wasted call is one that failed, or whose
 * worker was lost. Latency is from submit to completion, of the jobs that were submitted during
 * the outage (of all jobs, if there is none) and completed: what dies has no latency, so read it
 * together with `dead`.
 *
 * The backlog is what has been submitted and has not ended. Normal is the most it came to before
 * the outage, and it has drained when, after the outage, it is back to that for the first time.
 * Only while jobs still arrive: every backlog ends when nothing is added to it.
 */
#ifndef SIM_MEASURE_H
#define SIM_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include "core/experiment/figures.h"
#include "sim/sim.h"

/* Calls that begin later, after very long delays, are counted, but in no second. */
#define MEASURE_MAX_SECONDS (8 * 24 * 3600)

struct measure_second {
    uint32_t ok;
    uint32_t failed;
};

struct figures {
    uint64_t submitted;
    uint64_t rejected; /* refused at submit by an open breaker; not in `submitted` */
    uint64_t completed;
    uint64_t dead;
    uint64_t calls;
    uint64_t wasted;
    uint32_t peak_per_s;
    int64_t drain_ms; /* -1: it did not, or there was no outage */
    int64_t p50_ms;   /* -1: nothing completed */
    int64_t p99_ms;
};

struct measure {
    int64_t outage_start_ms;
    int64_t outage_end_ms;
    int64_t arrivals_end_ms;
    uint64_t backlog;
    uint64_t normal_backlog;
    struct figures figures;
    struct arm_figures arm; /* the same jobs, as experiments count them */
    struct measure_second *seconds;
    size_t n_seconds;
    size_t seconds_capacity;
    int64_t *latencies;
    size_t n_latencies;
    size_t latencies_capacity;
    int error; /* 0 or REDRIVE_E_NOMEM */
};

/* Start and end are equal when there is no outage. */
void measure_init(struct measure *m, int64_t outage_start_ms, int64_t outage_end_ms,
                  int64_t arrivals_end_ms);
void measure_release(struct measure *m);

/* The observer; its context is the struct measure. */
void measure_observe(const struct sim_event *event, void *ctx);

/* To be called once, after the run: completes `figures`. 0, or REDRIVE_E_NOMEM if memory ran out
 * on the way. */
int measure_finish(struct measure *m);

/* The jobs that were not done: dead or refused. */
uint64_t figures_lost(const struct figures *figures);

#endif
