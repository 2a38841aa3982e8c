/* exec.c - the runner that starts a program for each job. */
#include "run/exec/exec.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "base/time/clock.h"
#include "run/exec/child.h"
#include "run/exec/spawn.h"
#include "run/exec/failure_from_stderr.h"

struct exec_runner {
    struct runner base;
    struct exec_options options;
};

struct exec_run {
    struct run base;
    struct child child;
    uv_write_t write;
    struct buf result;
    uint64_t dropped_bytes;
    struct spawn_failure why; /* it did not start */
    struct redrive_err err;
};

static struct exec_run *run_of(struct child *child)
{
    return (struct exec_run *)(void *)((char *)child - offsetof(struct exec_run, child));
}

static void on_output(struct child *child, const char *bytes, size_t len)
{
    struct exec_run *run = run_of(child);
    size_t room = RUN_RESULT_MAX_BYTES - run->result.len;
    size_t n = len < room ? len : room;
    if (buf_add(&run->result, bytes, n) < 0)
        n = 0;
    run->dropped_bytes += len - n;
}

static void release(struct exec_run *run)
{
    child_release(&run->child);
    buf_release(&run->result);
}

static void note_dropped(const struct exec_run *run)
{
    if (run->dropped_bytes > 0)
        log_event(run->base.runner->log, LOG_LEVEL_WARNING, clock_wall_ms(), "result_cut",
                  LOG_S("job_id", run->base.request.job_id), LOG_S("task", run->base.request.task),
                  LOG_I("kept_bytes", (int64_t)run->result.len),
                  LOG_I("dropped_bytes", (int64_t)run->dropped_bytes));
}

static struct str result_of(const struct exec_run *run)
{
    struct str result = buf_str(&run->result);
    if (run->dropped_bytes == 0 && result.len > 0 && result.ptr[result.len - 1] == '\n')
        result.len--;
    return result;
}

static void on_ended(struct child *child)
{
    struct exec_run *run = run_of(child);
    struct run_outcome outcome = {
        .result = result_of(run),
        .dropped_bytes = run->dropped_bytes,
    };
    struct failure_from_stderr words = {0};
    if (child->exit_code != 0 || child->signal != 0 || run->base.stop != RUN_GOES_ON)
        failure_from_stderr_read(&words, child, &outcome.outcome.failure);
    if (load_fault_is_likely(&outcome.outcome.failure))
        outcome.fault = RUN_FAULT_LIKELY;
    note_dropped(run);
    run_finish(&run->base, &outcome);
    failure_from_stderr_release(&words);
    release(run);
}

static void fail_to_start(struct run *base)
{
    struct exec_run *run = (struct exec_run *)base;
    struct run_outcome outcome = {
        .outcome.failure =
            {
                .failed = true,
                .errnum = run->why.errnum,
                .exit_code = run->why.exit_code,
                .message = run->err.message,
            },
        /* A shortage on this machine (errnum) may be over in a moment. */
        .fault = run->why.exit_code != 0 ? RUN_FAULT_CERTAIN : RUN_FAULT_NONE,
    };
    run_finish(base, &outcome);
    release(run);
}

static void on_written(uv_write_t *write, int status)
{
    struct exec_run *run = write->data;
    /* EPIPE: it did not want it all. ECANCELED: it has ended. Neither is a failure. */
    (void)status;
    child_close_input(&run->child);
}

static const struct child_ops CHILD_OPS = {on_output, on_ended};

static int exec_start(struct run *base, struct redrive_err *err)
{
    struct exec_run *run = (struct exec_run *)base;
    const struct exec_options *options = &((struct exec_runner *)base->runner)->options;
    buf_init(&run->result, RUN_RESULT_MAX_BYTES);
    char **envp = environ_new(options->environ, options->pass, &base->request);
    if (!envp)
        return err_nomem(err);
    struct spawn_request request = {options->argv, envp};
    int rc =
        child_start(&run->child, base->runner->loop, &request, &CHILD_OPS, &run->why, &run->err);
    free(envp);
    if (rc < 0) {
        run_later(base, fail_to_start);
        return 0;
    }
    struct str payload = base->request.payload;
    run->write.data = run;
    uv_buf_t bytes = {(char *)payload.ptr, payload.len};
    if (payload.len == 0 ||
        uv_write(&run->write, (uv_stream_t *)&run->child.in, &bytes, 1, on_written) < 0)
        child_close_input(&run->child);
    return 0;
}

static void exec_end(struct run *base)
{
    struct exec_run *run = (struct exec_run *)base;
    const struct exec_options *options = &((struct exec_runner *)base->runner)->options;
    if (run->child.pid == 0)
        run_later(base, fail_to_start);
    else if (run->child.has_exited)
        base->stop = RUN_GOES_ON; /* it was faster; only its pipes are still open */
    else
        child_terminate(&run->child, options->kill_grace_ms);
}

static void exec_free(struct runner *runner)
{
    free(runner);
}

static const struct runner_ops EXEC_OPS = {
    .name = "exec",
    .run_size = sizeof(struct exec_run),
    .start = exec_start,
    .end = exec_end,
    .close = runner_closed,
    .free = exec_free,
};

int exec_runner_new(uv_loop_t *loop, const struct log *log, const struct exec_options *options,
                    struct runner **ret, struct redrive_err *err)
{
    if (!options->argv || !options->argv[0])
        return err_set(err, REDRIVE_E_INVALID, "no program to run");
    struct exec_runner *runner = calloc(1, sizeof *runner);
    if (!runner)
        return err_nomem(err);
    runner->options = *options;
    if (runner->options.kill_grace_ms == 0)
        runner->options.kill_grace_ms = CHILD_GRACE_MS;
    runner_init(&runner->base, &EXEC_OPS, loop, log);
    *ret = &runner->base;
    return 0;
}
