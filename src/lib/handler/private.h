/* private.h - the inside of struct redrive_handler, for the files of this module only.
 *
 * Invariants
 *   1. `lock` guards everything in the handler and, in a run, what other threads look at. A run is
 *      on the stack of its caller, which stays inside redrive_submit as long as the run can be
 *      reached through the handler.
 *   2. No function of the user is called with the lock held, except clock.now_ms.
 *   3. A run changes its own state, with two exceptions made for it under the lock: a free slot
 *      is given to it, and it is taken from the parked ones. Both wake it.
 *   4. A dead letter does not change once it is built. A thread that shows it to a callback holds a
 *      reference.
 *   5. Times inside are milliseconds since the handler was made, from 1 on, so that 0 can mean
 *      "never"; they become wall time where they leave.
 *
 * Comments say which functions expect the lock to be held.
 */
#ifndef LIB_HANDLER_PRIVATE_H
#define LIB_HANDLER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/rng.h"
#include "base/mem/list.h"
#include "base/mem/map.h"
#include "core/breaker/breaker.h"
#include "core/breaker/health.h"
#include "core/classify/classify.h"
#include "core/decide.h"
#include "core/quantile.h"
#include "redrive.h"

#define NEVER INT64_MAX

/* ---- Time and waiting (handler/wait.c) ------------------------------------------------------- */

/* A thread inside the handler. A job that is submitted from inside another one of the same
 * handler shares its thread: only the outermost counts as inside. A job in steps has no thread of
 * its own: its caller is detached, and is woken by a function of the program. */
struct caller {
    struct redrive_handler *handler;
    struct caller *outer; /* of this thread, whatever its handler */
    pthread_cond_t cond;
    struct list link; /* in handler.waiters, while it waits */
    int64_t wake_ms;
    bool waits;
    bool woken;        /* by caller_wake: it counts as busy again */
    bool is_outermost; /* of this thread in this handler */
    bool is_detached;
    bool is_nested;          /* detached, inside another job: needs no slot */
    bool has_slot;           /* holds one of the handler's `concurrency` */
    void (*wake)(void *ctx); /* detached; may be NULL */
    void *wake_ctx;
    struct list wake_link; /* detached: in handler.to_wake, until `wake` is called */
};

/* Nanoseconds since the handler was made, and the handler's time that they are. */
int64_t handler_ns(const struct redrive_handler *h);
int64_t handler_ms(int64_t ns);
int64_t handler_now(const struct redrive_handler *h);
/* The wall time of now, and of a moment given in the handler's time. */
int64_t handler_wall_now(const struct redrive_handler *h);
int64_t handler_wall(const struct redrive_handler *h, int64_t at_ms);

/* Whether this thread is inside the handler. */
bool caller_is_inside(const struct redrive_handler *h);
/* Whether it or a caller around it holds a slot of their handler, or it needs none. */
bool caller_has_slot(const struct caller *c);

/* All of these: lock held. */
void caller_enter(struct caller *c, struct redrive_handler *h);
void caller_enter_detached(struct caller *c, struct redrive_handler *h,
                           const struct redrive_step_options *options);
void caller_leave(struct caller *c);
/* Gives the lock up until caller_wake or the time `wake_ms`; it may also return for no reason. */
void caller_wait(struct caller *c, int64_t wake_ms);
/* What caller_wait does before and after it sleeps; a detached caller sleeps elsewhere. */
void caller_begin_wait(struct caller *c, int64_t wake_ms);
void caller_end_wait(struct caller *c);
/* `wake` of a detached caller is called when the lock is given up: by handler_unlock or
 * caller_wait, so not by the end of a HOLD. */
void caller_wake(struct caller *c);
/* `wake` of this caller, which does not wait, will not be called any more, and no other thread is
 * in it. Gives the lock up meanwhile. */
void caller_end_wakes(struct caller *c);
/* Makes the calls of `wake` that are due; the lock is free meanwhile. */
void handler_make_wakes(struct redrive_handler *h);

/* ---- Events and counters (handler/metrics.c) ------------------------------------------------- */

/* What has happened under the lock, to be reported once it is free. Before a thread reports, its
 * job has had one event, and its breaker has changed four times at most: at the permit, where a
 * lapsed probe opens it and another half-opens it, and in two looks at the parked ones. */
#define EVENTS_MAX 6

struct events {
    unsigned n;
    struct redrive_event items[EVENTS_MAX];
};

/* Lock held. Adds health and the time; without a monitor it does nothing. */
void events_add(struct redrive_handler *h, struct events *events, struct redrive_event event);

/* Lock not held: calls the monitor. */
void events_tell(struct redrive_handler *h, struct events *events);

/* Lock held. What an attempt and an end add to the counters; the latter returns which event it
 * is. */
void metrics_init(struct redrive_handler *h);
void metrics_attempt(struct redrive_handler *h, const struct decision *d, int64_t now_ms,
                     int64_t took_ns);
enum redrive_event_type metrics_ended(struct redrive_handler *h, enum redrive_state state,
                                      uint32_t attempts);

/* ---- Services (handler/service.c) ------------------------------------------------------------ */

/* A breaker and the runs that wait for it. */
struct service {
    struct list link; /* in handler.services, in the order of creation */
    struct breaker breaker;
    struct redrive_breaker_config config;
    struct release release;
    struct list parked; /* runs, oldest first; the first keeps the time for all */
    uint32_t n_parked;
    uint32_t candidates; /* taken from the parked ones to probe, not yet permitted */
    int64_t next_ms;     /* when service_pump is due */
    bool used;           /* has had a job: its configuration is fixed */
    char name[];
};

/* Lock held, all of these. */

/* Finds it or makes it; NULL when memory is out. */
struct service *service_get(struct redrive_handler *h, const char *name);
/* Lets time pass for the breaker of a run's service: a lapsed probe opens it again. */
void service_tick(struct redrive_run *run, int64_t now_ms);
/* Whether a call of a run that has not waited would pass now. */
bool service_would_pass(const struct service *s, int64_t now_ms);
/* Takes a permit for the run, or says no. */
bool service_permit(struct redrive_run *run, int64_t now_ms);
/* Reports how the permitted call went. */
void service_record(struct redrive_run *run, enum breaker_result result, int64_t now_ms);
/* Puts the run among the parked ones, and takes it out again when it gave up waiting. */
void service_park(struct redrive_run *run, int64_t now_ms);
void service_unpark(struct redrive_run *run);
/* Lets as many of the parked go as breaker and pace allow, and sets next_ms. */
void service_pump(struct redrive_handler *h, struct service *s, int64_t now_ms,
                  struct events *events);
/* One that was let go to probe has got its permit, or will not ask for it. */
void service_drop_candidate(struct redrive_run *run, int64_t now_ms);

void services_free(struct redrive_handler *h);

/* What a run has still to pass on the way to its next attempt, in this order (handler/admit.c). */
enum admission_phase {
    PHASE_DUE,      /* its time */
    PHASE_TURN,     /* a slot */
    PHASE_IN_QUEUE, /* likewise: it is in handler.queue */
    PHASE_PERMIT,   /* its breaker */
    PHASE_PARKED,   /* likewise: it is in service.parked; then the slot again */
    PHASE_ADMITTED,
};

/* ---- Runs (handler/run.c) -------------------------------------------------------------------- */

/* The attempts of a job that did not succeed. */
struct history {
    struct redrive_attempt_info *rows; /* messages are owned */
    size_t n;
    size_t capacity;
};

/* One job on its way through the handler, and what its function sees of it. */
struct redrive_run {
    struct caller caller;
    struct redrive_handler *handler;
    struct redrive_job job;              /* id and service set; borrowed */
    const struct redrive_policy *policy; /* the job's or the handler's */
    struct dead_letter *redriven;        /* what it came from, or NULL; a reference */
    struct service *service;
    struct list link;         /* in handler.queue or service.parked */
    uint64_t age;             /* smaller is older */
    enum redrive_state state; /* queued, running, retrying, parked */
    enum admission_phase phase;
    atomic_bool cancelled;
    bool is_candidate; /* for a probe */
    bool is_lost;      /* it died, and there was no memory for its dead letter */
    struct breaker_permit permit;

    uint32_t attempts;
    uint32_t max_attempts;
    uint32_t epoch;
    uint32_t crashes;
    int64_t now_ns; /* of the last look at the clock */
    int64_t now_ms;
    int64_t submitted_ms;
    int64_t deadline_at_ms; /* NEVER: none */
    int64_t first_start_ms; /* 0: has not started */
    int64_t started_ns;     /* of this attempt */
    int64_t started_ms;
    int64_t due_ms;   /* of the next one */
    int64_t since_ms; /* since when it is in a queue or parked */
    int64_t idle_ms;  /* parked and queued since the first start */
    int64_t parked_ms;

    struct redrive_failure failure; /* of the last attempt; strings in `text` */
    bool has_failure;               /* redrive_run_fail was called */
    enum redrive_class last_class;  /* success: it has not failed */
    char *text;
    void *data;
    size_t len;
    struct history history;
    char said[96]; /* the message where the function gave none */
    char id[REDRIVE_ID_MAX + 1];
    struct events events; /* last: run_init does not clear its items */
};

/* The job has been checked. What it points at is borrowed until run_release. */
void run_init(struct redrive_run *run, struct redrive_handler *h, const struct redrive_job *job);
void run_release(struct redrive_run *run);
/* Before each attempt: forgets what the one before said. */
void run_begin(struct redrive_run *run);
/* After it: makes facts of what the function returned, if it gave none. */
void run_end(struct redrive_run *run, int code);
/* The failure in words, or NULL when it has not failed. */
const char *run_message(const struct redrive_run *run);
/* Adds the attempt that just failed; without memory the row is left out. */
void run_remember(struct redrive_run *run, int64_t ended_ms, int64_t took_ms,
                  const struct decision *d);
/* Lock held, all of these. */
void run_set_state(struct redrive_run *run, enum redrive_state state);
/* A run looks at the clock once, and again whenever the lock was free in between. */
void run_look_at_clock(struct redrive_run *run);
/* In metrics.c: notes an event of the job; the decision, if there is one, explains it. */
void run_add_event(struct redrive_run *run, enum redrive_event_type type, const struct decision *d);
/* Likewise: calls the monitor with what has been noted; the lock is free meanwhile. */
void run_tell(struct redrive_run *run);

/* Time that counts for total_timeout, and time until the deadline (INT64_MAX: none). */
int64_t run_elapsed_ms(const struct redrive_run *run, int64_t now_ms);
int64_t run_deadline_in_ms(const struct redrive_run *run, int64_t now_ms);

/* ---- Waiting for the next attempt (handler/admit.c) ------------------------------------------ */

enum admission {
    ADMITTED,        /* it has a slot and a permit */
    ADMISSION_WAITS, /* until it is woken, or the time that is returned */
    ADMISSION_OVER,  /* it has ended before what it waited for; the ending is returned */
};

/* Lock held, all of these. Brings the run as far as it comes without waiting. `ending` is
 * cancelled, deadline, or an open breaker that ends jobs. */
enum admission admit(struct redrive_run *run, int64_t *ret_wake_ms, enum ending *ret_ending);
void slot_give_back(struct redrive_run *run);

/* ---- The loop of a job (handler/submit.c) ---------------------------------------------------- */

/* Checks a job before it is accepted. */
int job_check(const struct redrive_handler *h, const struct redrive_job *job,
              struct redrive_err *err);

/* Runs a job from its start to its end. Lock held; given up before the call returns. */
int submit_run(struct redrive_run *run, redrive_fn fn, void *arg, struct redrive_result *ret);

/* What submit_run is made of, for jobs in steps. Lock held, all of these.
 * Accepts the job, or says why not; `options` are those of a step, or NULL: a thread's. */
int run_enter(struct redrive_run *run, const struct redrive_step_options *options,
              struct redrive_err *err);
/* An attempt of an admitted run begins, and ends. The function is called in between, without the
 * lock; what it said is in the run. */
void attempt_begin(struct redrive_run *run);
struct decision attempt_end(struct redrive_run *run, bool failed);
/* It ended before its next attempt. */
struct decision decide_waiting(const struct redrive_run *run, enum ending ending);
/* The job has ended: only the counters and its dead letter remain. */
void run_leave(struct redrive_run *run, struct decision *d);

/* In dlq_retry.c: a job made of a dead letter; the run takes a reference when it is accepted. Lock
 * held. */
void run_init_retry(struct redrive_run *run, struct redrive_handler *h, struct dead_letter *entry);
/* Likewise: the dead letter of that id that can be retried, or NULL, and `err` says why. Lock held.
 */
struct dead_letter *dlq_find_to_retry(struct redrive_handler *h, const char *id,
                                      struct redrive_err *err);

/* Both fill `ret`, unless it is NULL, and return the code. */
int submit_refuse(struct redrive_result *ret, const char *id, const struct redrive_err *err);
int result_fill(struct redrive_result *ret, struct redrive_run *run, const struct decision *d);

/* ---- Dead letters (handler/dead_letter.c, handler/dlq.c, handler/dlq_retry.c) ---------------- */

/* Copies the policy with its rules and lists into one block, which free() frees; contexts of
 * custom strategies stay borrowed. NULL when memory is out. */
struct redrive_policy *policy_copy(const struct redrive_policy *policy);

/* Immutable once it is in the list, but for `link`, `refs` and `away`. */
struct dead_letter {
    struct list link; /* in dlq.entries; linked to itself while it is not there */
    atomic_uint refs;
    bool away; /* is being retried: hidden, but it stays in the map */
    int64_t died_ms;
    int64_t expires_ms; /* NEVER: kept until removed */
    int64_t deadline_ms;
    struct redrive_policy *policy; /* of its own, or NULL */
    struct redrive_dead_letter view;
};

struct dlq {
    struct map by_id;
    struct list entries; /* by seq */
    uint64_t last_seq;
    size_t max;
    int64_t next_expiry_ms; /* no entry expires before this */
    struct redrive_dlq_stats stats;
};

/* Copies what the view points at, and the policy if there is one; NULL when memory is out. The
 * caller has the only reference. */
struct dead_letter *dead_letter_new(const struct redrive_dead_letter *view,
                                    const struct redrive_policy *policy);
/* The dead letter of a run that ended with this decision. */
struct dead_letter *dead_letter_of_run(const struct redrive_run *run, const struct decision *d);

/* With or without the lock. */
void dead_letter_unref(struct dead_letter *entry);

/* Lock held, all of these. */
void dlq_init(struct dlq *dlq, size_t max, uint64_t seed);
void dlq_release(struct dlq *dlq);
/* Takes the reference over, unless it fails; in place of an entry with the same id. */
int dlq_insert(struct dlq *dlq, struct dead_letter *entry, int64_t now_ms);
/* The entry of that id that can be seen, or NULL, and then the code that says why. */
struct dead_letter *dlq_find(struct dlq *dlq, const char *id);
int dlq_why_absent(struct dlq *dlq, const char *id);
/* Hides it while it is retried; puts it back where it was; removes it. */
void dlq_send_away(struct dlq *dlq, struct dead_letter *entry);
void dlq_take_back(struct dlq *dlq, struct dead_letter *entry);
void dlq_drop(struct dlq *dlq, struct dead_letter *entry);
/* Retention. Every function that reads dead letters calls this first. */
void dlq_expire(struct dlq *dlq, int64_t now_ms);
/* The first match behind `after_seq`; the search starts behind `from`, if that is given and still
 * in the list. */
struct dead_letter *dlq_next(struct dlq *dlq, const struct redrive_dlq_filter *filter,
                             uint64_t after_seq, const struct dead_letter *from);

/* ---- The handler (handler/handler.c) --------------------------------------------------------- */

struct redrive_handler {
    pthread_mutex_t lock;
    pthread_cond_t left; /* the last caller has left, or an awaited call of `wake` has returned */
    char *name;
    struct redrive_policy *policy; /* a copy in one block */
    struct redrive_breaker_config breaker;
    struct classifier *classifier;
    uint32_t concurrency;
    redrive_monitor_fn monitor;
    void *monitor_ctx;
    struct redrive_clock clock;
    bool is_virtual;   /* the clock was given */
    int64_t origin_ms; /* when the handler was made: virtual */
    int64_t origin_ns; /* and monotonic */

    atomic_bool stopping;
    uint32_t inside;     /* threads */
    uint32_t waiting;    /* of them in caller_wait and not woken */
    bool leads;          /* one of them is in clock.wait_ms */
    struct list waiters; /* callers in caller_wait */
    struct list to_wake; /* detached callers whose `wake` is to be called */
    struct list wakes;   /* calls of it under way: struct wake_call */

    struct id_gen ids;
    uint64_t seed; /* of breakers */
    uint64_t last_age;
    struct map runs; /* live, by id */
    uint32_t slots_taken;
    struct list queue; /* runs waiting for a slot, in the order of their turn */

    struct map services_by_name;
    struct list services;
    uint32_t n_services;
    uint32_t n_open; /* of their breakers */

    struct dlq dlq;
    struct health_thresholds thresholds;
    struct redrive_metrics counts; /* the counters of it; the rest is computed when asked */
    uint64_t retries_of_ended;
    uint32_t n_in_state[REDRIVE_STATE_COUNT];
    struct health health;
    struct quantile durations;
};

static inline void handler_lock(struct redrive_handler *h)
{
    pthread_mutex_lock(&h->lock);
}

static inline void handler_unlock(struct redrive_handler *h)
{
    if (!list_empty(&h->to_wake))
        handler_make_wakes(h);
    pthread_mutex_unlock(&h->lock);
}

#endif
