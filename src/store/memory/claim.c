/* claim.c - which jobs a claim would take, and in which order. */
#include "store/memory/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "store/claim_totals.h"

struct candidate {
    const struct job *job;
    size_t queue_rank; /* in the filter */
    size_t task;       /* in the filter */
    size_t nth;        /* of its tenant */
    size_t tenant;     /* in turn: 0 is the first */
};

static bool matches(const struct mem_state *state, const struct claim_filter *f,
                    struct candidate *candidate)
{
    const struct job *job = candidate->job;
    const struct job_spec *spec = &job->spec;
    candidate->queue_rank = claim_find(f->queues, f->n_queues, spec->queue);
    candidate->task = claim_find(f->tasks, f->n_tasks, spec->task);
    return job->status.state == REDRIVE_STATE_QUEUED &&
           (f->tenant.len == 0 || str_eq(f->tenant, spec->tenant)) &&
           (f->n_queues == 0 || candidate->queue_rank < f->n_queues) &&
           (f->n_tasks == 0 || candidate->task < f->n_tasks) &&
           !memory_is_paused(state, spec->tenant, spec->queue);
}

/* By tenant, and within one the best first. */
static int by_tenant(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    int order = str_compare(a->job->spec.tenant, b->job->spec.tenant);
    if (order != 0)
        return order;
    if (a->queue_rank != b->queue_rank)
        return a->queue_rank < b->queue_rank ? -1 : 1;
    if (a->job->spec.priority != b->job->spec.priority)
        return a->job->spec.priority > b->job->spec.priority ? -1 : 1;
    return a->job->status.seq < b->job->status.seq ? -1 : 1;
}

/* Every tenant's first, then every tenant's second, and so on. */
static int in_turn(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->nth != b->nth)
        return a->nth < b->nth ? -1 : 1;
    return a->tenant < b->tenant ? -1 : 1;
}

/* Numbers the candidates of each tenant, and the tenants from the one after `turn`. */
static void number_off(struct candidate *all, size_t n, struct str turn)
{
    size_t n_tenants = 0, n_before = 0;
    for (size_t i = 0; i < n; i++) {
        struct str tenant = all[i].job->spec.tenant;
        bool same = i > 0 && str_eq(tenant, all[i - 1].job->spec.tenant);
        all[i].nth = same ? all[i - 1].nth + 1 : 0;
        if (!same) {
            n_tenants++;
            if (str_compare(tenant, turn) <= 0)
                n_before++;
        }
        all[i].tenant = n_tenants - 1;
    }
    for (size_t i = 0; i < n; i++)
        all[i].tenant = (all[i].tenant + n_tenants - n_before) % n_tenants;
}

static size_t collect(const struct memory *m, const struct claim_filter *f, struct candidate *ret)
{
    const struct mem_state *state = &m->transaction;
    size_t n = 0;
    for (size_t i = 0; i < state->jobs.n; i++) {
        ret[n] = (struct candidate){.job = job_at(state, i)};
        if (matches(state, f, &ret[n]) && !memory_is_moved(m, ret[n].job))
            n++;
    }
    return n;
}

/* The first of them that the filter's limits allow; *ret_more: there are further ones. */
static size_t choose(const struct candidate *all, size_t n, size_t limit,
                     struct claim_totals *totals, const struct job **ret, bool *ret_more)
{
    *ret_more = false;
    for (size_t i = 0; i < n; i++) {
        const size_t payload_len = all[i].job->spec.payload.len;
        if (claim_totals_is_full(totals, all[i].task))
            continue;
        *ret_more = totals->n == limit || !claim_totals_fits(totals, payload_len);
        if (*ret_more)
            break;
        ret[totals->n] = all[i].job;
        claim_totals_add(totals, all[i].task, payload_len);
    }
    return totals->n;
}

static int add_limits(const struct mem_state *state, struct job_page *page, struct redrive_err *err)
{
    for (size_t i = 0; i < page->n; i++) {
        const struct job_spec *spec = &page->jobs[i].spec;
        struct limit_sums limit = {.tenant = spec->tenant, .key = spec->limit_key};
        if (spec->limit_key.len > 0 &&
            memory_limit_sums(state, spec->tenant, spec->limit_key, &limit.sums))
            job_page_add_limit(page, &limit);
    }
    return page->arena.failed ? err_nomem(err) : 0;
}

static int fill(struct memory *m, const struct claim_filter *f, struct candidate *all, size_t n,
                struct job_page *ret, struct redrive_err *err)
{
    struct claim_totals totals;
    bool more;
    const struct job **jobs = calloc(n + 1, sizeof(const struct job *));
    if (!jobs || !claim_totals_init(&totals, f)) {
        free(jobs);
        return err_nomem(err);
    }
    const size_t given = choose(all, n, f->limit, &totals, jobs, &more);
    claim_totals_release(&totals);
    int rc = memory_page(jobs, given, ret, err);
    if (rc == 0)
        rc = add_limits(&m->transaction, ret, err);
    if (rc == 0)
        ret->more = more;
    if (rc == 0 && f->tenant.len == 0 && given > 0) {
        free(m->turn);
        m->turn = str_dup(jobs[0]->spec.tenant);
        if (!m->turn)
            rc = err_nomem(err);
    }
    free(jobs);
    return rc;
}

int memory_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                 struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    job_page_release(ret);
    int rc = memory_need_transaction(m, err);
    if (rc < 0)
        return rc;
    struct candidate *all = calloc(m->transaction.jobs.n + 1, sizeof *all);
    if (!all)
        return err_nomem(err);
    size_t n = collect(m, filter, all);
    qsort(all, n, sizeof *all, by_tenant);
    number_off(all, n, str_of(m->turn));
    qsort(all, n, sizeof *all, in_turn);
    rc = fill(m, filter, all, n, ret, err);
    free(all);
    return rc;
}
