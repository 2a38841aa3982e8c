/* transfer_private.h - what the files of a transfer share. */
#ifndef ENGINE_TRANSFER_PRIVATE_H
#define ENGINE_TRANSFER_PRIVATE_H

#include "engine/transfer.h"

/* ---- transfer_read.c: jobs with their history -------------------------------------------------
 */

/* A walk over all jobs of a store by seq, a page at a time. Large jobs make small pages. */
struct job_walk {
    struct store *store;
    struct job_page page;
    struct attempt_page histories[TRANSFER_CHUNK_MAX];
    struct adopted_job jobs[TRANSFER_CHUNK_MAX];
    size_t n;
    size_t limit;
    int64_t after_seq;
    uint64_t done; /* jobs so far, with this page */
};

struct job_walk *job_walk_new(struct store *store);
void job_walk_free(struct job_walk *walk);
/* The next page: 1, 0 after the last, or a negative code. */
int job_walk_next(struct job_walk *walk, struct redrive_err *err);

/* One job, by tenant and id. */
struct job_lookup {
    struct job_page page;
    struct attempt_page history;
    struct adopted_job job;
};
/* 1, 0 when there is none, or a negative code. */
int job_lookup(struct job_lookup *lookup, struct store *store, const struct job_spec *spec,
               bool with_history, struct redrive_err *err);
void job_lookup_release(struct job_lookup *lookup);

/* A walk over held keys. */
struct key_walk {
    struct store *store;
    struct held_key_page pages[2]; /* the current one, and the one that its start was in */
    int current;
    size_t i;
    bool started;
};
/* The next key in *ret, valid until the next call: 1, 0 after the last, or a negative code. */
int key_walk_next(struct key_walk *walk, const struct held_key **ret, struct redrive_err *err);
void key_walk_release(struct key_walk *walk);

/* By tenant, then key. */
int held_key_compare(const struct held_key *a, const struct held_key *b);

/* ---- Between the parts ------------------------------------------------------------------------
 */

struct transfer {
    const struct transfer_options *options;
    struct transfer_report *report;
    uint64_t total;    /* jobs of the source */
    bool starts_empty; /* the destination had no job */
    struct buf a, b;   /* contents that are compared */
};

/* transfer_unit.c: makes a unit in a store; again for a while, when others are in the way: `moves`
 * starts from the beginning each time. */
typedef int (*transfer_moves_fn)(void *ctx, struct redrive_err *err);
int transfer_unit(struct store *store, int64_t now_ms, transfer_moves_fn moves, void *ctx,
                  struct redrive_err *err);

/* How many jobs a store counts. */
int transfer_count(struct store *store, uint64_t *ret, struct redrive_err *err);

/* REDRIVE_E_CANCELLED when the caller wants no more. */
int transfer_progress(const struct transfer *t, const char *phase, uint64_t done, uint64_t total,
                      struct redrive_err *err);

/* transfer_check.c: fills in all that the report says of the source, and, unless it is a dry run,
 * of the comparison. */
int transfer_check(struct transfer *t, struct redrive_err *err);

#endif
