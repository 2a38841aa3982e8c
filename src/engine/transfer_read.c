#include <stdlib.h>

#include "base/err.h"
#include "engine/transfer_private.h"

/* Pages grow and shrink so that about this much is in memory. */
#define PAGE_BYTES   ((size_t)8 << 20)
#define FIRST_PAGE   64
#define LOOKUP_LIMIT 100
#define KEYS_AT_ONCE 500

struct job_walk *job_walk_new(struct store *store)
{
    struct job_walk *walk = calloc(1, sizeof *walk);
    if (walk) {
        walk->store = store;
        walk->limit = FIRST_PAGE;
    }
    return walk;
}

static void forget_page(struct job_walk *walk)
{
    for (size_t i = 0; i < walk->n; i++)
        attempt_page_release(&walk->histories[i]);
    walk->n = 0;
}

void job_walk_free(struct job_walk *walk)
{
    if (!walk)
        return;
    forget_page(walk);
    job_page_release(&walk->page);
    free(walk);
}

static size_t bytes_of(const struct adopted_job *adopted)
{
    const struct job *job = adopted->job;
    size_t bytes = sizeof *job + job->spec.payload.len + job->status.result.len;
    for (size_t i = 0; i < adopted->n_attempts; i++) {
        const struct job_error *error = &adopted->attempts[i].error;
        bytes += sizeof(struct job_attempt) + error->message.len + error->stacktrace.len;
    }
    return bytes;
}

int job_walk_next(struct job_walk *walk, struct redrive_err *err)
{
    const struct store_ops *ops = store_ops(walk->store);
    const struct job_filter filter = {.after_seq = walk->after_seq, .limit = walk->limit};
    size_t bytes = 0;
    forget_page(walk);
    int rc = ops->list(walk->store, &filter, &walk->page, err);
    for (size_t i = 0; rc == 0 && i < walk->page.n; i++) {
        const struct job *job = &walk->page.jobs[i];
        struct attempt_page *history = &walk->histories[i];
        rc = ops->history(walk->store, job->status.seq, history, err);
        walk->n = i + 1;
        walk->jobs[i] = (struct adopted_job){job, history->attempts, history->n};
        walk->after_seq = job->status.seq;
        bytes += bytes_of(&walk->jobs[i]);
    }
    if (rc < 0)
        return rc;
    walk->done += walk->n;
    walk->limit = bytes > PAGE_BYTES ? walk->limit / 2 : walk->limit * 2;
    walk->limit = walk->limit < 1 ? 1 : walk->limit;
    walk->limit = walk->limit < TRANSFER_CHUNK_MAX ? walk->limit : TRANSFER_CHUNK_MAX;
    return walk->n > 0;
}

int job_lookup(struct job_lookup *lookup, struct store *store, const struct job_spec *spec,
               bool with_history, struct redrive_err *err)
{
    const struct job_filter filter = {
        .tenant = spec->tenant, .id = spec->id, .limit = LOOKUP_LIMIT};
    const struct job *job = NULL;
    int rc = store_ops(store)->list(store, &filter, &lookup->page, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < lookup->page.n && !job; i++)
        if (str_eq(lookup->page.jobs[i].spec.tenant, spec->tenant))
            job = &lookup->page.jobs[i];
    if (!job)
        return 0;
    if (with_history)
        rc = store_ops(store)->history(store, job->status.seq, &lookup->history, err);
    lookup->job = (struct adopted_job){job, lookup->history.attempts, lookup->history.n};
    return rc < 0 ? rc : 1;
}

void job_lookup_release(struct job_lookup *lookup)
{
    job_page_release(&lookup->page);
    attempt_page_release(&lookup->history);
}

int key_walk_next(struct key_walk *walk, const struct held_key **ret, struct redrive_err *err)
{
    struct held_key_page *page = &walk->pages[walk->current];
    if (walk->i == page->n) {
        if (walk->started && !page->more)
            return 0;
        /* Where the next page starts lies in the one before, which must outlive the read. */
        struct held_key after = {0};
        if (page->n > 0)
            after = page->keys[page->n - 1];
        walk->current = !walk->current;
        walk->started = true;
        walk->i = 0;
        page = &walk->pages[walk->current];
        int rc = store_ops(walk->store)
                     ->held_keys(walk->store, after.tenant, after.key, KEYS_AT_ONCE, page, err);
        if (rc < 0 || page->n == 0)
            return rc;
    }
    *ret = &page->keys[walk->i++];
    return 1;
}

void key_walk_release(struct key_walk *walk)
{
    held_key_page_release(&walk->pages[0]);
    held_key_page_release(&walk->pages[1]);
}

static int compare(struct str a, struct str b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter > 0 ? memcmp(a.ptr, b.ptr, shorter) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

int held_key_compare(const struct held_key *a, const struct held_key *b)
{
    int order = compare(a->tenant, b->tenant);
    return order != 0 ? order : compare(a->key, b->key);
}
