/* step.c - jobs in steps: the loop of handler/submit.c, one call for each step.
 *
 * A step owns its run, which is on the heap, since no thread stays inside redrive_submit for it. It
 * waits in the handler's list of waiters without a thread; the thread that wakes it calls a
 * function of the program, without the lock.
 */
#include "lib/handler/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "lib/copies.h"

struct redrive_step {
    struct redrive_run run;
    bool has_ended;
    struct decision decision; /* once it has ended */
};

static const struct redrive_step_options no_options = {0};

/* Lock held; given up before the call returns. Takes the step over. */
static struct redrive_step *enter_step(struct redrive_step *step,
                                       const struct redrive_step_options *options,
                                       struct redrive_err *err)
{
    struct redrive_handler *h = step->run.handler;
    int rc = run_enter(&step->run, options ? options : &no_options, err);
    run_tell(&step->run);
    handler_unlock(h);
    if (rc == 0)
        return step;
    free(step);
    return NULL;
}

struct redrive_step *redrive_step_begin(struct redrive_handler *h, const struct redrive_job *job,
                                        const struct redrive_step_options *options,
                                        struct redrive_err *err)
{
    if (job_check(h, job, err) < 0)
        return NULL;
    struct redrive_step *step = calloc(1, sizeof *step);
    if (!step) {
        err_nomem(err);
        return NULL;
    }
    run_init(&step->run, h, job);
    handler_lock(h);
    return enter_step(step, options, err);
}

struct redrive_step *redrive_step_retry(struct redrive_handler *h, const char *id,
                                        const struct redrive_step_options *options,
                                        struct redrive_err *err)
{
    if (!h || !id) {
        err_set(err, REDRIVE_E_INVALID, "handler and id are required");
        return NULL;
    }
    struct redrive_step *step = calloc(1, sizeof *step);
    if (!step) {
        err_nomem(err);
        return NULL;
    }
    handler_lock(h);
    struct dead_letter *entry = dlq_find_to_retry(h, id, err);
    if (!entry) {
        handler_unlock(h);
        free(step);
        return NULL;
    }
    run_init_retry(&step->run, h, entry);
    return enter_step(step, options, err);
}

/* Lock held, but not meanwhile. */
static void end_job(struct redrive_step *step, struct decision d)
{
    caller_end_wakes(&step->run.caller);
    run_leave(&step->run, &d);
    step->decision = d;
    step->has_ended = true;
}

/* Lock held. */
static enum redrive_step_type next_step(struct redrive_step *step, int64_t *ret_wait_ms)
{
    struct redrive_run *run = &step->run;
    if (run->caller.waits)
        caller_end_wait(&run->caller);
    run_look_at_clock(run);
    int64_t wake_ms = NEVER;
    enum ending ending = ENDING_CANCELLED;
    switch (admit(run, &wake_ms, &ending)) {
    case ADMITTED: attempt_begin(run); return REDRIVE_STEP_RUN;
    case ADMISSION_WAITS:
        caller_begin_wait(&run->caller, wake_ms);
        *ret_wait_ms = wake_ms == NEVER ? INT64_MAX : wake_ms - run->now_ms;
        return REDRIVE_STEP_WAIT;
    case ADMISSION_OVER:
    default:
        run_tell(run);
        end_job(step, decide_waiting(run, ending));
        return REDRIVE_STEP_END;
    }
}

enum redrive_step_type redrive_step_next(struct redrive_step *step, int64_t *ret_wait_ms)
{
    struct redrive_handler *h = step->run.handler;
    int64_t ignored;
    if (step->has_ended)
        return REDRIVE_STEP_END;
    handler_lock(h);
    enum redrive_step_type type = REDRIVE_STEP_RUN;
    if (step->run.state != REDRIVE_STATE_RUNNING)
        type = next_step(step, ret_wait_ms ? ret_wait_ms : &ignored);
    handler_unlock(h);
    return type;
}

void redrive_step_done(struct redrive_step *step, const struct redrive_failure *failure)
{
    struct redrive_run *run = &step->run;
    struct redrive_handler *h = run->handler;
    if (step->has_ended || run->state != REDRIVE_STATE_RUNNING)
        return;
    run_end(run, failure ? redrive_run_fail(run, failure) : 0);
    handler_lock(h);
    struct decision d = attempt_end(run, failure != NULL);
    if (d.state != REDRIVE_STATE_RETRYING)
        end_job(step, d);
    handler_unlock(h);
}

struct redrive_run *redrive_step_run(struct redrive_step *step)
{
    return &step->run;
}

/* Brings a job that the program has given up to its end. */
static void abandon(struct redrive_step *step)
{
    atomic_store(&step->run.cancelled, true);
    if (step->run.state == REDRIVE_STATE_RUNNING)
        redrive_step_done(step, &(struct redrive_failure){.message = "given up by the program"});
    else
        (void)redrive_step_next(step, NULL);
}

int redrive_step_end(struct redrive_step *step, struct redrive_result *ret)
{
    if (!step)
        return REDRIVE_E_INVALID;
    if (!step->has_ended)
        abandon(step);
    int rc = result_fill(ret, &step->run, &step->decision);
    dead_letter_unref(step->run.redriven);
    run_release(&step->run);
    free(step);
    return rc;
}
