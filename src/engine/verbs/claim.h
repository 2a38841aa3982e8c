/* claim.h - ready jobs for a worker.
 *
 * The best ready jobs are looked at in turn. One whose deadline has passed ends; one whose breaker
 * does not let it through, or whose limit is reached, is parked, and uses no attempt; the others
 * start, each under a token and a lease. A job whose lease is over by the time that the commit has
 * been answered is not handed out: it is taken back like that of a worker that died.
 *
 * Claims of one transaction that look for the same are made as one, so that many workers which
 * ask for a job each cost the store little more than one that asks for many; the first to come is
 * served first.
 *
 * A job that has waited for others is given with them, if the claim asks for that:
 * store_ops.parents is called in the transaction of the claim, once for all jobs of a page that
 * have parents, and not at all if none has. When that fails, so does the transaction: the jobs stay
 * in the queue and have used no attempt, and the claim is tried again as after any other failure of
 * the store.
 */
#ifndef ENGINE_VERBS_CLAIM_H
#define ENGINE_VERBS_CLAIM_H

#include "engine/op.h"
#include "store/store.h"

/* Pages of ready jobs that one claim looks at. */
#define CLAIM_ROUNDS 8

/* A page of ready jobs, held by each claim that was given some of them. */
struct claim_page;

/* Over shards: whether there are some that an empty claim knows nothing of. op.err names one. */
enum claim_missed {
    CLAIM_MISSED_NONE,
    CLAIM_MISSED_AWAY, /* one is away, or hangs */
    CLAIM_MISSED_SLOW, /* one is slow, or has failed in another way: it is worth asking again */
};

struct claim_op {
    struct op op;
    struct claim_filter filter; /* strings borrowed; its limit is the number wanted */
    struct str worker;          /* borrowed */
    int64_t lease_ms;           /* 0: as each task says */
    /* How long this job's lease lasts, where jobs say so themselves; set after the init. Called on
     * the engine's thread, reads nothing but the job. NULL, or an answer of 0: as above. */
    int64_t (*lease_of)(const struct job *job);
    bool with_parents; /* jobs are given with their parents; set after the init */

    /* The answer: the jobs as they now are, running. */
    struct job *jobs;
    size_t n;
    bool more; /* there may be further ready ones, or some whose time has come */
    enum claim_missed missed;

    size_t capacity;
    struct claim_page *pages[CLAIM_ROUNDS]; /* hold the strings of the jobs */
    size_t n_pages;
};

void claim_op_init(struct claim_op *op, const struct claim_filter *filter, struct str worker,
                   int64_t lease_ms);
void claim_op_release(struct claim_op *op);

#endif
