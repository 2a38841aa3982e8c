/* call.c - between the committer's thread and the loop's. */
#include "cli/commands/serve/private.h"

#include "base/err.h"
#include "server/faktory/server.h"

/* On the committer's thread. */
static void on_answer(struct op *op, void *ctx)
{
    struct serve_call *call = ctx;
    struct serve *serve = call->serve;
    (void)op;
    pthread_mutex_lock(&serve->mutex);
    list_insert(&serve->answers, &call->link);
    (void)uv_async_send(&serve->async);
    pthread_mutex_unlock(&serve->mutex);
}

void serve_send(struct serve_call *call, struct op *op)
{
    op->done = on_answer;
    op->done_ctx = call;
    committer_submit(call->serve->committer, op);
}

static struct serve_call *next_answer(struct serve *serve)
{
    struct serve_call *call = NULL;
    pthread_mutex_lock(&serve->mutex);
    if (!list_empty(&serve->answers)) {
        call = LIST_ENTRY(serve->answers.next, struct serve_call, link);
        list_remove(&call->link);
    }
    pthread_mutex_unlock(&serve->mutex);
    return call;
}

static void on_async(uv_async_t *async)
{
    struct serve *serve = async->data;
    struct serve_call *call;
    while ((call = next_answer(serve)))
        call->answered(call);
    serve_advance(serve);
}

int serve_calls_init(struct serve *serve, struct redrive_err *err)
{
    int rc = uv_async_init(&serve->loop, &serve->async, on_async);
    serve->async.data = serve;
    return rc == 0 ? 0 : err_set(err, REDRIVE_E_IO, "cannot start serving: %s", uv_strerror(rc));
}

/* ---- Notifications --------------------------------------------------------------------------- */

/* The job was cancelled in this process: its run need not wait for a heartbeat. */
static void end_runs(struct serve *serve, int64_t seq)
{
    pthread_mutex_lock(&serve->mutex);
    LIST_FOREACH (&serve->pools, link)
        pool_cancelled(LIST_ENTRY(link, struct serve_pool, link)->pool, seq);
    pthread_mutex_unlock(&serve->mutex);
}

void serve_on_event(const struct engine_event *event, void *ctx)
{
    struct serve *serve = ctx;
    run_times_event(serve->run_times, event);
    event_hub_event(event, serve->hub);
    remote_workers_event(event, serve->remote);
    held_jobs_event(event, serve->held);
    if (event->kind == ENGINE_EVENT_CANCELLED && !event->ran)
        end_runs(serve, event->seq);
}

static bool is_alert_of(const struct config *config, const struct config_alert *alert)
{
    return alert >= config->alerts && alert < config->alerts + config->n_alerts;
}

/* During a reload the engine may be a step ahead of the notifiers, or behind. */
void serve_on_alert(const struct alert_event *event, void *ctx)
{
    struct serve *serve = ctx;
    pthread_mutex_lock(&serve->mutex);
    LIST_FOREACH (&serve->notifiers, link) {
        struct serve_notifier *one = LIST_ENTRY(link, struct serve_notifier, link);
        if (is_alert_of(one->config, event->alert))
            notifier_on_alert(event, one->notifier);
    }
    pthread_mutex_unlock(&serve->mutex);
}

void serve_on_ready(void *ctx)
{
    struct serve *serve = ctx;
    pthread_mutex_lock(&serve->mutex);
    LIST_FOREACH (&serve->pools, link)
        pool_wake(LIST_ENTRY(link, struct serve_pool, link)->pool);
    if (serve->rest)
        rest_jobs_ready(serve->rest);
    if (serve->faktory)
        faktory_server_wake(serve->faktory);
    pthread_mutex_unlock(&serve->mutex);
}
