/* turn.c - what a pool asks of the store: settles and claims; for how long outcomes are gathered;
 * the pause after trouble with the store. */
#include "run/pool/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/store_status.h"

/* ---- Trouble --------------------------------------------------------------------------------- */

static void on_pause_over(uv_timer_t *timer)
{
    (void)timer; /* the turn that this begins ends with another try */
}

bool pool_is_pausing(const struct pool *pool)
{
    return uv_is_active((const uv_handle_t *)&pool->pause);
}

/* The store has failed: hands nothing in for a while, longer each time. */
static void pause_pool(struct pool *pool, const char *what, const struct redrive_err *err)
{
    if (pool_is_pausing(pool) || pool->is_closing)
        return;
    pool->pause_ms = store_wait_after_ms(pool->pause_ms);
    log_event(pool->options.log, LOG_LEVEL_ERROR, clock_wall_ms(), what,
              LOG_S("error", err->message), LOG_S("detail", err->detail),
              LOG_I("delay_ms", pool->pause_ms));
    uv_update_time(pool->options.loop);
    uv_timer_start(&pool->pause, on_pause_over, (uint64_t)pool->pause_ms, 0);
}

void pool_ask_again(struct pool *pool)
{
    for (size_t i = 0; i < pool->n_tasks; i++)
        pool->tasks[i].wants = pool->tasks[i].woken = true;
}

/* ---- Settling -------------------------------------------------------------------------------- */

struct pool_settlement {
    struct pool *pool;
    struct settle_op op;
    struct list jobs; /* struct pool_job, in the order of the items */
    size_t n;
    struct settlement items[];
};

static void log_settlement(const struct pool_job *job, enum log_level level, const char *event,
                           int code)
{
    log_event(job->task->pool->options.log, level, clock_wall_ms(), event,
              LOG_S("job_id", job->request.job_id), LOG_S("task", job->request.task),
              LOG_I("attempt", job->request.attempt), LOG_S("error", redrive_err_text(code)));
}

/* How long a job waits whose shard did not take its outcome. */
#define LATER_MS 1000

void pool_settle_now(struct pool *pool)
{
    uv_timer_stop(&pool->later);
    LIST_FOREACH (&pool->to_settle_later, link) {
        list_remove(link);
        list_insert(&pool->to_settle, link);
    }
}

static void on_later(uv_timer_t *timer)
{
    pool_settle_now(timer->data);
}

/* Whether its shard has not answered for a lease: a job whose shard was there meanwhile would have
 * been settled. */
static bool has_lost_lease(const struct pool_job *job)
{
    return uv_hrtime() - job->late_ns >= (uint64_t)job->task->config->lease_ms * 1000000;
}

/* The shard of this job does not answer. What its failure may do to its breaker is not waited for:
 * that may take long. */
static void settle_later(struct pool_job *job, const struct redrive_err *err)
{
    struct pool *pool = job->task->pool;
    pool_job_clear_doubt(job);
    if (job->late_ns == 0)
        job->late_ns = uv_hrtime();
    if (pool->is_giving_up || (pool->options.until_idle && has_lost_lease(job))) {
        log_settlement(job, LOG_LEVEL_ERROR, "settlement_lost", REDRIVE_E_IO);
        pool->n_left++;
        pool_job_end(job);
        return;
    }
    list_insert(&pool->to_settle_later, &job->queue);
    if (uv_is_active((const uv_handle_t *)&pool->later))
        return;
    log_event(pool->options.log, LOG_LEVEL_ERROR, clock_wall_ms(), "settlement_failed",
              LOG_S("error", err->message), LOG_S("detail", err->detail),
              LOG_I("delay_ms", LATER_MS));
    uv_update_time(pool->options.loop);
    uv_timer_start(&pool->later, on_later, LATER_MS, 0);
}

/* Refused: the lease has been lost, the job was cancelled, or an earlier try whose answer was lost
 * has reached the store after all. */
static void on_item(struct pool_job *job, const struct settlement *item,
                    const struct redrive_err *err)
{
    struct pool *pool = job->task->pool;
    if (item->ret.code < 0 && redrive_err_retryable(item->ret.code)) {
        settle_later(job, err);
        return;
    }
    if (item->is_shut)
        pool_ahead_shut(pool, job->breaker);
    if (item->ret.code < 0)
        log_settlement(job, LOG_LEVEL_WARNING, "settlement_refused", item->ret.code);
    else if (job->outcome.ending == ENDING_RAN && item->decision.state != REDRIVE_STATE_COMPLETED)
        pool->n_failed++;
    pool_job_end(job);
}

static void on_taken(struct pool_settlement *s)
{
    struct pool *pool = s->pool;
    const struct settlement *item = s->items;
    LIST_FOREACH (&s->jobs, link) {
        struct pool_job *job = LIST_ENTRY(link, struct pool_job, queue);
        list_remove(link);
        on_item(job, item++, &s->op.op.err);
    }
    pool->pause_ms = 0;
    if (list_empty(&pool->to_settle))
        pool->settle_singly = false;
    /* The settlement may have released parked jobs. A pool that goes on is woken for them; one that
     * ends when idle has to ask. */
    if (pool->options.until_idle)
        pool_ask_again(pool);
}

static void give_up(struct pool_settlement *s, int code)
{
    LIST_FOREACH (&s->jobs, link) {
        struct pool_job *job = LIST_ENTRY(link, struct pool_job, queue);
        list_remove(link);
        log_settlement(job, LOG_LEVEL_ERROR, "settlement_lost", code);
        s->pool->n_left++;
        pool_job_end(job);
    }
}

/* Back in front of what has ended since, in the same order. */
static void put_back(struct pool_settlement *s)
{
    struct list *to_settle = &s->pool->to_settle;
    struct list *first = to_settle->next;
    LIST_FOREACH (&s->jobs, link) {
        list_remove(link);
        list_insert(first, link);
    }
}

static void on_settled(struct op *op, void *ctx)
{
    struct pool_settlement *s = ctx;
    struct pool *pool = s->pool;
    const int code = op->code;
    pool->n_settling--;
    const bool for_good = !redrive_err_retryable(code) || code == REDRIVE_E_STOPPING;
    if (code == 0) {
        on_taken(s);
    } else if (pool->is_giving_up || code == REDRIVE_E_STOPPING || (for_good && s->n == 1)) {
        give_up(s, code);
    } else {
        pool->settle_singly |= for_good;
        put_back(s);
        pause_pool(pool, "settlement_failed", &op->err);
    }
    free(s);
}

/* Hands in the first that is to be settled, with those that are settled by the same operation. Not
 * those of other shards, since one of the shards may hang. A job that its shard did not take is
 * alone: it may be refused again, and would have the others refused with it. False: no memory. */
static bool send_some(struct pool *pool)
{
    const struct pool_job *first = LIST_ENTRY(pool->to_settle.next, struct pool_job, queue);
    const size_t most = pool->settle_singly || first->late_ns > 0 ? 1 : POOL_BATCH_MAX;
    struct pool_settlement *s = calloc(1, sizeof *s + most * sizeof s->items[0]);
    if (!s)
        return false;
    s->pool = pool;
    list_init(&s->jobs);
    LIST_FOREACH (&pool->to_settle, link) {
        struct pool_job *job = LIST_ENTRY(link, struct pool_job, queue);
        if (s->n == most)
            break;
        if (job != first && (job->shard != first->shard || job->late_ns > 0))
            continue;
        list_remove(link);
        list_insert(&s->jobs, link);
        s->items[s->n++] = (struct settlement){
            .seq = job->seq,
            .token = job->token,
            .outcome = job->outcome,
            .result = job->result,
            .waited_ms = job->waited_ms,
        };
    }
    settle_op_init(&s->op, s->items, s->n);
    s->op.op.by_item = true;
    pool->n_settling++;
    mailbox_send(&pool->mailbox, &s->op.op, on_settled, s);
    return true;
}

void pool_settle(struct pool *pool)
{
    pool->has_failed = false;
    while (!list_empty(&pool->to_settle)) {
        if (send_some(pool))
            continue;
        struct redrive_err err;
        err_nomem(&err);
        pause_pool(pool, "settlement_failed", &err);
        return;
    }
}

/* ---- Claiming -------------------------------------------------------------------------------- */

/* Whether an earlier attempt of the job still runs here: its lease was lost, and it has been told
 * to end, or will be at its next heartbeat. */
static bool has_earlier_run(const struct pool_task *task, const struct job *job)
{
    const struct pool_options *options = &task->pool->options;
    const int64_t seq = job->status.seq;
    if (!lease_may_have_earlier_run(job))
        return false;
    return pool_job_runs(task, seq) ||
           (options->runs_elsewhere && options->runs_elsewhere(seq, options->elsewhere_ctx));
}

static void take_job(struct pool_task *task, const struct job *claimed)
{
    struct pool *pool = task->pool;
    struct pool_job *job = pool_job_new(task, claimed);
    if (!job) {
        log_event(pool->options.log, LOG_LEVEL_ERROR, clock_wall_ms(), "job_not_taken",
                  LOG_STR("job_id", claimed->spec.id), LOG_S("task", task->config->name),
                  LOG_S("error", "out of memory: it is taken back when its lease ends"));
        pool->n_left++;
        return;
    }
    const bool is_early = has_earlier_run(task, claimed);
    held_lease_give(&job->lease, (int64_t)(pool->claim.since_ns / 1000000), task->config->lease_ms);
    pool->n_jobs++;
    list_insert(&task->jobs, &job->link);
    pool_lease_watch(job);
    if (is_early)
        pool_job_put_off(job, LEASE_EARLIER_RUN_MS);
    else if (held_lease_is_over(&job->lease, clock_monotonic_ms()))
        pool_job_give_back(job);
    else
        pool_run_take(job);
}

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

/* How many jobs a task can be given. Of those that wait for a slot half are gone before more are
 * claimed: a claim costs about the same for one and for many. */
static size_t room_of(const struct pool_task *task)
{
    const size_t target = pool_ahead_target(task);
    if (task->n_ahead > target / 2)
        return 0;
    return free_slots(task->slots + target, task->running + task->n_ahead);
}

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
    const int64_t took_us = (int64_t)((uv_hrtime() - pool->claim.since_ns) / 1000);
    for (size_t i = 0; i < pool->n_tasks; i++) {
        struct pool_task *task = &pool->tasks[i];
        size_t given = 0;
        for (size_t k = 0; k < claim->n && has_answer; k++)
            given += str_eq(claim->jobs[k].spec.task, task->name);
        if (task->asked > 0 && has_answer) {
            pool_ahead_claimed(task, took_us);
            task->wants = more || given >= task->asked || task->woken;
        }
        task->asked = 0;
    }
}

/* Their runners write to programs once for all. */
static void take_jobs(struct pool *pool, const struct job *jobs, size_t n)
{
    for (size_t i = 0; i < pool->n_tasks; i++)
        if (pool->tasks[i].runner)
            runner_cork(pool->tasks[i].runner);
    for (size_t i = 0; i < n; i++) {
        struct pool_task *task = task_named(pool, jobs[i].spec.task);
        if (task)
            take_job(task, &jobs[i]);
    }
    for (size_t i = 0; i < pool->n_tasks; i++)
        if (pool->tasks[i].runner)
            runner_uncork(pool->tasks[i].runner);
}

/* How long a pool that ends when idle leaves a shard alone that was too slow for its claim. */
#define SLOW_SHARD_MS 100

/* Whether a pool that ends when idle has to ask again: a shard may have jobs, and has not said so.
 * One that is away is not waited for; pool_missed tells of it. */
static bool is_to_ask_again(struct pool *pool, const struct claim_op *claim)
{
    if (!pool->options.until_idle || claim->op.code < 0)
        return false;
    pool->missed = (struct redrive_err){0};
    if (claim->missed == CLAIM_MISSED_AWAY)
        pool->missed = claim->op.err;
    if (claim->missed != CLAIM_MISSED_SLOW || pool->is_closing)
        return false;
    uv_update_time(pool->options.loop);
    uv_timer_start(&pool->pause, on_pause_over, SLOW_SHARD_MS, 0);
    return true;
}

int pool_missed(const struct pool *pool, struct redrive_err *err)
{
    if (pool->missed.code == 0)
        return 0;
    err_set(err, REDRIVE_E_IO, "a shard is away: its jobs were not looked at");
    err_detail(err, "%s: %s", pool->missed.detail, pool->missed.message);
    return REDRIVE_E_IO;
}

static void on_claimed(struct op *op, void *ctx)
{
    struct pool *pool = ctx;
    struct claim_op *claim = &pool->claim.op;
    const bool is_filled = claim->n >= pool->claim.asked;
    const bool has_answer = op->code >= 0;
    end_asking(pool, has_answer, is_filled || claim->more || is_to_ask_again(pool, claim));
    pool->claim.asked = 0;
    if (!has_answer)
        pause_pool(pool, "claim_failed", &op->err);
    if (has_answer && claim->n > 0)
        take_jobs(pool, claim->jobs, claim->n);
    /* A settlement that cannot be taken is what the pause is for, until it can. */
    if (has_answer && list_empty(&pool->to_settle))
        pool->pause_ms = 0;
    claim_op_release(claim);
}

/* How many jobs the pool can be given. */
static size_t room_of_all(const struct pool *pool)
{
    size_t slots = pool->slots;
    for (size_t i = 0; i < pool->n_tasks; i++)
        slots += pool_ahead_target(&pool->tasks[i]);
    return pool->claim.asked > 0 ? 0 : free_slots(slots, pool->running + pool->n_ahead);
}

static bool is_to_be_asked(const struct pool_task *task)
{
    return task->wants && !pool_fault_pauses(task) && room_of(task) > 0;
}

/* Whether there is room for jobs, and no claim under way. */
static bool can_claim(const struct pool *pool)
{
    if (room_of_all(pool) == 0)
        return false;
    for (size_t i = 0; i < pool->n_tasks; i++)
        if (is_to_be_asked(&pool->tasks[i]))
            return true;
    return false;
}

/* Which tasks are asked for, and how many jobs of each; *ret_all: of all together. */
static size_t choose_tasks(struct pool *pool, size_t free, size_t *ret_all)
{
    size_t n = 0;
    *ret_all = 0;
    for (size_t i = 0; i < pool->n_tasks; i++) {
        struct pool_task *task = &pool->tasks[i];
        task->asked = is_to_be_asked(task) ? least(free, room_of(task)) : 0;
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
    const size_t free = room_of_all(pool);
    size_t all;
    if (free == 0)
        return;
    const size_t n = choose_tasks(pool, free, &all);
    if (n == 0)
        return;
    claim->asked = least(free, all);
    claim->since_ns = uv_hrtime();
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
    claim->op.with_parents = true;
    mailbox_send(&pool->mailbox, &claim->op.op, on_claimed, pool);
}

/* ---- Gathering outcomes ---------------------------------------------------------------------- */

static void on_gathered(uv_timer_t *timer)
{
    struct pool *pool = timer->data;
    pool->has_gathered = true; /* the turn that this begins ends with a settlement */
}

bool pool_gathers(struct pool *pool)
{
    const bool may_wait =
        pool->n_ahead > 0 && !pool->has_gathered && !pool->is_stopping && !pool->has_failed;
    if (may_wait && !can_claim(pool)) {
        if (!uv_is_active((const uv_handle_t *)&pool->gather))
            uv_timer_start(&pool->gather, on_gathered, POOL_GATHER_MS, 0);
        return true;
    }
    pool->has_gathered = false;
    uv_timer_stop(&pool->gather);
    return false;
}
