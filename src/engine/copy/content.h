/* content.h - what a store holds: read page by page, and in a form that is the same whichever store
 * holds it.
 *
 * A job with its history, a shared row, a counter and a remembered key are each written as a row of
 * named fields: all that a store keeps of them, but for what is the store's own (seqs, versions of
 * rows). Two are the same when these bytes are. A sum over rows does not depend on their order, so
 * that two stores can be compared without holding either in memory.
 */
#ifndef ENGINE_COPY_CONTENT_H
#define ENGINE_COPY_CONTENT_H

#include "base/text/buf.h"
#include "store/store.h"

/* Each empties `out` first; running out of memory sticks there. */
void content_of_job(const struct imported_job *job, struct buf *out);
void content_of_row(const struct shared_row *row, struct buf *out);
void content_of_counter(const struct counter *counter, struct buf *out);
void content_of_key(const struct remembered_key *key, struct buf *out);

/* The name of the first field in which two contents of a kind differ; "" when they are the same. It
 * is a slice of `a`. */
struct str content_difference(struct str a, struct str b);

/* The sum of the first half of the SHA-256 of each row. Zeroed: of none. */
struct content_sum {
    uint64_t high;
    uint64_t low;
    uint64_t rows;
};

void content_add(struct content_sum *sum, struct str content);
void content_add_sum(struct content_sum *sum, const struct content_sum *other);
bool content_same(const struct content_sum *a, const struct content_sum *b);

#define CONTENT_TEXT_MAX 33
const char *content_text(const struct content_sum *sum, char out[CONTENT_TEXT_MAX]);

/* ---- Reading --------------------------------------------------------------------------------- */

/* The most jobs in a page, and in a transaction of a copy. */
#define COPY_CHUNK_MAX 500

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
 * was found, 0 at first: asked in the order of the page, each is found at once. */
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

#endif
