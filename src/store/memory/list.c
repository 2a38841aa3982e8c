/* list.c - jobs by filter or name, and their histories. */
#include "store/memory/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"

static bool is_wanted(struct str wanted, struct str s)
{
    return wanted.len == 0 || str_eq(wanted, s);
}

static bool is_in(uint32_t mask, unsigned bit)
{
    return mask == 0 || (mask >> bit & 1);
}

static bool ended_within(const struct job_filter *f, const struct job_status *s)
{
    if (f->finished_after_ms == 0 && f->finished_before_ms == 0)
        return true;
    return state_has_ended(s->state) && s->finished_ms >= f->finished_after_ms &&
           (f->finished_before_ms == 0 || s->finished_ms < f->finished_before_ms);
}

bool memory_matches(const struct job_filter *f, const struct job *job)
{
    const struct job_spec *spec = &job->spec;
    const struct job_status *s = &job->status;
    return is_wanted(f->tenant, spec->tenant) && is_wanted(f->id, spec->id) &&
           is_wanted(f->task, spec->task) && is_wanted(f->queue, spec->queue) &&
           is_wanted(f->user, spec->user) && is_wanted(f->unique_key, spec->unique_key) &&
           is_in(f->states, s->state) && is_in(f->classes, s->error.class_) &&
           is_in(f->reasons, s->reason) && is_wanted(f->error_type, s->error.type) &&
           str_contains(s->error.message, f->text) &&
           (f->fingerprint == 0 || f->fingerprint == s->fingerprint) && ended_within(f, s);
}

/* Where a job stands in an order: rising first, then rising second. */
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

/* What matches and follows the keyset. */
static size_t collect(const struct mem_state *state, const struct job_filter *f, struct listed *ret)
{
    struct position after = position_of(f->order, f->after_ms, f->after_seq);
    size_t n = 0;
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        struct position at = position_of(f->order, job->status.finished_ms, job->status.seq);
        if (memory_matches(f, job) && (f->after_seq == 0 || precedes(after, at)))
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
    if (filter->limit < 1 || filter->limit > STORE_PAGE_MAX)
        return err_set(err, REDRIVE_E_RANGE, "a page has 1 to %d jobs, not %zu", STORE_PAGE_MAX,
                       filter->limit);
    int rc = list_state(memory_look(m), filter, ret, err);
    memory_unlook(m);
    return rc;
}

static const struct job *job_named(const struct mem_state *state, const struct job_name *name)
{
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        if (str_eq(job->spec.id, name->id) && str_eq(job->spec.tenant, name->tenant))
            return job;
    }
    return NULL;
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
        jobs[found] = job_named(state, &names[i]);
        found += jobs[found] != NULL;
    }
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
        if (memory_find(state, seqs[i], &at))
            read_history(state, at, &ret[i]);
        rc = ret[i].arena.failed ? err_nomem(err) : 0;
    }
    memory_unlook(m);
    if (rc < 0)
        attempt_pages_release(ret, n);
    return rc;
}
