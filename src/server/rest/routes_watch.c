/* routes_watch.c - monitoring: metrics, and a stream of events. */
#include "server/rest/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "server/events.h"
#include "server/metrics/metrics.h"

#define METRICS_MAX_BYTES (32u * 1024 * 1024)

/* ---- /metrics -------------------------------------------------------------------------------- */

/* The series of the store are left out when it cannot be read; those of this process are needed
 * most then. */
static int write_metrics(struct rest_call *call, struct buf *out, struct redrive_err *err)
{
    struct run_times *times = call->rest->run_times;
    struct arena *arena = http_arena(call->request);
    struct store_status *store_status =
        engine_store_status(committer_engine(call->rest->committer));
    struct stats stats = {0};
    struct run_time *rows = NULL;
    struct store_status_view state;
    int rc = 0;
    const bool is_read = !store_status_is_away(store_status, NULL) &&
                         stats_read(rest_store(call), call->principal.tenant, &call->config->health,
                                    rest_now_ms(call), &stats, err) == 0;
    store_status_read(store_status, &state);
    if (is_read)
        rc = metrics_write_store(&stats, out);
    stats_release(&stats);
    const size_t n = times ? run_times_read(times, call->principal.tenant, arena, &rows) : 0;
    const struct metrics_process process = {
        .store_status = &state,
        .store_is_read = is_read,
        .run_times = rows,
        .n_run_times = n,
        .facts = process_facts(times ? run_times_since_ms(times) : rest_now_ms(call)),
    };
    metrics_write_process(&process, out);
    if (rc < 0 || arena->failed)
        return err_nomem(err);
    return buf_failed(out) ? err_full(err, buf_failed(out), "there are too many metrics") : 0;
}

static void get_metrics(struct rest_call *call)
{
    struct redrive_err err = {0};
    struct buf text;
    buf_init(&text, METRICS_MAX_BYTES);
    if (write_metrics(call, &text, &err) < 0)
        rest_fail(call, &err, NULL);
    else
        http_reply(call->request, 200, METRICS_CONTENT_TYPE, buf_str(&text), NULL, 0);
    buf_release(&text);
}

/* ---- /events --------------------------------------------------------------------------------- */

/* A client of /events. It outlives its request, and so holds the configuration that accepted it. */
struct listener {
    struct rest *rest;
    struct http_stream *stream;
    struct config *config;
    struct principal principal;
    enum config_scope scope;
};

static bool write_stream(struct str bytes, void *ctx)
{
    const struct listener *listener = ctx;
    return http_stream_write(listener->stream, bytes);
}

static bool may_listen(void *ctx)
{
    const struct listener *listener = ctx;
    return rest_still_admits(listener->rest, &listener->principal, listener->scope);
}

static void close_stream(void *ctx)
{
    struct listener *listener = ctx;
    http_stream_close(listener->stream);
    config_free(listener->config);
    free(listener);
}

static void listen_to(struct event_hub *hub, struct rest_call *call,
                      const struct event_filter *filter)
{
    const struct str last_id = http_header(call->request, "Last-Event-ID");
    struct listener *listener = malloc(sizeof *listener);
    const struct event_sink sink = {
        .write = write_stream,
        .close = close_stream,
        .may_listen = may_listen,
        .ctx = listener,
    };
    if (!listener) {
        struct redrive_err err;
        err_nomem(&err);
        rest_fail(call, &err, NULL);
        return;
    }
    *listener = (struct listener){
        .rest = call->rest,
        .config = config_hold(call->config),
        .principal = call->principal,
        .scope = call->route->scope,
    };
    listener->stream = http_stream_open(call->request, 200, "text/event-stream");
    /* The answer has begun: one too many can only be ended. */
    if (event_hub_join(hub, filter, last_id, &sink, NULL) < 0)
        close_stream(listener);
}

static void get_events(struct rest_call *call)
{
    struct event_hub *hub = call->rest->hub;
    const struct str task = http_query(call->request, "task");
    struct event_filter filter = {.tenant = call->principal.tenant};
    struct redrive_err err = {0};
    if (task.len > 0)
        filter.task = task;
    if (!hub) {
        err_set(&err, REDRIVE_E_NOT_FOUND, "this server sends no events");
        rest_fail(call, &err, NULL);
    } else if (event_kinds_parse(http_query(call->request, "type"), &filter.kinds, &err) < 0) {
        rest_fail(call, &err, "type");
    } else if (event_hub_check_room(hub, &err) < 0) {
        rest_fail(call, &err, NULL);
    } else if (http_method(call->request) == HTTP_HEAD) {
        http_reply(call->request, 200, "text/event-stream", STR(""), NULL, 0);
    } else {
        listen_to(hub, call, &filter);
    }
}

const struct rest_route REST_WATCH[] = {
    {HTTP_GET, "/metrics", CONFIG_SCOPE_READ, true, get_metrics, .outlives_store = true},
    {HTTP_GET, "/events", CONFIG_SCOPE_READ, false, get_events},
    {0},
};
