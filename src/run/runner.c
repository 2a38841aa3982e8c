/* runner.c - time-outs, cancelling and stopping, which all runners share. */
#include "run/runner.h"

#include <signal.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/duration.h"

/* Some parents start this process with SIGCHLD ignored. Then the kernel reaps children by itself,
 * and their exit status is lost. */
static void prepare_signals(void)
{
    struct sigaction action;
    signal(SIGPIPE, SIG_IGN);
    if (sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
        signal(SIGCHLD, SIG_DFL);
}

void runner_init(struct runner *runner, const struct runner_ops *ops, uv_loop_t *loop,
                 const struct log *log)
{
    prepare_signals();
    runner->ops = ops;
    runner->loop = loop;
    runner->log = log;
    list_init(&runner->runs);
    uv_timer_init(loop, &runner->grace);
    runner->grace.data = runner;
}

static void make_end(struct run *run, enum run_stop stop)
{
    if (run->stop != RUN_GOES_ON)
        return;
    run->stop = stop;
    uv_timer_stop(&run->timeout);
    run->runner->ops->end(run);
}

static void on_timeout(uv_timer_t *timer)
{
    make_end(timer->data, RUN_TIMED_OUT);
}

static void free_run(uv_handle_t *timeout)
{
    free(timeout->data);
}

int runner_start(struct runner *runner, const struct run_request *request, run_done_fn done,
                 void *ctx, struct run **ret, struct redrive_err *err)
{
    if (runner->state != RUNNER_OPEN)
        return err_set(err, REDRIVE_E_STOPPING, "the %s runner is stopping", runner->ops->name);
    struct run *run = calloc(1, runner->ops->run_size);
    if (!run)
        return err_nomem(err);
    run->runner = runner;
    run->request = *request;
    run->done = done;
    run->ctx = ctx;
    uv_timer_init(runner->loop, &run->timeout);
    run->timeout.data = run;

    /* The loop's idea of now is as old as its last turn. */
    uv_update_time(runner->loop);
    if (request->timeout_ms > 0)
        uv_timer_start(&run->timeout, on_timeout, (uint64_t)request->timeout_ms, 0);
    int rc = runner->ops->start(run, err);
    if (rc < 0) {
        uv_close((uv_handle_t *)&run->timeout, free_run);
        return rc;
    }
    list_insert(&runner->runs, &run->link);
    runner->n_runs++;
    if (ret)
        *ret = run;
    return 0;
}

void runner_cancel(struct run *run)
{
    make_end(run, RUN_CANCELLED);
}

void runner_cork(struct runner *runner)
{
    if (runner->ops->cork)
        runner->ops->cork(runner, true);
}

void runner_uncork(struct runner *runner)
{
    if (runner->ops->cork)
        runner->ops->cork(runner, false);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static void on_grace_closed(uv_handle_t *grace)
{
    struct runner *runner = grace->data;
    runner->ops->close(runner);
}

static void close_if_idle(struct runner *runner)
{
    if (runner->state != RUNNER_STOPPING || runner->n_runs > 0)
        return;
    runner->state = RUNNER_CLOSING;
    uv_close((uv_handle_t *)&runner->grace, on_grace_closed);
}

static void on_grace_over(uv_timer_t *timer)
{
    struct runner *runner = timer->data;
    LIST_FOREACH (&runner->runs, link) {
        make_end(LIST_ENTRY(link, struct run, link), RUN_RELEASED);
    }
}

void runner_stop(struct runner *runner, int64_t grace_ms, void (*stopped)(void *ctx), void *ctx)
{
    bool is_first = runner->state == RUNNER_OPEN;
    if (!is_first && runner->state != RUNNER_STOPPING)
        return;
    uint64_t left_ms = grace_ms > 0 ? (uint64_t)grace_ms : 0;
    if (is_first) {
        runner->state = RUNNER_STOPPING;
        runner->stopped = stopped;
        runner->stopped_ctx = ctx;
    } else if (left_ms >= uv_timer_get_due_in(&runner->grace)) {
        return;
    }
    uv_update_time(runner->loop);
    uv_timer_start(&runner->grace, on_grace_over, left_ms, 0);
    close_if_idle(runner);
}

void runner_closed(struct runner *runner)
{
    runner->state = RUNNER_CLOSED;
    if (runner->stopped)
        runner->stopped(runner->stopped_ctx);
}

void runner_free(struct runner *runner)
{
    if (runner)
        runner->ops->free(runner);
}

/* ---- Ending a run ---------------------------------------------------------------------------- */

static struct run_outcome as_it_was_ended(const struct run *run, const struct run_outcome *outcome,
                                          char *text, size_t size)
{
    struct run_outcome ended = {0};
    switch (run->stop) {
    case RUN_GOES_ON: return *outcome;
    case RUN_CANCELLED: ended.outcome.ending = ENDING_CANCELLED; return ended;
    case RUN_RELEASED: ended.outcome.ending = ENDING_RELEASED; return ended;
    case RUN_TIMED_OUT: break;
    }
    char limit[DURATION_TEXT_MAX];
    duration_format(run->request.timeout_ms, limit);
    snprintf(text, size, "timed out after %s", limit);
    ended.outcome.failure = (struct redrive_failure){
        .failed = true,
        .error_type = "TimeoutError",
        .message = text,
        .stacktrace = outcome->outcome.failure.stacktrace, /* where it hung, perhaps */
    };
    return ended;
}

static void on_later(uv_timer_t *timer)
{
    struct run *run = timer->data;
    run->later(run);
}

void run_later(struct run *run, void (*later)(struct run *run))
{
    run->later = later;
    uv_timer_start(&run->timeout, on_later, 0, 0);
}

void run_finish(struct run *run, const struct run_outcome *outcome)
{
    struct runner *runner = run->runner;
    char text[96];
    struct run_outcome ended = as_it_was_ended(run, outcome, text, sizeof text);
    list_remove(&run->link);
    runner->n_runs--;
    run->done(&ended, run->ctx);
    uv_close((uv_handle_t *)&run->timeout, free_run);
    close_if_idle(runner);
}
