/* answer.c - sends JSON and problem documents. */
#include "server/rest/private.h"

#include <assert.h>

#include "base/err.h"
#include "server/http/problem.h"

#define ANSWER_MAX_BYTES (64u * 1024 * 1024)

struct store *rest_store(const struct rest_call *call)
{
    assert(call->route->reads);
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

/* The call is freed with its request, so its body is taken out of it first. */
static bool reply(struct rest_call *call, int status, const char *content_type)
{
    struct buf body = call->body;
    rest_audit(call, status);
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

void rest_fail_as(struct rest_call *call, int status, const struct redrive_err *err,
                  const char *field)
{
    const int actual = status ? status : redrive_err_http_status(err->code);
    problem_write(rest_json(call), actual, err, field);
    reply(call, actual, PROBLEM_CONTENT_TYPE);
}

void rest_fail(struct rest_call *call, const struct redrive_err *err, const char *field)
{
    rest_fail_as(call, 0, err, field);
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

struct committer *rest_committer(const struct rest_call *call)
{
    return call->rest->committer;
}

int64_t rest_now_ms(const struct rest_call *call)
{
    return engine_now_ms(committer_engine(call->rest->committer));
}

const struct log *rest_log(const struct rest_call *call)
{
    return call->rest->log;
}

struct claim_waits *rest_claims(const struct rest_call *call)
{
    return call->rest->claims;
}

struct bulk_runs *rest_bulk_runs(const struct rest_call *call)
{
    return call->rest->bulk_runs;
}

struct remote_workers *rest_remote(const struct rest_call *call)
{
    return call->rest->remote;
}

struct held_jobs *rest_held(const struct rest_call *call)
{
    return call->rest->held;
}

bool rest_is_ready(const struct rest_call *call)
{
    return call->rest->ready;
}
