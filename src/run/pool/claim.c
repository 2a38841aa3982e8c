/* claim.c - asks the committer for jobs, one claim for all tasks with free slots. */
#include "run/pool/private.h"

#include "base/time/clock.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A slot is free as soon as its run has ended, before its settlement is answered: so the settlement
 * and the next claim can share a transaction. */
static size_t free_slots(size_t slots, size_t running)
{
    return running < slots ? least(slots - running, POOL_BATCH_MAX) : 0;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static struct pool_task *task_named(struct pool *pool, struct str name)
{
    for (size_t i = 0; i < pool->n_tasks; i++)
        if (str_eq(pool->tasks[i].name, name))
            return &pool->tasks[i];
    return NULL;
}

/* Tasks that were given less than they could take have no more, as far as the store has looked. */
static void end_asking(struct pool *pool, bool has_answer, bool more)
{
    const struct claim_op *claim = &pool->claim.op;
    for (size_t i = 0; i < pool->n_tasks; i++) {
        struct pool_task *task = &pool->tasks[i];
        size_t given = 0;
        for (size_t k = 0; k < claim->n && has_answer; k++)
            given += str_eq(claim->jobs[k].spec.task, task->name);
        if (task->asked > 0 && has_answer)
            task->wants = more || given >= task->asked || task->woken;
        task->asked = 0;
    }
}

static void on_claimed(struct pool_call *call)
{
    struct pool *pool = call->pool;
    struct claim_op *claim = &pool->claim.op;
    const bool is_filled = claim->n >= pool->claim.asked;
    const bool has_answer = claim->op.code >= 0;
    end_asking(pool, has_answer, is_filled || claim->more);
    pool->claim.asked = 0;
    if (!has_answer)
        pool_pause(pool, "claim_failed", &claim->op.err);
    for (size_t i = 0; i < claim->n && has_answer; i++) {
        struct pool_task *task = task_named(pool, claim->jobs[i].spec.task);
        if (task)
            pool_job_take(task, &claim->jobs[i]);
    }
    /* A settlement that cannot be taken is what the pause is for, until it can. */
    if (has_answer && list_empty(&pool->to_settle))
        pool->pause_ms = 0;
    claim_op_release(claim);
}

/* ---- The question ---------------------------------------------------------------------------- */

/* Which tasks are asked for, and how many jobs of each; *ret_all: of all together. */
static size_t choose_tasks(struct pool *pool, size_t free, size_t *ret_all)
{
    size_t n = 0;
    *ret_all = 0;
    for (size_t i = 0; i < pool->n_tasks; i++) {
        struct pool_task *task = &pool->tasks[i];
        task->asked = least(free, free_slots(task->slots, task->running));
        if (!task->wants || pool_fault_pauses(task))
            task->asked = 0;
        if (task->asked == 0)
            continue;
        task->woken = false;
        pool->claim.names[n] = task->name;
        pool->claim.limits[n++] = task->asked;
        *ret_all += task->asked;
    }
    return n;
}

/* Where no task has fewer slots than are asked for, none needs a limit. */
static bool needs_limits(const struct pool_claim *claim, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (claim->limits[i] < claim->asked)
            return true;
    return false;
}

void pool_claim(struct pool *pool)
{
    const struct pool_options *options = &pool->options;
    struct pool_claim *claim = &pool->claim;
    const size_t free = free_slots(pool->slots, pool->running);
    size_t all;
    if (claim->asked > 0 || free == 0)
        return;
    const size_t n = choose_tasks(pool, free, &all);
    if (n == 0)
        return;
    claim->asked = least(free, all);
    const struct claim_filter filter = {
        .tenant = options->tenant,
        .queues = options->queues,
        .n_queues = options->n_queues,
        .tasks = claim->names,
        .n_tasks = n,
        .task_limits = needs_limits(claim, n) ? claim->limits : NULL,
        .limit = claim->asked,
        .max_bytes = POOL_CLAIM_BYTES,
    };
    claim_op_init(&claim->op, &filter, options->worker, 0);
    claim->call.answered = on_claimed;
    pool_send(&claim->call, &claim->op.op);
}
