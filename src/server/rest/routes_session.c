/* routes_session.c - the session of a client; for browsers, logging in and out. */
#include "server/rest/routes.h"

#include "base/err.h"
#include "server/auth/session.h"
#include "server/rest/resource.h"
#include "store/job_json.h"

static void write_scopes(struct json_writer *w, uint32_t scopes)
{
    json_key(w, "scopes");
    json_begin_array(w);
    for (uint32_t scope = CONFIG_SCOPE_ENQUEUE; scope <= CONFIG_SCOPE_ADMIN; scope <<= 1)
        if (scopes & scope)
            json_put_cstr(w, auth_scope_name((enum config_scope)scope));
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
    if (!who.name && auth_check(call->config, call->request, &who) != AUTH_OK)
        who = (struct principal){0};
    send_session(call, &who);
}

/* Without tokens there is nothing to remember; nor for a client that is known by its cookie. */
static void post_session(struct rest_call *call)
{
    const struct str token = auth_bearer(call->request);
    struct redrive_err err;
    if (call->principal.token && token.ptr) {
        const char *cookie = session_cookie(call->request, token);
        if (!cookie) {
            err_set(&err, REDRIVE_E_TOO_BIG, "the token is too long for a cookie");
            rest_fail(call, &err, NULL);
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

const struct rest_route REST_SESSION[] = {
    {HTTP_GET, "/session", 0, false, get_session},
    {HTTP_POST, "/session", CONFIG_SCOPE_READ, false, post_session},
    {HTTP_DELETE, "/session", 0, false, delete_session},
    {0},
};
