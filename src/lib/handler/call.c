/* call.c - the entry points submit, call and cancel: checks of a job, and its result. */
#include "lib/handler/private.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text/str.h"
#include "base/time/duration.h"

#define PRIORITY_MAX 100

/* ---- Results --------------------------------------------------------------------------------- */

void redrive_result_release(struct redrive_result *result)
{
    if (!result)
        return;
    free(result->data);
    result->data = NULL;
    result->len = 0;
}

int submit_refuse(struct redrive_result *ret, const char *id, const struct redrive_err *err)
{
    if (ret) {
        *ret = (struct redrive_result){.state = REDRIVE_STATE_FAILED, .error = *err};
        if (err->code == REDRIVE_E_BREAKER_OPEN)
            ret->reason = REDRIVE_REASON_BREAKER_OPEN;
        if (id)
            str_copy(ret->id, sizeof ret->id, str_of(id));
    }
    return err->code;
}

static int code_of(const struct decision *d)
{
    if (d->state == REDRIVE_STATE_COMPLETED)
        return 0;
    if (d->state == REDRIVE_STATE_CANCELLED)
        return REDRIVE_E_CANCELLED;
    return d->reason == REDRIVE_REASON_DEADLINE ? REDRIVE_E_DEADLINE : REDRIVE_E_JOB_FAILED;
}

static void describe(struct redrive_err *err, int code, const struct redrive_run *run,
                     const struct decision *d)
{
    if (code == REDRIVE_E_CANCELLED) {
        err_set(err, code, "%s was cancelled after %u of %u attempts", run->job.task, run->attempts,
                run->max_attempts);
        return;
    }
    err_set(err, code, "%s failed after %u of %u attempts: %s", run->job.task, run->attempts,
            run->max_attempts, redrive_reason_name(d->reason));
    const char *message = run_message(run);
    if (message)
        err_detail(err, "%s: %s", redrive_class_name(run->last_class), message);
    if (d->state == REDRIVE_STATE_DEAD_LETTER)
        err_hint(err, "redrive_dlq_retry() runs it again");
    else if (run->is_lost)
        err_hint(err, "there was no memory to keep it as a dead letter");
}

int result_fill(struct redrive_result *ret, struct redrive_run *run, const struct decision *d)
{
    int code = code_of(d);
    if (!ret)
        return code;
    *ret = (struct redrive_result){
        .state = d->state,
        .reason = d->reason,
        .class_ = code == 0 ? REDRIVE_CLASS_SUCCESS : run->last_class,
        .attempts = run->attempts,
        .elapsed_ms = run->now_ms - run->submitted_ms,
        .parked_ms = run->parked_ms,
        .data = run->data,
        .len = run->len,
    };
    run->data = NULL;
    memcpy(ret->id, run->id, sizeof ret->id);
    if (code != 0)
        describe(&ret->error, code, run, d);
    return code;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

int job_check(const struct redrive_handler *h, const struct redrive_job *job,
              struct redrive_err *err)
{
    if (!h || !job)
        return err_set(err, REDRIVE_E_INVALID, "handler, job and function are required");
    if (!job->task || !*job->task)
        return err_set(err, REDRIVE_E_INVALID, "job.task is required");
    if (job->service && !*job->service)
        return err_set(err, REDRIVE_E_INVALID, "job.service is empty");
    if (job->id && (!*job->id || strnlen(job->id, REDRIVE_ID_MAX + 1) > REDRIVE_ID_MAX))
        return err_set(err, REDRIVE_E_INVALID, "job.id must have 1 to %d bytes", REDRIVE_ID_MAX);
    if (job->priority < -PRIORITY_MAX || job->priority > PRIORITY_MAX)
        return err_set(err, REDRIVE_E_RANGE, "job.priority %d is not between -%d and %d",
                       job->priority, PRIORITY_MAX, PRIORITY_MAX);
    if (!job->payload && job->payload_len > 0)
        return err_set(err, REDRIVE_E_INVALID, "job.payload is NULL, but payload_len is not 0");
    if (job->deadline_ms < 0 || job->deadline_ms > DURATION_MAX_MS)
        return err_set(err, REDRIVE_E_RANGE, "job.deadline_ms is not between 0 and 100 years");
    return job->policy ? redrive_policy_check(job->policy, err) : 0;
}

int redrive_submit(struct redrive_handler *h, const struct redrive_job *job, redrive_fn fn,
                   void *arg, struct redrive_result *ret)
{
    struct redrive_err err;
    if (job_check(h, fn ? job : NULL, &err) < 0)
        return submit_refuse(ret, job ? job->id : NULL, &err);
    struct redrive_run run;
    run_init(&run, h, job);
    handler_lock(h);
    return submit_run(&run, fn, arg, ret);
}

static struct redrive_handler *shared;

static void make_shared(void)
{
    shared = redrive_handler_new(NULL, NULL);
}

struct redrive_handler *redrive_handler_default(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_shared);
    return shared;
}

int redrive_call(struct redrive_handler *h, const char *task, redrive_fn fn, void *arg,
                 struct redrive_result *ret)
{
    if (!h)
        h = redrive_handler_default();
    if (!h) {
        struct redrive_err err;
        err_nomem(&err);
        return submit_refuse(ret, NULL, &err);
    }
    return redrive_submit(h, &(struct redrive_job){.task = task}, fn, arg, ret);
}

int redrive_cancel(struct redrive_handler *h, const char *job_id)
{
    if (!h || !job_id)
        return REDRIVE_E_INVALID;
    handler_lock(h);
    struct redrive_run *run = map_get(&h->runs, str_of(job_id));
    if (run) {
        atomic_store(&run->cancelled, true);
        caller_wake(&run->caller);
    }
    handler_unlock(h);
    return run ? 0 : REDRIVE_E_NOT_FOUND;
}
