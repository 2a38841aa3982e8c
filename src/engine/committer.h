/* committer.h - one thread that owns an engine, and many that hand it operations.
 *
 * The committer takes whatever has gathered while it was busy, runs it as one transaction, and
 * answers all: the price of a commit is shared by everybody who waited for it, and a lone caller
 * waits for nobody. It ticks the engine when that is due, before the operations of that moment, so
 * that a claim sees every job whose time has come; otherwise it sleeps.
 *
 * Operations are handed in by any thread. An operation belongs to the committer until its `done`
 * has been called, or committer_run has returned. `done` is called on the committer's thread and
 * must not wait for it.
 */
#ifndef ENGINE_COMMITTER_H
#define ENGINE_COMMITTER_H

#include "engine/engine.h"
#include "engine/transaction.h"

/* What one transaction takes at most. */
#define COMMITTER_MAX_OPS  512
#define COMMITTER_MAX_JOBS 4096

struct committer_options {
    struct engine *engine; /* owned from committer_start on, also when that fails */
    /* A second handle on the same store, through which changes by other processes are noticed;
     * owned likewise. NULL: nobody else uses the store. */
    struct store *watch;
    /* Called on the committer's thread, after the commit, when jobs may have become ready that no
     * claim has seen. It must not wait. May be NULL. */
    void (*on_ready)(void *ctx);
    void *ready_ctx;
};

struct committer;

int committer_start(const struct committer_options *options, struct committer **ret,
                    struct redrive_err *err);

/* Answers everything that was handed in, ends the threads, closes the engine. What is handed in
 * from then on is answered with REDRIVE_E_STOPPING. Accepts NULL. Nobody may use the committer once
 * this has returned. */
void committer_stop(struct committer *committer);

/* Hands in an operation; op->done(op, op->done_ctx) tells when it has its answer. After a stop has
 * begun it is called at once, on this thread. */
void committer_submit(struct committer *committer, struct op *op);

/* Hands in the operations of a list (by their `link`) at one moment, in their order, and empties
 * it: as many as fit share one transaction. */
void committer_submit_all(struct committer *committer, struct list *ops);

/* Hands in an operation and waits; returns its code, with detail in `err`. */
int committer_run(struct committer *committer, struct op *op, struct redrive_err *err);

/* For submit_op_init and engine_config, which any thread may call. */
const struct engine *committer_engine(const struct committer *committer);

#endif
