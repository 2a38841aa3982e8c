/* rest.c - the list of routes; finds the one of a request, checks the token and calls it. */
#include "server/rest/private.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/rng.h"
#include "server/auth/auth.h"
#include "server/bulk_runs.h"
#include "server/claim_waits.h"
#include "server/dashboard/breaker_history.h"
#include "server/dashboard/samples.h"
#include "server/dashboard/ui.h"
#include "server/events.h"
#include "server/health_check.h"
#include "server/listen/endpoint.h"
#include "server/rest/resource.h"

/* ---- Paths ----------------------------------------------------------------------------------- */

/* The next segment, without its slash; false after the last. */
static bool next_segment(struct str *path, struct str *ret)
{
    if (path->len == 0)
        return false;
    const char *end = memchr(path->ptr + 1, '/', path->len - 1);
    size_t len = end ? (size_t)(end - path->ptr) : path->len;
    *ret = (struct str){path->ptr + 1, len - 1};
    *path = (struct str){path->ptr + len, path->len - len};
    return true;
}

/* Whether the path fits, and with how many placeholders; they are still as they were sent. */
static bool fits(const char *pattern, struct str path, struct str params[REST_MAX_PARAMS],
                 unsigned *ret_n)
{
    struct str rest = str_of(pattern), expected, found;
    unsigned n = 0;
    while (next_segment(&rest, &expected)) {
        if (!next_segment(&path, &found))
            return false;
        if (expected.len > 0 && expected.ptr[0] == '{') {
            if (found.len == 0 || n == REST_MAX_PARAMS)
                return false;
            params[n++] = found;
        } else if (!str_eq(expected, found)) {
            return false;
        }
    }
    *ret_n = n;
    return path.len == 0;
}

static struct str without_version(struct str path)
{
    static const struct str VERSION = {"/v1", 3};
    if (!str_starts_with(path, VERSION) || (path.len > 3 && path.ptr[3] != '/'))
        return path;
    return path.len == 3 ? STR("/") : (struct str){path.ptr + 3, path.len - 3};
}

/* ---- Which route ----------------------------------------------------------------------------- */

struct match {
    const struct rest_route *route; /* NULL: none has the method */
    struct str params[REST_MAX_PARAMS];
    unsigned n_params;
    uint32_t methods; /* that the path has, a bit each; 0: no route fits so far */
};

/* What fits with fewer placeholders is another path, and hides the others with all their methods.
 */
static void try_route(const struct rest_route *route, struct str path, enum http_method method,
                      struct match *match)
{
    struct str params[REST_MAX_PARAMS];
    unsigned n = 0;
    if (!fits(rest_route_path(route), path, params, &n) ||
        (match->methods != 0 && n > match->n_params))
        return;
    if (match->methods == 0 || n < match->n_params)
        *match = (struct match){.n_params = n};
    match->methods |= 1u << rest_route_method(route);
    if (rest_route_method(route) != method)
        return;
    match->route = route;
    memcpy(match->params, params, n * sizeof params[0]);
}

static struct match find_route(const struct rest_route *const *tables, struct str path,
                               enum http_method method)
{
    struct match match = {0};
    for (size_t i = 0; tables[i]; i++)
        for (const struct rest_route *route = tables[i]; rest_route_path(route); route++)
            try_route(route, path, method, &match);
    if (match.methods & 1u << HTTP_GET)
        match.methods |= 1u << HTTP_HEAD;
    return match;
}

static const char *allowed_methods(struct arena *arena, uint32_t methods)
{
    char text[80] = "";
    size_t len = 0;
    for (int i = 0; i < HTTP_OPTIONS; i++)
        if (methods >> i & 1)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s, ",
                                    http_method_name((enum http_method)i));
    snprintf(text + len, sizeof text - len, "OPTIONS");
    const char *copy = arena_dup(arena, str_of(text));
    return copy ? copy : "";
}

/* True when there is nothing to run: it has been answered. */
static bool answer_without_route(struct rest_call *call, const struct match *match)
{
    struct redrive_err err;
    struct http_request *request = call->request;
    if (match->methods == 0) {
        err_set(&err, REDRIVE_E_NOT_FOUND, "no such path: '%.*s'",
                (int)(http_path(request).len < 200 ? http_path(request).len : 200),
                http_path(request).ptr);
        err_hint(&err, "GET /openapi.yaml lists all paths");
        rest_fail(call, &err, NULL);
        return true;
    }
    if (match->route)
        return false;
    rest_header(call, "Allow", allowed_methods(http_arena(request), match->methods));
    if (http_method(request) == HTTP_OPTIONS) {
        rest_send_empty(call, 204);
        return true;
    }
    err_set(&err, REDRIVE_E_USAGE, "this path does not have the method %s",
            http_method_name(http_method(request)));
    err_detail(&err, "expected %s", call->headers[0].value);
    rest_fail_as(call, 405, &err, NULL);
    return true;
}

/* ---- Access ---------------------------------------------------------------------------------- */

static const char *foreign_detail(enum auth_verdict verdict)
{
    switch (verdict) {
    case AUTH_FORWARDED: return "a proxy has passed the request on";
    case AUTH_FOREIGN_SITE: return "a web page of another site has sent it";
    case AUTH_FOREIGN_HOST: return "the Host is that of another machine";
    default: return "the Origin is that of another site";
    }
}

/* The line comes after the error has been set, and before the answer, with which the call goes. */
static void log_refusal(struct rest_call *call, const struct redrive_err *err)
{
    const struct audit what = rest_audit_of(call);
    call->is_refused = true;
    audit_refusal(call->rest->log, &call->rest->refusals, &what, err->message);
}

static void refuse_stranger(struct rest_call *call, enum auth_verdict verdict)
{
    struct redrive_err err;
    int status = 0;
    if (verdict == AUTH_NO_TOKEN) {
        status = 401;
        err_set(&err, REDRIVE_E_DENIED, "this needs a token");
        err_hint(&err, "send the header Authorization: Bearer TOKEN");
        rest_header(call, "WWW-Authenticate", "Bearer realm=\"redrive\"");
    } else if (verdict == AUTH_WRONG_TOKEN) {
        status = 401;
        err_set(&err, REDRIVE_E_DENIED, "the token is not known");
        rest_header(call, "WWW-Authenticate", "Bearer realm=\"redrive\", error=\"invalid_token\"");
    } else if (verdict == AUTH_CROSS_SITE) {
        err_set(&err, REDRIVE_E_DENIED, "a page of another site has sent it with this login");
        err_hint(&err, "programs send the header Authorization: Bearer TOKEN");
    } else {
        err_set(&err, REDRIVE_E_DENIED, "without tokens only programs of this machine are served");
        err_detail(&err, "%s", foreign_detail(verdict));
        err_hint(&err, "add tokens to the configuration");
    }
    log_refusal(call, &err);
    rest_fail_as(call, status, &err, NULL);
}

static void refuse_scope(struct rest_call *call)
{
    struct redrive_err err;
    const char *scope = config_scope_name(rest_route_scope(call->route));
    const char *challenge =
        arena_printf(http_arena(call->request),
                     "Bearer realm=\"redrive\", error=\"insufficient_scope\", scope=\"%s\"", scope);
    err_set(&err, REDRIVE_E_DENIED, "the token '%s' lacks the scope %s", call->principal.name,
            scope);
    if (call->rest->read_only)
        err_set(&err, REDRIVE_E_DENIED, "this server shows, and changes nothing");
    rest_header(call, "WWW-Authenticate", challenge ? challenge : "Bearer");
    log_refusal(call, &err);
    rest_fail_as(call, 403, &err, NULL);
}

static void set_former(struct redrive_err *err)
{
    err_set(err, REDRIVE_E_DENIED, "the token is not valid for this any more");
    err_detail(err, "the server's configuration has changed meanwhile");
}

void rest_refuse_former(struct rest_call *call)
{
    struct redrive_err err;
    set_former(&err);
    rest_header(call, "WWW-Authenticate", "Bearer realm=\"redrive\", error=\"invalid_token\"");
    rest_fail_as(call, 401, &err, NULL);
}

enum auth_verdict rest_identify(const struct rest_call *call, struct principal *ret)
{
    const enum auth_verdict verdict = auth_check(call->config, call->request, ret);
    if (call->rest->read_only)
        ret->scopes &= CONFIG_SCOPE_READ;
    return verdict;
}

/* True when it may run; else it has been answered. Where there are tokens, what needs none is for
 * every client. */
static bool may_run(struct rest_call *call)
{
    if (rest_route_scope(call->route) == 0 && call->config->n_tokens > 0)
        return true;
    enum auth_verdict verdict = rest_identify(call, &call->principal);
    if (verdict != AUTH_OK) {
        refuse_stranger(call, verdict);
        return false;
    }
    if (rest_route_scope(call->route) != 0 &&
        !(call->principal.scopes & rest_route_scope(call->route))) {
        refuse_scope(call);
        return false;
    }
    return true;
}

/* ---- Operations ------------------------------------------------------------------------------ */

static void run_read(struct rest_call *call, const struct api_context *context)
{
    struct redrive_err err = {0};
    if (call->route->operation->read(context, rest_json(call), &err) < 0)
        kit_fail(call, &err, context->input->at_fault);
    else
        rest_send(call, 200);
}

static void end_change(struct rest_call *call, struct op *op)
{
    struct api_change *change = (struct api_change *)((char *)op - offsetof(struct api_change, op));
    struct redrive_err err = {0};
    const char *field = NULL;
    if (call->route->after)
        call->route->after(call, change);
    int rc = api_end(change, rest_json(call), &field, &err);
    if (rc == API_ANSWERED && change->job_id.ptr)
        kit_add_location(call, change->job_id);
    if (rc < 0)
        rest_fail(call, &err, field);
    else if (rc == API_GOES_ON)
        rest_commit(call, op, end_change);
    else if (change->status == 204)
        rest_send_empty(call, 204);
    else
        rest_send(call, change->status);
}

static void run_change(struct rest_call *call, struct api_context *context)
{
    const struct operation *operation = call->route->operation;
    struct api_change *change = kit_alloc(call, sizeof *change);
    struct redrive_err err = {0};
    if (!change)
        return;
    if (operation->parameter)
        context->name = http_query(call->request, operation->parameter);
    if (call->route->before)
        call->route->before(call, context->input);
    if (api_begin(operation, context, change, &err) < 0) {
        kit_fail(call, &err, context->input->at_fault);
        return;
    }
    call->store = NULL; /* from here on no read can fail */
    rest_commit(call, &change->op, end_change);
}

void rest_route_run(struct rest_call *call)
{
    if (call->route->own_run) {
        call->route->own_run(call);
        return;
    }
    struct api_input input;
    struct api_context context = rest_context(call, &input);
    if (call->route->operation->read)
        run_read(call, &context);
    else
        run_change(call, &context);
}

/* ---- From request to route ------------------------------------------------------------------- */

static bool take_params(struct rest_call *call, const struct match *match)
{
    for (unsigned i = 0; i < match->n_params; i++) {
        call->params[i] = http_decode(call->request, match->params[i]);
        if (!call->params[i].ptr)
            return false;
    }
    return true;
}

static void let_config_go(void *config)
{
    config_free(config);
}

/* The configuration in force, which stays there until the request has gone. */
static const struct config *take_config(struct rest *rest, struct http_request *request)
{
    pthread_mutex_lock(&rest->config_lock);
    struct config *config = config_hold(rest->config);
    pthread_mutex_unlock(&rest->config_lock);
    http_on_release(request, let_config_go, config);
    return config;
}

/* Only methods that change something have a body. */
static bool takes_body(const struct rest_route *route)
{
    return rest_route_scope(route) != 0 && rest_route_method(route) != HTTP_GET;
}

/* On the server's thread, which alone can tell. */
static const char *client_text(struct http_request *request)
{
    char text[ADDRESS_TEXT_MAX];
    const char *copy =
        arena_dup(http_arena(request), str_of(address_text(http_client(request), text)));
    return copy ? copy : "";
}

enum http_admission rest_admit(struct http_request *request, void *ctx)
{
    struct rest *rest = ctx;
    if (ui_answer(request))
        return HTTP_ANSWERED;
    struct rest_call *call = arena_alloc(http_arena(request), sizeof *call);
    if (!call) {
        http_reply(request, 503, NULL, (struct str){NULL, 0}, NULL, 0);
        return HTTP_ANSWERED;
    }
    call->rest = rest;
    call->request = request;
    call->config = take_config(rest, request);
    call->client = client_text(request);
    enum http_method method = http_method(request);
    struct match match = find_route(rest->tables, without_version(http_raw_path(request)),
                                    method == HTTP_HEAD ? HTTP_GET : method);
    if (answer_without_route(call, &match))
        return HTTP_ANSWERED;
    call->route = match.route;
    if (!may_run(call))
        return HTTP_ANSWERED;
    if (rest_route_scope(call->route) != 0 && http_is_extra(request)) {
        /* All connections are at work, and this one was accepted beyond them. */
        kit_refuse_as(call, 503, REDRIVE_E_IO, "there are as many connections as there may be",
                      "raise listen.max_connections, or the limit on open files");
        return HTTP_ANSWERED;
    }
    if (!take_params(call, &match)) {
        kit_nomem(call);
        return HTTP_ANSWERED;
    }
    http_set_user(request, call);
    return takes_body(call->route) ? HTTP_ADMIT : HTTP_ADMIT_NO_BODY;
}

/* Whether the client may still do what it was admitted for: its body may have taken as long as it
 * likes, and the configuration may be another one. */
static bool may_still_run(struct rest *rest, struct rest_call *call)
{
    pthread_mutex_lock(&rest->config_lock);
    const bool is_same = rest->config == call->config;
    pthread_mutex_unlock(&rest->config_lock);
    struct redrive_err err;
    if (is_same || rest_still_admits(rest, &call->principal, rest_route_scope(call->route)))
        return true;
    set_former(&err);
    log_refusal(call, &err);
    rest_refuse_former(call);
    return false;
}

void rest_handle(struct http_request *request, void *ctx)
{
    struct rest *rest = ctx;
    struct rest_call *call = http_user(request);
    if (!may_still_run(rest, call))
        return;
    if (rest_route_reads(call->route))
        rest_readers_take(rest, call);
    else
        rest_route_run(call);
}

const struct rest_route *const REST_TABLES[] = {
    REST_JOBS,  REST_WORK,     REST_CONTROL, REST_DEAD, REST_BULK,
    REST_STATS, REST_SIMULATE, REST_SERVICE, NULL,
};

/* ---- Life cycle ------------------------------------------------------------------------------ */

/* For what goes on between requests. */
static int start_waits(struct rest *rest, struct redrive_err *err)
{
    int rc = timers_new(&rest->timers, err);
    if (rc == 0)
        rc = claim_waits_new(rest->committer, rest->timers, &rest->claims, err);
    if (rc == 0)
        rc = bulk_runs_new(rest->committer, rest->timers, rest->log, &rest->bulk_runs, err);
    if (rc == 0)
        rc = samples_new_rates(&rest->rates, err);
    if (rc == 0)
        rc = samples_new_latencies(&rest->latencies, err);
    return rc == 0 ? breaker_history_new(&rest->breakers, err) : rc;
}

static int64_t time_of_jobs(void *rest)
{
    return engine_now_ms(committer_engine(((const struct rest *)rest)->committer));
}

int rest_new(const struct rest_options *options, struct rest **ret, struct redrive_err *err)
{
    *ret = NULL;
    struct rest *rest = calloc(1, sizeof *rest);
    if (!rest)
        return err_nomem(err);
    rest->committer = options->committer;
    rest->log = options->log;
    rest->hub = options->hub;
    rest->run_times = options->run_times;
    rest->remote = options->remote;
    rest->tracing = options->tracing;
    rest->seed = rng_system_seed();
    rest->tables = options->tables ? options->tables : REST_TABLES;
    rest->read_only = options->read_only;
    rest->certificate_end_ms = options->certificate_end_ms;
    rest->config = config_hold(options->config);
    rest->ready = true;
    rest->n_readers = options->n_readers ? options->n_readers : 2;
    rest->rates_due = true;
    timer_init(&rest->rates_timer, rest_readers_note_rates);
    list_init(&rest->waiting);
    pthread_mutex_init(&rest->lock, NULL);
    pthread_mutex_init(&rest->config_lock, NULL);
    pthread_cond_init(&rest->wake, NULL);
    const char *url = options->store_url ? options->store_url : options->config->store;
    int rc = start_waits(rest, err);
    if (rc == 0)
        rc = health_check_new(url, rest->timers, committer_store_status(rest->committer),
                              time_of_jobs, rest, &rest->health_check, err);
    if (rc == 0)
        rc = rest_readers_start(rest, url, err);
    if (rc < 0) {
        rest_free(rest);
        return rc;
    }
    *ret = rest;
    return 0;
}

void rest_reload(struct rest *rest, const struct config *config)
{
    pthread_mutex_lock(&rest->config_lock);
    struct config *former = rest->config;
    rest->config = config_hold(config);
    pthread_mutex_unlock(&rest->config_lock);
    config_free(former);
    claim_waits_recheck(rest->claims);
    if (rest->hub)
        event_hub_recheck(rest->hub);
}

static uint32_t scopes_now(struct rest *rest, const struct principal *principal)
{
    HOLD(&rest->config_lock);
    const uint32_t scopes = auth_scopes_now(rest->config, principal);
    return rest->read_only ? scopes & CONFIG_SCOPE_READ : scopes;
}

bool rest_still_admits(struct rest *rest, const struct principal *principal,
                       enum config_scope scope)
{
    return scope == 0 || scopes_now(rest, principal) & scope;
}

bool rest_keeps_scopes(struct rest *rest, const struct principal *principal)
{
    return (scopes_now(rest, principal) & principal->scopes) == principal->scopes;
}

bool rest_redacts(struct rest *rest, const struct principal *principal)
{
    pthread_mutex_lock(&rest->config_lock);
    const bool has_rules = rest->config->redact.n > 0;
    pthread_mutex_unlock(&rest->config_lock);
    return has_rules && !(scopes_now(rest, principal) & CONFIG_SCOPE_ADMIN);
}

void rest_set_ready(struct rest *rest, bool ready)
{
    rest->ready = ready;
}

void rest_set_certificate(struct rest *rest, int64_t end_ms)
{
    rest->certificate_end_ms = end_ms;
}

void rest_event(struct rest *rest, const struct engine_event *event)
{
    if (event->kind == ENGINE_EVENT_BREAKER)
        breaker_history_event(rest->breakers, event);
}

void rest_jobs_ready(struct rest *rest)
{
    claim_waits_ready(rest->claims);
}

void rest_quiesce(struct rest *rest)
{
    claim_waits_close(rest->claims);
    bulk_runs_close(rest->bulk_runs);
}

static int do_nothing(struct engine *engine, struct op *op, struct redrive_err *err)
{
    (void)engine, (void)op, (void)err;
    return 0;
}

static const struct op_route FENCE = {.to = ROUTE_FENCE};

/* Operations are answered in their order: after one more, every claim has been, and has handed in
 * what is to become of its jobs. */
static void await_claims(struct rest *rest)
{
    struct op last = {.apply = do_nothing, .route = &FENCE};
    (void)committer_run(rest->committer, &last, NULL);
}

void rest_stop(struct rest *rest)
{
    if (!rest)
        return;
    rest_readers_stop(rest);
    health_check_free(rest->health_check);
    rest->health_check = NULL;
    bulk_runs_stop(rest->bulk_runs);
    await_claims(rest);
}

void rest_free(struct rest *rest)
{
    if (!rest)
        return;
    rest_readers_stop(rest);
    health_check_free(rest->health_check);
    timers_free(rest->timers);
    claim_waits_free(rest->claims);
    bulk_runs_free(rest->bulk_runs);
    samples_free(rest->rates);
    samples_free(rest->latencies);
    breaker_history_free(rest->breakers);
    pthread_cond_destroy(&rest->wake);
    pthread_mutex_destroy(&rest->lock);
    pthread_mutex_destroy(&rest->config_lock);
    config_free(rest->config);
    free(rest);
}
