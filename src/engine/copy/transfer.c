/* transfer.c - copies everything from one store into another. */
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "engine/copy/copy.h"
#include "engine/copy/load.h"
#include "engine/copy/source.h"

#define LOOK_AT_ONCE 100

struct transfer {
    const struct copy_options *options;
    struct copy_report *report;
    const char *phase;
    uint64_t total; /* jobs of the source */
    struct load load;
};

static int tell_progress(const struct transfer *t, const char *phase, uint64_t done, uint64_t total,
                         struct redrive_err *err)
{
    const struct copy_options *o = t->options;
    if (!o->progress || o->progress(o->ctx, phase, done, total))
        return 0;
    err_set(err, REDRIVE_E_CANCELLED, "interrupted");
    err_hint(err, LOAD_GOES_ON);
    return REDRIVE_E_CANCELLED;
}

/* ---- Before ---------------------------------------------------------------------------------- */

static int foreign(const struct job *job, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_STATE, "the destination has jobs that the source has not");
    err_detail(err, "the first is %.*s of tenant %.*s", (int)job->spec.id.len, job->spec.id.ptr,
               (int)job->spec.tenant.len, job->spec.tenant.ptr);
    err_hint(err, "name an empty store, or add to this one with --into-existing");
    return REDRIVE_E_STATE;
}

/* The first job of a page that the source has not, or NULL. */
static int find_foreign(const struct transfer *t, const struct job_page *page,
                        struct job_page *found, const struct job **ret, struct redrive_err *err)
{
    struct store *from = t->options->from;
    struct job_name names[LOOK_AT_ONCE];
    *ret = NULL;
    for (size_t i = 0; i < page->n; i++)
        names[i] = job_name_of(&page->jobs[i]);
    int rc = store_ops(from)->lookup(from, names, page->n, found, err);
    for (size_t i = 0; rc == 0 && i < page->n && !*ret; i++)
        if (i >= found->n || !is_same_job(&found->jobs[i], &page->jobs[i]))
            *ret = &page->jobs[i];
    return rc;
}

/* A destination that is not empty must come from an earlier, interrupted transfer of this source.
 */
static int check_all_ours(const struct transfer *t, uint64_t total, struct redrive_err *err)
{
    struct store *to = t->options->to;
    RELEASED_BY(job_page_release) struct job_page page = {0}, found = {0};
    struct job_filter filter = {.limit = LOOK_AT_ONCE};
    const struct job *first = NULL;
    uint64_t done = 0;
    int rc;
    do {
        rc = store_ops(to)->list(to, &filter, &page, err);
        if (rc < 0 || page.n == 0)
            break;
        rc = find_foreign(t, &page, &found, &first, err);
        if (rc == 0 && first)
            rc = foreign(first, err);
        filter.after_seq = page.jobs[page.n - 1].status.seq;
        done += page.n;
        if (rc == 0)
            rc = tell_progress(t, "look", done, total, err);
    } while (rc == 0 && page.more);
    return rc;
}

static int check_destination(struct transfer *t, struct redrive_err *err)
{
    const struct copy_options *o = t->options;
    uint64_t there = 0;
    int64_t mark = 0;
    int rc = load_mark(o->to, t->load.name, &mark, err);
    if (rc == 0)
        rc = source_count(o->to, (struct str){0}, &there, err);
    /* One without jobs was only set up, unless this source was copied into it before. */
    t->load.keeps_rows = mark > 0 || there > 0;
    if (rc == 0 && !o->into_existing)
        rc = check_all_ours(t, there, err);
    return rc;
}

static int look(struct transfer *t, struct redrive_err *err)
{
    const struct copy_options *o = t->options;
    int rc = 0;
    if (!o->despite_workers) {
        rc = copy_check_idle(o->from, "source", "--force", o->now_ms, err);
        if (rc == 0 && o->to)
            rc = copy_check_idle(o->to, "destination", "--force", o->now_ms, err);
    }
    if (rc == 0)
        rc = source_count(o->from, (struct str){0}, &t->total, err);
    if (rc == 0 && o->to)
        rc = check_destination(t, err);
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
        findings_differ(&t->report->findings, &t->report->findings.others,
                        "counts of tenant %.*s, queue %.*s, task %.*s: %" PRIu64
                        " %s in the source, %" PRIu64 " in the destination",
                        SHOWN(here->tenant), SHOWN(here->queue), SHOWN(here->task),
                        here->by_state[state], redrive_state_name((enum redrive_state)state),
                        there->by_state[state]);
    }
}

/* Each store keeps its own counts: equal jobs must give equal counts. */
static int check_counts(struct transfer *t, struct redrive_err *err)
{
    const struct copy_options *o = t->options;
    static const struct job_count NONE = {0};
    RELEASED_BY(count_page_release) struct count_page here = {0}, there = {0};
    int rc = store_ops(o->from)->counts(o->from, COUNT_PARTITIONS, (struct str){0}, &here, err);
    if (rc == 0)
        rc = store_ops(o->to)->counts(o->to, COUNT_PARTITIONS, (struct str){0}, &there, err);
    /* Both are in the same order. */
    for (size_t i = 0, j = 0; rc == 0 && i < here.n; i++) {
        const bool is_there = j < there.n && is_same_partition(&here.counts[i], &there.counts[j]);
        compare_partition(t, &here.counts[i], is_there ? &there.counts[j] : &NONE);
        j += is_there;
    }
    return rc;
}

/* Both should have the same jobs, and no others. */
static int check_total(struct transfer *t, struct redrive_err *err)
{
    struct findings *f = &t->report->findings;
    uint64_t there = 0;
    int rc = source_count(t->options->to, (struct str){0}, &there, err);
    const uint64_t here = (uint64_t)f->from.sums[RECORD_JOB].rows;
    if (rc == 0 && findings_are_same(f) && there != here)
        findings_differ(f, &f->others,
                        "%" PRIu64 " jobs in the destination, %" PRIu64 " in the source", there,
                        here);
    return rc;
}

/* ---- Everything ------------------------------------------------------------------------------ */

static int show_page(void *ctx, uint64_t done, struct redrive_err *err)
{
    const struct transfer *t = ctx;
    return tell_progress(t, t->phase, done, t->total, err);
}

/* Lets a taker have everything that the source holds. */
static int give_source(struct transfer *t, const char *phase, record_take_fn take, void *ctx,
                       struct redrive_err *err)
{
    const struct source source = {
        .store = t->options->from, .progress = show_page, .progress_ctx = t};
    t->phase = phase;
    return source_give(&source, take, ctx, err);
}

static int copy(struct transfer *t, struct redrive_err *err)
{
    int rc = give_source(t, "copy", load_take, &t->load, err);
    t->report->copied = t->load.copied;
    /* The error is about the transaction that failed; earlier ones stay. */
    if (rc < 0 && err && (t->load.copied > 0 || err->hint[0] == '\0'))
        err_hint(err, LOAD_GOES_ON);
    return rc;
}

static int check(struct transfer *t, struct redrive_err *err)
{
    const struct copy_options *o = t->options;
    struct compare compare;
    int rc = compare_init(&compare, o->to, &t->report->findings, err);
    compare.keeps_own = compare.ignores_counters = o->into_existing;
    if (rc == 0)
        rc = give_source(t, "check", compare_take, &compare, err);
    compare_release(&compare);
    if (rc == 0 && !o->into_existing)
        rc = check_counts(t, err);
    if (rc == 0 && !o->into_existing)
        rc = check_total(t, err);
    if (rc < 0)
        err_hint(err, "everything was copied: the same command checks it again");
    return rc;
}

struct counting {
    struct tally *tally;
    struct buf line;
};

static int count_batch(void *ctx, const struct record_batch *batch, struct redrive_err *err)
{
    struct counting *counting = ctx;
    return tally_batch(counting->tally, batch, &counting->line, err);
}

static int count_source(struct transfer *t, struct redrive_err *err)
{
    struct counting counting = {.tally = &t->report->findings.from};
    buf_init(&counting.line, RECORD_MAX);
    int rc = give_source(t, "check", count_batch, &counting, err);
    buf_release(&counting.line);
    return rc;
}

int copy_run(const struct copy_options *options, struct copy_report *ret, struct redrive_err *err)
{
    struct transfer t = {
        .options = options,
        .report = ret,
        .load = {.store = options->to,
                 .name = str_of(options->name),
                 .now_ms = options->now_ms,
                 .has_own_jobs = options->into_existing,
                 .adds_counters = options->into_existing},
    };
    bool is_snapshot;
    *ret = (struct copy_report){0};
    int rc = look(&t, err);
    if (rc < 0)
        return rc;
    rc = source_freeze(options->from, &is_snapshot, err);
    if (rc == 0 && options->dry_run)
        rc = count_source(&t, err);
    else if (rc == 0)
        rc = copy(&t, err);
    source_thaw(options->from); /* what has changed meanwhile is to be noticed */
    if (rc == 0 && !options->dry_run)
        rc = check(&t, err);
    return rc;
}
