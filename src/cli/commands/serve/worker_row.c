/* worker_row.c - the rows of workers that a server writes to the store. A server that runs no jobs
 * itself writes its own row, because it settles jobs of remote workers; where it has a pool, the
 * pool does. It also writes the rows of remote workers, which have no access to the store. */
#include "cli/commands/serve/private.h"

/* ---- Itself ---------------------------------------------------------------------------------- */

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

/* ---- Remote workers -------------------------------------------------------------------------- */

static void on_remote_told(struct serve_call *call)
{
    struct serve *serve = call->serve;
    arena_release(&serve->row.remote_arena);
    serve->row.is_remote_under_way = false;
}

/* One batch at a time; true when there was nothing to write. */
static bool tell_of_remote(struct serve *serve)
{
    struct remote_worker *workers;
    if (serve->row.is_remote_under_way)
        return false;
    arena_init(&serve->row.remote_arena);
    const size_t n =
        remote_workers_collect(serve->remote, engine_now_ms(committer_engine(serve->committer)),
                               serve->row.is_leaving, &serve->row.remote_arena, &workers);
    if (n == 0) {
        arena_release(&serve->row.remote_arena);
        return true;
    }
    remote_workers_op_init(&serve->row.remote_op, workers, n);
    serve->row.remote_call = (struct serve_call){.serve = serve, .answered = on_remote_told};
    serve->row.is_remote_under_way = true;
    serve_send(&serve->row.remote_call, &serve->row.remote_op.op);
    return false;
}

/* ---- When ------------------------------------------------------------------------------------ */

static void on_timer(uv_timer_t *timer)
{
    struct serve *serve = timer->data;
    if (!serve->pool)
        tell(serve);
    (void)tell_of_remote(serve);
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
    return tell_of_remote(serve) && serve->row.has_left && !serve->row.is_under_way;
}
