/* random_transaction.h - transactions that nobody would think of writing.
 *
 * A transaction is a function of a seed and of what the store has answered so far. Two stores that
 * are given the same seeds and answer alike go through the same life; what they answered is written
 * down as text, in which jobs have their ids and not their seqs.
 */
#ifndef TESTS_STORE_RANDOM_TRANSACTION_H
#define TESTS_STORE_RANDOM_TRANSACTION_H

#include "base/rng.h"
#include "base/text/buf.h"
#include "store/store.h"

#define RANDOM_JOBS 64

/* A job as its submitter knows it. */
struct random_job {
    int64_t seq;
    char tenant[8];
    char id[24];
};

/* One store, and what its user remembers: the latest jobs, some of them gone. */
struct random_side {
    struct store *store;
    struct rng rng;
    int64_t now_ms;
    uint64_t next_token;
    bool looks_ahead;    /* set by the test: commits may look for the next transaction's jobs */
    uint64_t claim_seed; /* of the claim that the last commit was let look for; 0: none */
    unsigned n_ids;
    struct random_job jobs[RANDOM_JOBS]; /* a ring */
    size_t n_jobs;
    struct arena arena;
    struct job_page page;
    struct buf *out;
};

void random_side_init(struct random_side *side, struct store *store, struct buf *out);
void random_side_release(struct random_side *side);

/* Begins, reads by an index at most once, makes up to eight moves, and commits or rolls back. What
 * an index shows after a move is the store's own affair, but for a job that has left it. Empties
 * `out` first. Fails the test when a slot fails as a whole. */
void random_transaction(struct random_side *side, uint64_t seed);

#endif
