/* lease.c - extends the leases of claimed jobs. */
#include "run/pool/private.h"

#include <stdlib.h>

#include "base/time/clock.h"

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

/* A heartbeat that the store could not take says nothing about the lease: the next one is tried in
 * its turn. */
static void on_extended(struct pool_call *call)
{
    struct pool_task *task =
        (struct pool_task *)(void *)((char *)call - offsetof(struct pool_task, extend_call));
    const struct extend_op *op = &task->extend;
    task->is_extending = false;
    if (op->op.code < 0)
        log_event(task->pool->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "heartbeat_failed",
                  LOG_STR("task", task->name), LOG_S("error", op->op.err.message),
                  LOG_S("detail", op->op.err.detail));
    for (size_t i = 0; i < op->n; i++) {
        struct pool_job *job = task->extending[i];
        job->is_extending = false;
        if (job->is_over)
            pool_job_over(job);
        else if (op->op.code == 0 && op->items[i].ret.code < 0)
            pool_job_lose(job, op->items[i].ret.state);
    }
}

/* Jobs that only wait to be settled need their leases as well. */
static size_t gather(struct pool_task *task)
{
    size_t n = 0;
    LIST_FOREACH (&task->jobs, link) {
        struct pool_job *job = LIST_ENTRY(link, struct pool_job, link);
        if (job->is_lost || job->is_over)
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

static void on_heartbeat(uv_timer_t *timer)
{
    struct pool_task *task = timer->data;
    size_t n = 0;
    LIST_FOREACH (&task->jobs, link)
        n++;
    if (n == 0) {
        uv_timer_stop(timer);
        return;
    }
    if (task->is_extending || !reserve(task, n))
        return;
    n = gather(task);
    if (n == 0)
        return;
    task->is_extending = true;
    task->extend_call.answered = on_extended;
    extend_op_init(&task->extend, task->extensions, n);
    pool_send(&task->extend_call, &task->extend.op);
}

void pool_lease_init(struct pool_task *task)
{
    uv_timer_init(task->pool->options.loop, &task->heartbeat);
    task->heartbeat.data = task;
}

void pool_lease_watch(struct pool_task *task)
{
    const uint64_t ms = (uint64_t)task->config->heartbeat_ms;
    if (!uv_is_active((const uv_handle_t *)&task->heartbeat))
        uv_timer_start(&task->heartbeat, on_heartbeat, ms, ms);
}
