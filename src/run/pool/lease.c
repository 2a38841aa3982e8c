/* lease.c - the leases of claimed jobs: extends them, and makes runs end whose leases are lost or,
 * by this worker's clock, over. */
#include "run/pool/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"

/* ---- Lost and over --------------------------------------------------------------------------- */

static void log_lost(const struct pool_job *job, const char *why)
{
    log_event(job->task->pool->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "lease_lost",
              LOG_S("job_id", job->request.job_id), LOG_S("task", job->request.task),
              LOG_I("attempt", job->request.attempt), LOG_S("error", why));
}

/* The store has refused the extension. */
static void lose_job(struct pool_job *job, enum redrive_state state)
{
    const bool is_live = (job->run || job->is_ahead) && !job->is_lost;
    if (is_live && state == REDRIVE_STATE_CANCELLED)
        log_event(job->task->pool->options.log, LOG_LEVEL_INFO, clock_wall_ms(),
                  "cancelled_elsewhere", LOG_S("job_id", job->request.job_id),
                  LOG_S("task", job->request.task), LOG_I("attempt", job->request.attempt));
    else if (is_live)
        log_lost(job, "another process has taken the job back");
    pool_job_cancel(job);
}

/* Another worker may start the job from now on. The store is still asked to extend the lease while
 * the run ends: if it does, none starts before that. */
static void end_late_run(struct pool_job *job)
{
    if (job->is_ahead) {
        pool_ahead_give_one_back(job);
    } else if (job->run && !job->is_lost && !job->is_told) {
        log_lost(job, "the store could not be asked to extend it in time");
        job->is_told = true;
        runner_cancel(job->run);
    }
}

/* ---- Extending ------------------------------------------------------------------------------- */

static bool reserve(struct pool_task *task, size_t n)
{
    if (n <= task->extend_capacity)
        return true;
    struct extension *items = realloc(task->extensions, n * sizeof *items);
    if (items)
        task->extensions = items;
    struct pool_job **jobs = realloc(task->extending, n * sizeof(struct pool_job *));
    if (jobs)
        task->extending = jobs;
    if (!items || !jobs)
        return false;
    task->extend_capacity = n;
    return true;
}

static void look_at_leases(struct pool_task *task);

/* An extension that the store could not take says nothing about the lease. */
static void on_answer(struct pool_job *job, const struct extension *item, enum renewal_fate fate)
{
    job->is_extending = false;
    if (fate == RENEWAL_KEPT)
        held_lease_give(&job->lease, job->task->renewal.sent_ms, item->lease_ms);
    if (job->is_over)
        pool_job_end(job);
    else if (fate == RENEWAL_LOST)
        lose_job(job, item->ret.state);
}

static void on_extended(struct op *answered, void *ctx)
{
    struct pool_task *task = ctx;
    const struct extend_op *op = &task->extend;
    bool has_failed = op->op.code < 0;
    (void)answered;
    if (has_failed)
        log_event(task->pool->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "heartbeat_failed",
                  LOG_STR("task", task->name), LOG_S("error", op->op.err.message),
                  LOG_S("detail", op->op.err.detail));
    for (size_t i = 0; i < op->n; i++) {
        const enum renewal_fate fate = renewal_fate(op->op.code, op->items[i].ret.code);
        has_failed |= fate == RENEWAL_UNKNOWN;
        on_answer(task->extending[i], &op->items[i], fate);
    }
    renewal_answered(&task->renewal, has_failed, clock_monotonic_ms());
    look_at_leases(task);
}

static bool is_held(const struct pool_job *job)
{
    return !job->is_lost && !job->is_over;
}

/* Jobs that only wait to be settled need their leases as well. */
static size_t gather(struct pool_task *task, int64_t now_ms)
{
    size_t n = 0;
    LIST_FOREACH (&task->jobs, link) {
        struct pool_job *job = LIST_ENTRY(link, struct pool_job, link);
        if (!is_held(job) || !renewal_takes(&task->renewal, &job->lease, now_ms))
            continue;
        task->extending[n] = job;
        task->extensions[n++] = (struct extension){
            .seq = job->seq,
            .token = job->token,
            .lease_ms = task->config->lease_ms,
        };
        job->is_extending = true;
    }
    return n;
}

static void extend_leases(struct pool_task *task, int64_t now_ms)
{
    size_t n = 0;
    LIST_FOREACH (&task->jobs, link)
        n++;
    renewal_sent(&task->renewal, now_ms);
    if (!reserve(task, n)) {
        renewal_answered(&task->renewal, true, now_ms);
        return;
    }
    extend_op_init(&task->extend, task->extensions, gather(task, now_ms));
    task->extend.op.by_item = true;
    task->extend.op.goes_alone = true;
    mailbox_send(&task->pool->mailbox, &task->extend.op, on_extended, task);
}

/* ---- The timer ------------------------------------------------------------------------------- */

static void on_lease_timer(uv_timer_t *timer)
{
    look_at_leases(timer->data);
}

/* Looks again at `at_ms`, or earlier. */
static void look_by(struct pool_task *task, int64_t at_ms, int64_t now_ms)
{
    const uint64_t wait_ms = at_ms > now_ms ? (uint64_t)(at_ms - now_ms) : 0;
    uv_update_time(task->pool->options.loop);
    if (uv_is_active((const uv_handle_t *)&task->heartbeat) &&
        uv_timer_get_due_in(&task->heartbeat) <= wait_ms)
        return;
    uv_timer_start(&task->heartbeat, on_lease_timer, wait_ms, 0);
}

/* Whether a lease is to be extended. */
static bool end_late_runs(struct pool_task *task, int64_t now_ms)
{
    bool is_due = false;
    LIST_FOREACH (&task->jobs, link) {
        struct pool_job *job = LIST_ENTRY(link, struct pool_job, link);
        if (!is_held(job))
            continue;
        is_due |= renewal_is_due(&task->renewal, &job->lease, now_ms);
        if (held_lease_is_over(&job->lease, now_ms))
            end_late_run(job);
    }
    return is_due;
}

static void look_at_leases(struct pool_task *task)
{
    const int64_t now_ms = clock_monotonic_ms();
    int64_t next_ms = RENEWAL_NEVER;
    if (task->pool->is_closing)
        return;
    if (end_late_runs(task, now_ms))
        extend_leases(task, now_ms);
    LIST_FOREACH (&task->jobs, link) {
        const struct pool_job *job = LIST_ENTRY(link, struct pool_job, link);
        const int64_t at_ms =
            is_held(job) ? renewal_next_ms(&task->renewal, &job->lease, now_ms) : RENEWAL_NEVER;
        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    uv_timer_stop(&task->heartbeat);
    if (next_ms < RENEWAL_NEVER)
        look_by(task, next_ms, now_ms);
}

void pool_lease_init(struct pool_task *task)
{
    task->renewal = (struct renewal){.task = task->config};
    uv_timer_init(task->pool->options.loop, &task->heartbeat);
    task->heartbeat.data = task;
}

void pool_lease_watch(struct pool_job *job)
{
    struct pool_task *task = job->task;
    const int64_t now_ms = clock_monotonic_ms();
    const int64_t at_ms = renewal_next_ms(&task->renewal, &job->lease, now_ms);
    if (at_ms < RENEWAL_NEVER)
        look_by(task, at_ms, now_ms);
}
