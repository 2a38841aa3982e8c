/* scan.c - jobs whose turn has come, by an index or for a claim: all are looked at, and sorted. */
#include <stdlib.h>

#include "base/err.h"
#include "core/breaker/breaker.h"
#include "store/memory/private.h"
#include "store/page.h"

typedef int (*job_order_fn)(const void *left, const void *right);

static const struct job *job_of(const void *element)
{
    return *(const struct job *const *)element;
}

static int by_seq(const void *left, const void *right)
{
    const int64_t a = job_of(left)->status.seq, b = job_of(right)->status.seq;
    return (a > b) - (a < b);
}

static struct probe_candidate candidate_of(const struct job *job, bool takes_newest)
{
    return (struct probe_candidate){
        .attempts = job->status.attempts,
        .max_attempts = (uint32_t)job->spec.max_attempts,
        .age_order = probe_age((uint64_t)job->status.seq, takes_newest),
    };
}

static int by_probe(const void *left, const void *right)
{
    return probe_precedes(candidate_of(job_of(left), false), candidate_of(job_of(right), false))
               ? -1
               : 1;
}

static int by_newest_probe(const void *left, const void *right)
{
    return probe_precedes(candidate_of(job_of(left), true), candidate_of(job_of(right), true)) ? -1
                                                                                               : 1;
}

/* The time that an index is ordered by; 0: it is not one of times. */
static int64_t time_of(enum scan_index index, const struct job *job)
{
    switch (index) {
    case SCAN_DUE: return job->status.process_after_ms;
    case SCAN_LEASES: return job->status.lease_until_ms;
    case SCAN_DEADLINES: return job->spec.deadline_ms;
    case SCAN_FINISHED: return job->status.finished_ms;
    default: return 0;
    }
}

static int by_time(const void *left, const void *right, void *index)
{
    const int64_t a = time_of(*(const enum scan_index *)index, job_of(left));
    const int64_t b = time_of(*(const enum scan_index *)index, job_of(right));
    return a != b ? (a > b) - (a < b) : by_seq(left, right);
}

static void sort_by_index(enum scan_index index, const struct job **jobs, size_t n)
{
    const job_order_fn order = index == SCAN_PARKED_PROBES   ? by_probe
                               : index == SCAN_PARKED_NEWEST ? by_newest_probe
                                                             : NULL;
    if (n > 0 && order)
        qsort(jobs, n, sizeof(const struct job *), order);
    else if (n > 0)
        qsort_r(jobs, n, sizeof(const struct job *), by_time, &index);
}

static bool follows(const struct scan *scan, const struct job_status *s)
{
    const struct scan_place *after = &scan->after;
    if (scan->index == SCAN_FINISHED && s->finished_ms != after->ms)
        return s->finished_ms > after->ms;
    return s->seq > after->seq;
}

static bool is_in_gate(const struct job *job, struct str tenant, struct str gate)
{
    struct str key = job->status.parked_by_limit ? job->spec.limit_key : job->spec.breaker_key;
    return str_eq(job->spec.tenant, tenant) && str_eq(key, gate);
}

/* The states of an index are those from which the move of its jobs may be made. */
static bool is_in_index(const struct scan *scan, const struct job *job)
{
    static const enum move_kind MOVES[] = {
        [SCAN_DUE] = MOVE_PROMOTE,          [SCAN_LEASES] = MOVE_EXTEND,
        [SCAN_DEADLINES] = MOVE_END,        [SCAN_PARKED_OLDEST] = MOVE_UNPARK,
        [SCAN_PARKED_PROBES] = MOVE_UNPARK, [SCAN_PARKED_NEWEST] = MOVE_UNPARK,
        [SCAN_READY] = MOVE_START,          [SCAN_FINISHED] = MOVE_REMOVE,
    };
    const struct job_status *s = &job->status;
    if (!(transition_from(MOVES[scan->index]) >> s->state & 1))
        return false;
    switch (scan->index) {
    case SCAN_DEADLINES: return job->spec.deadline_ms != 0;
    case SCAN_PARKED_OLDEST:
    case SCAN_PARKED_PROBES:
    case SCAN_PARKED_NEWEST: return is_in_gate(job, scan->tenant, scan->name);
    case SCAN_READY:
        return str_eq(job->spec.tenant, scan->tenant) && str_eq(job->spec.queue, scan->name) &&
               follows(scan, s);
    case SCAN_FINISHED:
        return scan->states >> s->state & 1 && s->finished_ms < scan->before_ms && follows(scan, s);
    default: return true;
    }
}

/* The jobs of the index that the transaction has not moved, in its order; the caller frees them.
 * NULL: no memory. */
static const struct job **find(const struct memory *m, const struct scan *scan, size_t *ret_n)
{
    const struct mem_state *state = &m->transaction;
    const struct job **jobs = calloc(state->jobs.n + 1, sizeof(const struct job *));
    size_t n = 0;
    for (size_t i = 0; jobs && i < state->jobs.n; i++)
        if (is_in_index(scan, job_at(state, i)) && !memory_is_moved(m, job_at(state, i)))
            jobs[n++] = job_at(state, i);
    sort_by_index(scan->index, jobs, n);
    *ret_n = n;
    return jobs;
}

/* Gives no more of a job than a scan must give, so that no caller relies on the rest. */
static struct job thin(enum scan_index index, const struct job *job)
{
    struct job ret = *job;
    if (index != SCAN_LEASES && index != SCAN_DEADLINES) {
        ret.spec = (struct job_spec){.tenant = job->spec.tenant,
                                     .queue = job->spec.queue,
                                     .task = job->spec.task,
                                     .priority = job->spec.priority};
        if (index == SCAN_FINISHED)
            ret.spec.policy = job->spec.policy;
        ret.status.worker = (struct str){0};
        ret.status.created_ms = 0;
    }
    ret.spec.payload = ret.status.result = (struct str){0};
    ret.status.error = (struct job_error){.class_ = job->status.error.class_};
    return ret;
}

static int give(enum scan_index index, const struct job *const *jobs, size_t n,
                struct job_page *ret, struct redrive_err *err)
{
    ret->jobs = arena_array(&ret->arena, n, sizeof *ret->jobs);
    for (; ret->jobs && ret->n < n; ret->n++) {
        const struct job job = thin(index, jobs[ret->n]);
        mem_table_copy_out(&MEM_JOB, &ret->jobs[ret->n], &job, &ret->arena);
    }
    if (!ret->arena.failed)
        return 0;
    job_page_release(ret);
    return err_nomem(err);
}

static int64_t left_of(const struct job *job)
{
    return (int64_t)job->spec.max_attempts - job->status.attempts;
}

/* How many of the jobs are given, of those that the index has. */
static size_t count_given(const struct scan *scan, const struct job *const *jobs, size_t n,
                          int64_t now_ms)
{
    size_t given = 0;
    while (given < n && given < scan->limit &&
           (scan->index == SCAN_FINISHED || time_of(scan->index, jobs[given]) <= now_ms))
        given++;
    while (scan->index == SCAN_PARKED_NEWEST && given > 0 &&
           left_of(jobs[given - 1]) < left_of(jobs[0]))
        given--;
    return given;
}

int memory_scan(struct store *store, struct scan *scan, struct job_page *ret,
                struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    size_t n;
    job_page_release(ret);
    int rc = memory_need_transaction(m, err);
    if (rc < 0)
        return rc;
    const struct job **jobs = find(m, scan, &n);
    if (!jobs)
        return err_nomem(err);
    const size_t given = count_given(scan, jobs, n, m->now_ms);
    rc = give(scan->index, jobs, given, ret, err);
    scan->next_ms = 0;
    if (rc == 0 && scan->index <= SCAN_DEADLINES) {
        scan->next_ms = given < n ? time_of(scan->index, jobs[given]) : 0;
        ret->more = given < n && scan->next_ms <= m->now_ms;
    } else if (rc == 0) {
        ret->more = given < n;
    }
    if (rc == 0 && given > 0)
        scan->after = (struct scan_place){.ms = jobs[given - 1]->status.finished_ms,
                                          .seq = jobs[given - 1]->status.seq};
    free(jobs);
    return rc;
}

/* ---- Ready jobs ------------------------------------------------------------------------------ */

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
