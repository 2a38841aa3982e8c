/* pool.h - the workers of this process: claims ready jobs, runs them, settles them.
 *
 *     committer's thread                         loop's thread
 *     claim ──────────── jobs ─────────────────► pool ──► runner of the task
 *     settle ◄────────── outcomes ────────────── pool ◄── done
 *     on_ready ───────── pool_wake ────────────► claim again
 *
 * Each task that the configuration can run has a runner of its own and as many slots as its
 * concurrency says. One claim at a time asks for jobs of all tasks that have a free slot, so that
 * the order of queues, priorities and ages holds between tasks; when there are none the pool sleeps
 * until it is woken. Nothing is polled.
 *
 *   - A lease is extended at each task's heartbeat, and soon again if the store could not take that
 *     (engine/worker/renewal.h). A job that was cancelled by hand, or whose lease is lost, is made
 *     to end, and what it says then counts for nothing. A cancellation by another process is
 *     noticed at the next heartbeat; one by this process is reported at once, by pool_cancelled.
 *   - A run whose lease is over by this worker's clock is made to end, and its job is given back as
 *     soon as the store can be asked; it has lost no attempt if no other process has taken it back
 *     by then. While a run goes on no other attempt of its job starts in this process.
 *   - A settlement that the store cannot take (a full disk, a locked file) is kept and tried again
 *     until the store takes it or refuses its token. No jobs are claimed meanwhile, so that a store
 *     in trouble is given no more work than it has.
 *   - What fails is tried again after a pause that doubles up to a few seconds.
 *   - A handler that cannot run (its program is missing or broken, or it dies before its first
 *     answer) is a fault of the deployment: its jobs are given back and lose no attempt, one line
 *     is logged, and the task gets no jobs for a pause that doubles up to 30 s. With `until_idle` a
 *     task is given up after three such starts in a row.
 *   - A run that has ended frees its slot at once: its settlement and the claim for the slot are
 *     handed in together and share a transaction.
 *   - A handler whose runs are short does not wait for a transaction after each: jobs are claimed
 *     before there is a slot for them, as many as the handler ends in POOL_AHEAD_MS, or in the time
 *     that a claim takes if that is longer, at most CLAIM_AHEAD_MAX (engine/worker/claim_pace.h).
 * Outcomes are gathered meanwhile, for POOL_GATHER_MS at the most. Jobs that are claimed ahead have
 *     their leases, and their time-outs begin with their runs. They are given back, and lose no
 *     attempt, when the pool stops, when the handler cannot run, when their breaker opens, or when
 *     they have waited for POOL_AHEAD_WAIT_MS (twice that at the most). While a run that has failed
 *     is not settled none of its task and shard starts, so that a failure which opens the breaker
 *     is the last. No job is claimed ahead of a task that has a limit, a breaker with a rule for
 * slow calls or a single attempt, nor where several tasks share `max_jobs` slots.
 *   - Each shard has settlements of its own, and a job that waits to be settled has no slot: a
 *     shard that hangs or is away keeps none of the others waiting.
 *
 * Everything here is called on the loop's thread but for pool_wake and pool_cancelled.
 */
#ifndef RUN_POOL_POOL_H
#define RUN_POOL_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/os/log.h"
#include "base/text/str.h"
#include "config/config.h"
#include "core/trace/span.h"
#include "engine/committer.h"

#define POOL_GRACE_MS 30000

/* How far ahead jobs are claimed, how long they wait for a slot, and how long outcomes are gathered
 * for one transaction while there are such jobs. */
#define POOL_AHEAD_MS      20
#define POOL_AHEAD_WAIT_MS 250
#define POOL_GATHER_MS     5

/* All that is pointed to is borrowed and outlives the pool. */
struct pool_options {
    uv_loop_t *loop;
    struct committer *committer;
    const struct config *config;
    const struct log *log;
    char *const *environ;          /* of programs; see exec/spawn.h */
    const struct tracing *tracing; /* NULL: attempts are no spans */
    struct str worker;             /* its name in leases and in the history */
    struct str tenant;             /* absent: all tenants in turn */
    const struct str *queues;
    size_t n_queues; /* none: all */
    const struct str *tasks;
    size_t n_tasks;    /* none: all that the configuration can run */
    uint32_t max_jobs; /* at one time, of all tasks together; 0: as the tasks say */
    bool until_idle;   /* stop when nothing is ready and nothing runs; what waits is left */
    /* Whether an earlier attempt of the job still runs in another pool of this process. NULL: there
     * is no other. */
    bool (*runs_elsewhere)(int64_t seq, void *ctx);
    void *elsewhere_ctx;
    /* The last thing a pool does: nothing runs, everything is settled, all handles are closed. */
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};

struct pool;

/* Starts working. A task that is named but cannot be run here, a program that is not there or not
 * executable: refused, with the task and what was looked for (REDRIVE_E_CONFIG). No task that can
 * be run: REDRIVE_E_CONFIG. After a failure the loop is to be run until it is empty: what had been
 * begun by then closes itself there. */
int pool_new(const struct pool_options *options, struct pool **ret, struct redrive_err *err);

/* Whether pool_new would refuse what it is asked to run; looks at config, environ and tasks alone,
 * before there is a store, a committer or a loop. */
int pool_check(const struct pool_options *options, struct redrive_err *err);

/* There may be ready jobs. Any thread, any time before pool_free; costs little. */
void pool_wake(struct pool *pool);

/* This process has cancelled the job: its run, if it is here, is made to end, and so is an earlier
 * one whose lease is lost. Any thread, any time before pool_free. Without memory it is noticed at
 * its next heartbeat. */
void pool_cancelled(struct pool *pool, int64_t seq);

/* From now on as if `until_idle` had been set: nothing more will come from outside. Jobs that were
 * submitted before this are seen. */
void pool_until_idle(struct pool *pool);

/* Takes no more jobs; those that run have `grace_ms` to end, and what is left then is released and
 * costs no attempt. Called again with less, it shortens the grace; 0: now. When the store takes no
 * settlements, they are given up ten seconds after the grace: the log names them, and their leases
 * end by themselves. */
void pool_stop(struct pool *pool, int64_t grace_ms);

/* Stops a pool whose place another one of the same name takes: the worker's row is the other one's
 * from now on, and this one neither writes nor removes it. */
void pool_retire(struct pool *pool, int64_t grace_ms);

struct pool_status {
    size_t running;  /* claimed jobs that are not settled, those that wait for a slot included */
    size_t slots;    /* how many jobs it can run at one time */
    uint64_t ended;  /* runs so far */
    uint64_t failed; /* of these, without success */
    uint64_t left;   /* jobs of it that stay running until their leases end: not taken for want of
                      * memory, or the store did not take their outcome */
    bool stopping;
};
struct pool_status pool_status(const struct pool *pool);

/* Whether a run of the job has not ended yet. */
bool pool_runs(const struct pool *pool, int64_t seq);

/* 0, or an error that names a task whose handler cannot run: the last three starts failed, or all
 * that there were. */
int pool_fault(const struct pool *pool, struct redrive_err *err);

/* With `until_idle`: 0, or REDRIVE_E_IO if a shard was away in the end, so that its jobs were not
 * looked at. */
int pool_missed(const struct pool *pool, struct redrive_err *err);

/* After `stopped` was called, also from inside it. NULL does nothing. */
void pool_free(struct pool *pool);

#endif
