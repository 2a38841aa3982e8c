/* private.h - what the files of a transfer share. */
#ifndef ENGINE_COPY_PRIVATE_H
#define ENGINE_COPY_PRIVATE_H

#include "engine/copy/copy.h"

/* ---- copy/read.c: jobs with their history ---------------------------------------------------- */

/* Some jobs with their histories. */
struct job_set {
    struct job_page page;
    struct attempt_page histories[COPY_CHUNK_MAX];
    struct imported_job jobs[COPY_CHUNK_MAX];
    size_t n;
};
/* On the heap, as it is large; NULL without memory. */
struct job_set *job_set_new(void);
void job_set_free(struct job_set *set);
/* Fills a set with what a store has of these jobs, in their order, which are found by their names;
 * those that it has not are left out. */
int job_set_lookup(struct job_set *set, struct store *store, const struct job_set *jobs,
                   struct redrive_err *err);

/* A walk over all jobs of a store by seq, a page at a time. Large jobs make small pages. */
struct job_walk {
    struct store *store;
    struct job_set *set; /* the page */
    size_t limit;
    int64_t after_seq;
    uint64_t done; /* jobs so far, with this page */
};

int job_walk_init(struct job_walk *walk, struct store *store, struct redrive_err *err);
void job_walk_release(struct job_walk *walk);
/* The next page: 1, 0 after the last, or a negative code. */
int job_walk_next(struct job_walk *walk, struct redrive_err *err);

static inline struct job_name job_name_of(const struct job *job)
{
    return (struct job_name){job->spec.tenant, job->spec.id};
}
static inline bool is_same_job(const struct job *a, const struct job *b)
{
    return str_eq(a->spec.id, b->spec.id) && str_eq(a->spec.tenant, b->spec.tenant);
}

/* The row of the same name, or counter, in a page; NULL: there is none. *at is where the last one
 * was found, 0 at first: who asks in the order of the page finds each at once. */
const struct shared_row *copy_find_row(const struct shared_page *page, const struct shared_row *row,
                                       size_t *at);
const struct counter *copy_find_counter(const struct counter_page *page,
                                        const struct counter *counter, size_t *at);

/* A walk over remembered keys. */
struct key_walk {
    struct store *store;
    struct remembered_key_page pages[2]; /* the current one, and the one that its start was in */
    int current;
    size_t i;
    bool started;
};
/* The next key in *ret, valid until the next call: 1, 0 after the last, or a negative code. */
int key_walk_next(struct key_walk *walk, const struct remembered_key **ret,
                  struct redrive_err *err);
void key_walk_release(struct key_walk *walk);

/* By tenant, then key. */
int remembered_key_compare(const struct remembered_key *a, const struct remembered_key *b);

/* What an error says when transactions have been made. */
#define COPY_GOES_ON "what was copied is whole: the same command goes on with the rest"

/* ---- Between the parts ----------------------------------------------------------------------- */

struct transfer {
    const struct copy_options *options;
    struct copy_report *report;
    uint64_t total;    /* jobs of the source */
    bool starts_empty; /* the destination had no job */
    struct buf a, b;   /* contents that are compared */
};

/* copy/transaction.c: makes a transaction in a store; again for a while, when others are in the
 * way: `moves` starts from the beginning each time. */
typedef int (*copy_moves_fn)(void *ctx, struct redrive_err *err);
int copy_transaction(struct store *store, int64_t now_ms, copy_moves_fn moves, void *ctx,
                     struct redrive_err *err);

/* A counter that says what has been moved: no part of the content of a store. */
static inline bool is_mark(const struct counter *counter)
{
    return str_eq(counter->name, STR(COPY_COUNTER));
}

/* How many jobs a store counts. */
int copy_count(struct store *store, uint64_t *ret, struct redrive_err *err);

/* REDRIVE_E_CANCELLED when the caller wants no more. */
int copy_progress(const struct transfer *t, const char *phase, uint64_t done, uint64_t total,
                  struct redrive_err *err);

/* copy/check.c: fills in all that the report says of the source, and, unless it is a dry run,
 * of the comparison. */
int copy_check(struct transfer *t, struct redrive_err *err);

#endif
