/* resource.c - what routes share: answers, pages, filters and refusals. */
#include "server/rest/resource.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "base/text/encode.h"
#include "base/time/clock.h"
#include "server/auth/auth.h"
#include "server/bulk_runs.h"
#include "server/dashboard/samples.h"
#include "server/http/server.h"
#include "server/rest/private.h"
#include "store/page.h"
#include "store/store.h"

/* ---- Refusals -------------------------------------------------------------------------------- */

void kit_fail(struct rest_call *call, const struct redrive_err *err, const char *field)
{
    rest_fail(call, err, field && *field ? field : NULL);
}

void kit_refuse(struct rest_call *call, int code, const char *format, ...)
{
    struct redrive_err err;
    char text[sizeof err.message];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)err_set(&err, code, "%s", text);
    rest_fail(call, &err, NULL);
}

void kit_refuse_as(struct rest_call *call, int status, int code, const char *message,
                   const char *hint)
{
    struct redrive_err err;
    (void)err_set(&err, code, "%s", message);
    err_hint(&err, "%s", hint);
    rest_fail_as(call, status, &err, NULL);
}

void kit_nomem(struct rest_call *call)
{
    struct redrive_err err;
    (void)err_nomem(&err);
    rest_fail(call, &err, NULL);
}

void *kit_alloc(struct rest_call *call, size_t size)
{
    void *memory = arena_alloc(http_arena(call->request), size);
    if (!memory)
        kit_nomem(call);
    return memory;
}

/* ---- Queries --------------------------------------------------------------------------------- */

bool kit_redacts(const struct rest_call *call)
{
    return call->config->redact.n > 0 && !(call->principal.scopes & CONFIG_SCOPE_ADMIN);
}

static void each_parameter(void *request, api_take_fn take, void *ctx)
{
    http_each_query(request, take, ctx);
}

struct api_context rest_context(struct rest_call *call, struct api_input *input)
{
    *input = (struct api_input){
        .each = each_parameter, .from = call->request, .body = http_body(call->request)};
    return (struct api_context){
        .store = call->store,
        .config = call->config,
        .redact = kit_redacts(call) ? &call->config->redact : NULL,
        .tenant = call->principal.tenant,
        .name = call->params[0],
        .input = input,
        .engine = committer_engine(call->rest->committer),
        .arena = http_arena(call->request),
        .now_ms = rest_now_ms(call),
        .tells_places = (call->principal.scopes & CONFIG_SCOPE_ADMIN) != 0,
        .write_run_time = latency_write_task,
        .run_times = call->rest->run_times,
    };
}

static int read_parameter(struct rest_call *call, struct str value, const struct field *field,
                          void *ret, struct field_reader *r, struct redrive_err *err)
{
    const struct field fields[] = {*field, {0}};
    uint64_t given = 0;
    fields_query_open(r, 0, http_arena(call->request), rest_now_ms(call), err);
    return fields_query_add(r, fields, str_of(field->name), value, ret, &given);
}

bool kit_parameter(struct rest_call *call, const struct field *field, void *ret)
{
    struct str value = http_query(call->request, field->name);
    struct redrive_err err = {0};
    struct field_reader r;
    if (!value.ptr && field->default_text)
        value = str_of(field->default_text);
    if (!value.ptr || read_parameter(call, value, field, ret, &r, &err) == 0)
        return true;
    kit_fail(call, &err, r.place);
    return false;
}

bool kit_run_id(struct rest_call *call, int64_t *ret)
{
    static const struct field NUMBER = {"id", &FIELD_INT, 0, .min = 1, .max = INT64_MAX};
    struct field_reader r;
    return read_parameter(call, call->params[0], &NUMBER, ret, &r, NULL) == 0;
}

void kit_stop_run(struct rest_call *call, const char *what)
{
    const struct str id = call->params[0];
    int64_t number;
    if (kit_run_id(call, &number) &&
        bulk_runs_cancel(call->rest->bulk_runs, call->principal.tenant, number))
        rest_send_empty(call, 204);
    else
        kit_refuse(call, REDRIVE_E_NOT_FOUND, "there is no %s '%.*s' under way", what,
                   (int)(id.len < 100 ? id.len : 100), id.ptr);
}

/* ---- Answers --------------------------------------------------------------------------------- */

#define ANSWER_MAX_BYTES (64u * 1024 * 1024)

struct store *rest_store(const struct rest_call *call)
{
    assert(rest_route_reads(call->route));
    return call->store;
}

struct json_writer *rest_json(struct rest_call *call)
{
    buf_release(&call->body);
    buf_init(&call->body, ANSWER_MAX_BYTES);
    json_writer_init(&call->writer, &call->body);
    return &call->writer;
}

void rest_header(struct rest_call *call, const char *name, const char *value)
{
    assert(call->n_headers < REST_MAX_HEADERS);
    call->headers[call->n_headers++] = (struct http_header){name, value};
}

struct audit rest_audit_of(struct rest_call *call)
{
    const char *action = arena_printf(http_arena(call->request), "%s %s",
                                      http_method_name(rest_route_method(call->route)),
                                      rest_route_path(call->route));
    return (struct audit){
        .interface = "http",
        .token = call->principal.name,
        .tenant = call->principal.tenant,
        .client = call->client,
        .action = action ? action : rest_route_path(call->route),
        .target = call->params[0],
    };
}

/* Logs what an administrator did, or tried; before the answer is given. */
static void log_action(struct rest_call *call, int status)
{
    if (!call->route || rest_route_scope(call->route) != CONFIG_SCOPE_ADMIN || call->is_refused ||
        call->is_dry_run)
        return;
    const struct audit what = rest_audit_of(call);
    audit_action(call->rest->log, &what, status < 400 ? "done" : "failed");
}

/* The call is freed with its request, so its body is taken out of it first. */
static bool reply(struct rest_call *call, int status, const char *content_type)
{
    struct buf body = call->body;
    log_action(call, status);
    call->body = (struct buf){0};
    const bool is_given = http_reply(call->request, status, content_type, buf_str(&body),
                                     call->headers, call->n_headers);
    buf_release(&body);
    return is_given;
}

bool rest_send(struct rest_call *call, int status)
{
    int code = buf_failed(&call->body);
    if (code == 0)
        return reply(call, status, "application/json");
    struct redrive_err err;
    err_full(&err, code == REDRIVE_E_TOO_BIG ? REDRIVE_E_INTERNAL : code, "the answer is too long");
    if (code == REDRIVE_E_TOO_BIG)
        err_hint(&err, "ask for less: a page, or fewer fields");
    rest_fail(call, &err, NULL);
    return false;
}

void rest_send_empty(struct rest_call *call, int status)
{
    buf_release(&call->body);
    reply(call, status, NULL);
}

void kit_add_location(struct rest_call *call, struct str id)
{
    RELEASED_BY(buf_release) struct buf path = BUF_MAX(4 * FIELD_NAME_MAX);
    buf_puts(&path, "/v1/jobs/");
    percent_encode(id, &path);
    const char *copy =
        buf_failed(&path) ? NULL : arena_dup(http_arena(call->request), buf_str(&path));
    if (copy)
        rest_header(call, "Location", copy);
}

#define FAILED_READ_EVERY_MS 30000

/* The committer logs what it cannot write; a failed read is known here only. */
static void log_failed_read(struct rest_call *call, const struct redrive_err *err)
{
    struct rest *rest = call->rest;
    int64_t held_back = 0;
    pthread_mutex_lock(&rest->lock);
    const bool is_told = log_pace_allows(&rest->failed_reads, clock_monotonic_ms(),
                                         FAILED_READ_EVERY_MS, &held_back);
    pthread_mutex_unlock(&rest->lock);
    if (is_told)
        log_event(rest->log, LOG_LEVEL_ERROR, clock_wall_ms(), "read_failed",
                  LOG_S("action", rest_audit_of(call).action), LOG_S("error", err->message),
                  LOG_S("detail", err->detail), LOG_I("more", held_back));
}

void rest_fail_as(struct rest_call *call, int status, const struct redrive_err *err,
                  const char *field)
{
    const int actual = status ? status : redrive_err_http_status(err->code);
    const struct redrive_err shown = auth_shown_error(err, call->principal.scopes);
    if (call->store && err->detail[0] && !shown.detail[0] && !rest_is_away(call, NULL))
        log_failed_read(call, err);
    problem_write(rest_json(call), actual, &shown, field);
    reply(call, actual, PROBLEM_CONTENT_TYPE);
}

void rest_fail(struct rest_call *call, const struct redrive_err *err, const char *field)
{
    rest_fail_as(call, 0, err, field);
}

/* A request that would wait for a store that is known to be away is refused at once. The committer
 * tries the store all the time, so requests after its return are served. */
bool rest_is_away(const struct rest_call *call, struct redrive_err *err)
{
    if (!store_status_is_away(committer_store_status(call->rest->committer), err))
        return false;
    if (err)
        err->code = REDRIVE_E_IO;
    return true;
}

static void committed(struct op *op, void *ctx)
{
    struct rest_call *call = ctx;
    call->then(call, op);
}

void rest_commit(struct rest_call *call, struct op *op,
                 void (*then)(struct rest_call *call, struct op *op))
{
    if (rest_is_away(call, &op->err)) {
        op->code = op->err.code;
        then(call, op);
        return;
    }
    call->then = then;
    op->done = committed;
    op->done_ctx = call;
    committer_submit(call->rest->committer, op);
}

bool rest_refused(struct rest_call *call, const struct op *op)
{
    if (op->code == 0)
        return false;
    rest_fail(call, &op->err, NULL);
    return true;
}

int64_t rest_now_ms(const struct rest_call *call)
{
    return engine_now_ms(committer_engine(call->rest->committer));
}
