/* run.c - the job as its function sees it, and the outcome that it reports. */
#include "lib/queue/private.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "base/time/duration.h"

/* ---- Start and end --------------------------------------------------------------------------- */

/* Copies the parents of the job in one block with their strings. False: no memory. */
static bool copy_parents(struct redrive_task_run *run, const struct job *job)
{
    size_t bytes = (job->n_parents + 1) * sizeof *run->parents; /* never 0 */
    if (!job->parents)
        return true;
    for (size_t i = 0; i < job->n_parents; i++)
        bytes += job->parents[i].id.len + job->parents[i].result.len + 2;
    run->parents = malloc(bytes);
    if (!run->parents)
        return false;
    char *at = (char *)(run->parents + job->n_parents + 1);
    for (size_t i = 0; i < job->n_parents; i++) {
        const struct job_parent *parent = &job->parents[i];
        run->parents[run->n_parents++] = (struct redrive_parent){
            .id = str_pack(&at, parent->id),
            .state = parent->state,
            .result = str_pack(&at, parent->result),
            .result_len = parent->result.len,
            .result_omitted = parent->is_omitted,
        };
    }
    return true;
}

bool queue_run_init(struct redrive_task_run *run, const struct job *job)
{
    const struct job_spec *spec = &job->spec;
    atomic_store(&run->is_lost, false);
    atomic_store(&run->is_late, false);
    atomic_store(&run->is_cancelled, false);
    run->attempt = job->status.attempts;
    run->max_attempts = job_max_attempts(job);
    run->deadline_ms = spec->deadline_ms;
    run->timeout_at_ms = QUEUE_NEVER;
    char *at = malloc(spec->id.len + spec->queue.len + spec->tenant.len + spec->payload.len + 4);
    run->text = at;
    if (!at)
        return false;
    run->id = str_pack(&at, spec->id);
    run->queue = str_pack(&at, spec->queue);
    run->tenant = str_pack(&at, spec->tenant);
    run->payload = str_pack(&at, spec->payload);
    run->payload_len = spec->payload.len;
    const struct trace_job trace = job_trace(job);
    run->has_trace = trace_for_handler(NULL, &trace, run->traceparent);
    return copy_parents(run, job);
}

void queue_run_release(struct redrive_task_run *run)
{
    free(run->text);
    free(run->failure_text);
    free(run->result);
    free(run->parents);
    run->text = run->failure_text = NULL;
    run->result = NULL;
    run->parents = NULL;
    run->n_parents = 0;
    run->id = run->queue = run->tenant = run->payload = NULL;
    run->payload_len = run->result_len = 0;
    run->has_failure = false;
    run->failure = (struct redrive_failure){0};
    run->said[0] = '\0';
    run->outcome = (struct outcome){0};
    run->waited_ms = run->late_ms = 0;
}

static bool is_timed_out(const struct redrive_task_run *run)
{
    return run->timeout_at_ms != QUEUE_NEVER && clock_monotonic_ms() >= run->timeout_at_ms;
}

static void say_timed_out(struct redrive_task_run *run)
{
    char limit[DURATION_TEXT_MAX];
    duration_format(run->handler->timeout_ms, limit);
    (void)snprintf(run->said, sizeof run->said, "timed out after %s", limit);
    run->failure = (struct redrive_failure){.failed = true, .error_type = "TimeoutError"};
}

bool queue_run_call(struct redrive_task_run *run)
{
    const struct queue_handler *h = run->handler;
    if (h->timeout_ms > 0)
        run->timeout_at_ms = queue_after(clock_monotonic_ms(), h->timeout_ms);
    int code = h->fn(run, h->arg);
    run->outcome = (struct outcome){.ending = ENDING_RAN};
    if (code == 0)
        return true;
    if (atomic_load(&h->queue->is_told) || atomic_load(&run->is_late)) {
        run->outcome.ending = ENDING_RELEASED;
        return false;
    }
    if (!run->has_failure && is_timed_out(run))
        say_timed_out(run);
    else if (!run->has_failure)
        failure_of_return(code, &run->failure, run->said, sizeof run->said);
    run->outcome.failure = run->failure;
    run->outcome.delay = h->delay;
    run->outcome.delay_ctx = h->delay_ctx;
    if (!run->failure.message && run->said[0])
        run->outcome.failure.message = run->said;
    return false;
}

/* ---- What the job is ------------------------------------------------------------------------- */

const char *redrive_task_run_id(const struct redrive_task_run *run)
{
    return run->id;
}

const char *redrive_task_run_task(const struct redrive_task_run *run)
{
    return run->handler->task;
}

const char *redrive_task_run_queue(const struct redrive_task_run *run)
{
    return run->queue;
}

const char *redrive_task_run_tenant(const struct redrive_task_run *run)
{
    return run->tenant;
}

const char *redrive_task_run_payload(const struct redrive_task_run *run, size_t *ret_len)
{
    if (ret_len)
        *ret_len = run->payload_len;
    return run->payload;
}

uint32_t redrive_task_run_attempt(const struct redrive_task_run *run)
{
    return run->attempt;
}

const char *redrive_task_run_traceparent(const struct redrive_task_run *run)
{
    return run->has_trace ? run->traceparent : NULL;
}

uint32_t redrive_task_run_max_attempts(const struct redrive_task_run *run)
{
    return run->max_attempts;
}

const struct redrive_parent *redrive_task_run_parents(const struct redrive_task_run *run,
                                                      size_t *ret_n)
{
    if (ret_n)
        *ret_n = run->n_parents;
    return run->n_parents > 0 ? run->parents : NULL;
}

struct redrive_queue *redrive_task_run_owner(const struct redrive_task_run *run)
{
    return run->handler->queue;
}

int64_t redrive_task_run_remaining_ms(const struct redrive_task_run *run)
{
    int64_t left_ms = INT64_MAX;
    if (run->deadline_ms > 0)
        left_ms =
            run->deadline_ms - engine_now_ms(committer_engine(run->handler->queue->committer));
    if (run->timeout_at_ms != QUEUE_NEVER) {
        int64_t timeout_ms = run->timeout_at_ms - clock_monotonic_ms();
        if (timeout_ms < left_ms)
            left_ms = timeout_ms;
    }
    return left_ms > 0 ? left_ms : 0;
}

bool redrive_task_run_cancelled(const struct redrive_task_run *run)
{
    return atomic_load_explicit(&run->is_cancelled, memory_order_relaxed) || is_timed_out(run);
}

/* ---- What it reports ------------------------------------------------------------------------- */

int redrive_task_run_fail(struct redrive_task_run *run, const struct redrive_failure *failure)
{
    char *text = failure_keep(failure, &run->failure);
    free(run->failure_text);
    run->failure_text = text;
    run->has_failure = true;
    return FAILURE_RETURNED;
}

int redrive_task_run_result(struct redrive_task_run *run, const void *data, size_t len)
{
    if (len > REDRIVE_RESULT_MAX)
        return REDRIVE_E_TOO_BIG;
    void *copy = malloc(len > 0 ? len : 1);
    if (!copy)
        return REDRIVE_E_NOMEM;
    if (len > 0)
        memcpy(copy, data, len);
    free(run->result);
    run->result = copy;
    run->result_len = len;
    return 0;
}

static void note_extended(struct redrive_task_run *run, int64_t sent_ms, int64_t lease_ms)
{
    HOLD(&run->handler->queue->mutex);
    held_lease_give(&run->lease, sent_ms, lease_ms);
}

int redrive_task_run_extend(struct redrive_task_run *run, int64_t lease_ms, struct redrive_err *err)
{
    const struct queue_handler *h = run->handler;
    const int64_t sent_ms = clock_monotonic_ms();
    if (lease_ms < 0 || lease_ms > DURATION_MAX_MS)
        return err_set(err, REDRIVE_E_RANGE, "lease_ms is not between 0 and 100 years");
    struct extension item = {
        .seq = run->seq,
        .token = run->token,
        .lease_ms = lease_ms > 0 ? lease_ms : h->config->lease_ms,
    };
    struct extend_op op;
    extend_op_init(&op, &item, 1);
    int rc = committer_run(h->queue->committer, &op.op, err);
    if (rc < 0)
        return rc;
    if (item.ret.code < 0) {
        atomic_store(&run->is_lost, true);
        atomic_store(&run->is_cancelled, true);
        (void)err_set(err, REDRIVE_E_STATE, "the job is not this run's any more");
        err_detail(err, "it was cancelled, or its lease has ended: it is %s",
                   redrive_state_name(item.ret.state));
        return REDRIVE_E_STATE;
    }
    note_extended(run, sent_ms, item.lease_ms);
    return 0;
}
