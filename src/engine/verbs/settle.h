/* settle.h - how runs ended, and leases while they last.
 *
 * Only the holder of the lease's token can settle a job. A lease that has run out is found by a
 * tick (rescue_lost in clock/tick.c), which takes the job and its token back: a settlement that
 * comes after that is refused with REDRIVE_E_STATE and changes nothing. One that comes before it
 * counts, even if the lease has run out. An interface whose protocol has no tokens names the worker
 * instead, and the token is that of the lease which this worker now holds. decide() says what
 * becomes of the job; its breaker, its limit and the counters change in the same transaction.
 */
#ifndef ENGINE_VERBS_SETTLE_H
#define ENGINE_VERBS_SETTLE_H

#include "core/decide.h"
#include "engine/op.h"
#include "store/store.h"

struct settlement {
    struct str tenant;
    struct str id;          /* with seq 0 */
    int64_t seq;            /* the job's number, if it is known */
    uint64_t token;         /* of the lease */
    struct str worker;      /* with token 0: the lease that this worker holds, if it does */
    struct outcome outcome; /* strings borrowed */
    struct str result;      /* kept if it was a success; absent: none */
    int64_t waited_ms; /* between its claim and its run, at the worker: no part of the run's time */

    /* The answer. */
    struct move_result ret;
    struct decision decision; /* when ret.code is 0 */
    int64_t again_ms;         /* with a delay: before this time it does not start again */
    bool is_shut; /* it has failed, and its breaker is open: no other job of it is to start */
};

struct settle_op {
    struct op op;
    struct settlement *items; /* borrowed */
    size_t n;
};
/* The items are complete. */
void settle_op_init(struct settle_op *op, struct settlement *items, size_t n);

/* A heartbeat: the lease lasts for so long from now, at most DURATION_MAX_MS. By number, or by
 * tenant and id: then the job's row is read, so that a lease of 0 can mean "as its task says"; it
 * is replaced by that. */
struct extension {
    struct str tenant;
    struct str id; /* with seq 0 */
    int64_t seq;
    uint64_t token;
    int64_t lease_ms;
    struct move_result ret;
};
struct extend_op {
    struct op op;
    struct extension *items; /* borrowed */
    size_t n;
};
void extend_op_init(struct extend_op *op, struct extension *items, size_t n);

/* Whether leases that were handed out are still held. A job that was claimed in this process may be
 * settled, extended or taken back by another one, which does not tell this one: the store is asked.
 */
struct lease {
    struct job_name job;
    uint64_t token;
    int64_t until_ms; /* the answer: when it ends; 0: it is not held any more */
};

struct leases_op {
    struct op op;
    struct lease *leases; /* borrowed */
    size_t n;
};

/* Up to STORE_PAGE_MAX of them. Nothing is changed. */
void leases_op_init(struct leases_op *op, struct lease *leases, size_t n);

/* ---- Within the engine ----------------------------------------------------------------------- */

/* Settlements that the store hears of together. */
#define SETTLE_TOGETHER_MAX 128
struct settle_batch {
    struct settle_move moves[SETTLE_TOGETHER_MAX];
    struct {
        struct settlement *s;
        const struct job *job;
    } items[SETTLE_TOGETHER_MAX];
    size_t n;
};

/* Adds the settlement of a running job whose row is known; job and settlement stay until the batch
 * is flushed, which happens here when it is full. */
int settle_batch_add(struct engine *e, struct settle_batch *batch, const struct job *job,
                     struct settlement *s, struct redrive_err *err);
/* Makes them all and empties the batch, also when it fails. A refusal goes into s->ret. */
int settle_batch_flush(struct engine *e, struct settle_batch *batch, struct redrive_err *err);

/* A job has left running as the decision says, after so long a run: its breaker and its retry
 * budget are told how, its limit has room again. */
int settle_gates(struct engine *e, const struct job *job, const struct decision *decision,
                 int64_t run_ms, struct redrive_err *err);

#endif
