#include "run/pool_int.h"

#include "base/clock.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A place is free as soon as its run has ended: while the settlement is on its way, or one and the
 * same unit would have to wait for the other. */
static size_t free_places(const struct pool_task *task)
{
    const struct pool *pool = task->pool;
    size_t own = task->running < task->places ? task->places - task->running : 0;
    size_t used = pool->running + pool->asked;
    size_t all = used < pool->places ? pool->places - used : 0;
    return least(least(own, all), POOL_BATCH_MAX);
}

static void on_claimed(struct pool_call *call)
{
    struct pool_task *task =
        (struct pool_task *)(void *)((char *)call - offsetof(struct pool_task, claim_call));
    struct pool *pool = task->pool;
    struct claim_op *claim = &task->claim;
    bool is_filled = claim->n >= task->asked;
    pool->asked -= task->asked;
    task->asked = 0;
    if (claim->op.code < 0) {
        pool_pause(pool, "claim_failed", &claim->op.err);
    } else {
        task->wants = is_filled || claim->more || task->woken;
        for (size_t i = 0; i < claim->n; i++)
            pool_job_take(task, &claim->jobs[i]);
        /* A settlement that cannot be taken is what the pause is for, until it can. */
        if (list_empty(&pool->to_settle))
            pool->pause_ms = 0;
    }
    claim_op_release(claim);
}

static bool ask(struct pool_task *task)
{
    struct pool *pool = task->pool;
    const struct pool_options *options = &pool->options;
    const struct claim_filter filter = {
        .tenant = options->tenant,
        .queues = options->queues,
        .n_queues = options->n_queues,
        .tasks = &task->name,
        .n_tasks = 1,
        .limit = free_places(task),
    };
    if (!task->wants || task->asked > 0 || filter.limit == 0 || pool_fault_pauses(task))
        return false;
    claim_op_init(&task->claim, &filter, options->worker, task->config->lease_ms);
    task->asked = filter.limit;
    task->woken = false;
    pool->asked += filter.limit;
    task->claim_call.answered = on_claimed;
    pool_send(&task->claim_call, &task->claim.op);
    return true;
}

/* Where there are fewer places than the tasks could use, the one after the last that has asked goes
 * first. Turns in which nobody could ask do not count: how many of them there are to a run is
 * chance, and could favour one task for ever. */
void pool_claim(struct pool *pool)
{
    const size_t first = pool->first;
    for (size_t i = 0; i < pool->n_tasks; i++) {
        const size_t at = (first + i) % pool->n_tasks;
        if (ask(&pool->tasks[at]))
            pool->first = (at + 1) % pool->n_tasks;
    }
}
