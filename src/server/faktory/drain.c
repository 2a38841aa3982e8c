/* drain.c - the graceful stop: workers are asked to exit, and may settle until then.
 *
 * BEAT answers `quiet` first and `terminate` the next time. The server has drained when no worker
 * is connected any more, or when the time is over.
 */
#include "server/faktory/private.h"

/* On the loop, never within the call of one that asks. */
static void on_drained(uv_timer_t *timer)
{
    struct faktory_server *server = timer->data;
    void (*drained)(void *ctx) = server->drained;
    server->drained = NULL;
    if (drained)
        drained(server->drained_ctx);
}

void faktory_server_drain(struct faktory_server *server, int64_t grace_ms,
                          void (*drained)(void *ctx), void *ctx)
{
    faktory_server_quiet(server);
    server->is_draining = true;
    server->drained = drained;
    server->drained_ctx = ctx;
    const bool waits = grace_ms > 0 && !list_empty(&server->worker_list);
    (void)uv_timer_start(&server->drain_timer, on_drained, waits ? (uint64_t)grace_ms : 0, 0);
}

void faktory_drain_look(struct faktory_server *server)
{
    if (server->drained && list_empty(&server->worker_list) && !server->is_closing_handles)
        (void)uv_timer_start(&server->drain_timer, on_drained, 0, 0);
}

enum faktory_state faktory_drain_state(const struct faktory_server *server,
                                       struct faktory_worker *worker)
{
    enum faktory_state state = worker->state > server->state ? worker->state : server->state;
    if (!server->is_draining || state != FAKTORY_QUIET)
        return state;
    if (worker->has_heard_quiet)
        return FAKTORY_TERMINATE;
    worker->has_heard_quiet = true;
    return FAKTORY_QUIET;
}
