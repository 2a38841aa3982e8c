/* list.c - reads: jobs by filter or name, histories, counts and groups. */
#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"
#include "store/memory/private.h"

/* Sort keys of a job, both rising. */
struct position {
    int64_t first;
    int64_t second;
};

static struct position position_of(enum job_order order, int64_t finished_ms, int64_t seq)
{
    switch (order) {
    case ORDER_NEWEST: return (struct position){0, -seq};
    case ORDER_FINISHED: return (struct position){-finished_ms, -seq};
    case ORDER_OLDEST:
    default: return (struct position){0, seq};
    }
}

static bool precedes(struct position a, struct position b)
{
    return a.first != b.first ? a.first < b.first : a.second < b.second;
}

struct listed {
    struct position at;
    const struct job *job;
};

static int by_position(const void *left, const void *right)
{
    const struct listed *a = left, *b = right;
    return precedes(a->at, b->at) ? -1 : 1;
}

/* The jobs that match and follow the keyset. */
static size_t collect(const struct mem_state *state, const struct job_filter *f, struct listed *ret)
{
    struct position after = position_of(f->order, f->after_ms, f->after_seq);
    size_t n = 0;
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        struct position at = position_of(f->order, job->status.finished_ms, job->status.seq);
        if (job_filter_matches(f, job) && job_filter_reaches(f, job->status.seq) &&
            (f->after_seq == 0 || precedes(after, at)))
            ret[n++] = (struct listed){at, job};
    }
    return n;
}

static int list_state(const struct mem_state *state, const struct job_filter *f,
                      struct job_page *ret, struct redrive_err *err)
{
    struct listed *all = calloc(state->jobs.n + 1, sizeof *all);
    const struct job **jobs = calloc(f->limit, sizeof(const struct job *));
    int rc;
    if (!all || !jobs) {
        rc = err_nomem(err);
    } else {
        size_t n = collect(state, f, all);
        qsort(all, n, sizeof *all, by_position);
        size_t given = n < f->limit ? n : f->limit;
        for (size_t i = 0; i < given; i++)
            jobs[i] = all[i].job;
        rc = memory_page(jobs, given, ret, err);
        if (rc == 0)
            ret->more = n > given;
    }
    free(all);
    free(jobs);
    return rc;
}

int memory_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
                struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    job_page_release(ret);
    int rc = store_check_limit(filter->limit, "jobs", err);
    if (rc != 0)
        return rc;
    rc = list_state(memory_look(m), filter, ret, err);
    memory_unlook(m);
    return rc;
}

int memory_lookup(struct store *store, const struct job_name *names, size_t n, struct job_page *ret,
                  struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    const struct job *jobs[STORE_PAGE_MAX];
    size_t found = 0;
    job_page_release(ret);
    int rc = store_check_count(n, err);
    if (rc < 0)
        return rc;
    const struct mem_state *state = memory_look(m);
    for (size_t i = 0; i < n; i++) {
        jobs[found] = memory_find_id(state, names[i].tenant, names[i].id);
        found += jobs[found] != NULL;
    }
    rc = memory_page(jobs, found, ret, err);
    memory_unlook(m);
    return rc;
}

int memory_find(struct store *store, const int64_t *seqs, size_t n, struct job_page *ret,
                struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    const struct job *jobs[STORE_PAGE_MAX];
    size_t found = 0, at;
    job_page_release(ret);
    int rc = store_check_count(n, err);
    if (rc < 0)
        return rc;
    const struct mem_state *state = memory_look(m);
    for (size_t i = 0; i < n; i++)
        if (memory_seek(state, seqs[i], &at))
            jobs[found++] = job_at(state, at);
    rc = memory_page(jobs, found, ret, err);
    memory_unlook(m);
    return rc;
}

static void add_attempt(struct attempt_page *page, const struct mem_attempt *row)
{
    struct mem_attempt copy;
    mem_table_copy_out(&MEM_ATTEMPT, &copy, row, &page->arena);
    page->attempts[page->n++] = copy.attempt;
}

static void read_history(const struct mem_state *state, size_t job, struct attempt_page *ret)
{
    const struct mem_table *table = &state->attempts;
    ret->attempts = arena_array(&ret->arena, table->n + 1, sizeof *ret->attempts);
    if (!ret->attempts)
        return;
    for (size_t i = 0; i < table->n; i++) {
        const struct mem_attempt *row = mem_table_at(table, i);
        if (row->seq == job_at(state, job)->status.seq)
            add_attempt(ret, row);
    }
    struct mem_attempt latest = {0};
    if (transition_attempt_in_row(&job_at(state, job)->status, &latest.attempt))
        add_attempt(ret, &latest);
}

int memory_history(struct store *store, const int64_t *seqs, size_t n, struct attempt_page *ret,
                   struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    attempt_pages_release(ret, n);
    int rc = store_check_count(n, err);
    if (rc < 0)
        return rc;
    const struct mem_state *state = memory_look(m);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        size_t at;
        if (memory_seek(state, seqs[i], &at))
            read_history(state, at, &ret[i]);
        rc = ret[i].arena.failed ? err_nomem(err) : 0;
    }
    memory_unlook(m);
    if (rc < 0)
        attempt_pages_release(ret, n);
    return rc;
}

/* ---- Counts and groups ----------------------------------------------------------------------- */

/* The count with these names; a new one if there is none. The page has room. */
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
    /* Counts of gates may be those before the transaction: tests of the engine meet that here. */
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

static size_t count_groups(const struct mem_state *state, const struct job_filter *filter,
                           struct group_count *groups)
{
    size_t n = 0;
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        if (job->status.fingerprint != 0 && job_filter_matches(filter, job))
            group_job(group_of(groups, &n, job->status.fingerprint), job);
    }
    if (n > 0)
        qsort(groups, n, sizeof *groups, group_count_order);
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
        ret->groups[i].example = job_bare(&groups[i].example, &ret->arena);
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
    int rc = store_check_limit(filter->limit, "groups", err);
    if (rc != 0)
        return rc;
    rc = list_groups(memory_look(m), filter, ret, err);
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
        if (job_filter_matches(filter, job))
            add(ctx, &cause);
    }
    memory_unlook(m);
    return 0;
}
