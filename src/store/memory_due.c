/* memory_due.c - jobs whose time has come: due, expired, or to be let out of a lane. */
#include "store/memory_int.h"

#include <stdlib.h>

#include "base/err.h"
#include "core/probe.h"

typedef int (*job_order_fn)(const void *left, const void *right);

static int compare_ms(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static const struct job_status *status_of(const void *element)
{
    return &(*(const struct job *const *)element)->status;
}

static int by_seq(const void *left, const void *right)
{
    return compare_ms(status_of(left)->seq, status_of(right)->seq);
}

static int by_due(const void *left, const void *right)
{
    int order = compare_ms(status_of(left)->process_after_ms, status_of(right)->process_after_ms);
    return order != 0 ? order : by_seq(left, right);
}

static int by_lease(const void *left, const void *right)
{
    int order = compare_ms(status_of(left)->lease_until_ms, status_of(right)->lease_until_ms);
    return order != 0 ? order : by_seq(left, right);
}

static int by_deadline(const void *left, const void *right)
{
    int order = compare_ms((*(const struct job *const *)left)->spec.deadline_ms,
                           (*(const struct job *const *)right)->spec.deadline_ms);
    return order != 0 ? order : by_seq(left, right);
}

static struct probe_candidate candidate_of(const void *element, bool takes_newest)
{
    const struct job *job = *(const struct job *const *)element;
    return (struct probe_candidate){
        .attempts = job->status.attempts,
        .max_attempts = (uint32_t)job->spec.max_attempts,
        .age_order = probe_age((uint64_t)job->status.seq, takes_newest),
    };
}

static int by_probe(const void *left, const void *right)
{
    return probe_precedes(candidate_of(left, false), candidate_of(right, false)) ? -1 : 1;
}

static int by_newest_probe(const void *left, const void *right)
{
    return probe_precedes(candidate_of(left, true), candidate_of(right, true)) ? -1 : 1;
}

static int64_t left_of(const struct job *job)
{
    return (int64_t)job->spec.max_attempts - job->status.attempts;
}

/* The jobs in these states that the unit has not moved, sorted; the caller frees them. NULL: no
 * memory. */
static const struct job **sorted(const struct memory *m, uint32_t states, job_order_fn order,
                                 size_t *ret_n)
{
    const struct mem_state *state = &m->unit;
    const struct job **jobs = calloc(state->jobs.n + 1, sizeof(const struct job *));
    size_t n = 0;
    for (size_t i = 0; jobs && i < state->jobs.n; i++)
        if (states >> job_at(state, i)->status.state & 1 && !memory_is_moved(m, job_at(state, i)))
            jobs[n++] = job_at(state, i);
    if (n > 0)
        qsort(jobs, n, sizeof(const struct job *), order);
    *ret_n = n;
    return jobs;
}

int memory_promote_due(struct store *store, size_t limit, size_t *ret_moved, int64_t *ret_next_ms,
                       struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_unit(m, err);
    if (rc < 0)
        return rc;
    size_t n, moved = 0;
    const struct job **jobs = sorted(m, transition_from(MOVE_PROMOTE), by_due, &n);
    if (!jobs)
        return err_nomem(err);
    while (moved < n && moved < limit && jobs[moved]->status.process_after_ms <= m->now_ms) {
        const struct move move = {jobs[moved]->status.seq, MOVE_PROMOTE};
        struct move_result ignored;
        if (memory_move_one(m, &move, &ignored) < 0) {
            free(jobs);
            return err_nomem(err);
        }
        moved++;
    }
    *ret_moved = moved;
    *ret_next_ms = moved < n ? jobs[moved]->status.process_after_ms : 0;
    free(jobs);
    return 0;
}

int memory_expired(struct store *store, size_t limit, struct job_page *ret, int64_t *ret_next_ms,
                   struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    job_page_release(ret);
    int rc = memory_need_unit(m, err);
    if (rc < 0)
        return rc;
    size_t n, given = 0;
    const struct job **jobs = sorted(m, transition_from(MOVE_EXTEND), by_lease, &n);
    if (!jobs)
        return err_nomem(err);
    while (given < n && given < limit && jobs[given]->status.lease_until_ms <= m->now_ms)
        given++;
    rc = memory_page(jobs, given, ret, err);
    if (rc == 0) {
        *ret_next_ms = given < n ? jobs[given]->status.lease_until_ms : 0;
        ret->more = given < n && *ret_next_ms <= m->now_ms;
    }
    free(jobs);
    return rc;
}

int memory_overdue(struct store *store, size_t limit, struct job_page *ret, int64_t *ret_next_ms,
                   struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    job_page_release(ret);
    int rc = memory_need_unit(m, err);
    if (rc < 0)
        return rc;
    size_t n, first = 0, given = 0;
    const struct job **jobs = sorted(m, transition_from(MOVE_END), by_deadline, &n);
    if (!jobs)
        return err_nomem(err);
    while (first < n && jobs[first]->spec.deadline_ms == 0)
        first++;
    const struct job **with = jobs + first;
    n -= first;
    while (given < n && given < limit && with[given]->spec.deadline_ms <= m->now_ms)
        given++;
    rc = memory_page(with, given, ret, err);
    if (rc == 0) {
        *ret_next_ms = given < n ? with[given]->spec.deadline_ms : 0;
        ret->more = given < n && *ret_next_ms <= m->now_ms;
    }
    free(jobs);
    return rc;
}

int memory_credit_pause(struct store *store, struct pause_credit *credit, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    size_t looked = 0;
    credit->more = false;
    int rc = memory_need_unit(m, err);
    if (rc < 0 || credit->since_ms >= credit->until_ms)
        return rc;
    for (size_t i = 0; i < m->unit.jobs.n; i++) {
        const struct job *job = job_at(&m->unit, i);
        const struct job_status *s = &job->status;
        if (s->state != REDRIVE_STATE_QUEUED || s->seq <= credit->at_seq ||
            !str_eq(job->spec.tenant, credit->tenant) || !str_eq(job->spec.queue, credit->queue) ||
            memory_is_moved(m, job))
            continue;
        if (looked++ == credit->limit) {
            credit->more = true;
            return 0;
        }
        credit->at_seq = s->seq;
        const struct move move = {s->seq, MOVE_CREDIT, .credit = credit};
        struct move_result ignored;
        if (memory_move_one(m, &move, &ignored) < 0)
            return err_nomem(err);
    }
    return 0;
}

static bool is_in_lane(const struct job *job, struct str tenant, struct str lane)
{
    struct str key = job->status.parked_by_limit ? job->spec.limit_key : job->spec.breaker_key;
    return str_eq(job->spec.tenant, tenant) && str_eq(key, lane);
}

int memory_parked(struct store *store, struct str tenant, struct str lane, enum parked_order order,
                  size_t limit, struct job_page *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    job_page_release(ret);
    int rc = memory_need_unit(m, err);
    if (rc < 0)
        return rc;
    size_t n, in_lane = 0;
    static const job_order_fn ORDERS[] = {
        [PARKED_OLDEST] = by_seq, [PARKED_PROBES] = by_probe, [PARKED_NEWEST] = by_newest_probe};
    const struct job **jobs = sorted(m, transition_from(MOVE_UNPARK), ORDERS[order], &n);
    if (!jobs)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++)
        if (is_in_lane(jobs[i], tenant, lane))
            jobs[in_lane++] = jobs[i];
    size_t given = in_lane < limit ? in_lane : limit;
    while (order == PARKED_NEWEST && given > 0 && left_of(jobs[given - 1]) < left_of(jobs[0]))
        given--;
    rc = memory_page(jobs, given, ret, err);
    if (rc == 0)
        ret->more = in_lane > given;
    free(jobs);
    return rc;
}
