/* row.c - what the rows are made of, and how they are found. */
#include "store/memory/private.h"

#include "base/err.h"

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
