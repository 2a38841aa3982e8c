/* committer.h - one thread that owns an engine, and many that hand it operations.
 *
 * Where a store is spread over shards there is one of each for every shard, behind one committer
 * (shards/router.h).
 *
 * The committer takes whatever has gathered while it was busy, runs it as one transaction, and
 * answers all: the cost of a commit is shared by all callers that waited for it, and a single
 * caller does not wait for others. It ticks the engine when that is due, before the operations of
 * that moment, so that a claim sees every job whose time has come; otherwise it sleeps.
 *
 * Operations are handed in by any thread. An operation belongs to the committer until its `done`
 * has been called, or committer_run has returned. `done` is called on the committer's thread and
 * must not wait for it.
 */
#ifndef ENGINE_COMMITTER_H
#define ENGINE_COMMITTER_H

#include "engine/engine.h"
#include "engine/op.h"

/* What one transaction takes at most. */
#define COMMITTER_MAX_OPS  512
#define COMMITTER_MAX_JOBS 4096

struct committer_options {
    struct engine *engine; /* owned from committer_start on, also when that fails */
    /* A second handle on the same store, through which changes by other processes are noticed;
     * owned likewise. NULL: no other process uses the store. */
    struct store *watch;
    /* Called on the committer's thread, after the commit, when jobs may have become ready that no
     * claim has seen. It must not wait. May be NULL. */
    void (*on_ready)(void *ctx);
    void *ready_ctx;
    /* It does what is handed in, and nothing by itself: time is left to other processes. */
    bool no_ticks;
};

struct committer;

int committer_start(const struct committer_options *options, struct committer **ret,
                    struct redrive_err *err);

/* Answers everything that was handed in, ends the threads, closes the engine. What is handed in
 * from then on is answered with REDRIVE_E_STOPPING. Accepts NULL. The committer must not be used
 * once this has returned. */
void committer_stop(struct committer *committer);

/* Hands in an operation; op->done(op, op->done_ctx) tells when it has its answer. After a stop has
 * begun it is called at once, on this thread. */
void committer_submit(struct committer *committer, struct op *op);

/* Hands in the operations of a list (by their `link`) at one moment, in their order, and empties
 * it: as many as fit share one transaction. */
void committer_submit_all(struct committer *committer, struct list *ops);

/* The same, with one more operation at the end, whose answer it waits for. */
void committer_run_with(struct committer *committer, struct list *ops, struct op *op);

/* Hands in an operation and waits; returns its code, with detail in `err`. */
int committer_run(struct committer *committer, struct op *op, struct redrive_err *err);

/* For submit_op_init, engine_config and engine_now_ms, which any thread may call. */
const struct engine *committer_engine(const struct committer *committer);
/* How the store is doing, or all of its shards together. Any thread. */
struct store_status *committer_store_status(const struct committer *committer);
/* How many shards the store is spread over; 1: it is not. */
size_t committer_n_shards(const struct committer *committer);
/* On which of them a job is, by its number: 0 if there is one. */
size_t committer_shard_of(const struct committer *committer, int64_t seq);

/* ---- Waiting for more operations ------------------------------------------------------------- */

/* Whether the next transaction waits a moment for operations that are about to come.
 *
 * Where a transaction takes a millisecond because of a network or a disk, its cost hardly depends
 * on how much is in it. Callers that have just been answered often come back at once: a worker
 * whose jobs are short settles them and claims the next ones. If the transaction that is due does
 * not wait for them, callers fall into two groups that take turns, and each sees two transactions
 * for every one of its own.
 *
 * So the committer learns how many of the callers that were answered come back soon. It waits for
 * that many, until a small part of the time that the last transaction took has passed since its
 * answers. If none come back, it does not wait; now and then it tries again. Pure: times and counts
 * are arguments.
 */
struct batch_wait {
    size_t n_left;     /* operations that waited already when the last ones were answered */
    size_t n_answered; /* by the last transaction */
    size_t n_back;     /* how many of the answered callers have come back soon, lately */
    int64_t until_us;  /* later than this they are not waited for; 0: the store is near */
    uint32_t n_asked;
};

/* A transaction that has taken so long has ended; its operations are about to be answered. */
void batch_wait_answered(struct batch_wait *wait, size_t n_left, size_t n_answered, int64_t took_us,
                         int64_t now_us);

/* How many waiting operations are enough for the next transaction, which may wait for them until
 * `until_us`; 0: it begins at once. */
size_t batch_wait_enough(struct batch_wait *wait, int64_t now_us);

/* The wait is over, and so many operations have gathered. */
void batch_wait_learn(struct batch_wait *wait, size_t n_waiting);

#endif
