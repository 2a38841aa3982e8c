/* source.h - everything that a store holds, read page by page.
 *
 * A store that can be read as of one moment is: source_freeze before, source_thaw after. In others
 * each job is as it was when its page was read, and what changes meanwhile may be missing from one
 * part and be in another.
 */
#ifndef ENGINE_COPY_SOURCE_H
#define ENGINE_COPY_SOURCE_H

#include "engine/copy/record.h"
#include "store/store.h"

struct source {
    struct store *store;
    struct str tenant; /* absent: all */
    /* Called after each page of jobs, if not NULL, with how many were given. A negative code ends
     * it. */
    int (*progress)(void *ctx, uint64_t done, struct redrive_err *err);
    void *progress_ctx;
};

/* Gives everything, in the order of record_take_fn. A batch of counters and one of marks are given
 * even if there are none. Rows of workers are left out. REDRIVE_E_CORRUPT: a job is damaged. */
int source_give(const struct source *source, record_take_fn take, void *ctx,
                struct redrive_err *err);

/* Until source_thaw, reads of the store show one moment, if they can; no transaction may begin. */
int source_freeze(struct store *store, bool *ret_is_snapshot, struct redrive_err *err);
void source_thaw(struct store *store);

/* How many jobs a store counts. */
int source_count(struct store *store, struct str tenant, uint64_t *ret, struct redrive_err *err);

/* ---- Parts, for comparing -------------------------------------------------------------------- */

/* Some jobs with their histories. */
struct job_set {
    struct job_page page;
    struct attempt_page histories[BATCH_MAX];
    struct imported_job jobs[BATCH_MAX];
    struct arena edges; /* of the jobs */
    size_t n;
};
/* On the heap, as it is large; NULL without memory. */
struct job_set *job_set_new(void);
void job_set_free(struct job_set *set);
/* Fills a set with what a store has of these jobs, in their order, which are found by their names;
 * those that it has not are left out. */
int job_set_lookup(struct job_set *set, struct store *store, const struct imported_job *jobs,
                   size_t n, struct redrive_err *err);

static inline struct job_name job_name_of(const struct job *job)
{
    return (struct job_name){job->spec.tenant, job->spec.id};
}
static inline bool is_same_job(const struct job *a, const struct job *b)
{
    return str_eq(a->spec.id, b->spec.id) && str_eq(a->spec.tenant, b->spec.tenant);
}

/* A walk over remembered keys. */
struct key_walk {
    struct store *store;
    struct str tenant;                   /* absent: all */
    struct remembered_key_page pages[2]; /* the current one, and the one that its start was in */
    int current;
    size_t i;
    bool started;
};
void key_walk_init(struct key_walk *walk, struct store *store, struct str tenant);
/* The next key in *ret, valid until the next call: 1, 0 after the last, or a negative code. */
int key_walk_next(struct key_walk *walk, const struct remembered_key **ret,
                  struct redrive_err *err);
/* The same for all that are left of a page, as a batch. */
int key_walk_batch(struct key_walk *walk, struct record_batch *ret, struct redrive_err *err);
void key_walk_release(struct key_walk *walk);

#endif
