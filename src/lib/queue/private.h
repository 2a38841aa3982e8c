/* private.h - the inside of a queue, for the files of this module only.
 *
 *     committer's thread               threads of slots                     caller of work
 *     claim ────── jobs ──► claimed ──► slot ──► the function               heartbeats, stops,
 *     settle ◄──── turn ◄── ended ◄──── slot ◄── returns                    the worker's row,
 *     on_ready ─── wants ─► a slot that sleeps takes a turn                 gives back what waits
 *
 * A handler is a task and its function; a slot is a thread of it. A slot that finds a claimed job
 * runs it. One that finds none takes a turn: it settles all runs that have ended and claims jobs
 * for the slots that are free, in one transaction. It waits for the claim only. Each shard has a
 * settlement of its own, so that one that hangs keeps its own runs waiting and no others; what one
 * that is away does not settle is tried again later. One turn of a handler is under way at a time.
 * While jobs are short, a turn claims more than there are free slots (engine/worker/claim_pace.h).
 *
 * Invariants
 *   1. A run that is `held` has a lease, which the heartbeats extend; the thread that has taken the
 *      run off a list begins or ends that, under the mutex.
 *   2. A run is in one of the lists `unused`, `claimed`, `ended` and `later`, or has one owner: the
 *      slot that runs it, the one that takes the turn, or a settlement that is under way.
 *   3. `wants` of a handler is true unless a claim that was handed in since it was cleared has seen
 *      that there is nothing.
 *   4. A slot that takes a job or a turn while there is more to do wakes another, so that slots
 * wake one another and never all at once.
 *   5. While a failure is not settled no other job of its shard starts in the handler: it may open
 *      the breaker, and then the claimed jobs are given back. A failure whose shard is away, or
 *      that the store has not taken twice, is not waited for.
 *   6. Nothing is idle while a slot is busy or a handler wants.
 *   7. The thread that called work never waits for the store: a shard that hangs must not keep the
 *      heartbeats of the others waiting.
 *   8. The mutex is never held while the store, a function or the log is called.
 */
#ifndef LIB_QUEUE_PRIVATE_H
#define LIB_QUEUE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/mem/list.h"
#include "base/os/log.h"
#include "config/config.h"
#include "engine/committer.h"
#include "engine/report/worker_row.h"
#include "engine/verbs/settle.h"
#include "engine/worker/claim_pace.h"
#include "engine/worker/renewal.h"
#include "lib/copies.h"
#include "redrive_queue.h"
#include "store/shards/shards.h"

/* How long after the end of the grace a settlement is still tried again. */
#define QUEUE_SETTLE_MS 10000

/* Claimed jobs that no slot has taken for so long are given back: their wait was to be short. */
#define QUEUE_CLAIMED_MS 100

/* The longest wait before a settlement is tried again. */
#define QUEUE_LATER_MS 1000

#define QUEUE_NEVER INT64_MAX

struct queue_handler;

/* One run of a job. What is not said to be guarded belongs to the thread that has the run. */
struct redrive_task_run {
    struct list link; /* guarded: of a list of its handler, or of a settlement */
    struct queue_handler *handler;
    bool is_held;     /* guarded, like seq and token while it is true */
    bool is_settling; /* guarded; it is the settlement's to find out whether the lease is lost */
    bool is_running;  /* guarded: its function is called */
    bool is_repeated; /* an earlier attempt of the job may still run here */
    struct held_lease lease; /* guarded */
    int64_t seq;
    uint64_t token;
    size_t shard;             /* of its job */
    atomic_bool is_lost;      /* the lease has another holder, or none */
    atomic_bool is_late;      /* the lease was over by this worker's clock while it ran */
    atomic_bool is_cancelled; /* the function is to return */

    char *text; /* of the job: what follows points into it */
    const char *id;
    const char *queue;
    const char *tenant;
    const char *payload;
    size_t payload_len;
    struct redrive_parent *parents; /* NULL: it has waited for none */
    size_t n_parents;
    int64_t claimed_ms; /* monotonic */
    int64_t waited_ms;  /* before it was called */
    int64_t late_ms;    /* monotonic: when the store first did not take its outcome; 0: it did */
    bool is_doubtful;   /* guarded: it has failed, and perhaps its breaker opens */
    uint32_t attempt;
    uint32_t max_attempts;
    bool has_trace;
    char traceparent[TRACEPARENT_LEN + 1];
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
    struct extend_op beat;            /* like what follows, of the heartbeat that is under way */
    struct extension *extensions;
    struct redrive_task_run **extended; /* at the same index */
    struct queue_slot *slots;
    size_t n_slots;

    /* What follows is guarded. */
    bool wants;
    bool misses_shard; /* the last claim has passed over a shard that is away */
    bool is_waking;    /* a slot that was woken has not run yet */
    struct renewal renewal;
    int64_t look_at_ms; /* monotonic: when the leases are looked at again */
    size_t n_asleep;
    pthread_cond_t wake;
    bool may_claim_ahead;
    struct claim_pace pace;
    struct list unused;  /* runs without a job */
    struct list claimed; /* runs that no slot has taken, the first to come first */
    size_t n_claimed;
    int64_t claimed_at_ms; /* monotonic: when the latest of them came */
    struct list ended;     /* runs that are to be settled */
    bool has_failed;       /* one of these has failed: it is settled at once */
    size_t n_running;      /* functions that are called */
    size_t n_held;         /* runs that have a job */
    struct list later;     /* runs that the store did not take when they were to be settled */
    int64_t later_at_ms;   /* monotonic: when they are tried again */
    /* By shard: runs that have failed and are not settled. */
    size_t n_doubtful[SHARDS_MAX];

    bool in_turn;           /* guarded; what follows belongs to the thread that takes the turn */
    int64_t pause_ms;       /* of the latest trouble; 0: none */
    int64_t claim_again_ms; /* monotonic, guarded: no claim before; 0: at once */
    struct list room;       /* unused runs that the claim may fill */

    size_t n_runs;
    struct redrive_task_run *runs; /* all of them */
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
    bool is_working;
    bool until_idle;
    bool is_stopping;
    bool is_watching;   /* the thread that called work looks at claimed jobs from time to time */
    size_t n_busy;      /* slots that do not sleep */
    size_t n_alive;     /* threads */
    size_t n_under_way; /* operations that have no answer yet, and that no thread waits for */
    bool is_telling;    /* the worker's row is one of them */
    struct worker_op row;
    struct redrive_err missed; /* of a shard that a claim has passed over */
};

/* ---- For all (queue/queue.c) ----------------------------------------------------------------- */

/* `ms` from now, or QUEUE_NEVER where that is too far away. Async-signal-safe. */
static inline int64_t queue_after(int64_t now_ms, int64_t ms)
{
    return ms < QUEUE_NEVER - now_ms ? now_ms + ms : QUEUE_NEVER;
}

/* The answer of a function that was given no queue. */
int queue_is_missing(struct redrive_err *err);

/* Wakes the thread that called work. Async-signal-safe. */
void queue_wake(struct redrive_queue *q);

/* Hands in an operation that no thread waits for: `done` calls queue_answered in the end. The
 * answer may come before this returns. The mutex is not held. */
void queue_submit(struct redrive_queue *q, struct op *op, void (*done)(struct op *op, void *ctx),
                  void *ctx);
/* The mutex is held. */
void queue_answered(struct redrive_queue *q);

/* There may be ready jobs, of all handlers. The mutex is held. */
void queue_want_all(struct redrive_queue *q);
/* Wakes a slot that sleeps, unless one is waking up. The mutex is held. */
void queue_wake_slot(struct queue_handler *h);
/* The thread that called work is to see that claimed jobs do not wait for long. The mutex is held.
 */
void queue_watch(struct redrive_queue *q);

/* Claimed jobs that have not started, but for the first `n_left`, are to be settled as released,
 * which costs no attempt. The mutex is held. */
void queue_give_back(struct queue_handler *h, size_t n_left);

/* No more claims; sleepers wake up and leave. The mutex is held. */
void queue_begin_stop(struct redrive_queue *q);

/* ---- Leases (queue/lease.c) ------------------------------------------------------------------ */

/* Extends the leases that are due, and tells runs whose lease is over. When it wants to look
 * again. */
int64_t queue_look_at_leases(struct redrive_queue *q, int64_t now_ms);
/* A lease was given: it is extended in time. The mutex is held. */
void queue_watch_lease(struct queue_handler *h, const struct held_lease *lease, int64_t now_ms);

/* ---- Turns (queue/turn.c) -------------------------------------------------------------------- */

/* Whether a turn is to be taken now. The mutex is held. */
bool queue_turn_is_due(const struct queue_handler *h);

/* Hands in what has ended, and does not wait for the answer. The mutex is held before and after. */
void queue_settle(struct queue_handler *h);

/* The same and, unless the queue is stopping, claims for the free slots, and waits for the jobs.
 * The mutex is held before and after, and there is no other turn of this handler. */
void queue_take_turn(struct queue_handler *h);

/* ---- Runs (queue/run.c) ---------------------------------------------------------------------- */

/* Copies the job of a claim. False when there is no memory; it can be settled all the same. */
bool queue_run_init(struct redrive_task_run *run, const struct job *job);
/* Calls the function and sets the outcome. Whether it has succeeded. */
bool queue_run_call(struct redrive_task_run *run);
void queue_run_release(struct redrive_task_run *run);

#endif
