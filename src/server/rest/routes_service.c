/* routes_service.c - /health, /ready and /openapi.yaml. */
#include "server/rest/routes.h"

#include <string.h>

#include "base/err.h"
#include "engine/report/stats.h"
#include "server/health_check.h"
#include "server/rest/openapi.h"
#include "server/rest/private.h"
#include "store/job_json.h"

/* ---- /health --------------------------------------------------------------------------------- */

struct health_call {
    struct health_check_wait wait; /* first */
    struct rest_call *call;
};

static void write_store(struct json_writer *w, const struct health_check_facts *facts)
{
    json_key(w, "store");
    json_begin_object(w);
    json_field_cstr(w, "status", health_check_store_name(facts));
    if (facts->store != HEALTH_CHECK_OK) {
        job_write_time(w, "since", facts->since_ms);
        json_field_cstr(w, "error", facts->err.message);
    }
    json_end_object(w);
}

/* Old values say nothing about now: a store that cannot be read is bad health. */
static void write_unreadable(struct json_writer *w, const struct health_check_facts *facts)
{
    json_begin_object(w);
    json_field_cstr(w, "status", "unhealthy");
    json_field_double(w, "health_score", 0);
    json_key(w, "success_rate");
    json_put_null(w);
    json_field_cstr(w, "error", facts->err.message);
    write_store(w, facts);
    json_end_object(w);
}

static void write_health(struct json_writer *w, const struct health_check_facts *facts)
{
    struct redrive_health health = facts->health;
    if (facts->store != HEALTH_CHECK_OK && strcmp(health.status, "healthy") == 0)
        health.status = "degraded";
    json_begin_object(w);
    health_write_members(w, &health, facts->workers);
    write_store(w, facts);
    json_end_object(w);
}

static void tell_health(struct health_check_wait *wait, const struct health_check_facts *facts)
{
    struct rest_call *call = ((struct health_call *)(void *)wait)->call;
    if (facts->read_ms == 0 || facts->store == HEALTH_CHECK_UNREACHABLE ||
        facts->store == HEALTH_CHECK_SILENT)
        write_unreadable(rest_json(call), facts);
    else
        write_health(rest_json(call), facts);
    rest_send(call, 200);
}

static void get_health(struct rest_call *call)
{
    struct health_call *health = arena_alloc(http_arena(call->request), sizeof *health);
    if (!health) {
        struct redrive_err err;
        err_nomem(&err);
        rest_fail(call, &err, NULL);
        return;
    }
    health->call = call;
    health->wait.thresholds = call->config->health;
    health->wait.done = tell_health;
    health_check_ask(call->rest->health_check, &health->wait);
}

/* ---- /ready ---------------------------------------------------------------------------------- */

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

/* Goes through the committer, as work does: if an empty transaction can be committed, work can be
 * taken. */
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

/* ---- /openapi.yaml --------------------------------------------------------------------------- */

static void get_openapi(struct rest_call *call)
{
    http_reply(call->request, 200, "application/yaml", str_of(OPENAPI_TEXTS[0]), NULL, 0);
}

const struct rest_route REST_SERVICE[] = {
    {HTTP_GET, "/health", 0, false, get_health},
    {HTTP_GET, "/ready", 0, false, get_ready},
    {HTTP_GET, "/openapi.yaml", 0, false, get_openapi},
    {0},
};
