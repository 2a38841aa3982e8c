/* drain.c - the end of HTTP: remote workers may settle what they claimed here. This process is not
 * notified of what they settle at another server, so it asks the store now and then. */
#include "cli/commands/serve/private.h"

#include "base/time/clock.h"
#include "server/http/server.h"

/* How often a server that is about to stop looks whether its workers have settled, and how often it
 * asks the store. */
#define LOOK_MS 20
#define ASK_MS  200

static int64_t now_of_engine(const struct serve *serve)
{
    return engine_now_ms(committer_engine(serve->committer));
}

static void on_asked(struct serve_call *call)
{
    struct serve *serve = call->serve;
    const struct leases_op *op = &serve->drain.op;
    if (op->op.code == 0)
        held_jobs_answer(serve->held, op->leases, op->n);
    arena_release(&serve->drain.arena);
    serve->drain.is_asking = false;
}

static void ask(struct serve *serve, int64_t now_ms)
{
    struct lease *leases;
    if (serve->drain.is_asking || now_ms < serve->drain.ask_ms)
        return;
    serve->drain.ask_ms = now_ms + ASK_MS;
    arena_init(&serve->drain.arena);
    const size_t n = held_jobs_ask(serve->held, &serve->drain.arena, &leases);
    if (n == 0) {
        arena_release(&serve->drain.arena);
        return;
    }
    leases_op_init(&serve->drain.op, leases, n);
    serve->drain.call = (struct serve_call){.serve = serve, .answered = on_asked};
    serve->drain.is_asking = true;
    serve_send(&serve->drain.call, &serve->drain.op.op);
}

static void on_drain(uv_timer_t *timer)
{
    struct serve *serve = timer->data;
    const int64_t now_ms = clock_monotonic_ms();
    const bool has_held = held_jobs_count(serve->held, now_of_engine(serve)) > 0;
    if (now_ms < serve->drain.most_ms && (has_held || now_ms < serve->drain.least_ms)) {
        ask(serve, now_ms);
        return;
    }
    (void)uv_timer_stop(timer);
    serve->drain.is_under_way = false;
    http_server_quiesce(serve->http);
    serve_advance(serve);
}

void serve_drain_http(struct serve *serve, int64_t grace_ms)
{
    const bool is_first = !serve->drain.is_under_way;
    const int64_t now_ms = clock_monotonic_ms();
    if (!serve->http || (is_first && serve->drain.most_ms > 0))
        return;
    if (is_first)
        serve->drain.least_ms = now_ms + serve->config->listen.drain_ms;
    serve->drain.most_ms = now_ms + grace_ms;
    serve->drain.is_under_way = true;
    uv_timer_start(&serve->drain.timer, on_drain, 0, LOOK_MS);
}

void serve_drain_release(struct serve *serve)
{
    if (serve->drain.is_asking)
        arena_release(&serve->drain.arena);
}
