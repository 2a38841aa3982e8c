/* reply.c - answers: headers, problem documents, bodies, and the deadline of sending. */
#include "server/http/private.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"

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

/* Adds the headers that every answer has. */
static void secure_response(struct MHD_Response *response)
{
    for (size_t i = 0; i < sizeof SECURITY / sizeof SECURITY[0]; i++)
        if (!MHD_get_response_header(response, SECURITY[i].name))
            (void)MHD_add_response_header(response, SECURITY[i].name, SECURITY[i].value);
}

static struct MHD_Response *new_response(const char *content_type, struct str body,
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
    secure_response(response);
    return response;
}

/* ---- Problem documents ----------------------------------------------------------------------- */

static void write_type(struct json_writer *w, int code)
{
    char type[64];
    snprintf(type, sizeof type, "urn:redrive:%s", redrive_err_name(code));
    for (char *p = type; *p; p++) {
        if (*p == '_')
            *p = '-';
        else if (*p >= 'A' && *p <= 'Z')
            *p += 'a' - 'A';
    }
    json_field_cstr(w, "type", type);
}

void problem_write(struct json_writer *w, int status, const struct redrive_err *err,
                   const char *field)
{
    static const struct str EXPECTED = {"expected ", 9};
    const struct str detail = str_of(err->detail);
    const bool expects = str_starts_with(detail, EXPECTED);

    json_begin_object(w);
    write_type(w, err->code);
    json_field_cstr(w, "title", redrive_err_text(err->code));
    json_field_int(w, "status", status ? status : redrive_err_http_status(err->code));
    if (expects || detail.len == 0) {
        json_field_cstr(w, "detail", err->message);
    } else {
        char both[sizeof err->message + sizeof err->detail + 2];
        snprintf(both, sizeof both, "%s: %s", err->message, err->detail);
        json_field_cstr(w, "detail", both);
    }
    if (expects)
        json_field_cstr(w, "expected", err->detail + EXPECTED.len);
    if (err->hint[0])
        json_field_cstr(w, "hint", err->hint);
    if (field)
        json_field_cstr(w, "field", field);
    json_end_object(w);
}

/* Into a buffer that is released by the caller. */
static struct str put_problem(struct buf *out, int status, const struct redrive_err *err,
                              const char *field)
{
    struct json_writer w;
    buf_init(out, 4096);
    json_writer_init(&w, out);
    problem_write(&w, status, err, field);
    return buf_str(out);
}

/* ---- Holds ----------------------------------------------------------------------------------- */

void http_server_let_go(struct http_server *server)
{
    bool last = --server->refs == 0;
    pthread_mutex_unlock(&server->lock);
    if (!last)
        return;
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    tls_identity_free(server->tls);
    address_counts_release(&server->addresses);
    free(server);
}

static void request_free(struct http_request *request)
{
    if (request->response)
        MHD_destroy_response(request->response);
    buf_release(&request->stream.waiting);
    buf_release(&request->body);
    arena_release(&request->arena);
    if (request->release)
        request->release(request->release_ctx);
    free(request);
}

void http_let_go(struct http_request *request)
{
    struct http_server *server = request->server;
    if (--request->refs > 0) {
        pthread_mutex_unlock(&server->lock);
        return;
    }
    server->body_bytes -= request->body_bytes;
    http_server_let_go(server);
    request_free(request);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static int code_of(int status)
{
    return status == 413 ? REDRIVE_E_TOO_BIG : status == 503 ? REDRIVE_E_NOMEM : REDRIVE_E_PARSE;
}

static struct MHD_Response *refusal(int status, const struct redrive_err *err)
{
    static const struct http_header HEADERS[] = {{"Connection", "close"},
                                                 {"Retry-After", RETRY_AFTER_S}};
    struct buf body;
    struct MHD_Response *response =
        new_response(PROBLEM_CONTENT_TYPE, put_problem(&body, status, err, NULL), HEADERS,
                     status == 503 ? 2 : 1);
    buf_release(&body);
    return response;
}

struct MHD_Response *http_response_refusal(int status, const char *why)
{
    struct redrive_err err;
    err_set(&err, code_of(status), "%s", why);
    return refusal(status, &err);
}

struct MHD_Response *http_response_stopping(const struct http_request *request)
{
    struct redrive_err err;
    err_set(&err, REDRIVE_E_STOPPING, "shutting down");
    if (request->handed && request->method != HTTP_GET && request->method != HTTP_HEAD)
        err_hint(&err, "it may or may not have happened: look before you repeat it");
    return refusal(503, &err);
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
    if (request->handed) {
        request->server->n_unanswered--;
        if (request->server->stopping)
            pthread_cond_broadcast(&request->server->changed);
    }
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
    struct MHD_Response *response = new_response(content_type, body, headers, n_headers);
    int64_t deadline_ms = clock_monotonic_ms() + server->options.request_timeout_ms +
                          (int64_t)(body.len / SLOWEST_BYTES_PER_MS);
    pthread_mutex_lock(&server->lock);
    const bool is_given = http_give(request, status, response, HTTP_ANSWERING, deadline_ms);
    http_let_go(request);
    return is_given;
}

void http_reply_problem(struct http_request *request, int status, const struct redrive_err *err,
                        const struct http_header *headers, size_t n_headers)
{
    struct buf body;
    const struct str text = put_problem(&body, status, err, NULL);
    http_reply(request, status, PROBLEM_CONTENT_TYPE, text, headers, n_headers);
    buf_release(&body);
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
    HOLD(&request->server->lock);
    return !request->connection || http_has_gone(request->connection);
}

/* ---- Bodies that go on ----------------------------------------------------------------------- */

/* What libmicrohttpd takes at a time. */
#define BLOCK_BYTES (16u * 1024)

static struct http_request *request_of(struct http_stream *stream)
{
    return LIST_ENTRY(stream, struct http_request, stream);
}

static void take(struct http_stream *stream, char *out, size_t n)
{
    memcpy(out, stream->waiting.data + stream->taken, n);
    stream->taken += n;
    if (stream->taken == stream->waiting.len) {
        buf_reset(&stream->waiting);
        stream->taken = 0;
    }
}

/* libmicrohttpd asks for more of the body, on its own thread. */
static ssize_t read_stream(void *ctx, uint64_t at, char *out, size_t max)
{
    struct http_request *request = ctx;
    struct http_stream *stream = &request->stream;
    (void)at;
    HOLD(&request->server->lock);
    size_t n = stream->waiting.len - stream->taken;
    ssize_t result = 0;
    if (stream->failed) {
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (n > 0) {
        n = n < max ? n : max;
        take(stream, out, n);
        result = (ssize_t)n;
    } else if (!stream->open || request->server->stopping) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        MHD_suspend_connection(request->mhd);
        request->suspended = true;
    }
    return result;
}

struct http_stream *http_stream_open(struct http_request *request, int status,
                                     const char *content_type)
{
    struct http_server *server = request->server;
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES,
                                                                      read_stream, request, NULL);
    if (response) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
        secure_response(response);
        if (request->method == HTTP_HEAD)
            http_response_without_chunks(response);
    }
    HOLD(&server->lock);
    request->stream.open = true;
    request->stream.failed = !response;
    http_give(request, status, response, HTTP_STREAMING, 0);
    return &request->stream;
}

/* Moves what has been taken out of the way before the buffer is held to its maximum. */
static bool append(struct http_stream *stream, struct str bytes)
{
    struct buf *waiting = &stream->waiting;
    if (stream->taken > 0 && waiting->len + bytes.len > waiting->max) {
        memmove(waiting->data, waiting->data + stream->taken, waiting->len - stream->taken);
        buf_truncate(waiting, waiting->len - stream->taken);
        stream->taken = 0;
    }
    return buf_add_str(waiting, bytes) == 0;
}

bool http_stream_write(struct http_stream *stream, struct str bytes)
{
    struct http_request *request = request_of(stream);
    HOLD(&request->server->lock);
    bool gone = stream->failed || !request->connection || request->server->stopping;
    if (!gone && !append(stream, bytes)) {
        stream->failed = gone = true;
        http_cut(request->connection);
    }
    if (request->connection)
        http_resume(request);
    return !gone;
}

void http_stream_close(struct http_stream *stream)
{
    struct http_request *request = request_of(stream);
    pthread_mutex_lock(&request->server->lock);
    stream->open = false;
    if (request->connection)
        http_resume(request);
    http_let_go(request);
}
