#include "doors/rest_routes.h"

#include "base/err.h"
#include "doors/openapi.h"
#include "engine/stats.h"

/* ---- /health -------------------------------------------------------------------------------- */

/* A store that cannot be read is bad health, and the process can still say so. */
static void write_unreadable(struct json_writer *w, const struct redrive_err *err)
{
    json_begin_object(w);
    json_field_cstr(w, "status", "unhealthy");
    json_field_double(w, "health_score", 0);
    json_key(w, "success_rate");
    json_put_null(w);
    json_field_cstr(w, "error", err->message);
    json_end_object(w);
}

static void get_health(struct rest_call *call)
{
    struct redrive_health health;
    struct worker_page workers = {0};
    struct redrive_err err;
    int rc = stats_health(rest_store(call), &call->config->health, rest_now_ms(call), &health,
                          &workers, &err);
    if (rc == 0)
        health_write_json(rest_json(call), &health, &workers);
    else
        write_unreadable(rest_json(call), &err);
    worker_page_release(&workers);
    rest_send(call, 200);
}

/* ---- /ready --------------------------------------------------------------------------------- */

static int apply_nothing(struct engine *engine, struct op *op, struct redrive_err *err)
{
    (void)engine, (void)err;
    op->code = 0;
    return 0;
}

static void tell_ready(struct rest_call *call, struct op *op)
{
    if (op->code < 0) {
        rest_fail_as(call, 503, &op->err, NULL);
        return;
    }
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    json_field_cstr(w, "status", "ready");
    json_end_object(w);
    rest_send(call, 200);
}

/* Takes the way that work takes: what the committer can begin and commit, it can take. */
static void get_ready(struct rest_call *call)
{
    struct redrive_err err;
    struct op *op = arena_alloc(http_arena(call->request), sizeof *op);
    if (op && rest_is_ready(call)) {
        op->apply = apply_nothing;
        rest_commit(call, op, tell_ready);
        return;
    }
    err_set(&err, op ? REDRIVE_E_STOPPING : REDRIVE_E_NOMEM, "takes no work now");
    rest_fail(call, &err, NULL);
}

/* ---- /openapi.yaml -------------------------------------------------------------------------- */

static void get_openapi(struct rest_call *call)
{
    http_reply(call->request, 200, "application/yaml", str_of(OPENAPI_TEXTS[0]), NULL, 0);
}

const struct rest_route REST_SERVICE[] = {
    {HTTP_GET, "/health", 0, true, get_health},
    {HTTP_GET, "/ready", 0, false, get_ready},
    {HTTP_GET, "/openapi.yaml", 0, false, get_openapi},
    {0},
};
