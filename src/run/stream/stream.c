/* stream.c - which program gets which job, and the runner. */
#include "run/stream/stream.h"

#include <stdlib.h>

#include "base/err.h"
#include "run/stream/private.h"

/* ---- Runs that never began ------------------------------------------------------------------- */

static void finish_unbegun(struct run *base)
{
    struct stream_run *run = (struct stream_run *)base;
    struct run_outcome outcome = {
        .outcome.failure =
            {
                .failed = true,
                .status = run->status,
                .errnum = run->why.errnum,
                .exit_code = run->why.exit_code,
                .message = run->err.message,
            },
        .fault = run->cannot_run ? RUN_FAULT_CERTAIN : RUN_FAULT_NONE,
    };
    run_finish(base, &outcome);
}

static void fail_unbegun(struct stream_run *run)
{
    list_remove(&run->place);
    run_later(&run->base, finish_unbegun);
}

/* ---- Which program gets which job ------------------------------------------------------------ */

/* Ids are unique within a tenant only, and answers carry no more than the id. */
static bool has_id(const struct stream_worker *worker, const char *id)
{
    LIST_FOREACH (&worker->jobs, link) {
        const struct stream_run *run = LIST_ENTRY(link, struct stream_run, place);
        if (strcmp(run->base.request.job_id, id) == 0)
            return true;
    }
    return false;
}

static bool has_room(const struct stream_worker *worker, const struct stream_run *run)
{
    return worker->state == WORKER_READY && worker->n_jobs < worker->runner->options.in_flight &&
           !has_id(worker, run->base.request.job_id);
}

/* An idle program, or else one to be started, or else the one with the fewest jobs; NULL: wait. */
static struct stream_worker *choose(struct stream_runner *runner, const struct stream_run *run)
{
    struct stream_worker *best = NULL, *absent = NULL;
    for (size_t i = 0; i < runner->options.processes; i++) {
        struct stream_worker *worker = &runner->workers[i];
        if (has_room(worker, run) && (!best || worker->n_jobs < best->n_jobs))
            best = worker;
        if (worker->state == WORKER_ABSENT && !absent)
            absent = worker;
    }
    return absent && (!best || best->n_jobs > 0) ? absent : best;
}

static bool any_is_ready(const struct stream_runner *runner)
{
    for (size_t i = 0; i < runner->options.processes; i++)
        if (runner->workers[i].state == WORKER_READY)
            return true;
    return false;
}

void stream_fail_waiting(struct stream_runner *runner, const struct spawn_failure *why,
                         const struct redrive_err *err)
{
    if (any_is_ready(runner))
        return;
    LIST_FOREACH (&runner->waiting, link) {
        struct stream_run *run = LIST_ENTRY(link, struct stream_run, place);
        run->why = *why;
        run->err = *err;
        run->cannot_run = why->errnum == 0;
        fail_unbegun(run);
    }
}

void stream_dispatch(struct stream_runner *runner)
{
    while (!list_empty(&runner->waiting)) {
        struct stream_run *run = LIST_ENTRY(runner->waiting.next, struct stream_run, place);
        struct stream_worker *worker = choose(runner, run);
        if (!worker)
            return;
        struct spawn_failure why = {0};
        struct redrive_err err;
        if (worker->state == WORKER_ABSENT && stream_worker_start(worker, &why, &err) < 0) {
            stream_fail_waiting(runner, &why, &err);
            return; /* those that still wait have a program that is at work */
        } else if (stream_worker_give(worker, run, &run->err) < 0) {
            run->status = run->err.code == REDRIVE_E_NOMEM ? "system" : "validation";
            fail_unbegun(run);
        }
    }
}

/* ---- The runner ------------------------------------------------------------------------------ */

static int stream_start(struct run *base, struct redrive_err *err)
{
    struct stream_run *run = (struct stream_run *)base;
    struct stream_runner *runner = (struct stream_runner *)base->runner;
    (void)err;
    list_insert(&runner->waiting, &run->place);
    stream_dispatch(runner);
    return 0;
}

static void stream_end(struct run *base)
{
    struct stream_run *run = (struct stream_run *)base;
    if (run->worker)
        stream_worker_end_for(run->worker, run);
    else
        fail_unbegun(run);
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
