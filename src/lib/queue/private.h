/* private.h - the inside of a queue, for the files of this module only.
 *
 *     committer's thread                 threads of slots                   caller of work
 *     claim ───────── job ─────────────► slot ──► the function              heartbeats, stops,
 *     settle ◄─────── outcome ────────── slot ◄── returns                   the worker's row
 *     on_ready ────── wants ───────────► a slot that sleeps claims
 *
 * A handler is a task and its function; a slot is a thread of it, which claims, calls and settles.
 * The settlement of one job and the claim for the next are handed in together and share a
 * transaction: so a slot has two runs that take turns, and may hold two leases while the store is
 * in trouble.
 *
 * Invariants
 *   1. A run that is `held` has a lease, which the heartbeats extend; only its slot begins or ends
 *      that, under the mutex.
 *   2. `wants` of a handler is true unless a claim that was handed in since it was cleared has seen
 *      that there is nothing. The thread that sets it wakes one slot; a claim that brings a job
 *      sets it again, so that slots wake one another and never all at once.
 *   3. Nothing is idle while a slot is busy or a handler wants.
 *   4. The mutex is never held while the store, a function or the log is called.
 */
#ifndef LIB_QUEUE_PRIVATE_H
#define LIB_QUEUE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem/list.h"
#include "base/os/log.h"
#include "config/config.h"
#include "engine/committer.h"
#include "engine/verbs/settle.h"
#include "lib/copies.h"
#include "redrive_queue.h"

/* How long after the end of the grace a settlement is still tried again. */
#define QUEUE_SETTLE_MS 10000

#define QUEUE_NEVER INT64_MAX

struct queue_slot;

/* One run of a job. What is not said to be guarded belongs to the slot's thread. */
struct redrive_task_run {
    struct queue_slot *slot;
    bool is_held;     /* guarded, like seq and token while it is true */
    bool is_settling; /* guarded; it is the settlement's to find out whether the lease is lost */
    int64_t seq;
    uint64_t token;
    atomic_bool is_lost;      /* the lease has another holder, or none */
    atomic_bool is_cancelled; /* the function is to return */

    char *text; /* of the job: what follows points into it */
    const char *id;
    const char *queue;
    const char *tenant;
    const char *payload;
    size_t payload_len;
    uint32_t attempt;
    uint32_t max_attempts;
    int64_t deadline_ms;   /* wall; 0: none */
    int64_t timeout_at_ms; /* monotonic; QUEUE_NEVER: none */

    bool has_failure;
    struct redrive_failure failure;
    char *failure_text;
    char said[FAILURE_SAID_MAX];
    void *result;
    size_t result_len;
    struct outcome outcome;
};

struct queue_slot {
    struct queue_handler *handler;
    pthread_t thread;
    int64_t pause_ms; /* of the latest trouble; 0: none */
    struct redrive_task_run runs[2];
};

struct queue_handler {
    struct queue_handler *next;
    struct redrive_queue *queue;
    redrive_task_fn fn;
    void *arg;
    int64_t timeout_ms;
    redrive_delay_fn delay; /* NULL: the policy's strategy */
    void *delay_ctx;
    const struct config_task *config; /* its lease and heartbeat */
    int64_t next_beat_ms;             /* of the thread that called work */
    bool wants;                       /* guarded */
    pthread_cond_t wake;
    struct queue_slot *slots;
    size_t n_slots;
    char task[];
};

struct redrive_queue {
    struct config *config;
    struct log log;
    redrive_log_fn log_fn;
    void *log_ctx;
    char *worker;
    char *tenant; /* NULL: not said */
    struct committer *committer;
    struct queue_handler *handlers;
    size_t n_slots;

    int wake_fd;                   /* an eventfd: wakes the thread that called work */
    _Atomic int64_t stop_at_ms;    /* monotonic end of the grace; QUEUE_NEVER: no stop */
    atomic_bool is_told;           /* the grace is over */
    _Atomic int64_t give_up_at_ms; /* monotonic; from then on settlements are not tried again */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t pause;
    bool is_working;
    bool until_idle;
    bool is_stopping;
    size_t n_busy;  /* slots that do not sleep */
    size_t n_alive; /* threads */
};

/* ---- For all (queue/queue.c) ----------------------------------------------------------------- */

/* A condition variable that measures by the monotonic clock. */
void queue_cond_init(pthread_cond_t *cond);

/* `ms` from now, or QUEUE_NEVER where that is too far away. Async-signal-safe. */
static inline int64_t queue_after(int64_t now_ms, int64_t ms)
{
    return ms < QUEUE_NEVER - now_ms ? now_ms + ms : QUEUE_NEVER;
}

/* The answer of a function that was given no queue. */
int queue_is_missing(struct redrive_err *err);

/* Wakes the thread that called work. Async-signal-safe. */
void queue_wake(struct redrive_queue *q);

/* There may be ready jobs of this handler. The mutex is held. */
void queue_want(struct queue_handler *h);
/* The same for all. */
void queue_want_all(struct redrive_queue *q);

/* No more claims; sleepers wake up and leave. The mutex is held. */
void queue_begin_stop(struct redrive_queue *q);

/* ---- Slots (queue/slot.c) -------------------------------------------------------------------- */

/* The thread of a slot, which is its argument. */
void *queue_slot_main(void *arg);

/* ---- Runs (queue/run.c) ---------------------------------------------------------------------- */

/* Copies the job of a claim. False when there is no memory; it can be settled all the same. */
bool queue_run_init(struct redrive_task_run *run, struct queue_slot *slot, const struct job *job);
/* Calls the function and sets the outcome. */
void queue_run_call(struct redrive_task_run *run);
void queue_run_release(struct redrive_task_run *run);

#endif
