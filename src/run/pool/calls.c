/* calls.c - operations for the committer: handed in, answered, not handed in for a while after
 * trouble; and the one that writes this worker's row. */
#include "run/pool/private.h"

#include "base/time/clock.h"
#include "engine/store_status.h"

/* On the committer's thread. */
static void on_answer(struct op *op, void *ctx)
{
    struct pool_call *call = ctx;
    struct pool *pool = call->pool;
    (void)op;
    pthread_mutex_lock(&pool->mutex);
    list_insert(&pool->answers, &call->link);
    uv_async_send(&pool->async);
    pthread_mutex_unlock(&pool->mutex);
}

void pool_send(struct pool_call *call, struct op *op)
{
    op->done = on_answer;
    op->done_ctx = call;
    list_insert(&call->pool->outgoing, &op->link);
    call->pool->n_calls++;
}

struct pool_call *pool_next_answer(struct pool *pool)
{
    struct pool_call *call = NULL;
    pthread_mutex_lock(&pool->mutex);
    if (!list_empty(&pool->answers)) {
        call = LIST_ENTRY(pool->answers.next, struct pool_call, link);
        list_remove(&call->link);
    }
    pthread_mutex_unlock(&pool->mutex);
    return call;
}

void pool_ask_again(struct pool *pool)
{
    for (size_t i = 0; i < pool->n_tasks; i++)
        pool->tasks[i].wants = pool->tasks[i].woken = true;
}

/* ---- Trouble --------------------------------------------------------------------------------- */

static void on_pause_over(uv_timer_t *timer)
{
    (void)timer; /* the turn that this begins ends with another try */
}

bool pool_is_pausing(const struct pool *pool)
{
    return uv_is_active((const uv_handle_t *)&pool->pause);
}

void pool_pause(struct pool *pool, const char *what, const struct redrive_err *err)
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

/* ---- The worker's row ------------------------------------------------------------------------ */

static void on_told(struct pool_call *call)
{
    /* A row that could not be written is no reason to stop working: the next one will do. */
    call->pool->row.is_under_way = false;
}

/* For statistics and health; nothing while a write is under way. */
static void tell_row(struct pool *pool)
{
    struct pool_row *row = &pool->row;
    if (row->is_under_way || row->has_left || pool->is_abandoned)
        return;
    worker_op_init(&row->op, pool->options.worker, pool->options.tenant);
    row->op.running = (uint32_t)(pool->n_jobs - pool->n_ahead);
    row->op.slots = pool->slots;
    row->op.leaving = row->has_left = row->is_leaving;
    row->call = (struct pool_call){.pool = pool, .answered = on_told};
    row->is_under_way = true;
    pool_send(&row->call, &row->op.op);
}

static void on_row_timer(uv_timer_t *timer)
{
    tell_row(timer->data);
}

void pool_row_init(struct pool *pool)
{
    uv_timer_init(pool->options.loop, &pool->row.timer);
    pool->row.timer.data = pool;
    uv_timer_start(&pool->row.timer, on_row_timer, 0, WORKER_EVERY_MS);
}

bool pool_row_leave(struct pool *pool)
{
    pool->row.is_leaving = true;
    if (pool->is_giving_up)
        return true;
    tell_row(pool);
    return pool->row.has_left && !pool->row.is_under_way;
}
