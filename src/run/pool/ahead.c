/* ahead.c - jobs that are claimed before there is a slot for them: how many, when they start, when
 * they are given back, and for how long outcomes are gathered while there are some. */
#include "run/pool/private.h"

/* ---- Giving back ----------------------------------------------------------------------------- */

void pool_ahead_remove(struct pool_job *job)
{
    job->is_ahead = false;
    list_remove(&job->queue);
    job->task->n_ahead--;
    job->task->pool->n_ahead--;
}

static void give_back(struct pool_job *job)
{
    pool_ahead_remove(job);
    pool_job_give_back(job);
}

static void give_all_back(struct pool_task *task)
{
    LIST_FOREACH (&task->ahead, link)
        give_back(LIST_ENTRY(link, struct pool_job, queue));
}

void pool_ahead_shut(struct pool *pool, uint64_t breaker)
{
    for (size_t i = 0; i < pool->n_tasks && breaker != 0; i++) {
        LIST_FOREACH (&pool->tasks[i].ahead, link) {
            struct pool_job *job = LIST_ENTRY(link, struct pool_job, queue);
            if (job->breaker == breaker)
                give_back(job);
        }
    }
}

/* ---- Rules ----------------------------------------------------------------------------------- */

/* Forgets how long runs and claims take. */
static void learn_anew(struct pool_task *task)
{
    const uint32_t all = task->pool->slots;
    claim_pace_init(&task->pace, task->slots < all ? task->slots : all, CLAIM_AHEAD_MAX);
}

void pool_ahead_init(struct pool_task *task)
{
    const struct pool *pool = task->pool;
    const bool shares_slots = pool->n_tasks > 1 && pool->slots == pool->options.max_jobs;
    task->may_go_ahead = !shares_slots && claim_ahead_is_allowed(task->config);
    learn_anew(task);
}

size_t pool_ahead_target(const struct pool_task *task)
{
    return task->may_go_ahead ? claim_pace_ahead(&task->pace) : 0;
}

/* Larger transactions cost less for each job: a claim that is answered sooner is not made more
 * often. */
void pool_ahead_claimed(struct pool_task *task, int64_t took_us)
{
    const int64_t least_us = POOL_AHEAD_MS * 1000;
    claim_pace_turn(&task->pace, took_us > least_us ? took_us : least_us);
}

void pool_ahead_give_back(struct pool_task *task)
{
    learn_anew(task);
    give_all_back(task);
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
        learn_anew(task);
        give_back(job);
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

static bool has_slot(const struct pool_task *task)
{
    return task->running < task->slots && task->pool->running < task->pool->slots;
}

void pool_ahead_take(struct pool_job *job)
{
    struct pool_task *task = job->task;
    /* By a definition of another process, perhaps, or a cron entry. */
    task->may_go_ahead &= !job->has_limit;
    const bool must_wait = task->n_ahead > 0 || (task->may_go_ahead && task->n_doubtful > 0);
    if (task->pool->is_stopping || (!must_wait && has_slot(task)))
        pool_job_start(job);
    else if (!task->may_go_ahead || pool_fault_pauses(task))
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

/* ---- Gathering outcomes ---------------------------------------------------------------------- */

static void on_gathered(uv_timer_t *timer)
{
    struct pool *pool = timer->data;
    pool->has_gathered = true; /* the turn that this begins ends with a settlement */
}

static bool has_doubts(const struct pool *pool)
{
    for (size_t i = 0; i < pool->n_tasks; i++)
        if (pool->tasks[i].n_doubtful > 0)
            return true;
    return false;
}

bool pool_ahead_gathers(struct pool *pool)
{
    const bool may_wait =
        pool->n_ahead > 0 && !pool->has_gathered && !pool->is_stopping && !has_doubts(pool);
    if (may_wait && !pool_can_claim(pool)) {
        if (!uv_is_active((const uv_handle_t *)&pool->gather))
            uv_timer_start(&pool->gather, on_gathered, POOL_GATHER_MS, 0);
        return true;
    }
    pool->has_gathered = false;
    uv_timer_stop(&pool->gather);
    return false;
}
