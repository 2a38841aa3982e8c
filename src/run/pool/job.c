/* job.c - a claimed job from its start to its settlement. */
#include "run/pool/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "core/classify/classify.h"
#include "core/classify/failure.h"

/* ---- What a job points to --------------------------------------------------------------------
 *
 * Claimed jobs and outcomes are gone when the callbacks that bring them return.
 */

static struct pool_job *job_new(struct pool_task *task, const struct job *job)
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
    return own;
}

/* Without memory it is still known whether it went well, and by which code it did not. */
static void keep_outcome(struct pool_job *job, const struct run_outcome *ran)
{
    const char *status = ran->outcome.failure.status;
    struct redrive_failure *own = &job->outcome.failure;
    job->outcome = ran->outcome;
    job->failure_text = failure_copy(&ran->outcome.failure, NULL, own);
    if (!own->status && status && classify_status(str_of(status)) != REDRIVE_CLASS_SUCCESS)
        own->failed = true;
    job->result_text = ran->result.len > 0 ? str_dup(ran->result) : NULL;
    if (job->result_text)
        job->result = (struct str){job->result_text, ran->result.len};
}

/* ---- From claim to end ----------------------------------------------------------------------- */

void pool_job_over(struct pool_job *job)
{
    job->is_over = true;
    if (job->is_extending)
        return;
    job->task->pool->n_jobs--;
    list_remove(&job->link);
    free(job->failure_text);
    free(job->result_text);
    free(job);
}

void pool_job_cancel(struct pool_job *job)
{
    if (!job->run || job->is_lost)
        return;
    job->is_lost = true;
    runner_cancel(job->run);
}

void pool_job_lose(struct pool_job *job, enum redrive_state state)
{
    const bool is_cancelled = state == REDRIVE_STATE_CANCELLED;
    if (job->run && !job->is_lost)
        log_event(job->task->pool->options.log, is_cancelled ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING,
                  clock_wall_ms(), is_cancelled ? "cancelled_elsewhere" : "lease_lost",
                  LOG_S("job_id", job->request.job_id), LOG_S("task", job->request.task),
                  LOG_I("attempt", job->request.attempt));
    pool_job_cancel(job);
}

static void on_done(const struct run_outcome *ran, void *ctx)
{
    struct pool_job *job = ctx;
    struct pool *pool = job->task->pool;
    job->run = NULL;
    job->task->running--;
    pool->running--;
    pool->n_ended++;
    if (job->is_lost) {
        pool_job_over(job);
        return;
    }
    struct run_outcome given_back;
    keep_outcome(job, pool_fault_takes(job->task, job->seq, ran, &given_back) ? &given_back : ran);
    list_insert(&pool->to_settle, &job->queue);
}

/* A runner that takes no job because it stops costs nothing; one that cannot has failed it. */
static void not_started(struct pool_job *job, int code, const struct redrive_err *err)
{
    struct run_outcome outcome = {.outcome.ending = ENDING_RELEASED};
    if (code != REDRIVE_E_STOPPING)
        outcome.outcome = (struct outcome){
            .failure = {.failed = true, .status = "system", .message = err->message},
        };
    keep_outcome(job, &outcome);
    list_insert(&job->task->pool->to_settle, &job->queue);
}

void pool_job_take(struct pool_task *task, const struct job *claimed)
{
    struct pool *pool = task->pool;
    struct redrive_err err;
    int rc = REDRIVE_E_STOPPING;
    struct pool_job *job = job_new(task, claimed);
    if (!job) {
        log_event(pool->options.log, LOG_LEVEL_ERROR, clock_wall_ms(), "job_not_taken",
                  LOG_STR("job_id", claimed->spec.id), LOG_S("task", task->config->name),
                  LOG_S("error", "out of memory: it is taken back when its lease ends"));
        pool->n_left++;
        return;
    }
    pool->n_jobs++;
    list_insert(&task->jobs, &job->link);
    if (task->runner)
        rc = runner_start(task->runner, &job->request, on_done, job, &job->run, &err);
    if (rc < 0) {
        not_started(job, rc, &err);
        return;
    }
    task->running++;
    pool->running++;
    pool_lease_watch(task);
}
