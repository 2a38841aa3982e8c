/* pool.c - starts, stops and wakes the pool, says which tasks it runs, and writes this worker's
 * row. */
#include "run/pool/pool.h"

#include <stdlib.h>

#include "base/err.h"
#include "run/from_config.h"
#include "run/pool/private.h"

/* ---- Other threads --------------------------------------------------------------------------- */

/* All that are here of the job: one that runs, and one that was claimed while an earlier one had
 * not ended yet. */
static void end_runs_of(struct pool *pool, int64_t seq)
{
    for (size_t i = 0; i < pool->n_tasks; i++)
        LIST_FOREACH (&pool->tasks[i].jobs, link) {
            struct pool_job *job = LIST_ENTRY(link, struct pool_job, link);
            if (job->seq == seq)
                pool_job_cancel(job);
        }
}

/* After the answers: a job that was claimed before it was cancelled has been taken by now. */
static void end_cancelled(struct pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    int64_t *seqs = pool->cancelled;
    const size_t n = pool->n_cancelled;
    pool->cancelled = NULL;
    pool->n_cancelled = pool->cancelled_capacity = 0;
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < n; i++)
        end_runs_of(pool, seqs[i]);
    free(seqs);
}

/* Why the loop is woken, beside answers. */
enum {
    JOBS_ARE_READY = 1,
    JOB_WAS_CANCELLED = 2,
};

static void on_async(uv_async_t *async)
{
    struct pool *pool = async->data;
    const unsigned reasons = mailbox_deliver(&pool->mailbox);
    if (reasons & JOB_WAS_CANCELLED)
        end_cancelled(pool);
    if (reasons & JOBS_ARE_READY)
        pool_ask_again(pool);
}

static void wake_loop(void *async)
{
    (void)uv_async_send(async);
}

void pool_cancelled(struct pool *pool, int64_t seq)
{
    pthread_mutex_lock(&pool->mutex);
    if (pool->n_cancelled == pool->cancelled_capacity) {
        size_t capacity = pool->cancelled_capacity ? pool->cancelled_capacity * 2 : 16;
        int64_t *grown = realloc(pool->cancelled, capacity * sizeof *grown);
        if (grown) {
            pool->cancelled = grown;
            pool->cancelled_capacity = capacity;
        }
    }
    if (pool->n_cancelled < pool->cancelled_capacity)
        pool->cancelled[pool->n_cancelled++] = seq;
    pthread_mutex_unlock(&pool->mutex);
    mailbox_wake(&pool->mailbox, JOB_WAS_CANCELLED);
}

void pool_wake(struct pool *pool)
{
    mailbox_wake(&pool->mailbox, JOBS_ARE_READY);
}

/* ---- The worker's row ------------------------------------------------------------------------ */

/* A row that could not be written is no reason to stop working: the next one will do. */
static void on_row_written(struct op *op, void *ctx)
{
    struct pool *pool = ctx;
    (void)op;
    pool->row.is_under_way = false;
}

/* For statistics and health; nothing while a write is under way. */
static void write_row(struct pool *pool)
{
    struct pool_row *row = &pool->row;
    if (row->is_under_way || row->has_left || pool->is_abandoned)
        return;
    worker_op_init(&row->op, pool->options.worker, pool->options.tenant);
    row->op.running = (uint32_t)(pool->n_jobs - pool->n_ahead);
    row->op.slots = pool->slots;
    row->op.leaving = row->has_left = row->is_leaving;
    row->is_under_way = true;
    mailbox_send(&pool->mailbox, &row->op.op, on_row_written, pool);
}

static void on_row_timer(uv_timer_t *timer)
{
    write_row(timer->data);
}

/* Removes the row; true when it is gone, or could not be removed. To be called until then. */
static bool leave_row(struct pool *pool)
{
    pool->row.is_leaving = true;
    if (pool->is_giving_up)
        return true;
    write_row(pool);
    return pool->row.has_left && !pool->row.is_under_way;
}

/* ---- The end of a turn ----------------------------------------------------------------------- */

static bool is_idle(const struct pool *pool)
{
    for (size_t i = 0; i < pool->n_tasks; i++)
        if (pool->tasks[i].wants && !pool_fault_is_final(&pool->tasks[i]))
            return false;
    return pool->n_jobs == 0 && pool->mailbox.n_under_way == 0;
}

static bool is_done(const struct pool *pool)
{
    return pool->is_stopping && pool->n_runners == 0 && pool->mailbox.n_under_way == 0 &&
           list_empty(&pool->to_settle) && list_empty(&pool->to_settle_later);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pool *pool = handle->data;
    if (--pool->n_handles > 0)
        return;
    if (pool->is_abandoned)
        pool_free(pool);
    else if (pool->options.stopped)
        pool->options.stopped(pool->options.stopped_ctx);
}

static void close_handle(struct pool *pool, uv_handle_t *handle)
{
    handle->data = pool;
    uv_close(handle, on_handle_closed);
}

static void close_all(struct pool *pool)
{
    pool->is_closing = true;
    mailbox_close(&pool->mailbox);
    close_handle(pool, (uv_handle_t *)&pool->turn);
    close_handle(pool, (uv_handle_t *)&pool->async);
    close_handle(pool, (uv_handle_t *)&pool->pause);
    close_handle(pool, (uv_handle_t *)&pool->give_up);
    close_handle(pool, (uv_handle_t *)&pool->ahead);
    close_handle(pool, (uv_handle_t *)&pool->gather);
    close_handle(pool, (uv_handle_t *)&pool->later);
    close_handle(pool, (uv_handle_t *)&pool->row.timer);
    for (size_t i = 0; i < pool->n_tasks; i++) {
        close_handle(pool, (uv_handle_t *)&pool->tasks[i].heartbeat);
        close_handle(pool, (uv_handle_t *)&pool->tasks[i].fault.pause);
    }
}

/* Settlements come before claims: they free slots, in limits too. While the store has settlements
 * of ours that it could not take, it is asked for nothing more. */
static void hand_in(struct pool *pool)
{
    bool in_trouble = pool->pause_ms > 0 && (pool->n_settling > 0 || !list_empty(&pool->to_settle));
    if (!pool_is_pausing(pool)) {
        if (!list_empty(&pool->to_settle) && !pool_gathers(pool))
            pool_settle(pool);
        if (!in_trouble && !pool->is_stopping)
            pool_claim(pool);
    }
    mailbox_flush(&pool->mailbox);
}

static void on_turn(uv_prepare_t *turn)
{
    struct pool *pool = turn->data;
    if (pool->options.until_idle && !pool->is_stopping && is_idle(pool))
        pool_stop(pool, 0);
    if (is_done(pool) && !pool->is_closing && (pool->is_abandoned || leave_row(pool)))
        close_all(pool);
    pool_run_waiting(pool);
    hand_in(pool);
}

void pool_until_idle(struct pool *pool)
{
    pool->options.until_idle = true;
    pool_ask_again(pool);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static void on_runner_stopped(void *ctx)
{
    struct pool_task *task = ctx;
    runner_free(task->runner);
    task->runner = NULL;
    task->pool->n_runners--;
}

/* What is under way gets its answer still; what waits for another try is tried once more. */
static void on_give_up(uv_timer_t *timer)
{
    struct pool *pool = timer->data;
    pool->is_giving_up = true;
    uv_timer_stop(&pool->pause);
    pool_settle_now(pool);
}

void pool_stop(struct pool *pool, int64_t grace_ms)
{
    const bool is_first = !pool->is_stopping;
    const uint64_t limit_ms = (uint64_t)(grace_ms > 0 ? grace_ms : 0) + POOL_SETTLE_MS;
    if (pool->is_closing)
        return;
    pool->is_stopping = true;
    for (size_t i = 0; i < pool->n_tasks; i++) {
        pool_ahead_give_back(&pool->tasks[i]);
        if (pool->tasks[i].runner)
            runner_stop(pool->tasks[i].runner, grace_ms, on_runner_stopped, &pool->tasks[i]);
    }
    uv_update_time(pool->options.loop);
    if (is_first || limit_ms < uv_timer_get_due_in(&pool->give_up))
        uv_timer_start(&pool->give_up, on_give_up, limit_ms, 0);
}

void pool_retire(struct pool *pool, int64_t grace_ms)
{
    pool->row.has_left = true;
    pool_stop(pool, grace_ms);
}

/* ---- Which tasks of the configuration this pool runs ----------------------------------------- */

static bool is_named(const struct pool_options *options, const char *task)
{
    for (size_t i = 0; i < options->n_tasks; i++)
        if (str_is(options->tasks[i], task))
            return true;
    return options->n_tasks == 0;
}

static bool runs_task(const struct pool_options *options, const struct config_task *task)
{
    return task->run.kind != CONFIG_RUN_NONE && is_named(options, task->name);
}

static int no_such_task(const struct config *config, struct str name, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_CONFIG, "no task '%.*s' in the configuration", (int)name.len, name.ptr);
    err_suggest(err, config_task_nearest(config, name));
    return REDRIVE_E_CONFIG;
}

static int check_name(const struct config *config, struct str name, struct redrive_err *err)
{
    const struct config_task *task = config_task(config, name);
    if (task->name[0] == '\0')
        return no_such_task(config, name, err);
    if (task->run.kind != CONFIG_RUN_NONE)
        return 0;
    err_set(err, REDRIVE_E_CONFIG, "task '%s' does not say how it is run", task->name);
    err_detail(err, "its jobs wait for remote workers");
    err_hint(err, "add run: {exec: [PROGRAM]} to the task, or stream or http");
    return REDRIVE_E_CONFIG;
}

/* Whether all that the pool should run can be run; `ret_n` counts them. */
static int check_tasks(const struct pool_options *options, size_t *ret_n, struct redrive_err *err)
{
    const struct config *config = options->config;
    int rc = 0;
    *ret_n = 0;
    for (size_t i = 0; i < options->n_tasks && rc == 0; i++)
        rc = check_name(config, options->tasks[i], err);
    for (size_t i = 0; i < config->n_tasks && rc == 0; i++) {
        if (!runs_task(options, &config->tasks[i]))
            continue;
        rc = from_config_check(&config->tasks[i], options->environ, err);
        ++*ret_n;
    }
    if (rc < 0 || *ret_n > 0)
        return rc;
    err_set(err, REDRIVE_E_CONFIG, "there is nothing to run");
    err_detail(err, config->n_tasks ? "no task of the configuration says how it is run"
                                    : "the configuration has no tasks");
    err_hint(err, "give a task run: {exec: [PROGRAM]}, or stream or http");
    return REDRIVE_E_CONFIG;
}

/* ---- Start and end --------------------------------------------------------------------------- */

static int add_task(struct pool *pool, const struct config_task *config, struct redrive_err *err)
{
    struct pool_task *task = &pool->tasks[pool->n_tasks];
    *task = (struct pool_task){
        .pool = pool,
        .config = config,
        .name = str_of(config->name),
        .slots = config->run.concurrency,
        .wants = true,
    };
    list_init(&task->jobs);
    list_init(&task->ahead);
    pool_lease_init(task);
    pool_fault_init(task);
    pool->n_handles += 2;
    pool->n_tasks++;
    int rc = from_config_runner(pool->options.loop, pool->options.log, config,
                                pool->options.environ, &task->runner, err);
    if (rc < 0)
        return rc;
    pool->n_runners++;
    uint32_t room = UINT32_MAX - pool->slots;
    pool->slots += task->slots < room ? task->slots : room;
    return 0;
}

static int open_handles(struct pool *pool, struct redrive_err *err)
{
    uv_loop_t *loop = pool->options.loop;
    int rc = uv_async_init(loop, &pool->async, on_async);
    if (rc < 0)
        return err_set(err, REDRIVE_E_IO, "cannot start working: %s", uv_strerror(rc));
    uv_prepare_init(loop, &pool->turn);
    uv_prepare_start(&pool->turn, on_turn);
    uv_timer_init(loop, &pool->pause);
    uv_timer_init(loop, &pool->give_up);
    uv_timer_init(loop, &pool->ahead);
    uv_timer_init(loop, &pool->gather);
    uv_timer_init(loop, &pool->later);
    uv_timer_init(loop, &pool->row.timer);
    uv_timer_start(&pool->row.timer, on_row_timer, 0, WORKER_EVERY_MS);
    pool->async.data = pool->turn.data = pool->pause.data = pool->give_up.data = pool;
    pool->ahead.data = pool->gather.data = pool->later.data = pool->row.timer.data = pool;
    pool->n_handles = 8;
    return 0;
}

int pool_check(const struct pool_options *options, struct redrive_err *err)
{
    size_t n;
    return check_tasks(options, &n, err);
}

int pool_new(const struct pool_options *options, struct pool **ret, struct redrive_err *err)
{
    size_t n;
    *ret = NULL;
    int rc = check_tasks(options, &n, err);
    if (rc < 0)
        return rc;
    struct pool *pool = calloc(1, sizeof *pool + n * sizeof pool->tasks[0]);
    if (!pool)
        return err_nomem(err);
    pool->options = *options;
    pool->claim.names = calloc(n, sizeof *pool->claim.names);
    pool->claim.limits = calloc(n, sizeof *pool->claim.limits);
    mailbox_init(&pool->mailbox, options->committer, wake_loop, &pool->async);
    list_init(&pool->to_settle);
    list_init(&pool->to_settle_later);
    pthread_mutex_init(&pool->mutex, NULL);
    rc = pool->claim.names && pool->claim.limits ? open_handles(pool, err) : err_nomem(err);
    if (rc < 0) {
        pool_free(pool);
        return rc;
    }
    for (size_t i = 0; i < options->config->n_tasks && rc == 0; i++) {
        const struct config_task *task = &options->config->tasks[i];
        if (runs_task(options, task))
            rc = add_task(pool, task, err);
    }
    if (rc < 0) {
        pool->is_abandoned = true;
        pool_stop(pool, 0);
        return rc;
    }
    if (options->max_jobs > 0 && options->max_jobs < pool->slots)
        pool->slots = options->max_jobs;
    for (size_t i = 0; i < pool->n_tasks; i++)
        pool_ahead_init(&pool->tasks[i]);
    *ret = pool;
    return 0;
}

struct pool_status pool_status(const struct pool *pool)
{
    return (struct pool_status){
        .running = pool->n_jobs,
        .slots = pool->slots,
        .ended = pool->n_ended,
        .failed = pool->n_failed,
        .left = pool->n_left,
        .stopping = pool->is_stopping,
    };
}

bool pool_runs(const struct pool *pool, int64_t seq)
{
    for (size_t i = 0; i < pool->n_tasks; i++)
        if (pool_job_runs(&pool->tasks[i], seq))
            return true;
    return false;
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    for (size_t i = 0; i < pool->n_tasks; i++) {
        free(pool->tasks[i].extensions);
        free(pool->tasks[i].extending);
    }
    free(pool->claim.names);
    free(pool->claim.limits);
    free(pool->cancelled);
    mailbox_release(&pool->mailbox);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
