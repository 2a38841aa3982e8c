/* sim.h - a queue, its workers and one service, in virtual time.
 *
 * The simulator owns what a queue owns (job rows, leases, the time of day) and decides nothing.
 * What becomes of a job is decide()'s answer, whether a call may go is breaker_allow()'s, how
 * fast parked jobs return is release_take()'s, which job goes as a probe is probe_precedes()'s,
 * whether a retry may start is budget_room()'s, how many may run is adaptive_limit()'s: the
 * functions that the engine and the library call. That is what makes a run evidence about them.
 *
 * Everything that happens is an event for an observer, in order. The measurements of `redrive
 * simulate` and the checker of the tests are observers and see nothing else.
 *
 * A run is a pure function of its configuration: the same seed gives the same events. Arrivals,
 * service and interventions by hand draw from streams of their own, so that two runs which differ
 * only in policy meet the same jobs.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/breaker/breaker.h"
#include "core/decide.h"
#include "core/experiment/arm.h"
#include "core/limit/adaptive.h"
#include "core/limit/budget.h"
#include "redrive.h"
#include "sim/service.h"

/* What happens to jobs apart from being run. Shares are between 0 and 1. */
struct sim_hands {
    double crash;     /* of runs: the worker dies, and the lease runs out */
    double stall;     /* of runs: the answer comes after the lease is lost, and is refused */
    double release;   /* of runs: given back unfinished */
    double snooze;    /* of runs: asks to be run later */
    double schedule;  /* of jobs: submitted for later */
    double deadline;  /* of jobs: have a deadline of their own */
    double cancel;    /* of jobs: cancelled at some time, whatever they are doing then */
    double kill;      /* of jobs: sent to the dead letters, if they have not ended by then */
    double run_now;   /* of jobs: run at once, if they are time-locked then */
    double redrive;   /* of jobs that died: brought back */
    double breaker;   /* interventions a second: the breaker is tripped, disabled or reset */
    int64_t span_ms;  /* how far in the future "later" is, at most */
    int64_t until_ms; /* afterwards nothing is done by hand, and a breaker held by hand is reset */
};

enum sim_event_type {
    SIM_SUBMITTED, /* – → scheduled, queued */
    SIM_REJECTED,  /* a submit met an open breaker with on_open: reject; there is no job */
    SIM_DUE,       /* scheduled, retrying → queued */
    SIM_RUN_NOW,   /* the same, by hand */
    SIM_PARKED,    /* queued → parked */
    SIM_UNPARKED,  /* parked → queued */
    SIM_STARTED,   /* queued → running */
    SIM_SETTLED,   /* a decision was carried out */
    SIM_REDRIVEN,  /* dead_letter, failed → queued */
    SIM_BREAKER,   /* the breaker changed its state */
};

/* Pointers are valid during the call of the observer. */
struct sim_event {
    enum sim_event_type type;
    int64_t at_ms;
    uint32_t job; /* 0, 1, … in the order of submission */
    uint32_t epoch;
    uint32_t arm;            /* the number of its arm; 0 without an experiment */
    enum redrive_state from; /* not for SUBMITTED */
    enum redrive_state to;
    uint32_t attempts; /* after the event */
    int64_t process_after_ms;
    int64_t submitted_ms;
    int64_t first_start_ms;       /* of the epoch; -1: none yet */
    int64_t started_ms;           /* of the run: STARTED, and SETTLED out of running */
    bool called;                  /* the service was called: as above */
    struct breaker_permit permit; /* as above */
    const struct job_facts *facts;
    const struct outcome *outcome;      /* SETTLED */
    const struct decision *decision;    /* SETTLED */
    enum redrive_breaker_state breaker; /* after the event */
    uint64_t generation;
    bool by_hand;   /* BREAKER */
    bool by_budget; /* PARKED, UNPARKED: by the retry budget, not by the breaker */
};

typedef void (*sim_observe_fn)(const struct sim_event *event, void *ctx);

/* What a job meets when the breaker says no. */
enum sim_breaker {
    SIM_BREAKER_NONE,  /* there is none */
    SIM_BREAKER_OBEYS, /* as its configuration says (on_open) */
    SIM_BREAKER_BURNS, /* the attempt fails without a call, as with a breaker inside the handler */
};

/* Policy and breaker have passed their checks. Everything is borrowed. */
struct sim_config {
    uint64_t seed;
    double arrivals_per_s;
    bool arrivals_even; /* else a Poisson process */
    int64_t arrivals_until_ms;
    uint32_t max_jobs; /* arrivals end here as well */
    uint32_t workers;
    int64_t lease_ms;
    int64_t restart_ms; /* a crashed worker is away for this long */
    const struct redrive_policy *policy;
    const struct experiment *experiment; /* its arms have the policies of the jobs; NULL: none */
    const struct classifier *classifier; /* may be NULL */
    struct classify_context names;       /* of every job, for the classifier */
    enum sim_breaker breaker_mode;
    const struct redrive_breaker_config *breaker; /* unless SIM_BREAKER_NONE */
    const struct budget_config *budget;           /* NULL: none */
    const struct adaptive_config *adaptive;       /* NULL: as many run as there are workers */
    const struct service_config *service;
    const struct sim_hands *hands; /* NULL: none */
    uint64_t max_events;           /* a run that takes more has gone wrong; 0: no limit */
    sim_observe_fn observe;
    void *observe_ctx;
};

struct sim_totals {
    uint32_t submitted;
    uint32_t in_state[REDRIVE_STATE_COUNT]; /* at the end */
    uint64_t events;
    int64_t end_ms;
};

/* Runs until nothing is left to happen. Fails with NOMEM, or with INTERNAL when max_events or a
 * thousand years were not enough; `ret` is filled either way. */
int sim_run(const struct sim_config *config, struct sim_totals *ret, struct redrive_err *err);

#endif
