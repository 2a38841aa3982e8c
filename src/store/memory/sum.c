/* sum.c - how many jobs there are, by queue and by error. */
#include "store/memory/private.h"

#include <stdlib.h>

#include "base/err.h"

/* The count of a queue, which is made when it is not there yet; the page has room. */
static struct queue_count *queue_of(struct queue_page *page, struct str tenant, struct str queue)
{
    for (size_t i = 0; i < page->n; i++)
        if (str_eq(page->queues[i].queue, queue) && str_eq(page->queues[i].tenant, tenant))
            return &page->queues[i];
    struct queue_count *q = &page->queues[page->n++];
    q->tenant = arena_str(&page->arena, tenant);
    q->queue = arena_str(&page->arena, queue);
    return q;
}

/* Jobs come by seq. */
static void count_job(struct queue_count *q, const struct job_status *s)
{
    q->by_state[s->state]++;
    if (s->state == REDRIVE_STATE_QUEUED && q->oldest_ready_ms == 0)
        q->oldest_ready_ms = s->created_ms;
    bool locked = s->state == REDRIVE_STATE_SCHEDULED || s->state == REDRIVE_STATE_RETRYING;
    if (locked && (q->next_due_ms == 0 || s->process_after_ms < q->next_due_ms))
        q->next_due_ms = s->process_after_ms;
}

static int by_name(const void *left, const void *right)
{
    const struct queue_count *a = left, *b = right;
    int order = mem_str_cmp(a->tenant, b->tenant);
    return order != 0 ? order : mem_str_cmp(a->queue, b->queue);
}

static void count_queues(const struct mem_state *state, struct str tenant, struct queue_page *page)
{
    page->queues = arena_array(&page->arena, state->jobs.n + state->shared.n, sizeof *page->queues);
    if (!page->queues)
        return;
    for (size_t i = 0; i < state->jobs.n && !page->arena.failed; i++) {
        const struct job *job = job_at(state, i);
        if (tenant.len == 0 || str_eq(tenant, job->spec.tenant))
            count_job(queue_of(page, job->spec.tenant, job->spec.queue), &job->status);
    }
    for (size_t i = 0; i < state->shared.n && !page->arena.failed; i++) {
        const struct shared_row *row = mem_table_at(&state->shared, i);
        if (row->kind == SHARED_PAUSE && (tenant.len == 0 || str_eq(tenant, row->tenant)))
            queue_of(page, row->tenant, row->key)->paused = true;
    }
    if (!page->arena.failed && page->n > 0)
        qsort(page->queues, page->n, sizeof *page->queues, by_name);
}

int memory_queues(struct store *store, struct str tenant, struct queue_page *ret,
                  struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    queue_page_release(ret);
    count_queues(memory_look(m), tenant, ret);
    memory_unlook(m);
    if (!ret->arena.failed)
        return 0;
    queue_page_release(ret);
    return err_nomem(err);
}

static struct str own_copy(struct arena *arena, struct str s)
{
    return arena_str(arena, s);
}

static int line_by_name(const void *left, const void *right)
{
    const struct line_count *a = left, *b = right;
    int order = mem_str_cmp(a->tenant, b->tenant);
    if (order == 0)
        order = mem_str_cmp(a->queue, b->queue);
    return order != 0 ? order : mem_str_cmp(a->task, b->task);
}

/* The count of a line, which is made when it is not there yet; the page has room. */
static struct line_count *line_of(struct line_page *page, const struct job_spec *spec)
{
    const struct line_count wanted = {spec->tenant, spec->queue, spec->task, {0}};
    for (size_t i = 0; i < page->n; i++)
        if (line_by_name(&page->lines[i], &wanted) == 0)
            return &page->lines[i];
    struct line_count *line = &page->lines[page->n++];
    line->tenant = own_copy(&page->arena, spec->tenant);
    line->queue = own_copy(&page->arena, spec->queue);
    line->task = own_copy(&page->arena, spec->task);
    return line;
}

int memory_lines(struct store *store, struct str tenant, struct line_page *ret,
                 struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    line_page_release(ret);
    const struct mem_state *state = memory_look(m);
    ret->lines = arena_array(&ret->arena, state->jobs.n, sizeof *ret->lines);
    for (size_t i = 0; i < state->jobs.n && !ret->arena.failed; i++) {
        const struct job *job = job_at(state, i);
        if (tenant.len == 0 || str_eq(tenant, job->spec.tenant))
            line_of(ret, &job->spec)->by_state[job->status.state]++;
    }
    memory_unlook(m);
    if (!ret->arena.failed) {
        if (ret->n > 0)
            qsort(ret->lines, ret->n, sizeof *ret->lines, line_by_name);
        return 0;
    }
    line_page_release(ret);
    return err_nomem(err);
}

static int lane_by_name(const void *left, const void *right)
{
    const struct lane_count *a = left, *b = right;
    int order = mem_str_cmp(a->tenant, b->tenant);
    return order != 0 ? order : mem_str_cmp(a->lane, b->lane);
}

static struct lane_count *lane_of(struct lane_page *page, struct str tenant, struct str key)
{
    const struct lane_count wanted = {.tenant = tenant, .lane = key};
    for (size_t i = 0; i < page->n; i++)
        if (lane_by_name(&page->lanes[i], &wanted) == 0)
            return &page->lanes[i];
    struct lane_count *lane = &page->lanes[page->n++];
    lane->tenant = own_copy(&page->arena, wanted.tenant);
    lane->lane = own_copy(&page->arena, wanted.lane);
    return lane;
}

/* What holds it, or what it runs under. */
static struct str lane_key(const struct job *job)
{
    const bool by_limit = job->status.state == REDRIVE_STATE_RUNNING || job->status.parked_by_limit;
    return by_limit ? job->spec.limit_key : job->spec.breaker_key;
}

static void add_used(const struct mem_state *state, struct str tenant, struct lane_page *page)
{
    for (size_t i = 0; i < state->shared.n; i++) {
        const struct shared_row *row = mem_table_at(&state->shared, i);
        if (row->sums.used > 0 && (tenant.len == 0 || str_eq(tenant, row->tenant)))
            lane_of(page, row->tenant, row->key)->used = (uint64_t)row->sums.used;
    }
}

static int count_lanes(struct store *store, enum redrive_state in, struct str tenant,
                       struct lane_page *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    lane_page_release(ret);
    const struct mem_state *looked_at = memory_look(m);
    const struct mem_state *state = m->in_unit ? &m->place->committed : looked_at;
    ret->lanes = arena_array(&ret->arena, state->jobs.n + state->shared.n, sizeof *ret->lanes);
    for (size_t i = 0; i < state->jobs.n && !ret->arena.failed; i++) {
        const struct job *job = job_at(state, i);
        if (job->status.state == in && (in != REDRIVE_STATE_RUNNING || lane_key(job).len > 0) &&
            (tenant.len == 0 || str_eq(tenant, job->spec.tenant)))
            lane_of(ret, job->spec.tenant, lane_key(job))->jobs++;
    }
    if (in == REDRIVE_STATE_RUNNING && !ret->arena.failed)
        add_used(state, tenant, ret);
    memory_unlook(m);
    if (!ret->arena.failed) {
        if (ret->n > 0)
            qsort(ret->lanes, ret->n, sizeof *ret->lanes, lane_by_name);
        return 0;
    }
    lane_page_release(ret);
    return err_nomem(err);
}

int memory_parked_counts(struct store *store, struct str tenant, struct lane_page *ret,
                         struct redrive_err *err)
{
    return count_lanes(store, REDRIVE_STATE_PARKED, tenant, ret, err);
}

int memory_running_counts(struct store *store, struct str tenant, struct lane_page *ret,
                          struct redrive_err *err)
{
    return count_lanes(store, REDRIVE_STATE_RUNNING, tenant, ret, err);
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
