/* reply.c - answers: headers, bodies, and the deadline of sending. */
#include "server/http/private.h"

#include "base/err.h"
#include "base/time/clock.h"
#include "server/http/problem.h"

/* The slowest at which a long answer may be taken, after the time that every answer has. */
#define SLOWEST_BYTES_PER_MS 64

/* Of a 503: what is away for a moment only, is back by then. */
#define RETRY_AFTER_S "1"

static const struct http_header SECURITY[] = {
    {"Cache-Control", "no-store"},
    {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
};

void http_response_secure(struct MHD_Response *response)
{
    for (size_t i = 0; i < sizeof SECURITY / sizeof SECURITY[0]; i++)
        if (!MHD_get_response_header(response, SECURITY[i].name))
            (void)MHD_add_response_header(response, SECURITY[i].name, SECURITY[i].value);
}

struct MHD_Response *http_response(const char *content_type, struct str body,
                                   const struct http_header *headers, size_t n_headers)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body.len, (void *)body.ptr, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return NULL;
    if (content_type)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    for (size_t i = 0; i < n_headers; i++)
        (void)MHD_add_response_header(response, headers[i].name, headers[i].value);
    http_response_secure(response);
    return response;
}

static int code_of(int status)
{
    return status == 413 ? REDRIVE_E_TOO_BIG : status == 503 ? REDRIVE_E_NOMEM : REDRIVE_E_PARSE;
}

static struct MHD_Response *refusal(int status, int code, const char *why)
{
    static const struct http_header HEADERS[] = {{"Connection", "close"},
                                                 {"Retry-After", RETRY_AFTER_S}};
    struct redrive_err err;
    struct buf body;
    struct json_writer w;
    err_set(&err, code, "%s", why);
    buf_init(&body, 4096);
    json_writer_init(&w, &body);
    problem_write(&w, status, &err, NULL);
    struct MHD_Response *response =
        http_response(PROBLEM_CONTENT_TYPE, buf_str(&body), HEADERS, status == 503 ? 2 : 1);
    buf_release(&body);
    return response;
}

struct MHD_Response *http_response_refusal(int status, const char *why)
{
    return refusal(status, code_of(status), why);
}

struct MHD_Response *http_response_stopping(void)
{
    return refusal(503, REDRIVE_E_STOPPING, "shutting down");
}

void http_resume(struct http_request *request)
{
    if (!request->suspended)
        return;
    request->suspended = false;
    MHD_resume_connection(request->mhd);
    http_loop_call(request->server);
}

bool http_give(struct http_request *request, int status, struct MHD_Response *response,
               enum http_phase phase, int64_t deadline_ms)
{
    if (request->given || !request->connection) {
        if (response)
            MHD_destroy_response(response);
        return false;
    }
    request->given = true;
    request->response = response;
    request->status = (unsigned)status;
    request->connection->phase = phase;
    request->connection->deadline_ms = deadline_ms;
    if (response && status == 503 && !MHD_get_response_header(response, "Retry-After"))
        (void)MHD_add_response_header(response, "Retry-After", RETRY_AFTER_S);
    if (response && (request->server->quiesced || request->connection->is_extra))
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    http_resume(request);
    return response != NULL;
}

bool http_reply(struct http_request *request, int status, const char *content_type, struct str body,
                const struct http_header *headers, size_t n_headers)
{
    struct http_server *server = request->server;
    struct MHD_Response *response = http_response(content_type, body, headers, n_headers);
    int64_t deadline_ms = clock_monotonic_ms() + server->options.request_timeout_ms +
                          (int64_t)(body.len / SLOWEST_BYTES_PER_MS);
    pthread_mutex_lock(&server->lock);
    const bool is_given = http_give(request, status, response, HTTP_ANSWERING, deadline_ms);
    http_let_go(request);
    return is_given;
}

void http_on_end(struct http_request *request, void (*end)(struct http_request *, void *ctx),
                 void *ctx)
{
    pthread_mutex_lock(&request->server->lock);
    bool over = !request->connection;
    if (!over) {
        request->end = end;
        request->end_ctx = ctx;
    }
    pthread_mutex_unlock(&request->server->lock);
    if (over)
        end(request, ctx);
}

bool http_gone(struct http_request *request)
{
    pthread_mutex_lock(&request->server->lock);
    bool gone = !request->connection || http_has_gone(request->connection);
    pthread_mutex_unlock(&request->server->lock);
    return gone;
}
