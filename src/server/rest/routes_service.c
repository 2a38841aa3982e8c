/* routes_service.c - /health, /ready, /openapi.yaml, and the session of a client. */
#include "server/rest/private.h"

#include <string.h>

#include "base/err.h"
#include "server/auth/auth.h"
#include "server/health_check.h"
#include "server/rest/resource.h"
#include "store/job_json.h"

/* ---- /health --------------------------------------------------------------------------------- */

struct health_call {
    struct health_check_wait wait; /* first */
    struct rest_call *call;
};

/* Figures that were read before the store went away say nothing about now. */
static void tell_health(struct health_check_wait *wait, const struct health_check_facts *facts)
{
    struct rest_call *call = ((struct health_call *)(void *)wait)->call;
    const bool is_ok = facts->store == HEALTH_CHECK_OK;
    const bool is_read = facts->read_ms != 0 && facts->store != HEALTH_CHECK_UNREACHABLE &&
                         facts->store != HEALTH_CHECK_SILENT;
    const struct redrive_err shown = auth_shown_error(&facts->err, 0);
    struct redrive_health figures = facts->health;
    const struct api_health health = {
        .figures = is_read ? &figures : NULL,
        .workers = facts->workers,
        .store = health_check_store_name(facts),
        .since_ms = facts->since_ms,
        .store_error = is_ok ? NULL : facts->err.message,
        .error = shown.message,
    };
    if (!is_ok && is_read && strcmp(figures.status, "healthy") == 0)
        figures.status = "degraded";
    api_write_health(rest_json(call), &health);
    rest_send(call, 200);
}

static void get_health(struct rest_call *call)
{
    struct health_call *health = kit_alloc(call, sizeof *health);
    if (!health)
        return;
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

/* An empty transaction needs no space, and so says nothing of a store that is full. */
static void tell_ready(struct rest_call *call, struct op *op)
{
    struct store_status_view state;
    store_status_read(committer_store_status(call->rest->committer), &state);
    if (op->code < 0 || state.is_full) {
        rest_fail_as(call, 503, op->code < 0 ? &op->err : &state.err, NULL);
        return;
    }
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    json_field_cstr(w, "status", "ready");
    json_end_object(w);
    rest_send(call, 200);
}

static const struct op_route ANY_SHARD = {.to = ROUTE_ANY};

/* Goes through the committer, as work does: if an empty transaction can be committed, and no write
 * has lately failed for want of space, work can be taken. */
static void get_ready(struct rest_call *call)
{
    struct op *op = kit_alloc(call, sizeof *op);
    if (!op)
        return;
    if (call->rest->ready) {
        op->apply = apply_nothing;
        op->route = &ANY_SHARD;
        rest_commit(call, op, tell_ready);
        return;
    }
    kit_refuse(call, REDRIVE_E_STOPPING, "takes no work now");
}

/* ---- /openapi.yaml --------------------------------------------------------------------------- */

static void get_openapi(struct rest_call *call)
{
    http_reply(call->request, 200, "application/yaml", str_of(OPENAPI_TEXTS[0]), NULL, 0);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void write_scopes(struct json_writer *w, uint32_t scopes)
{
    json_open_array(w, "scopes");
    for (uint32_t scope = CONFIG_SCOPE_ENQUEUE; scope <= CONFIG_SCOPE_ADMIN; scope <<= 1)
        if (scopes & scope)
            json_put_cstr(w, config_scope_name((enum config_scope)scope));
    json_end_array(w);
}

/* The time lets a page show ages by the clock of the jobs, not by that of its own machine. */
static void send_session(struct rest_call *call, const struct principal *who)
{
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    json_field_bool(w, "needs_token", call->config->n_tokens > 0);
    json_field_cstr(w, "name", who->name);
    if (who->name)
        json_field_string(w, "tenant", who->tenant);
    else
        json_field_cstr(w, "tenant", NULL);
    write_scopes(w, who->scopes);
    json_field_cstr(w, "version", REDRIVE_VERSION);
    job_write_time(w, "at", rest_now_ms(call));
    json_end_object(w);
    rest_send(call, 200);
}

/* Asked before a login as well, so that it is no error not to be known. */
static void get_session(struct rest_call *call)
{
    struct principal who = call->principal;
    if (!who.name && rest_identify(call, &who) != AUTH_OK)
        who = (struct principal){0};
    send_session(call, &who);
}

/* Without tokens there is nothing to remember; nor for a client that is known by its cookie. */
static void post_session(struct rest_call *call)
{
    const struct str token = auth_bearer(call->request);
    if (call->principal.token && token.ptr) {
        const char *cookie = session_cookie(call->request, token);
        if (!cookie) {
            kit_refuse(call, REDRIVE_E_TOO_BIG, "the token is too long for a cookie");
            return;
        }
        rest_header(call, "Set-Cookie", cookie);
    }
    send_session(call, &call->principal);
}

static void delete_session(struct rest_call *call)
{
    const struct principal logged_out = {0};
    const char *cookie = session_cookie(call->request, (struct str){NULL, 0});
    if (!cookie) {
        kit_nomem(call);
        return;
    }
    rest_header(call, "Set-Cookie", cookie);
    send_session(call, &logged_out);
}

const struct rest_route REST_SERVICE[] = {
    /* Told in time whatever the state of the store: by what is known, not by the operation's read.
     */
    {.operation = &API_HEALTH, .own_run = get_health},
    {HTTP_GET, "/ready", 0, false, get_ready, .own_summary = "Whether work is taken now"},
    {HTTP_GET, "/openapi.yaml", 0, false, get_openapi,
     .own_summary = "All routes, as an OpenAPI document"},
    {HTTP_GET, "/session", 0, false, get_session,
     .own_summary = "The client of the request, and what it may do"},
    {HTTP_POST, "/session", CONFIG_SCOPE_READ, false, post_session,
     .own_summary = "Exchange a token for a browser's cookie"},
    {HTTP_DELETE, "/session", 0, false, delete_session, .own_summary = "Take the cookie away"},
    {0},
};
