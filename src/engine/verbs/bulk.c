#include "engine/verbs/bulk.h"

#include "engine/private.h"
#include "store/transition.h"

/* Jobs that are read at a time: with payloads of the greatest size they still fit into memory. */
#define PAGE_JOBS 50

#define DEAD (1u << REDRIVE_STATE_DEAD_LETTER)

void bulk_init(struct bulk *bulk, enum move_kind kind, const struct job_filter *filter,
               int64_t now_ms)
{
    const uint32_t possible = transition_from(kind);
    *bulk = (struct bulk){.kind = kind, .filter = *filter};
    bulk->filter.states = (filter->states == 0 ? DEAD : filter->states) & possible;
    bulk->filter.order = ORDER_OLDEST;
    bulk->filter.after_seq = 0;
    bulk->filter.after_ms = 0;
    /* What has died in this very millisecond still counts. */
    if (filter->finished_before_ms == 0 || filter->finished_before_ms > now_ms + 1)
        bulk->filter.finished_before_ms = now_ms + 1;
    bulk->started_ms = now_ms;
    bulk->finished = bulk->filter.states == 0;
}

/* ---- Counting -------------------------------------------------------------------------------- */

/* 1 when a live job holds the key of this one. */
static int key_is_held(struct store *store, const struct job *job, struct redrive_err *err)
{
    const struct job_filter filter = {
        .tenant = job->spec.tenant,
        .unique_key = job->spec.unique_key,
        .states = transition_from(MOVE_CANCEL),
        .limit = 1,
    };
    struct job_page page = {0};
    if (job->spec.unique_key.len == 0)
        return 0;
    int rc = store_ops(store)->list(store, &filter, &page, err);
    if (rc == 0)
        rc = page.n > 0;
    job_page_release(&page);
    return rc;
}

static bool is_too_late(const struct bulk *bulk, const struct job *job)
{
    return job->spec.deadline_ms != 0 && job->spec.deadline_ms < bulk->started_ms;
}

static int count_page(struct store *store, const struct bulk *bulk, const struct job_page *page,
                      uint64_t *changed, uint64_t *refused, struct redrive_err *err)
{
    for (size_t i = 0; i < page->n; i++) {
        const struct job *job = &page->jobs[i];
        int rc = bulk->kind != MOVE_REDRIVE ? 0
                 : is_too_late(bulk, job)   ? 1
                                            : key_is_held(store, job, err);
        if (rc < 0)
            return rc;
        *changed += rc == 0;
        *refused += rc > 0;
    }
    return 0;
}

int bulk_count(struct store *store, const struct bulk *bulk, uint64_t *ret_changed,
               uint64_t *ret_refused, struct redrive_err *err)
{
    struct job_filter filter = bulk->filter;
    struct job_page page = {0};
    int rc = 0;
    bool more = !bulk->finished;
    *ret_changed = *ret_refused = 0;
    filter.limit = PAGE_JOBS;
    while (more && rc == 0) {
        rc = store_ops(store)->list(store, &filter, &page, err);
        if (rc == 0)
            rc = count_page(store, bulk, &page, ret_changed, ret_refused, err);
        more = page.more;
        if (page.n > 0)
            filter.after_seq = page.jobs[page.n - 1].status.seq;
    }
    job_page_release(&page);
    return rc;
}

/* ---- A chunk --------------------------------------------------------------------------------- */

static int change_page(struct engine *e, struct bulk_op *op, const struct job_page *page,
                       struct redrive_err *err)
{
    for (size_t i = 0; i < page->n; i++) {
        struct change_item item = {0};
        int rc = change_job(e, op->kind, &page->jobs[i], &item, err);
        if (rc < 0)
            return rc;
        op->changed += item.ret.code == 0;
        op->refused += item.ret.code < 0;
        op->last_seq = page->jobs[i].status.seq;
    }
    return 0;
}

static int apply_bulk(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct bulk_op *op = (struct bulk_op *)base;
    struct job_filter filter = op->filter;
    struct job_page page = {0};
    size_t left = op->limit;
    int rc = 0;
    op->changed = op->refused = 0;
    op->last_seq = filter.after_seq;
    op->more = true;
    while (rc == 0 && left > 0 && op->more) {
        filter.limit = left < PAGE_JOBS ? left : PAGE_JOBS;
        filter.after_seq = op->last_seq;
        rc = e->ops->list(e->store, &filter, &page, err);
        if (rc == 0)
            rc = change_page(e, op, &page, err);
        op->more = page.more;
        left -= page.n;
    }
    job_page_release(&page);
    return rc;
}

void bulk_op_init(struct bulk_op *op, const struct bulk *bulk, size_t limit)
{
    if (limit > BULK_CHUNK_MAX)
        limit = BULK_CHUNK_MAX;
    *op = (struct bulk_op){
        .op = {.apply = apply_bulk, .weight = limit},
        .kind = bulk->kind,
        .filter = bulk->filter,
        .limit = limit,
    };
}

void bulk_add(struct bulk *bulk, const struct bulk_op *op)
{
    bulk->changed += op->changed;
    bulk->refused += op->refused;
    bulk->filter.after_seq = op->last_seq;
    bulk->finished = !op->more;
}

/* ---- At a rate ------------------------------------------------------------------------------- */

void bulk_pace_init(struct bulk_pace *pace, const struct rate *rate, int64_t now_ms)
{
    *pace = (struct bulk_pace){.rate = *rate, .next_ms = now_ms};
}

size_t bulk_pace_due(const struct bulk_pace *pace, int64_t now_ms, int64_t *ret_wait_ms)
{
    *ret_wait_ms = 0;
    if (pace->rate.count == 0)
        return BULK_CHUNK_MAX;
    if (now_ms < pace->next_ms) {
        *ret_wait_ms = pace->next_ms - now_ms;
        return 0;
    }
    size_t tenth = pace->rate.count / (10 * (size_t)pace->rate.period_s);
    return tenth < 1 ? 1 : tenth < BULK_CHUNK_MAX ? tenth : BULK_CHUNK_MAX;
}

void bulk_pace_took(struct bulk_pace *pace, size_t n, int64_t now_ms)
{
    if (pace->rate.count == 0)
        return;
    int64_t span = (int64_t)n * pace->rate.period_s * 1000;
    pace->next_ms = now_ms + (span + pace->rate.count - 1) / pace->rate.count;
}
