/* compare.c - whether the records of a source are in a store, as they are there. */
#include "engine/copy/compare.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "base/sha256.h"
#include "engine/copy/load.h"

void findings_differ(struct findings *findings, uint64_t *count, const char *format, ...)
{
    va_list args;
    ++*count;
    if (findings->difference[0])
        return;
    va_start(args, format);
    (void)vsnprintf(findings->difference, sizeof findings->difference, format, args);
    va_end(args);
}

int compare_init(struct compare *compare, struct store *store, struct findings *findings,
                 struct redrive_err *err)
{
    *compare = (struct compare){.store = store, .findings = findings, .jobs = job_set_new()};
    *findings = (struct findings){0};
    buf_init(&compare->a, RECORD_MAX);
    buf_init(&compare->b, RECORD_MAX);
    key_walk_init(&compare->keys, store, (struct str){0});
    return compare->jobs ? 0 : err_nomem(err);
}

void compare_release(struct compare *compare)
{
    key_walk_release(&compare->keys);
    job_set_free(compare->jobs);
    buf_release(&compare->a);
    buf_release(&compare->b);
}

/* ---- A record -------------------------------------------------------------------------------- */

static int write_line(struct buf *out, const struct record *record, uint8_t hash[SHA256_BYTES],
                      struct redrive_err *err)
{
    buf_reset(out);
    record_write(record, out);
    if (buf_failed(out))
        return err_full(err, buf_failed(out), "a record is too long");
    sha256(out->data, out->len, hash);
    return 0;
}

/* Adds a record of the source, and what the store has of it (NULL: nothing), to the sums, and tells
 * whether they are the same. */
static int compare_record(struct compare *c, const struct record *here, const struct record *there,
                          bool *ret_same, struct redrive_err *err)
{
    uint8_t hash[SHA256_BYTES];
    int rc = write_line(&c->a, here, hash, err);
    *ret_same = false;
    if (rc < 0)
        return rc;
    tally_add(&c->findings->from, here, hash);
    if (!there)
        return 0;
    rc = write_line(&c->b, there, hash, err);
    if (rc < 0)
        return rc;
    *ret_same = str_eq(buf_str(&c->a), buf_str(&c->b));
    content_add(&c->findings->to, hash);
    return 0;
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

static int compare_job(struct compare *c, const struct imported_job *job,
                       const struct imported_job *found, struct redrive_err *err)
{
    const struct job_spec *spec = &job->job->spec;
    const struct record here = {.kind = RECORD_JOB, .job = *job};
    struct record there = {.kind = RECORD_JOB, .job = found ? *found : (struct imported_job){0}};
    struct job other;
    char member[RECORD_MEMBER_MAX];
    bool is_same;
    if (found && c->keeps_own) {
        /* It may have children of its own. */
        other = *found->job;
        other.status.children = job->job->status.children;
        there.job.job = &other;
    }
    int rc = compare_record(c, &here, found ? &there : NULL, &is_same, err);
    if (rc < 0 || is_same)
        return rc;
    if (found)
        findings_differ(c->findings, &c->findings->differing, "job %.*s of tenant %.*s: %s",
                        SHOWN(spec->id), SHOWN(spec->tenant),
                        record_difference(&here, &there, member));
    else
        findings_differ(c->findings, &c->findings->missing, "job %.*s of tenant %.*s is not there",
                        SHOWN(spec->id), SHOWN(spec->tenant));
    return 0;
}

/* What the store has of the jobs is in the same order. */
static int compare_jobs(struct compare *c, const struct record_batch *batch,
                        struct redrive_err *err)
{
    const struct job_set *there = c->jobs;
    int rc = job_set_lookup(c->jobs, c->store, batch->jobs, batch->n, err);
    for (size_t i = 0, k = 0; rc == 0 && i < batch->n; i++) {
        const bool is_there = k < there->n && is_same_job(there->jobs[k].job, batch->jobs[i].job);
        rc = compare_job(c, &batch->jobs[i], is_there ? &there->jobs[k] : NULL, err);
        k += is_there;
    }
    return rc;
}

/* ---- What is small enough to be listed ------------------------------------------------------- */

static const char *const ROWS[] = {
    [SHARED_BREAKER] = "breaker",        [SHARED_LIMIT] = "limit",
    [SHARED_PAUSE] = "pause of queue",   [SHARED_TASK] = "definition of task",
    [SHARED_CRON] = "cron entry",        [SHARED_WORKER] = "worker",
    [SHARED_ALERT] = "episode of alert", [SHARED_CANCEL] = "cancel of job",
};

static int compare_rows(struct compare *c, const struct record_batch *batch,
                        struct redrive_err *err)
{
    RELEASED_BY(shared_page_release) struct shared_page there = {0};
    int rc = store_ops(c->store)->shared_list(c->store, (enum shared_kind)batch->kind,
                                              (struct str){0}, &there, err);
    for (size_t i = 0, at = 0; rc == 0 && i < batch->n; i++) {
        const struct record here = record_of(batch, i);
        const struct shared_row *found = load_find_row(&there, &here.row, &at);
        const struct record other = {.kind = batch->kind,
                                     .row = found ? *found : (struct shared_row){0}};
        bool is_same;
        rc = compare_record(c, &here, found ? &other : NULL, &is_same, err);
        if (rc == 0 && !is_same && !(found && c->keeps_own))
            findings_differ(c->findings, &c->findings->others, "%s %.*s of tenant %.*s %s",
                            ROWS[batch->kind], SHOWN(here.row.key), SHOWN(here.row.tenant),
                            found ? "is another" : "is not there");
    }
    return rc;
}

static void tell_counter(struct compare *c, const struct counter *counter, int64_t there)
{
    findings_differ(c->findings, &c->findings->others,
                    "counter %.*s %.*s of tenant %.*s: %" PRId64 " in the source, %" PRId64
                    " in the destination",
                    SHOWN(counter->name), SHOWN(counter->label), SHOWN(counter->tenant),
                    counter->value, there);
}

static int compare_counters(struct compare *c, const struct record_batch *batch,
                            struct redrive_err *err)
{
    RELEASED_BY(counter_page_release) struct counter_page there = {0};
    int rc = store_ops(c->store)->counters_list(c->store, (struct str){0}, &there, err);
    for (size_t i = 0, at = 0; rc == 0 && i < batch->n; i++) {
        const struct record here = record_of(batch, i);
        const struct counter *found = load_find_counter(&there, &here.counter, &at);
        struct record other = {.kind = batch->kind};
        if (found)
            other.counter = *found;
        if (c->ignores_counters)
            other = here;
        bool is_same;
        rc = compare_record(c, &here, found || c->ignores_counters ? &other : NULL, &is_same, err);
        if (rc == 0 && !is_same)
            tell_counter(c, &here.counter, other.counter.value);
    }
    return rc;
}

/* ---- Keys, of which there may be many -------------------------------------------------------- */

/* By tenant, then key. */
static int key_order(const struct remembered_key *a, const struct remembered_key *b)
{
    int order = str_compare(a->tenant, b->tenant);
    return order != 0 ? order : str_compare(a->key, b->key);
}

/* Goes on to the first key of the store that is not before this one. */
static int find_key(struct compare *c, const struct remembered_key *key, struct redrive_err *err)
{
    while (!c->keys_started || (c->key && key_order(c->key, key) < 0)) {
        int rc = key_walk_next(&c->keys, &c->key, err);
        c->keys_started = true;
        if (rc <= 0)
            c->key = NULL;
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int compare_keys(struct compare *c, const struct record_batch *batch,
                        struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < batch->n; i++) {
        const struct record here = record_of(batch, i);
        struct record other = {.kind = RECORD_KEY};
        bool is_same = false;
        rc = find_key(c, &here.key, err);
        const bool is_there = rc == 0 && c->key && key_order(c->key, &here.key) == 0;
        if (is_there)
            other.key = *c->key;
        if (rc == 0)
            rc = compare_record(c, &here, is_there ? &other : NULL, &is_same, err);
        if (rc == 0 && !is_same && !(is_there && c->keeps_own))
            findings_differ(c->findings, &c->findings->others,
                            "unique key %.*s of tenant %.*s is held %s", SHOWN(here.key.key),
                            SHOWN(here.key.tenant), is_there ? "by another job" : "no more");
    }
    return rc;
}

int compare_take(void *ctx, const struct record_batch *batch, struct redrive_err *err)
{
    struct compare *c = ctx;
    if (record_is_row(batch->kind))
        return compare_rows(c, batch, err);
    switch (batch->kind) {
    case RECORD_JOB: return compare_jobs(c, batch, err);
    case RECORD_KEY: return compare_keys(c, batch, err);
    case RECORD_COUNTER: return compare_counters(c, batch, err);
    default: return 0; /* marks differ by what was copied into which store */
    }
}
