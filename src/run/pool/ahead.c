/* ahead.c - jobs that are claimed before there is a slot for them: how many, when they start, and
 * when they are given back. */
#include "run/pool/private.h"

#include "engine/claim_pace.h"

/* ---- Pace ------------------------------------------------------------------------------------ */

void pool_pace_learn(struct pool_pace *pace, int64_t took_us)
{
    const int64_t us = took_us > 0 ? took_us : 1;
    pace->run_us = pace->run_us == 0 ? us : (3 * pace->run_us + us + 3) / 4;
}

size_t pool_pace_ahead(const struct pool_pace *pace, size_t slots)
{
    if (pace->run_us == 0)
        return 0;
    const size_t n = slots * POOL_AHEAD_MS * 1000 / (size_t)pace->run_us;
    return n < POOL_AHEAD_MAX ? n : POOL_AHEAD_MAX;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

void pool_ahead_init(struct pool_task *task)
{
    const struct pool *pool = task->pool;
    const bool shares_slots = pool->n_tasks > 1 && pool->slots == pool->options.max_jobs;
    task->may_go_ahead = !shares_slots && claim_ahead_is_allowed(task->config);
}

size_t pool_ahead_target(const struct pool_task *task)
{
    const size_t slots = task->slots < task->pool->slots ? task->slots : task->pool->slots;
    return task->may_go_ahead ? pool_pace_ahead(&task->pace, slots) : 0;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* The handler is slower than it was, or hangs: other workers may have these. Its pace is learnt
 * again from the next run that ends. */
static void give_back_late(struct pool_task *task, uint64_t now_ns)
{
    const uint64_t limit_ns = (uint64_t)POOL_AHEAD_WAIT_MS * 1000000;
    LIST_FOREACH (&task->ahead, link) {
        struct pool_job *job = LIST_ENTRY(link, struct pool_job, queue);
        if (now_ns - job->since_ns < limit_ns)
            return;
        task->pace = (struct pool_pace){0};
        pool_ahead_remove(job);
        pool_job_give_back(job);
    }
}

static void on_ahead_timer(uv_timer_t *timer)
{
    struct pool *pool = timer->data;
    const uint64_t now_ns = uv_hrtime();
    for (size_t i = 0; i < pool->n_tasks; i++)
        give_back_late(&pool->tasks[i], now_ns);
    if (pool->n_ahead == 0)
        uv_timer_stop(timer);
}

static void wait_for_slot(struct pool_job *job)
{
    struct pool_task *task = job->task;
    struct pool *pool = task->pool;
    job->is_ahead = true;
    job->since_ns = uv_hrtime();
    list_insert(&task->ahead, &job->queue);
    task->n_ahead++;
    pool->n_ahead++;
    if (!uv_is_active((const uv_handle_t *)&pool->ahead))
        uv_timer_start(&pool->ahead, on_ahead_timer, POOL_AHEAD_WAIT_MS, POOL_AHEAD_WAIT_MS);
}

void pool_ahead_remove(struct pool_job *job)
{
    job->is_ahead = false;
    list_remove(&job->queue);
    job->task->n_ahead--;
    job->task->pool->n_ahead--;
}

static bool has_slot(const struct pool_task *task)
{
    return task->running < task->slots && task->pool->running < task->pool->slots;
}

void pool_ahead_take(struct pool_job *job)
{
    struct pool_task *task = job->task;
    if (task->pool->is_stopping || (task->n_ahead == 0 && has_slot(task)))
        pool_job_start(job);
    else if (job->has_limit || !task->may_go_ahead || pool_fault_pauses(task))
        pool_job_give_back(job);
    else
        wait_for_slot(job);
}

static void start_waiting(struct pool_task *task)
{
    const uint64_t now_ns = uv_hrtime();
    if (task->n_ahead == 0 || task->n_doubtful > 0 || !has_slot(task))
        return;
    runner_cork(task->runner);
    while (task->n_ahead > 0 && has_slot(task)) {
        struct pool_job *job = LIST_ENTRY(task->ahead.next, struct pool_job, queue);
        pool_ahead_remove(job);
        job->waited_ms = (int64_t)((now_ns - job->since_ns) / 1000000);
        pool_job_start(job);
    }
    runner_uncork(task->runner);
}

void pool_ahead_start(struct pool *pool)
{
    /* A store in trouble is given no more work than it has. */
    if (pool->n_ahead == 0 || pool->pause_ms > 0)
        return;
    for (size_t i = 0; i < pool->n_tasks; i++)
        start_waiting(&pool->tasks[i]);
}

/* ---- Giving back ----------------------------------------------------------------------------- */

void pool_ahead_give_back(struct pool_task *task)
{
    task->pace = (struct pool_pace){0};
    LIST_FOREACH (&task->ahead, link) {
        struct pool_job *job = LIST_ENTRY(link, struct pool_job, queue);
        pool_ahead_remove(job);
        pool_job_give_back(job);
    }
}

void pool_ahead_shut(struct pool *pool, uint64_t breaker)
{
    for (size_t i = 0; i < pool->n_tasks && breaker != 0; i++) {
        LIST_FOREACH (&pool->tasks[i].ahead, link) {
            struct pool_job *job = LIST_ENTRY(link, struct pool_job, queue);
            if (job->breaker != breaker)
                continue;
            pool_ahead_remove(job);
            pool_job_give_back(job);
        }
    }
}
