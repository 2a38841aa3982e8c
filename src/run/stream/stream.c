/* stream.c - the runner that gives jobs to long-lived programs. */
#include "run/stream/stream.h"

#include <stdlib.h>

#include "base/err.h"
#include "run/stream/private.h"

static int stream_start(struct run *base, struct redrive_err *err)
{
    struct stream_run *run = (struct stream_run *)base;
    struct stream_runner *runner = (struct stream_runner *)base->runner;
    (void)err;
    run->id_hash = stream_hash_id(base->request.job_id);
    list_insert(&runner->waiting, &run->place);
    stream_dispatch(runner);
    return 0;
}

static void stream_cork(struct runner *base, bool is_corked)
{
    struct stream_runner *runner = (struct stream_runner *)base;
    runner->is_corked = is_corked;
    stream_write_lines(runner);
}

static void stream_end(struct run *base)
{
    struct stream_run *run = (struct stream_run *)base;
    if (run->worker)
        stream_worker_end_for(run->worker, run);
    else
        stream_fail_unbegun(run);
}

static void stream_close(struct runner *base)
{
    struct stream_runner *runner = (struct stream_runner *)base;
    for (size_t i = 0; i < runner->options.processes; i++)
        stream_worker_close(&runner->workers[i]);
}

static void stream_free(struct runner *runner)
{
    free(runner);
}

static const struct runner_ops STREAM_OPS = {
    .name = "stream",
    .run_size = sizeof(struct stream_run),
    .start = stream_start,
    .end = stream_end,
    .cork = stream_cork,
    .close = stream_close,
    .free = stream_free,
};

static struct stream_options with_defaults(struct stream_options options)
{
    if (options.processes == 0)
        options.processes = 1;
    if (options.in_flight == 0)
        options.in_flight = 1;
    if (options.kill_grace_ms == 0)
        options.kill_grace_ms = CHILD_GRACE_MS;
    return options;
}

int stream_runner_new(uv_loop_t *loop, const struct log *log, const struct stream_options *options,
                      struct runner **ret, struct redrive_err *err)
{
    struct stream_options full = with_defaults(*options);
    if (!full.argv || !full.argv[0])
        return err_set(err, REDRIVE_E_INVALID, "no program to run");
    if (full.processes > STREAM_MAX_PROCESSES)
        return err_set(err, REDRIVE_E_INVALID, "at most %d processes", STREAM_MAX_PROCESSES);
    struct stream_runner *runner =
        calloc(1, sizeof *runner + full.processes * sizeof runner->workers[0]);
    if (!runner)
        return err_nomem(err);
    runner_init(&runner->base, &STREAM_OPS, loop, log);
    runner->options = full;
    list_init(&runner->waiting);
    for (size_t i = 0; i < full.processes; i++)
        stream_worker_init(&runner->workers[i], runner);
    *ret = &runner->base;
    return 0;
}
