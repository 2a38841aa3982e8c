/* committer.h - one thread that owns an engine, and many that hand it operations.
 *
 * Where a store is spread over shards there is one of each for every shard, behind one committer
 * (shards/router.h).
 *
 * The committer takes whatever has gathered while it was busy, runs it as one transaction, and
 * answers all: the cost of a commit is shared by all callers that waited for it, and a single
 * caller does not wait for others. It ticks the engine when that is due, before the operations of
 * that moment, so that a claim sees every job whose time has come; otherwise it sleeps. An
 * operation that has to wait for a lock which another transaction holds is set aside
 * (waits/aside.h): it is tried again by itself, and the others are answered meanwhile.
 *
 * Operations are handed in by any thread. An operation belongs to the committer until its `done`
 * has been called, or committer_run has returned. `done` is called on the committer's thread and
 * must not wait for it.
 */
#ifndef ENGINE_COMMITTER_H
#define ENGINE_COMMITTER_H

#include "engine/engine.h"
#include "engine/op.h"

/* What one transaction takes at most; one operation is taken whatever it has. Bytes are of payloads
 * and results, which a store may copy several times on their way. */
#define COMMITTER_MAX_OPS   512
#define COMMITTER_MAX_JOBS  4096
#define COMMITTER_MAX_BYTES ((size_t)8 << 20)

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

#endif
