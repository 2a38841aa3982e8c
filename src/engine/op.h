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
#include <stdint.h>

#include "base/mem/list.h"
#include "base/text/str.h"
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

/* Where operations of a kind go if the store is spread over shards (shards/router.h). An operation
 * names jobs by numbers that name their shard as well; engines know those of their own shard. */
struct op_route {
    enum {
        ROUTE_TENANT, /* to the shard of the tenant at `tenant_at`, or of the default tenant */
        ROUTE_ITEMS,  /* each item to the shard of its job */
        ROUTE_EVERY,  /* to every shard, one after the other; the first failure is the answer */
        ROUTE_ANY,    /* to one shard after the other, until one has taken it */
        ROUTE_TASKS,  /* to every shard; to one that is away when it is back, unless all are */
        ROUTE_FENCE,  /* answered when all that was handed in before has been answered */
        ROUTE_SUBMIT,
        ROUTE_CLAIM,
        ROUTE_BULK,
        ROUTE_RELOAD,
    } to;
    bool settles; /* it ends or keeps what runs: also while a tenant is moved (shards/fence.h) */
    size_t tenant_at; /* of a struct str in the operation's struct; 0: there is none */

    /* ROUTE_ITEMS: places in the operation's struct, whose size it is, and in an item. */
    size_t size;
    size_t items_at; /* of a pointer to the items */
    size_t n_at;     /* of their number */
    size_t item_size;
    size_t item_tenant_at;
    size_t item_seq_at; /* of the job's number; NO_PLACE: it is named by tenant and id */
    size_t item_ret_at; /* of a struct move_result; NO_PLACE: it has none */
};
#define NO_PLACE SIZE_MAX

struct op {
    op_apply_fn apply;
    const struct op_kind *kind;   /* NULL: it is made alone */
    const struct op_route *route; /* NULL: it is refused if there are shards */
    size_t weight;                /* about how many jobs it touches */
    size_t bytes;                 /* of the payloads and results that it writes, at most */
    bool looks;                   /* it looks for ready jobs */
    bool by_item;                 /* the caller looks at the code of each item: of a list of items
                                   * whose shards fail in part, only the items of these fail */
    bool goes_alone;              /* with by_item: its items borrow nothing, so that a shard which
                                   * is late is not waited for; its items are REDRIVE_E_IO */
    bool asks;                    /* it must see all that other processes have put until now; other
                                   * operations may see the state of a moment ago */

    /* The answer. After REDRIVE_E_IO from a commit the outcome is unknown, and the hint says so,
     * unless the store knows that nothing was applied. */
    int code;
    struct redrive_err err;
    uint32_t moved_to; /* with a failure: the shard that a tenant of it is on by now, from 1; 0: no
                        * tenant has moved */
    struct str moved;  /* that tenant, in the operation's memory */

    /* For the committer. */
    struct list link;
    uint64_t lock;      /* operations with the same number need the same id or unique key, and wait
                         * for the same lock if there is one; 0: not known */
    bool is_suspect;    /* it was being applied when the transaction failed */
    bool is_blocked;    /* it has to wait for a lock, `err` says why, and it has no answer yet */
    int64_t aside_ms;   /* since when it is set aside (waits/aside.h); 0: it never was */
    struct list behind; /* operations that wait for its answer */
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
    bool sets_aside; /* an operation that has to wait for a lock is not answered, but is_blocked */
};

#endif
