/* runner.h - runs jobs on a libuv loop.
 *
 * A runner knows one way to run jobs: exec/exec.h, stream/stream.h and http/http.h make one each.
 * It has no thread: everything happens on the loop it was given, and everything here is called on
 * that loop's thread.
 *
 *     runner_start ──► … ──► done(outcome)              exactly once for each start that returned 0
 *     runner_cancel, the time-out, runner_stop          ask the run to end; done says how it ended
 *
 * `done` is never called from inside runner_start, and always before runner_stop's callback. It may
 * start, cancel or stop. The exit status of a run that was made to end does not count: it is `timed
 * out`, `cancelled` or `released` even if it ended with success in that moment. A program that
 * exits with 0 on SIGTERM need not have done its work.
 */
#ifndef RUN_RUNNER_H
#define RUN_RUNNER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/mem/list.h"
#include "base/os/log.h"
#include "base/text/str.h"
#include "core/decide.h"
#include "redrive.h"
#include "store/job.h"

#define RUN_RESULT_MAX_BYTES (1024u * 1024)

/* All that is pointed to is borrowed until `done` returns. */
struct run_request {
    const char *job_id;
    const char *task;
    const char *queue;
    const char *tenant;
    uint32_t attempt; /* from 1 */
    uint32_t max_attempts;
    struct str payload;               /* JSON; absent and empty are the same */
    const char *traceparent;          /* of the attempt; NULL: none */
    const struct job_parent *parents; /* of a job that has waited for others; NULL: it has not */
    size_t n_parents;
    int64_t timeout_ms; /* from runner_start; 0: none */
};

/* Whether the handler could run at all. */
enum run_fault {
    RUN_FAULT_NONE,
    RUN_FAULT_LIKELY,  /* it ended as a handler does that cannot be loaded (run/pool/run.c) */
    RUN_FAULT_CERTAIN, /* no program was there for this job */
};

/* All pointers are valid until `done` returns. */
struct run_outcome {
    struct outcome outcome; /* ENDING_RAN, _SNOOZED, _CANCELLED or _RELEASED */
    struct str result;      /* any bytes; at most RUN_RESULT_MAX_BYTES */
    uint64_t dropped_bytes; /* of the result, beyond the maximum */
    enum run_fault fault;   /* of a failure; not caused by the job, or likely not */
};

typedef void (*run_done_fn)(const struct run_outcome *outcome, void *ctx);

/* Why a run is to end before it wants to. */
enum run_stop {
    RUN_GOES_ON,
    RUN_TIMED_OUT,
    RUN_CANCELLED,
    RUN_RELEASED,
};

struct runner;

/* A job being run. Runners extend it by making it the first member of a struct of their own. */
struct run {
    struct list link; /* in runner->runs */
    struct runner *runner;
    struct run_request request;
    run_done_fn done;
    void *ctx;
    enum run_stop stop; /* the first reason counts */
    uv_timer_t timeout;
    void (*later)(struct run *run);
};

struct runner_ops {
    const char *name;
    size_t run_size; /* of the struct that begins with struct run, zeroed by runner_start */

    /* Begins. A negative code (with err) means that nothing was begun and `done` will not be
     * called; a job that merely fails is not that: run_finish is called for it later, from the
     * loop. */
    int (*start)(struct run *run, struct redrive_err *err);
    /* run->stop has just been set: end it soon, gently first. run_finish comes later, from the
     * loop, never from inside this call. One that has ended by itself, and is not done yet for some
     * other reason, may set run->stop back. */
    void (*end)(struct run *run);
    /* See runner_cork; NULL: there is nothing to gain. */
    void (*cork)(struct runner *runner, bool is_corked);
    /* No run is left and none will come: close all handles, then call runner_closed. */
    void (*close)(struct runner *runner);
    /* After runner_closed: frees the runner. */
    void (*free)(struct runner *runner);
};

struct runner {
    const struct runner_ops *ops;
    uv_loop_t *loop;
    const struct log *log; /* borrowed; may be NULL */
    struct list runs;
    size_t n_runs;
    enum {
        RUNNER_OPEN,
        RUNNER_STOPPING, /* runs may go on until the grace has passed */
        RUNNER_CLOSING,  /* no runs; handles are closing */
        RUNNER_CLOSED,
    } state;
    uv_timer_t grace;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

/* ---- For callers that have jobs -------------------------------------------------------------- */

/* Takes a job. `ret` (may be NULL) is the handle for runner_cancel, valid until `done` is called.
 * STOPPING after runner_stop; NOMEM, INVALID: not taken, `done` will not be called. */
int runner_start(struct runner *runner, const struct run_request *request, run_done_fn done,
                 void *ctx, struct run **ret, struct redrive_err *err);

/* Asks a run to end, and kills it if it does not. */
void runner_cancel(struct run *run);

/* Many starts in a row: until runner_uncork the runner may keep what it would write to a program,
 * so that a program is written to once. Both in the same turn of the loop. */
void runner_cork(struct runner *runner);
void runner_uncork(struct runner *runner);

/* Takes no more jobs and lets those that run go on for `grace_ms`; what is left then is made to end
 * and is released. `stopped` is called once, when the last run is done and all handles are closed.
 * A second call may shorten the grace (0: now) and is otherwise without effect. */
void runner_stop(struct runner *runner, int64_t grace_ms, void (*stopped)(void *ctx), void *ctx);

/* After `stopped` was called, also from inside it. NULL does nothing. */
void runner_free(struct runner *runner);

/* ---- For runners ----------------------------------------------------------------------------- */

/* Also makes the process ignore SIGPIPE: a child that closes its standard input, or a server that
 * closes its socket, must give an error code and not end this process. SIGCHLD, if ignored, is not
 * any longer. */
void runner_init(struct runner *runner, const struct runner_ops *ops, uv_loop_t *loop,
                 const struct log *log);

/* Ends a run as `outcome` says, unless run->stop says otherwise, and calls `done`. The memory of
 * the run is freed in the next turn of the loop, so that no handle inside it may be open but its
 * time-out, and what it owns can still be released after this call. */
void run_finish(struct run *run, const struct run_outcome *outcome);

/* Calls `later` in the loop's next turn, for a run that has ended before it began. Takes the place
 * of the time-out. */
void run_later(struct run *run, void (*later)(struct run *run));

/* All handles of the runner itself are closed. */
void runner_closed(struct runner *runner);

#endif
