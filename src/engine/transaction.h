/* transaction.h - operations, and how many of them become one transaction of the store.
 *
 * An operation is a struct that starts with a struct op: what to do, and where the answer goes. It
 * may be applied more than once before it counts, because a transaction that fails is rolled back
 * and its operations are tried one by one; so apply() starts from the request each time and leaves
 * what it was given alone.
 */
#ifndef ENGINE_TRANSACTION_H
#define ENGINE_TRANSACTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem/list.h"
#include "redrive.h"

struct engine;
struct op;

/* Makes the moves of an operation in the open transaction. A refusal is the operation's own answer
 * and goes into op->code and op->err; a negative return means that the transaction is lost. */
typedef int (*op_apply_fn)(struct engine *engine, struct op *op, struct redrive_err *err);

/* How operations of a kind are made together, so that a store on the other side of a network is
 * asked once and not once for each. Those that came in one after the other may be made in another
 * order, by `rank`: none of them has been answered yet. An operation without this is made alone and
 * in its place. */
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
    bool asks;                  /* it must see what other processes have put until now, though a
                                 * transaction may go by what was so a moment ago */

    /* The answer. After REDRIVE_E_IO from a commit it may or may not have happened, and the hint
     * says so, unless the store knows that it has not. */
    int code;
    struct redrive_err err;

    /* For the committer. */
    struct list link;
    void (*done)(struct op *op, void *ctx);
    void *done_ctx;
};

/* Runs all of them in one transaction and returns when every one has its answer. An operation that
 * makes the store fail fails alone. */
void engine_apply(struct engine *engine, struct op **ops, size_t n);

/* Operations of one transaction, to which others may be added while it waits for its turn. */
struct op_batch {
    struct op **ops;
    size_t n;
    /* Called when a transaction is open: adds what has come since, if there is room. NULL: nothing.
     */
    void (*gather)(struct op_batch *batch);
    void *ctx;
};
/* The same; all that are in the batch at the end have their answers. */
void engine_apply_batch(struct engine *engine, struct op_batch *batch);

/* The same for one; returns its code, with detail in `err`. */
int engine_apply_one(struct engine *engine, struct op *op, struct redrive_err *err);

#endif
