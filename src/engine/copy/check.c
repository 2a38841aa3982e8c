/* check.c - whether everything of one store has arrived in another. */
#include "engine/copy/copy.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"

/* Keeps the first. */
static void differ(struct transfer *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void differ(struct transfer *t, const char *format, ...)
{
    struct copy_report *r = t->report;
    va_list args;
    if (r->difference[0])
        return;
    va_start(args, format);
    (void)vsnprintf(r->difference, sizeof r->difference, format, args);
    va_end(args);
}

#define SHOWN(s) (int)(s).len, (s).ptr

static bool is_checked(const struct transfer *t)
{
    return !t->options->dry_run;
}

static int failed(const struct buf *b, struct redrive_err *err)
{
    return buf_failed(b) ? err_nomem(err) : 0;
}

/* ---- For both passes --------------------------------------------------------------------------
 */

int copy_count(struct store *store, uint64_t *ret, struct redrive_err *err)
{
    struct count_page partitions = {0};
    int rc = store_ops(store)->counts(store, COUNT_PARTITIONS, (struct str){0}, &partitions, err);
    *ret = 0;
    for (size_t i = 0; i < partitions.n; i++)
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            *ret += partitions.counts[i].by_state[state];
    count_page_release(&partitions);
    return rc;
}

int copy_progress(const struct transfer *t, const char *phase, uint64_t done, uint64_t total,
                  struct redrive_err *err)
{
    const struct copy_options *o = t->options;
    if (!o->progress || o->progress(o->ctx, phase, done, total))
        return 0;
    err_set(err, REDRIVE_E_CANCELLED, "interrupted");
    err_hint(err, COPY_GOES_ON);
    return REDRIVE_E_CANCELLED;
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

static void count_job(struct transfer *t, const struct imported_job *job)
{
    t->report->jobs++;
    t->report->attempts += job->n_attempts;
    t->report->by_state[job->job->status.state]++;
}

/* Adds up all jobs of a store; those of the source are counted as well. */
static int sum_jobs(struct transfer *t, struct store *store, struct content_sum *sum, uint64_t done,
                    uint64_t total, struct redrive_err *err)
{
    struct job_walk walk;
    int rc = job_walk_init(&walk, store, err);
    while (rc == 0 && (rc = job_walk_next(&walk, err)) > 0) {
        for (size_t i = 0; i < walk.set->n; i++) {
            content_of_job(&walk.set->jobs[i], &t->a);
            content_add(sum, buf_str(&t->a));
            if (store == t->options->from)
                count_job(t, &walk.set->jobs[i]);
        }
        rc = failed(&t->a, err);
        if (rc == 0)
            rc = copy_progress(t, "check", done + walk.done, total, err);
    }
    job_walk_release(&walk);
    return rc;
}

/* Compares a job of the source, whose content is t->a, with what has become of it; NULL: nothing.
 */
static void compare_job(struct transfer *t, const struct job_spec *spec,
                        const struct imported_job *there, struct content_sum *to)
{
    if (!there) {
        t->report->missing++;
        differ(t, "job %.*s of tenant %.*s is not there", SHOWN(spec->id), SHOWN(spec->tenant));
        return;
    }
    content_of_job(there, &t->b);
    content_add(to, buf_str(&t->b));
    const struct str field = content_difference(buf_str(&t->a), buf_str(&t->b));
    if (field.len > 0) {
        t->report->differing++;
        differ(t, "job %.*s of tenant %.*s: %.*s", SHOWN(spec->id), SHOWN(spec->tenant),
               SHOWN(field));
    }
}

/* A page of the source with what the destination has of it, which stands in the same order. */
static int compare_page(struct transfer *t, const struct job_set *here, const struct job_set *there,
                        struct content_sum *from, struct content_sum *to, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0, k = 0; rc == 0 && i < here->n; i++) {
        const struct imported_job *job = &here->jobs[i];
        const bool is_there = k < there->n && is_same_job(there->jobs[k].job, job->job);
        content_of_job(job, &t->a);
        content_add(from, buf_str(&t->a));
        compare_job(t, &job->job->spec, is_there ? &there->jobs[k] : NULL, to);
        k += is_there;
        rc = buf_failed(&t->b) ? err_nomem(err) : failed(&t->a, err);
    }
    return rc;
}

/* Compares job by job: slower, but it knows which differ, and ignores other jobs of the
 * destination. `is_first`: the jobs have not been counted. */
static int compare_jobs(struct transfer *t, bool is_first, struct content_sum *from,
                        struct content_sum *to, struct redrive_err *err)
{
    const char *phase = is_first ? "check" : "compare";
    struct job_set *there = job_set_new();
    struct job_walk walk;
    if (!there)
        return err_nomem(err);
    int rc = job_walk_init(&walk, t->options->from, err);
    while (rc == 0 && (rc = job_walk_next(&walk, err)) > 0) {
        for (size_t i = 0; is_first && i < walk.set->n; i++)
            count_job(t, &walk.set->jobs[i]);
        rc = job_set_lookup(there, t->options->to, walk.set, err);
        if (rc == 0)
            rc = compare_page(t, walk.set, there, from, to, err);
        if (rc == 0)
            rc = copy_progress(t, phase, walk.done, t->total, err);
    }
    job_set_free(there);
    job_walk_release(&walk);
    return rc;
}

/* Both should have the same jobs, and no others: their sums tell. */
static int compare_all(struct transfer *t, struct content_sum *from, struct content_sum *to,
                       struct redrive_err *err)
{
    const struct copy_options *o = t->options;
    struct content_sum unused[2] = {0};
    uint64_t there = 0;
    int rc = copy_count(o->to, &there, err);
    if (rc == 0)
        rc = sum_jobs(t, o->from, from, 0, t->total + there, err);
    if (rc == 0)
        rc = sum_jobs(t, o->to, to, t->total, t->total + there, err);
    if (rc < 0 || content_same(from, to))
        return rc;
    rc = compare_jobs(t, false, &unused[0], &unused[1], err);
    if (rc == 0 && copy_is_same(t->report)) {
        t->report->others++;
        differ(t, "%" PRIu64 " jobs in the destination, %" PRIu64 " in the source", to->rows,
               from->rows);
    }
    return rc;
}

static int check_jobs(struct transfer *t, struct redrive_err *err)
{
    struct content_sum from = {0}, to = {0};
    int rc;
    if (!is_checked(t))
        rc = sum_jobs(t, t->options->from, &from, 0, t->total, err);
    else if (t->options->into_existing)
        rc = compare_jobs(t, true, &from, &to, err);
    else
        rc = compare_all(t, &from, &to, err);
    content_add_sum(&t->report->from, &from);
    content_add_sum(&t->report->to, &to);
    return rc;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static bool is_same_partition(const struct job_count *a, const struct job_count *b)
{
    return str_eq(a->tenant, b->tenant) && str_eq(a->queue, b->queue) && str_eq(a->task, b->task);
}

static void compare_partition(struct transfer *t, const struct job_count *here,
                              const struct job_count *there)
{
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++) {
        if (here->by_state[state] == there->by_state[state])
            continue;
        t->report->others++;
        differ(t,
               "counts of tenant %.*s, queue %.*s, task %.*s: %" PRIu64
               " %s in the source, %" PRIu64 " in the destination",
               SHOWN(here->tenant), SHOWN(here->queue), SHOWN(here->task), here->by_state[state],
               redrive_state_name((enum redrive_state)state), there->by_state[state]);
    }
}

/* Each store keeps its own counts: equal jobs must give equal counts. */
static int check_counts(struct transfer *t, struct redrive_err *err)
{
    const struct copy_options *o = t->options;
    static const struct job_count NONE = {0};
    struct count_page here = {0}, there = {0};
    int rc = store_ops(o->from)->counts(o->from, COUNT_PARTITIONS, (struct str){0}, &here, err);
    if (rc == 0)
        rc = store_ops(o->to)->counts(o->to, COUNT_PARTITIONS, (struct str){0}, &there, err);
    /* Both are in the same order. */
    for (size_t i = 0, j = 0; rc == 0 && i < here.n; i++) {
        const bool is_there = j < there.n && is_same_partition(&here.counts[i], &there.counts[j]);
        compare_partition(t, &here.counts[i], is_there ? &there.counts[j] : &NONE);
        j += is_there;
    }
    count_page_release(&here);
    count_page_release(&there);
    return rc;
}

/* ---- What is small enough to be listed ------------------------------------------------------- */

static const char *const KINDS[] = {
    [SHARED_BREAKER] = "breaker",        [SHARED_BUCKET] = "limit",
    [SHARED_PAUSE] = "pause of queue",   [SHARED_TASK] = "definition of task",
    [SHARED_CRON] = "cron entry",        [SHARED_WORKER] = "worker",
    [SHARED_ALERT] = "episode of alert", [SHARED_CANCEL] = "cancel of job",
};

/* Adds t->a, a content of the source, and t->b, what the destination has of it (empty: nothing), to
 * the sums. False: they differ, and the destination did not have it before. */
static bool is_as_here(struct transfer *t)
{
    const struct str here = buf_str(&t->a), there = buf_str(&t->b);
    content_add(&t->report->from, here);
    if (there.len > 0)
        content_add(&t->report->to, there);
    if (!is_checked(t) || str_eq(here, there) || (there.len > 0 && t->options->into_existing))
        return true;
    t->report->others++;
    return false;
}

static int check_kind(struct transfer *t, enum shared_kind kind, struct redrive_err *err)
{
    const struct copy_options *o = t->options;
    struct shared_page here = {0}, there = {0};
    int rc = store_ops(o->from)->shared_list(o->from, kind, (struct str){0}, &here, err);
    if (rc == 0 && is_checked(t))
        rc = store_ops(o->to)->shared_list(o->to, kind, (struct str){0}, &there, err);
    for (size_t i = 0, at = 0; rc == 0 && i < here.n; i++) {
        const struct shared_row *row = &here.rows[i], *found = copy_find_row(&there, row, &at);
        content_of_row(row, &t->a);
        buf_reset(&t->b);
        if (found)
            content_of_row(found, &t->b);
        if (!is_as_here(t))
            differ(t, "%s %.*s of tenant %.*s %s", KINDS[kind], SHOWN(row->key), SHOWN(row->tenant),
                   found ? "is another" : "is not there");
    }
    t->report->rows[kind] = here.n;
    shared_page_release(&here);
    shared_page_release(&there);
    return rc < 0 ? rc : failed(&t->a, err);
}

static int check_counters(struct transfer *t, struct redrive_err *err)
{
    const struct copy_options *o = t->options;
    struct counter_page here = {0}, there = {0};
    int rc = store_ops(o->from)->counters_list(o->from, (struct str){0}, &here, err);
    /* Counters of a destination that had its own are sums of both. */
    const bool is_compared = is_checked(t) && !o->into_existing;
    if (rc == 0 && is_compared)
        rc = store_ops(o->to)->counters_list(o->to, (struct str){0}, &there, err);
    for (size_t i = 0, at = 0; rc == 0 && i < here.n; i++) {
        const struct counter *c = &here.counters[i];
        if (is_mark(c))
            continue;
        t->report->counters++;
        content_of_counter(c, &t->a);
        content_add(&t->report->from, buf_str(&t->a));
        if (is_checked(t) && !is_compared)
            content_add(&t->report->to, buf_str(&t->a));
        if (!is_compared)
            continue;
        const struct counter *found = copy_find_counter(&there, c, &at);
        if (found) {
            content_of_counter(found, &t->b);
            content_add(&t->report->to, buf_str(&t->b));
        }
        if (!found || found->value != c->value) {
            t->report->others++;
            differ(t,
                   "counter %.*s %.*s of tenant %.*s: %" PRId64 " in the source, %" PRId64
                   " in the destination",
                   SHOWN(c->name), SHOWN(c->label), SHOWN(c->tenant), c->value,
                   found ? found->value : 0);
        }
    }
    counter_page_release(&here);
    counter_page_release(&there);
    return rc;
}

/* ---- Held keys, of which there may be many --------------------------------------------------- */

static void compare_key(struct transfer *t, const struct remembered_key *key,
                        const struct remembered_key *there)
{
    t->report->remembered_keys++;
    content_of_key(key, &t->a);
    buf_reset(&t->b);
    if (there)
        content_of_key(there, &t->b);
    if (!is_as_here(t))
        differ(t, "unique key %.*s of tenant %.*s is held %s", SHOWN(key->key), SHOWN(key->tenant),
               there ? "by another job" : "no more");
}

static int check_keys(struct transfer *t, struct redrive_err *err)
{
    struct key_walk here = {.store = t->options->from}, there = {.store = t->options->to};
    const struct remembered_key *key = NULL, *other = NULL;
    int has_other = is_checked(t) ? key_walk_next(&there, &other, err) : 0;
    int rc = has_other < 0 ? has_other : 0;
    while (rc == 0 && (rc = key_walk_next(&here, &key, err)) > 0) {
        while (has_other > 0 && remembered_key_compare(other, key) < 0)
            has_other = key_walk_next(&there, &other, err);
        rc = has_other < 0 ? has_other : 0;
        if (rc == 0)
            compare_key(t, key,
                        has_other && remembered_key_compare(other, key) == 0 ? other : NULL);
    }
    key_walk_release(&here);
    key_walk_release(&there);
    return rc;
}

int copy_check(struct transfer *t, struct redrive_err *err)
{
    int rc = check_jobs(t, err);
    if (rc == 0 && is_checked(t) && !t->options->into_existing)
        rc = check_counts(t, err);
    for (int kind = SHARED_BREAKER; rc == 0 && kind < SHARED_KIND_COUNT; kind++)
        if (kind != SHARED_WORKER)
            rc = check_kind(t, (enum shared_kind)kind, err);
    if (rc == 0)
        rc = check_counters(t, err);
    if (rc == 0)
        rc = check_keys(t, err);
    return rc;
}
