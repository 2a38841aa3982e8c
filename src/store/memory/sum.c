/* sum.c - how many jobs there are, by queue and by error. */
#include "store/memory/private.h"

#include <stdlib.h>

#include "base/err.h"

/* The count of something, which is made when it is not there yet; the page has room. */
static struct job_count *count_of(struct count_page *page, const struct job_count *key)
{
    for (size_t i = 0; i < page->n; i++)
        if (job_count_order(&page->counts[i], key) == 0)
            return &page->counts[i];
    struct job_count *count = &page->counts[page->n++];
    count->tenant = arena_str(&page->arena, key->tenant);
    count->queue = arena_str(&page->arena, key->queue);
    count->task = arena_str(&page->arena, key->task);
    count->gate = arena_str(&page->arena, key->gate);
    return count;
}

/* Jobs come by seq. */
static void add_to_queue(struct job_count *count, const struct job_status *s)
{
    count->by_state[s->state]++;
    if (s->state == REDRIVE_STATE_QUEUED && count->oldest_ready_ms == 0)
        count->oldest_ready_ms = s->created_ms;
    bool locked = s->state == REDRIVE_STATE_SCHEDULED || s->state == REDRIVE_STATE_RETRYING;
    if (locked && (count->next_due_ms == 0 || s->process_after_ms < count->next_due_ms))
        count->next_due_ms = s->process_after_ms;
}

static void count_job(struct count_page *page, enum count_kind kind, const struct job *job)
{
    const struct job_spec *spec = &job->spec;
    const struct job_status *s = &job->status;
    struct job_count key = {.tenant = spec->tenant};
    switch (kind) {
    case COUNT_QUEUES: key.queue = spec->queue; break;
    case COUNT_PARTITIONS:
        key.queue = spec->queue;
        key.task = spec->task;
        break;
    case COUNT_PARKED: key.gate = s->parked_by_limit ? spec->limit_key : spec->breaker_key; break;
    case COUNT_RUNNING: key.gate = spec->limit_key; break;
    }
    if ((kind == COUNT_PARKED && s->state != REDRIVE_STATE_PARKED) ||
        (kind == COUNT_RUNNING && (s->state != REDRIVE_STATE_RUNNING || key.gate.len == 0)))
        return;
    struct job_count *count = count_of(page, &key);
    if (kind == COUNT_QUEUES)
        add_to_queue(count, s);
    else if (kind == COUNT_PARTITIONS)
        count->by_state[s->state]++;
    else
        count->jobs++;
}

/* Pauses belong to queues, slots in use to limits. */
static void count_row(struct count_page *page, enum count_kind kind, const struct shared_row *row)
{
    const struct job_count queue = {.tenant = row->tenant, .queue = row->key};
    const struct job_count limit = {.tenant = row->tenant, .gate = row->key};
    if (kind == COUNT_QUEUES && row->kind == SHARED_PAUSE)
        count_of(page, &queue)->paused = true;
    if (kind == COUNT_RUNNING && row->sums.used > 0)
        count_of(page, &limit)->used = (uint64_t)row->sums.used;
}

int memory_counts(struct store *store, enum count_kind kind, struct str tenant,
                  struct count_page *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    count_page_release(ret);
    const struct mem_state *state = memory_look(m);
    /* Those of gates may be as they were before the transaction: so the engine is tried with that.
     */
    if (m->in_transaction && kind >= COUNT_PARKED)
        state = &m->place->committed;
    ret->counts = arena_array(&ret->arena, state->jobs.n + state->shared.n, sizeof *ret->counts);
    for (size_t i = 0; i < state->jobs.n && !ret->arena.failed; i++)
        if (tenant.len == 0 || str_eq(tenant, job_at(state, i)->spec.tenant))
            count_job(ret, kind, job_at(state, i));
    for (size_t i = 0; i < state->shared.n && !ret->arena.failed; i++) {
        const struct shared_row *row = mem_table_at(&state->shared, i);
        if (tenant.len == 0 || str_eq(tenant, row->tenant))
            count_row(ret, kind, row);
    }
    memory_unlook(m);
    if (ret->arena.failed) {
        count_page_release(ret);
        return err_nomem(err);
    }
    if (ret->n > 0)
        qsort(ret->counts, ret->n, sizeof *ret->counts, job_count_order);
    return 0;
}

/* Groups whose examples are still the store's own rows. */
static struct group_count *group_of(struct group_count *groups, size_t *n, uint64_t fingerprint)
{
    for (size_t i = 0; i < *n; i++)
        if (groups[i].fingerprint == fingerprint)
            return &groups[i];
    groups[*n] = (struct group_count){.fingerprint = fingerprint, .first_ms = INT64_MAX};
    return &groups[(*n)++];
}

static void group_job(struct group_count *group, const struct job *job)
{
    int64_t ended_ms = job->status.finished_ms;
    group->count++;
    if (ended_ms < group->first_ms)
        group->first_ms = ended_ms;
    /* Jobs come by seq, so that the later of two of the same time is the higher. */
    if (group->count == 1 || ended_ms >= group->last_ms) {
        group->last_ms = ended_ms;
        group->example = *job;
    }
}

static int largest_first(const void *left, const void *right)
{
    const struct group_count *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    if (a->last_ms != b->last_ms)
        return a->last_ms > b->last_ms ? -1 : 1;
    return a->example.status.seq > b->example.status.seq ? -1 : 1;
}

static size_t count_groups(const struct mem_state *state, const struct job_filter *filter,
                           struct group_count *groups)
{
    size_t n = 0;
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        if (job->status.fingerprint != 0 && memory_matches(filter, job))
            group_job(group_of(groups, &n, job->status.fingerprint), job);
    }
    if (n > 0)
        qsort(groups, n, sizeof *groups, largest_first);
    return n;
}

static int list_groups(const struct mem_state *state, const struct job_filter *filter,
                       struct group_page *ret, struct redrive_err *err)
{
    struct group_count *groups = calloc(state->jobs.n + 1, sizeof *groups);
    if (!groups)
        return err_nomem(err);
    size_t n = count_groups(state, filter, groups);
    ret->n = n < filter->limit ? n : filter->limit;
    ret->groups = arena_array(&ret->arena, ret->n, sizeof *ret->groups);
    for (size_t i = 0; ret->groups && i < ret->n; i++) {
        ret->groups[i] = groups[i];
        mem_table_copy_out(&MEM_JOB, &ret->groups[i].example, &groups[i].example, &ret->arena);
    }
    free(groups);
    if (!ret->arena.failed)
        return 0;
    group_page_release(ret);
    return err_nomem(err);
}

int memory_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                  struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    group_page_release(ret);
    if (filter->limit < 1 || filter->limit > STORE_PAGE_MAX)
        return err_set(err, REDRIVE_E_RANGE, "a page has 1 to %d groups, not %zu", STORE_PAGE_MAX,
                       filter->limit);
    int rc = list_groups(memory_look(m), filter, ret, err);
    memory_unlook(m);
    return rc;
}

int memory_causes(struct store *store, const struct job_filter *filter,
                  void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                  struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    const struct mem_state *state = memory_look(m);
    (void)err;
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        const struct cause_count cause = {job->spec.task, job->status.reason,
                                          job->status.error.class_, job->status.error.type, 1};
        if (memory_matches(filter, job))
            add(ctx, &cause);
    }
    memory_unlook(m);
    return 0;
}
