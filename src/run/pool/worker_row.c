/* worker_row.c - writes this worker's row to the store, for statistics and health. */
#include "run/pool/private.h"

static void on_told(struct pool_call *call)
{
    /* A row that could not be written is no reason to stop working: the next one will do. */
    call->pool->row.is_under_way = false;
}

void pool_row_tell(struct pool *pool)
{
    struct pool_row *row = &pool->row;
    if (row->is_under_way || row->has_left || pool->is_abandoned)
        return;
    worker_op_init(&row->op, pool->options.worker, pool->options.tenant);
    row->op.running = (uint32_t)pool->n_jobs;
    row->op.slots = pool->slots;
    row->op.leaving = row->has_left = row->is_leaving;
    row->call = (struct pool_call){.pool = pool, .answered = on_told};
    row->is_under_way = true;
    pool_send(&row->call, &row->op.op);
}

static void on_timer(uv_timer_t *timer)
{
    pool_row_tell(timer->data);
}

void pool_row_init(struct pool *pool)
{
    uv_timer_init(pool->options.loop, &pool->row.timer);
    pool->row.timer.data = pool;
    uv_timer_start(&pool->row.timer, on_timer, 0, WORKER_EVERY_MS);
}

bool pool_row_leave(struct pool *pool)
{
    pool->row.is_leaving = true;
    if (pool->is_giving_up)
        return true;
    pool_row_tell(pool);
    return pool->row.has_left && !pool->row.is_under_way;
}
