#include <stdlib.h>

#include "base/err.h"
#include "engine/copy/private.h"

/* Pages grow and shrink so that about this much is in memory. */
#define PAGE_BYTES   ((size_t)8 << 20)
#define FIRST_PAGE   64
#define KEYS_AT_ONCE 500

struct job_set *job_set_new(void)
{
    return calloc(1, sizeof(struct job_set));
}

void job_set_free(struct job_set *set)
{
    if (!set)
        return;
    attempt_pages_release(set->histories, set->n);
    job_page_release(&set->page);
    free(set);
}

/* Reads the histories of the page's jobs, which are then the set. */
static int complete(struct job_set *set, struct store *store, struct redrive_err *err)
{
    int64_t seqs[COPY_CHUNK_MAX];
    attempt_pages_release(set->histories, set->n);
    set->n = set->page.n;
    for (size_t i = 0; i < set->n; i++)
        seqs[i] = set->page.jobs[i].status.seq;
    int rc = store_ops(store)->history(store, seqs, set->n, set->histories, err);
    for (size_t i = 0; rc == 0 && i < set->n; i++)
        set->jobs[i] = (struct imported_job){&set->page.jobs[i], set->histories[i].attempts,
                                             set->histories[i].n};
    return rc;
}

int job_set_lookup(struct job_set *set, struct store *store, const struct job_set *jobs,
                   struct redrive_err *err)
{
    struct job_name names[COPY_CHUNK_MAX];
    for (size_t i = 0; i < jobs->n; i++)
        names[i] = job_name_of(jobs->jobs[i].job);
    int rc = store_ops(store)->lookup(store, names, jobs->n, &set->page, err);
    return rc < 0 ? rc : complete(set, store, err);
}

int job_walk_init(struct job_walk *walk, struct store *store, struct redrive_err *err)
{
    *walk = (struct job_walk){.store = store, .set = job_set_new(), .limit = FIRST_PAGE};
    return walk->set ? 0 : err_nomem(err);
}

void job_walk_release(struct job_walk *walk)
{
    job_set_free(walk->set);
}

static size_t bytes_of(const struct imported_job *imported)
{
    const struct job *job = imported->job;
    size_t bytes = sizeof *job + job->spec.payload.len + job->status.result.len;
    for (size_t i = 0; i < imported->n_attempts; i++) {
        const struct job_error *error = &imported->attempts[i].error;
        bytes += sizeof(struct job_attempt) + error->message.len + error->stacktrace.len;
    }
    return bytes;
}

/* In another store it would be taken for what was submitted. */
static int refuse_damaged(const struct job *job, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_CORRUPT, "job '%.*s' is damaged", (int)job->spec.id.len,
            job->spec.id.ptr);
    err_hint(err, "`redrive doctor` lists damaged jobs; edit their payloads or remove them");
    return REDRIVE_E_CORRUPT;
}

int job_walk_next(struct job_walk *walk, struct redrive_err *err)
{
    const struct job_filter filter = {.after_seq = walk->after_seq, .limit = walk->limit};
    struct job_set *set = walk->set;
    size_t bytes = 0;
    int rc = store_ops(walk->store)->list(walk->store, &filter, &set->page, err);
    if (rc == 0)
        rc = complete(set, walk->store, err);
    for (size_t i = 0; i < set->page.n && rc == 0; i++)
        if (set->page.jobs[i].is_damaged)
            rc = refuse_damaged(&set->page.jobs[i], err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < set->n; i++)
        bytes += bytes_of(&set->jobs[i]);
    if (set->n > 0)
        walk->after_seq = set->jobs[set->n - 1].job->status.seq;
    walk->done += set->n;
    walk->limit = bytes > PAGE_BYTES ? walk->limit / 2 : walk->limit * 2;
    walk->limit = walk->limit < 1 ? 1 : walk->limit;
    walk->limit = walk->limit < COPY_CHUNK_MAX ? walk->limit : COPY_CHUNK_MAX;
    return set->n > 0;
}

int key_walk_next(struct key_walk *walk, const struct remembered_key **ret, struct redrive_err *err)
{
    struct remembered_key_page *page = &walk->pages[walk->current];
    if (walk->i == page->n) {
        if (walk->started && !page->more)
            return 0;
        /* Where the next page starts lies in the one before, which must outlive the read. */
        struct remembered_key after = {0};
        if (page->n > 0)
            after = page->keys[page->n - 1];
        walk->current = !walk->current;
        walk->started = true;
        walk->i = 0;
        page = &walk->pages[walk->current];
        int rc =
            store_ops(walk->store)
                ->remembered_keys(walk->store, after.tenant, after.key, KEYS_AT_ONCE, page, err);
        if (rc < 0 || page->n == 0)
            return rc;
    }
    *ret = &page->keys[walk->i++];
    return 1;
}

void key_walk_release(struct key_walk *walk)
{
    remembered_key_page_release(&walk->pages[0]);
    remembered_key_page_release(&walk->pages[1]);
}

int remembered_key_compare(const struct remembered_key *a, const struct remembered_key *b)
{
    int order = str_compare(a->tenant, b->tenant);
    return order != 0 ? order : str_compare(a->key, b->key);
}

const struct shared_row *copy_find_row(const struct shared_page *page, const struct shared_row *row,
                                       size_t *at)
{
    for (size_t k = 0; k < page->n; k++) {
        const struct shared_row *other = &page->rows[(*at + k) % page->n];
        if (str_eq(other->key, row->key) && str_eq(other->tenant, row->tenant)) {
            *at = (*at + k + 1) % page->n;
            return other;
        }
    }
    return NULL;
}

const struct counter *copy_find_counter(const struct counter_page *page,
                                        const struct counter *counter, size_t *at)
{
    for (size_t k = 0; k < page->n; k++) {
        const struct counter *other = &page->counters[(*at + k) % page->n];
        if (str_eq(other->label, counter->label) && str_eq(other->name, counter->name) &&
            str_eq(other->tenant, counter->tenant)) {
            *at = (*at + k + 1) % page->n;
            return other;
        }
    }
    return NULL;
}
