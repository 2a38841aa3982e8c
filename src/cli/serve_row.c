/* serve_row.c - a server that runs no jobs itself still settles those of remote workers, and tells
 * the store how that goes; one that does has a pool which tells. */
#include "cli/serve.h"

static void on_told(struct serve_call *call)
{
    /* A row that could not be written is no reason to stop: the next one will do. */
    call->serve->row.is_under_way = false;
}

static void tell(struct serve *serve)
{
    if (serve->row.is_under_way || serve->row.has_left)
        return;
    worker_op_init(&serve->row.op, str_of(serve->name), (struct str){0});
    serve->row.op.leaving = serve->row.has_left = serve->row.is_leaving;
    serve->row.call = (struct serve_call){.serve = serve, .answered = on_told};
    serve->row.is_under_way = true;
    serve_send(&serve->row.call, &serve->row.op.op);
}

static void on_timer(uv_timer_t *timer)
{
    struct serve *serve = timer->data;
    if (!serve->pool)
        tell(serve);
}

void serve_row_init(struct serve *serve)
{
    uv_timer_init(&serve->loop, &serve->row.timer);
    serve->row.timer.data = serve;
    uv_timer_start(&serve->row.timer, on_timer, 0, WORKER_EVERY_MS);
}

bool serve_row_leave(struct serve *serve)
{
    serve->row.is_leaving = true;
    tell(serve);
    return serve->row.has_left && !serve->row.is_under_way;
}
