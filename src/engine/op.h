/* op.h - an operation: what one caller wants done in a transaction, and where the answer goes.
 *
 * An operation is a struct that starts with a struct op. engine_apply (engine.h) runs many of them
 * in one transaction of the store. It may apply an operation more than once before it counts: a
 * transaction that fails is rolled back, and its operations are tried one by one. So apply() starts
 * from the request each time and does not change it.
 */
#ifndef ENGINE_OP_H
#define ENGINE_OP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem/list.h"
#include "redrive.h"

struct engine;
struct op;

/* Makes the moves of an operation in the open transaction. A refusal is the operation's own answer
 * and goes into op->code and op->err; a negative return means that the transaction is lost. */
typedef int (*op_apply_fn)(struct engine *engine, struct op *op, struct redrive_err *err);

/* How operations of a kind are made together, so that a store behind a network gets one request
 * for all of them. Those that came in one after the other may be made in another order, by `rank`:
 * none of them has been answered yet. An operation without a kind is made alone and in its place.
 */
struct op_kind {
    int rank; /* 0 … OP_RANKS - 1 */
    int (*apply)(struct engine *engine, struct op *const *ops, size_t n, struct redrive_err *err);
    /* Called for each of them once the transaction is committed, before the answer is given. NULL:
     * nothing is left to do. */
    void (*committed)(const struct engine *engine, struct op *op);
};
#define OP_RANKS 4

struct op {
    op_apply_fn apply;
    const struct op_kind *kind; /* NULL: it is made alone */
    size_t weight;              /* about how many jobs it touches */
    bool looks;                 /* it looks for ready jobs */
    bool asks;                  /* it must see all that other processes have put until now; other
                                 * operations may see the state of a moment ago */

    /* The answer. After REDRIVE_E_IO from a commit the outcome is unknown, and the hint says so,
     * unless the store knows that nothing was applied. */
    int code;
    struct redrive_err err;

    /* For the committer. */
    struct list link;
    void (*done)(struct op *op, void *ctx);
    void *done_ctx;

    /* For a mailbox, which delivers the answer on its loop. */
    void (*answered)(struct op *op, void *ctx);
    void *answered_ctx;
};

/* Operations of one transaction, to which others may be added while it waits for its turn. */
struct op_batch {
    struct op **ops;
    size_t n;
    /* Called when a transaction is open: adds the operations that have come since, if there is
     * room. NULL: none are added. */
    void (*gather)(struct op_batch *batch);
    void *ctx;
};

#endif
