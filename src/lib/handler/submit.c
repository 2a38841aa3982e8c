/* submit.c - the loop of a job in its caller's thread: register, wait, run, decide, again.
 *
 * Every decision is decide()'s. Here is only what surrounds it: what a run waits for, and what the
 * handler remembers. The lock is held throughout, but for the function itself, the decision (custom
 * strategies and message patterns are slow, and the former the user's) and the monitor.
 */
#include "lib/handler/private.h"

#include "base/err.h"
#include "base/text/str.h"
#include "core/retry/backoff.h"
#include "core/vocabulary.h"

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
    if (d->state != REDRIVE_STATE_RETRYING)
        return;
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
static void bury(struct redrive_run *run, struct decision *d)
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
        bury(run, d);
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
