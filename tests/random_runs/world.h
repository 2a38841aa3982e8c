/* world.h - several processes of Redrive on one store, in one thread, under one clock, from one
 * seed.
 *
 * A process is an engine with a store handle of its own. Between the two stands a store that fails
 * as the plan of the step says: a call fails or takes long, another transaction was in the way, the
 * answer to a commit gets lost, another process acts first, a transaction begins with what an
 * earlier answer has told, the process is killed between two calls.
 *
 * What a step does follows from the seed, the number of the step and what the steps before have
 * left behind, and from nothing else: no clock is read, no thread is started. So a run can be
 * repeated, and a step can be left out to see whether a failure needs it (simulate.c).
 */
#ifndef TESTS_SIMULATION_WORLD_H
#define TESTS_SIMULATION_WORLD_H

#include "base/rng.h"
#include "engine/engine.h"
#include "judge.h"
#include "store/bugs.h"
#include "store/stores.h"
#include "store/wrap.h"

#define PROCESSES      3
#define WORLD_START_MS INT64_C(1767225600000) /* 2026-01-01T00:00:00Z */

/* A bug beside those of bugs.h: what asks for jobs does not notice a stale begin. */
#define BUG_UNNOTICED ((enum bug)(BUG_COUNT + 1))

enum fault_kind {
    FAULT_NONE,
    FAULT_CALL_FAILS,       /* the nth call is not carried out: REDRIVE_E_IO */
    FAULT_CONFLICT,         /* the nth call meets another transaction: REDRIVE_E_CANCELLED */
    FAULT_ANSWER_LOST,      /* the nth commit is carried out, its answer is REDRIVE_E_IO */
    FAULT_KILLED,           /* the process ends before the nth call */
    FAULT_KILLED_COMMITTED, /* the process ends after the nth commit, before its answer */
    FAULT_OTHER_FIRST,      /* another process makes a step before the nth transaction begins */
    FAULT_SLOW,             /* time passes before the nth call is carried out */
    FAULT_STALE, /* the nth transaction begins with the shared version of the last answer */
    FAULT_COUNT
};

/* What is to go wrong in a step. */
struct plan {
    enum fault_kind kind;
    unsigned nth; /* call, commit or begin; counts from 1 */
};

struct world;

struct process {
    struct wrap wrap; /* what the engine has for a store */
    struct buggy buggy;
    struct store *handle;
    struct engine *engine;
    struct world *world;
    int number;
    struct plan plan;
    unsigned calls, commits, begins; /* since the step began */
    int64_t transaction_ms;          /* the time of its latest transaction */
    int64_t told_version;            /* the shared version of the store's last answer, */
    int64_t told_ms;                 /* and when that came, by a clock that nobody sets; 0: never */
    int64_t version;                 /* the shared version that the open transaction was to see, */
    bool is_stale;                   /* and did not */
    bool is_dead;
};

/* A run that a worker holds, or held. */
struct run {
    int64_t seq;
    uint64_t token;
};
#define RUNS_MAX 64

struct world {
    uint64_t seed;
    unsigned long step;
    struct rng rng;    /* of the step */
    int64_t now_ms;    /* that the machine's clock shows */
    int64_t ahead_ms;  /* by which it has been set forward, or back, in all */
    int64_t latest_ms; /* the latest time that it has shown */
    bool is_calm;      /* no more faults */
    bool trace;
    unsigned depth;  /* of steps within steps */
    bool may_remove; /* a request of the same transaction may remove jobs */
    enum bug bug;    /* BUG_COUNT: none */
    struct config *config;
    char url[STORES_URL_MAX];
    struct store *eye; /* the judge's own handle */
    struct process processes[PROCESSES];
    struct run runs[RUNS_MAX]; /* that workers hold */
    size_t n_runs;
    struct run stale[RUNS_MAX]; /* that were settled: nothing may be done with them any more */
    size_t n_stale;
    struct judge judge;
    unsigned long submitted, waiting, started, settled, killed, clock_sets, gathered,
        met[FAULT_COUNT];
};

/* Opens the store and the processes. Ends the program when that fails. */
void world_open(struct world *world, uint64_t seed, const char *store_name, enum bug bug);
void world_close(struct world *world);

/* Makes step number `n` and lets the judge look. False: the judge has a complaint. */
bool world_step(struct world *world, unsigned long n);

/* No more faults: the queue must come to an end of all jobs. False: the judge has a complaint. */
bool world_drain(struct world *world);

/* For steps: a line of the trace. */
void world_say(const struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* For steps: the clock moves on. */
void world_pass(struct world *world, int64_t ms);
/* For steps: the clock is set, so that it is so much ahead of the time that has passed. */
void world_set_clock(struct world *world, int64_t ahead_ms);

/* For steps: what one process does next (actions.c). */
void world_act(struct world *world, struct process *process);
/* For draining: everything that is ready is run, and succeeds. */
void world_work_off(struct world *world, struct process *process);

/* For draining: dead jobs that others wait for are redriven, or removed if they cannot be. */
void world_clear_up(struct world *world, struct process *process);

#endif
