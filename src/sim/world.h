/* world.h - the inside of a run; for the files of the simulator only.
 *
 *   world.c  job rows: submit, move, settle, redrive; what meets the breaker: start, park, probe,
 *            release. Every change is an event for the observer
 *   run.c    the loop over time
 *
 * `ready` and `parked` are heaps of job numbers, so that the oldest comes first. Their entries may
 * be stale: one counts only while its job is queued, or parked.
 *
 * While the breaker is not closed, all that waits is in `probes` as well, the best probe first. An
 * entry counts only while its job waits with as many attempts used as it had then.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "core/breaker/breaker.h"
#include "sim/heap.h"
#include "sim/sim.h"

enum happening {
    HAPPEN_ARRIVAL,
    HAPPEN_DUE,
    HAPPEN_ANSWER, /* a call has ended, and its worker is free */
    HAPPEN_LEASE_END,
    HAPPEN_WORKER_BACK,
    HAPPEN_DEADLINE,
    HAPPEN_BREAKER,
    HAPPEN_RELEASE,
    HAPPEN_BUDGET, /* the retry budget may have room */
    HAPPEN_CANCEL,
    HAPPEN_KILL,
    HAPPEN_RUN_NOW,
    HAPPEN_REDRIVE,
    HAPPEN_INTERVENE, /* the breaker is moved by hand */
    HAPPEN_REST,      /* interventions by hand end */
};

struct sim_job {
    enum redrive_state state;
    uint32_t arm;
    const struct redrive_policy *policy;
    uint32_t attempts;
    uint32_t crashes;
    uint32_t epoch;
    uint64_t token; /* of the lease; moves on with each start and each end of a run */
    uint64_t seed;
    int64_t submitted_ms;
    int64_t process_after_ms;
    int64_t first_start_ms; /* of the epoch; -1: none yet */
    int64_t started_ms;
    int64_t parked_at_ms;
    int64_t parked_ms;   /* since first_start_ms, up to parked_at_ms */
    int64_t deadline_ms; /* INT64_MAX: none */
    bool called;
    bool by_budget; /* parked by it */
    struct breaker_permit permit;
    const struct redrive_failure *answer; /* what the run will say */
};

struct world {
    const struct sim_config *config;
    struct sim_hands hands;
    int64_t now_ms;
    struct heap agenda;
    struct heap ready;
    struct heap parked;
    struct heap held; /* parked by the retry budget: in no other heap */
    uint32_t n_held;
    struct budget budget;
    struct adaptive adaptive;
    int64_t budget_wake_ms; /* 0: none on the agenda */
    struct heap probes[2];  /* the oldest of equals first; the newest */
    bool probing;           /* whether they are kept */
    struct sim_job *jobs;
    uint32_t n_jobs;
    uint32_t capacity;
    uint32_t n_arrivals;
    double next_arrival_ms;
    uint32_t in_state[REDRIVE_STATE_COUNT];
    uint32_t idle_workers;
    struct rng arrivals;
    struct rng hands_rng;
    struct service service;
    struct breaker breaker;
    uint64_t breaker_generation; /* the last that the observer was given */
    int64_t breaker_wake_ms;     /* 0: none on the agenda */
    struct release release;
    int64_t release_wake_ms;
    bool releasing;
    uint64_t events;
    int error; /* 0, or the code that ends the run */
};

/* Puts something on the agenda. */
void world_plan(struct world *w, int64_t at_ms, enum happening what, uint32_t job, uint64_t token);

/* Draws: true with this probability; a time from now up to the hands' span. */
bool world_chance(struct world *w, double share);
int64_t world_later_ms(struct world *w);

/* A new job, unless it is rejected. */
void world_submit(struct world *w);

/* Moves a job and calls the observer; attempts and process_after_ms have been set. */
void world_move(struct world *w, uint32_t job, enum sim_event_type type, enum redrive_state to);

/* Asks decide() and carries its answer out, for a running or a waiting job. */
void world_settle(struct world *w, uint32_t job, const struct outcome *outcome);

void world_redrive(struct world *w, uint32_t job);

/* Starts and parks what can be; called after everything that happens. */
void dispatch(struct world *w);

/* The orders of `probes`: that of probe_precedes. */
bool dispatch_probe_order(const struct heap_item *a, const struct heap_item *b);
bool dispatch_newest_order(const struct heap_item *a, const struct heap_item *b);

/* To be called whenever the breaker may have changed: calls the observer, plans its next event,
 * begins or ends the release of parked jobs. */
void dispatch_breaker_changed(struct world *w, bool by_hand);

/* Lets parked jobs go, as many as release_take says. */
void dispatch_release(struct world *w);

#endif
