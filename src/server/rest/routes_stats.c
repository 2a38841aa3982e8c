/* routes_stats.c - statistics, queues, workers. */
#include "server/rest/routes.h"

#include "base/err.h"
#include "engine/report/stats.h"
#include "engine/verbs/control.h"
#include "server/rest/body/body.h"
#include "server/rest/body/views.h"
#include "server/rest/resource.h"

/* ---- Statistics ------------------------------------------------------------------------------ */

static void send_stats(struct rest_call *call,
                       void (*write)(struct json_writer *w, const struct stats *stats))
{
    struct stats stats = {0};
    struct redrive_err err = {0};
    int rc = stats_read(rest_store(call), call->principal.tenant, &call->config->health,
                        rest_now_ms(call), &stats, &err);
    if (rc < 0) {
        rest_fail(call, &err, NULL);
    } else {
        write(rest_json(call), &stats);
        rest_send(call, 200);
    }
    stats_release(&stats);
}

static void get_stats(struct rest_call *call)
{
    send_stats(call, stats_write_json);
}

static void get_retry_stats(struct rest_call *call)
{
    send_stats(call, stats_write_retry_json);
}

/* ---- Queues ---------------------------------------------------------------------------------- */

static void write_queue(struct json_writer *w, const void *page, size_t i)
{
    view_queue(w, &((const struct count_page *)page)->counts[i]);
}

static void get_queues(struct rest_call *call)
{
    struct store *store = rest_store(call);
    struct count_page page = {0};
    struct redrive_err err = {0};
    int rc = store_ops(store)->counts(store, COUNT_QUEUES, call->principal.tenant, &page, &err);
    kit_send_items(call, rc, &err, &page, page.n, write_queue);
    count_page_release(&page);
}

static void paused(struct rest_call *call, struct op *op)
{
    struct pause_op *p = (struct pause_op *)op;
    if (rest_refused(call, op))
        return;
    if (pause_op_goes_on(p)) {
        rest_commit(call, op, paused);
        return;
    }
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    json_field_string(w, "queue", p->queue);
    json_field_bool(w, "paused", p->pause);
    json_end_object(w);
    rest_send(call, 200);
}

static void set_pause(struct rest_call *call, bool pause)
{
    const struct str queue = call->params[0];
    struct redrive_err err = {0};
    struct pause_op *op = arena_alloc(http_arena(call->request), sizeof *op);
    if (!op) {
        kit_nomem(call);
        return;
    }
    if (queue.len > BODY_NAME_MAX) {
        (void)err_set(&err, REDRIVE_E_TOO_BIG, "queue: it is too long");
        err_detail(&err, "expected a name of 1 to %d bytes", BODY_NAME_MAX);
        rest_fail(call, &err, "queue");
        return;
    }
    pause_op_init(op, call->principal.tenant, queue, pause);
    rest_commit(call, &op->op, paused);
}

static void post_pause(struct rest_call *call)
{
    set_pause(call, true);
}

static void post_resume(struct rest_call *call)
{
    set_pause(call, false);
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void write_worker(struct json_writer *w, const void *page, size_t i)
{
    worker_write_json(w, &((const struct worker_page *)page)->workers[i]);
}

static void get_workers(struct rest_call *call)
{
    struct worker_page page = {0};
    struct redrive_err err = {0};
    int rc = workers_read(rest_store(call), call->principal.tenant, rest_now_ms(call), &page, &err);
    kit_send_items(call, rc, &err, &page, page.n, write_worker);
    worker_page_release(&page);
}

const struct rest_route REST_FIGURES[] = {
    {HTTP_GET, "/stats", CONFIG_SCOPE_READ, true, get_stats},
    {HTTP_GET, "/retry/stats", CONFIG_SCOPE_READ, true, get_retry_stats},
    {HTTP_GET, "/queues", CONFIG_SCOPE_READ, true, get_queues},
    {HTTP_POST, "/queues/{queue}/pause", CONFIG_SCOPE_ADMIN, false, post_pause},
    {HTTP_POST, "/queues/{queue}/resume", CONFIG_SCOPE_ADMIN, false, post_resume},
    {HTTP_GET, "/workers", CONFIG_SCOPE_READ, true, get_workers},
    {0},
};
