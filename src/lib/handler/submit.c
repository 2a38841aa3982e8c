/* submit.c - submit, call and cancel: the loop of a job in its caller's thread, which registers it,
 * waits, runs it, decides, and begins again; and the job's result.
 *
 * Every decision is decide()'s. Here is only what surrounds it: what a run waits for, and what the
 * handler remembers. The lock is held throughout, but for the function itself, the decision (custom
 * strategies and message patterns are slow, and the former the user's) and the monitor.
 */
#include "lib/handler/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/text/str.h"
#include "base/time/duration.h"
#include "core/retry/backoff.h"
#include "core/vocabulary.h"

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

/* ---- One attempt ----------------------------------------------------------------------------- */

static struct decision decide_run(const struct redrive_run *run, enum ending ending)
{
    struct job_facts facts = {
        .attempts = run->attempts,
        .crashes = run->crashes,
        .elapsed_ms = run_elapsed_ms(run, run->now_ms),
        .deadline_in_ms = run_deadline_in_ms(run, run->now_ms),
        .seed = run->failure.failed ? backoff_seed(str_of(run->id), run->epoch) : 0,
        .is_probe = run->permit.probe != 0,
        .names =
            {
                .task = run->job.task,
                .queue = run->job.queue,
                .service = run->job.service,
                .user = run->job.user,
            },
    };
    struct outcome outcome = {.ending = ending, .failure = run->failure};
    return decide(&facts, &outcome, run->policy, run->handler->classifier);
}

/* It ended before its next attempt: its failure is the last one. */
struct decision decide_waiting(const struct redrive_run *run, enum ending ending)
{
    struct decision d = decide_run(run, ending);
    d.class_ = run->last_class;
    if (d.state != REDRIVE_STATE_CANCELLED)
        d.severity = run->attempts > 0 ? class_severity(run->last_class) : REDRIVE_SEVERITY_ERROR;
    return d;
}

/* What the handler learns from an attempt. Lock held. */
static void settle(struct redrive_run *run, const struct decision *d)
{
    struct redrive_handler *h = run->handler;
    slot_give_back(run);
    run->crashes = d->crashes;
    metrics_attempt(h, d, run->now_ms, run->now_ns - run->started_ns);
    service_record(run, d->breaker, run->now_ms);
    if (d->class_ == REDRIVE_CLASS_SUCCESS)
        return;
    run->last_class = d->class_;
    run_remember(run, handler_wall(h, run->now_ms), run->now_ms - run->started_ms, d);
    if (d->state != REDRIVE_STATE_RETRYING) {
        run->max_attempts = d->max_attempts > 0 ? d->max_attempts : run->max_attempts;
        return;
    }
    h->counts.jobs_retried++;
    run->due_ms = run->now_ms + d->delay_ms;
    run_set_state(run, REDRIVE_STATE_RETRYING);
    run_add_event(run, REDRIVE_EVENT_RETRYING, d);
}

void attempt_begin(struct redrive_run *run)
{
    run->phase = PHASE_DUE;
    run->attempts++;
    run->handler->counts.attempts++;
    run_set_state(run, REDRIVE_STATE_RUNNING);
    run_add_event(run, REDRIVE_EVENT_STARTED, NULL);
    run_tell(run);
    run->started_ns = run->now_ns;
    run->started_ms = run->now_ms;
    if (run->first_start_ms == 0)
        run->first_start_ms = run->now_ms;
    run_begin(run);
}

/* The decision is made without the lock. */
struct decision attempt_end(struct redrive_run *run, bool failed)
{
    handler_unlock(run->handler);
    run_look_at_clock(run);
    bool gave_up = failed && redrive_run_cancelled(run);
    struct decision d = decide_run(run, gave_up ? ENDING_CANCELLED : ENDING_RAN);
    handler_lock(run->handler);
    settle(run, &d);
    run_tell(run);
    return d;
}

/* Lock held, but not meanwhile. */
static struct decision attempt(struct redrive_run *run, redrive_fn fn, void *arg)
{
    attempt_begin(run);
    handler_unlock(run->handler);
    int code = fn(run, arg);
    run_end(run, code);
    handler_lock(run->handler);
    return attempt_end(run, code != 0);
}

/* ---- From start to end ----------------------------------------------------------------------- */

int run_enter(struct redrive_run *run, const struct redrive_step_options *options,
              struct redrive_err *err)
{
    struct redrive_handler *h = run->handler;
    run_look_at_clock(run);
    if (atomic_load(&h->stopping))
        return err_set(err, REDRIVE_E_STOPPING, "handler %s is being stopped", h->name);
    if (run->id[0] == '\0')
        id_next(&h->ids, handler_wall_now(h), run->id);
    else if (map_get(&h->runs, str_of(run->id))) {
        err_set(err, REDRIVE_E_EXISTS, "a job with this id is live");
        err_detail(err, "id %s", run->id);
        return REDRIVE_E_EXISTS;
    }
    run->service = service_get(h, run->job.service);
    if (!run->service)
        return err_nomem(err);
    service_tick(run, run->now_ms);
    if (run->service->config.on_open == REDRIVE_ON_OPEN_REJECT &&
        !service_would_pass(run->service, run->now_ms))
        return err_set(err, REDRIVE_E_BREAKER_OPEN, "breaker %s is open", run->service->name);
    if (map_put(&h->runs, str_of(run->id), run) < 0)
        return err_nomem(err);

    run->service->used = true;
    run->age = ++h->last_age;
    run->submitted_ms = run->now_ms;
    if (run->job.deadline_ms > 0)
        run->deadline_at_ms = run->now_ms + run->job.deadline_ms;
    if (options)
        caller_enter_detached(&run->caller, h, options);
    else
        caller_enter(&run->caller, h);
    h->n_in_state[run->state]++;
    if (run->redriven) {
        run->redriven->refs++;
        dlq_send_away(&h->dlq, run->redriven);
        h->counts.jobs_redriven++;
    } else {
        h->counts.jobs_received++;
    }
    run_add_event(run, run->redriven ? REDRIVE_EVENT_REDRIVEN : REDRIVE_EVENT_RECEIVED, NULL);
    return 0;
}

/* Stores the dead letter. Without memory the job has merely failed, unless the entry that it came
 * from can be kept instead. Lock held, but not meanwhile. */
static void keep_dead_letter(struct redrive_run *run, struct decision *d)
{
    struct redrive_handler *h = run->handler;
    handler_unlock(h);
    struct dead_letter *entry = dead_letter_of_run(run, d);
    handler_lock(h);
    if (entry && dlq_insert(&h->dlq, entry, run->now_ms) == 0)
        return;
    dead_letter_unref(entry);
    if (run->redriven) {
        dlq_take_back(&h->dlq, run->redriven);
    } else {
        d->state = REDRIVE_STATE_FAILED;
        run->is_lost = true;
        h->dlq.stats.lost++;
    }
}

void run_leave(struct redrive_run *run, struct decision *d)
{
    struct redrive_handler *h = run->handler;
    if (d->state == REDRIVE_STATE_DEAD_LETTER)
        keep_dead_letter(run, d);
    else if (run->redriven && d->state == REDRIVE_STATE_CANCELLED)
        dlq_take_back(&h->dlq, run->redriven);
    else if (run->redriven)
        dlq_drop(&h->dlq, run->redriven);
    map_remove(&h->runs, str_of(run->id));
    h->n_in_state[run->state]--;
    run_add_event(run, metrics_ended(h, d->state, run->attempts), d);
    run_tell(run);
    caller_leave(&run->caller);
}

/* Waits until it may run; false when it has ended before. Lock held, but not meanwhile. */
static bool wait_for_admission(struct redrive_run *run, enum ending *ret)
{
    int64_t wake_ms;
    enum admission admission;
    while ((admission = admit(run, &wake_ms, ret)) == ADMISSION_WAITS) {
        caller_wait(&run->caller, wake_ms);
        run_look_at_clock(run);
    }
    return admission == ADMITTED;
}

int submit_run(struct redrive_run *run, redrive_fn fn, void *arg, struct redrive_result *ret)
{
    struct redrive_handler *h = run->handler;
    struct redrive_err err;
    int rc = run_enter(run, NULL, &err);
    run_tell(run);
    if (rc < 0) {
        handler_unlock(h);
        return submit_refuse(ret, run->id, &err);
    }

    struct decision d;
    do {
        enum ending ending = ENDING_CANCELLED;
        if (wait_for_admission(run, &ending)) {
            d = attempt(run, fn, arg);
        } else {
            run_tell(run);
            d = decide_waiting(run, ending);
        }
    } while (d.state == REDRIVE_STATE_RETRYING);

    run_leave(run, &d);
    handler_unlock(h);
    /* From here on the handler may be gone. */
    rc = result_fill(ret, run, &d);
    dead_letter_unref(run->redriven);
    run_release(run);
    return rc;
}

/* ---- Entry points ---------------------------------------------------------------------------- */

int redrive_submit(struct redrive_handler *h, const struct redrive_job *job, redrive_fn fn,
                   void *arg, struct redrive_result *ret)
{
    struct redrive_err err;
    if (job_check(h, fn ? job : NULL, &err) < 0 || !fn)
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
