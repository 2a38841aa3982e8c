/* memory_row.c - what the rows are made of, and what every move does to one. */
#include "store/memory_int.h"

#include <assert.h>

#include "base/err.h"
#include "core/elapsed.h"
#include "core/state.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

static const size_t JOB_STRS[] = {
    offsetof(struct job, spec.tenant),
    offsetof(struct job, spec.id),
    offsetof(struct job, spec.task),
    offsetof(struct job, spec.queue),
    offsetof(struct job, spec.payload),
    offsetof(struct job, spec.user),
    offsetof(struct job, spec.project),
    offsetof(struct job, spec.service),
    offsetof(struct job, spec.unique_key),
    offsetof(struct job, spec.policy),
    offsetof(struct job, spec.breaker_key),
    offsetof(struct job, spec.limit_key),
    offsetof(struct job, status.worker),
    offsetof(struct job, status.result),
    offsetof(struct job, status.error.type),
    offsetof(struct job, status.error.message),
    offsetof(struct job, status.error.stacktrace),
};
const struct mem_kind MEM_JOB = {sizeof(struct job), JOB_STRS, N(JOB_STRS)};

static const size_t ATTEMPT_STRS[] = {
    offsetof(struct mem_attempt, attempt.worker),
    offsetof(struct mem_attempt, attempt.why),
    offsetof(struct mem_attempt, attempt.error.type),
    offsetof(struct mem_attempt, attempt.error.message),
    offsetof(struct mem_attempt, attempt.error.stacktrace),
};
const struct mem_kind MEM_ATTEMPT = {sizeof(struct mem_attempt), ATTEMPT_STRS, N(ATTEMPT_STRS)};

static const size_t KEY_STRS[] = {
    offsetof(struct mem_key, tenant),
    offsetof(struct mem_key, key),
    offsetof(struct mem_key, id),
};
const struct mem_kind MEM_KEY = {sizeof(struct mem_key), KEY_STRS, N(KEY_STRS)};

static const size_t SHARED_STRS[] = {
    offsetof(struct shared_row, tenant),
    offsetof(struct shared_row, key),
    offsetof(struct shared_row, value),
};
const struct mem_kind MEM_SHARED = {sizeof(struct shared_row), SHARED_STRS, N(SHARED_STRS)};

static const size_t COUNTER_STRS[] = {
    offsetof(struct counter, tenant),
    offsetof(struct counter, name),
    offsetof(struct counter, label),
};
const struct mem_kind MEM_COUNTER = {sizeof(struct counter), COUNTER_STRS, N(COUNTER_STRS)};

int mem_str_cmp(struct str a, struct str b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter > 0 ? memcmp(a.ptr, b.ptr, shorter) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

bool memory_find(const struct mem_state *state, int64_t seq, size_t *ret_i)
{
    size_t low = 0, high = state->jobs.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (job_at(state, middle)->status.seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_i = low;
    return low < state->jobs.n && job_at(state, low)->status.seq == seq;
}

int memory_take(struct memory *m, int64_t seq, uint32_t states, struct move_result *ret,
                struct job **ret_job)
{
    size_t i;
    *ret_job = NULL;
    if (!memory_find(&m->unit, seq, &i)) {
        *ret = (struct move_result){.code = REDRIVE_E_NOT_FOUND};
        return 0;
    }
    enum redrive_state state = job_at(&m->unit, i)->status.state;
    if (!(states >> state & 1)) {
        *ret = (struct move_result){.code = REDRIVE_E_STATE, .state = state};
        return 0;
    }
    *ret = (struct move_result){.state = state};
    *ret_job = mem_table_edit(&m->unit.jobs, i);
    return *ret_job ? 0 : REDRIVE_E_NOMEM;
}

static void leave_running(struct job_status *s)
{
    s->token = 0;
    s->lease_until_ms = 0;
    s->permit = (struct breaker_permit){0};
}

static void leave_parked(struct job_status *s, int64_t now_ms)
{
    if (s->first_started_ms != 0)
        s->held_ms += elapsed_since(s->held_since_ms, now_ms);
    s->held_since_ms = 0;
    s->parked_by_limit = false;
}

void memory_become(const struct memory *m, struct job *job, enum redrive_state to, int64_t ended_ms,
                   struct move_result *ret)
{
    struct job_status *s = &job->status;
    assert(state_may_become(s->state, to));
    if (s->state == REDRIVE_STATE_RUNNING)
        leave_running(s);
    if (s->state == REDRIVE_STATE_PARKED)
        leave_parked(s, m->now_ms);
    if (state_has_ended(to))
        s->finished_ms = ended_ms != 0 ? ended_ms : m->now_ms;
    s->state = to;
    s->updated_ms = m->now_ms;
    *ret = (struct move_result){.state = to};
}

int memory_page(const struct job *const *jobs, size_t n, struct job_page *ret,
                struct redrive_err *err)
{
    job_page_release(ret);
    ret->jobs = arena_array(&ret->arena, n, sizeof *ret->jobs);
    for (size_t i = 0; ret->jobs && i < n; i++)
        mem_table_copy_out(&MEM_JOB, &ret->jobs[i], jobs[i], &ret->arena);
    ret->n = n;
    if (!ret->arena.failed)
        return 0;
    job_page_release(ret);
    return err_nomem(err);
}
