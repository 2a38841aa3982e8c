/* load.h - batches of records into a store.
 *
 * A batch is a transaction, whole or not at all: a copy that is interrupted, however hard, has lost
 * nothing, and the next one goes on. Nothing in the store is ever overwritten, except shared rows
 * of one that holds no job yet.
 *
 * What makes a repetition harmless
 *   - jobs and keys are known by their names, and refused by the store the second time
 *   - rows that are the same are not put again
 *   - counters are added once: a counter named COPY_COUNTER, with the source as its label (a mark),
 *     moves in the same transaction. Of a source that gives the same records in the same order each
 *     time, an export, it is how many records were taken, and the next run starts there
 */
#ifndef ENGINE_COPY_LOAD_H
#define ENGINE_COPY_LOAD_H

#include "engine/copy/record.h"
#include "store/store.h"

struct load {
    /* Set by the caller. */
    struct store *store;
    struct str name;    /* of the source, the same each time; no secrets in it */
    int64_t now_ms;     /* for a store that has no clock */
    bool has_own_jobs;  /* the store may have jobs that the source has not */
    bool keeps_rows;    /* the store is in use: rows of it stay as they are */
    bool adds_counters; /* to those of the store; else they grow up to the source's */
    bool counts;        /* the mark is how many records were taken; else 1 after the counters */

    uint64_t copied; /* jobs that were added */
};

/* A record_take_fn, with a struct load. */
int load_take(void *ctx, const struct record_batch *batch, struct redrive_err *err);

/* Why the store has refused jobs of a batch. */
struct load_refusals {
    int codes[BATCH_MAX]; /* of each job; 0: it was added. REDRIVE_E_NOT_FOUND: it was added, but
                           * waits for one that is not there */
    bool has_orphans;     /* there are such jobs: the transaction must not be committed */
    struct redrive_err orphan; /* the first of them */
};

/* The same within a transaction of the caller's. Jobs that were added are not counted. One that
 * waits for a job which is not there is no error if `ret` is not NULL, so that the caller can try
 * without it. */
int load_in(const struct load *load, const struct record_batch *batch, struct load_refusals *ret,
            struct redrive_err *err);

/* In load_edges.c: the edges of a job that was imported in this transaction. Parents come before
 * their children, and have their states of here: one that has ended meanwhile, or that was there
 * before, decides the edge as it does in the engine (engine/verbs/after.h). */
int load_edges(const struct load *load, const struct imported_job *imported,
               struct redrive_err *err);

/* The mark of a source in a store; 0: there is none. */
int load_mark(struct store *store, struct str name, int64_t *ret, struct redrive_err *err);

/* What an error says when transactions have been made. */
#define LOAD_GOES_ON "what was copied is whole: the same command goes on with the rest"

/* Makes a transaction in a store; again for a while when it conflicts with another process: `moves`
 * starts from the beginning each time. */
typedef int (*load_moves_fn)(void *ctx, struct redrive_err *err);
int load_transaction(struct store *store, int64_t now_ms, load_moves_fn moves, void *ctx,
                     struct redrive_err *err);

/* The row of the same name, or counter, in a page; NULL: there is none. *at is where the last one
 * was found, 0 at first: asked in the order of the page, each is found at once. */
const struct shared_row *load_find_row(const struct shared_page *page, const struct shared_row *row,
                                       size_t *at);
const struct counter *load_find_counter(const struct counter_page *page,
                                        const struct counter *counter, size_t *at);

#endif
