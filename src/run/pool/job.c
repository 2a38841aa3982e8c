/* job.c - a claimed job: what it points to, its outcome, its wait for a slot, its end. */
#include "run/pool/private.h"

#include <stdlib.h>

#include "base/rng.h"
#include "core/classify/classify.h"

/* ---- What a job points to --------------------------------------------------------------------
 *
 * Claimed jobs and outcomes are gone when the callbacks that bring them return.
 */

/* Of tenant and key. */
static uint64_t breaker_of(const struct job_spec *spec)
{
    const struct str tenant = spec->tenant, key = spec->breaker_key;
    return key.len == 0 ? 0 : rng_hash(key.ptr, key.len, rng_hash(tenant.ptr, tenant.len, 1)) | 1;
}

struct pool_job *pool_job_new(struct pool_task *task, const struct job *job)
{
    const struct job_spec *spec = &job->spec;
    size_t size = spec->id.len + spec->queue.len + spec->tenant.len + spec->payload.len + 4;
    struct pool_job *own = calloc(1, sizeof *own + size);
    if (!own)
        return NULL;
    char *at = own->text;
    own->task = task;
    own->seq = job->status.seq;
    own->token = job->status.token;
    own->shard = committer_shard_of(task->pool->options.committer, own->seq);
    own->has_limit = spec->limit_key.len > 0;
    own->breaker = breaker_of(spec);
    list_init(&own->queue);
    own->request = (struct run_request){
        .job_id = str_pack(&at, spec->id),
        .task = task->config->name,
        .queue = str_pack(&at, spec->queue),
        .tenant = str_pack(&at, spec->tenant),
        .attempt = job->status.attempts,
        .max_attempts = job_max_attempts(job),
        .payload = {str_pack(&at, spec->payload), spec->payload.len},
        .timeout_ms = task->config->run.timeout_ms,
    };
    const struct trace_job trace = job_trace(job);
    if (trace_for_handler(tracing_sampler(task->pool->options.tracing), &trace, own->traceparent))
        own->request.traceparent = own->traceparent;
    if (!job->parents)
        return own;
    own->parents = parents_copy(job->parents, job->n_parents);
    own->request.parents = own->parents;
    own->request.n_parents = job->n_parents;
    if (own->parents)
        return own;
    free(own);
    return NULL;
}

bool pool_job_runs(const struct pool_task *task, int64_t seq)
{
    LIST_FOREACH (&task->jobs, link) {
        const struct pool_job *job = LIST_ENTRY(link, struct pool_job, link);
        if (job->seq == seq && job->run)
            return true;
    }
    return false;
}

/* A handler may say anything, and stores have limits of their own: the type of an error is part of
 * an index of PostgreSQL, which refuses entries of some KiB. */
static const struct failure_limits LIMITS = {
    .name = 255,
    .message = (size_t)64 * 1024,
    .stacktrace = REDRIVE_STACKTRACE_MAX,
};

/* Without memory it is still known whether it went well, and by which code it did not. */
void pool_job_keep(struct pool_job *job, const struct run_outcome *ran)
{
    const char *status = ran->outcome.failure.status;
    struct redrive_failure *own = &job->outcome.failure;
    job->outcome = ran->outcome;
    job->failure_text = failure_copy(&ran->outcome.failure, &LIMITS, own);
    if (!own->status && status && classify_status(str_of(status)) != REDRIVE_CLASS_SUCCESS)
        own->failed = true;
    job->result_text = ran->result.len > 0 ? str_dup(ran->result) : NULL;
    if (job->result_text)
        job->result = (struct str){job->result_text, ran->result.len};
}

/* ---- Jobs that wait for a slot: giving back -------------------------------------------------- */

void pool_job_give_back(struct pool_job *job)
{
    pool_job_keep(job, &(struct run_outcome){.outcome.ending = ENDING_RELEASED});
    list_insert(&job->task->pool->to_settle, &job->queue);
}

void pool_job_put_off(struct pool_job *job, int64_t ms)
{
    pool_job_keep(job, &(struct run_outcome){
                           .outcome = {.ending = ENDING_SNOOZED, .snooze_ms = ms},
                       });
    list_insert(&job->task->pool->to_settle, &job->queue);
}

void pool_ahead_remove(struct pool_job *job)
{
    job->is_ahead = false;
    list_remove(&job->queue);
    job->task->n_ahead--;
    job->task->pool->n_ahead--;
}

void pool_ahead_give_one_back(struct pool_job *job)
{
    pool_ahead_remove(job);
    pool_job_give_back(job);
}

static void give_all_back(struct pool_task *task)
{
    LIST_FOREACH (&task->ahead, link)
        pool_ahead_give_one_back(LIST_ENTRY(link, struct pool_job, queue));
}

void pool_ahead_shut(struct pool *pool, uint64_t breaker)
{
    for (size_t i = 0; i < pool->n_tasks && breaker != 0; i++) {
        LIST_FOREACH (&pool->tasks[i].ahead, link) {
            struct pool_job *job = LIST_ENTRY(link, struct pool_job, queue);
            if (job->breaker == breaker)
                pool_ahead_give_one_back(job);
        }
    }
}

/* ---- The end of a job ------------------------------------------------------------------------ */

void pool_job_clear_doubt(struct pool_job *job)
{
    job->task->n_doubtful[job->shard] -= job->is_doubtful;
    job->is_doubtful = false;
}

void pool_job_end(struct pool_job *job)
{
    pool_job_clear_doubt(job);
    job->is_over = true;
    if (job->is_extending)
        return;
    job->task->pool->n_jobs--;
    list_remove(&job->link);
    free(job->failure_text);
    free(job->result_text);
    free(job->parents);
    free(job);
}

void pool_job_cancel(struct pool_job *job)
{
    if (job->is_ahead) {
        pool_ahead_remove(job);
        pool_job_end(job);
        return;
    }
    if (!job->run || job->is_lost)
        return;
    job->is_lost = true;
    runner_cancel(job->run);
}

/* ---- Jobs that wait for a slot: rules -------------------------------------------------------- */

/* Forgets how long runs and claims take. */
static void learn_anew(struct pool_task *task)
{
    const uint32_t all = task->pool->slots;
    claim_pace_init(&task->pace, task->slots < all ? task->slots : all, CLAIM_AHEAD_MAX);
}

void pool_ahead_init(struct pool_task *task)
{
    const struct pool *pool = task->pool;
    const bool shares_slots = pool->n_tasks > 1 && pool->slots == pool->options.max_jobs;
    task->may_go_ahead = !shares_slots && claim_ahead_is_allowed(task->config);
    learn_anew(task);
}

size_t pool_ahead_target(const struct pool_task *task)
{
    return task->may_go_ahead ? claim_pace_ahead(&task->pace) : 0;
}

/* Larger transactions cost less for each job: a claim that is answered sooner is not made more
 * often. */
void pool_ahead_claimed(struct pool_task *task, int64_t took_us)
{
    const int64_t least_us = POOL_AHEAD_MS * 1000;
    claim_pace_turn(&task->pace, took_us > least_us ? took_us : least_us);
}

void pool_ahead_give_back(struct pool_task *task)
{
    learn_anew(task);
    give_all_back(task);
}

/* ---- Jobs that wait for a slot: how long ----------------------------------------------------- */

/* The handler is slower than it was, or hangs: other workers may have these. Its pace is learnt
 * again from the next run that ends. */
static void give_back_late(struct pool_task *task, uint64_t now_ns)
{
    const uint64_t limit_ns = (uint64_t)POOL_AHEAD_WAIT_MS * 1000000;
    LIST_FOREACH (&task->ahead, link) {
        struct pool_job *job = LIST_ENTRY(link, struct pool_job, queue);
        if (now_ns - job->since_ns < limit_ns)
            return;
        learn_anew(task);
        pool_ahead_give_one_back(job);
    }
}

static void on_ahead_timer(uv_timer_t *timer)
{
    struct pool *pool = timer->data;
    const uint64_t now_ns = uv_hrtime();
    for (size_t i = 0; i < pool->n_tasks; i++)
        give_back_late(&pool->tasks[i], now_ns);
    if (pool->n_ahead == 0)
        uv_timer_stop(timer);
}

void pool_ahead_wait(struct pool_job *job)
{
    struct pool_task *task = job->task;
    struct pool *pool = task->pool;
    job->is_ahead = true;
    job->since_ns = uv_hrtime();
    list_insert(&task->ahead, &job->queue);
    task->n_ahead++;
    pool->n_ahead++;
    if (!uv_is_active((const uv_handle_t *)&pool->ahead))
        uv_timer_start(&pool->ahead, on_ahead_timer, POOL_AHEAD_WAIT_MS, POOL_AHEAD_WAIT_MS);
}
