/* request.c - takes in the head and the body of a request, and hands it to the handler. */
#include "server/http/private.h"

#include <stdlib.h>

#include "base/time/clock.h"

/* A body over the limit is read on and thrown away up to this many times the limit, so that a
 * client that writes before it reads gets to see why it was refused. */
#define PATIENCE 4

/* What is set aside at once for a body whose length is known. */
#define RESERVE_MAX_BYTES (64u * 1024)

/* A body up to this size is taken even when those of all clients are too many: heartbeats and
 * settlements must not suffer from clients that submit much. */
#define SMALL_BODY_BYTES (16u * 1024)

struct http_request *http_request_new(struct http_server *server, struct http_connection *c,
                                      struct MHD_Connection *mhd, const char *uri)
{
    struct http_request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->server = server;
    r->mhd = mhd;
    r->connection = c;
    r->refs = 1;
    arena_init(&r->arena);
    buf_init(&r->body, server->options.max_body_bytes);
    buf_init(&r->stream.waiting, server->options.stream_max_bytes);
    r->target_end = (uintptr_t)uri + strlen(uri);
    http_read_target(r, uri);
    return r;
}

/* ---- Headers --------------------------------------------------------------------------------- */

static const char *const METHODS[] = {"GET",   "HEAD",   "POST",    "PUT",
                                      "PATCH", "DELETE", "OPTIONS", "another"};

const char *http_method_name(enum http_method method)
{
    return METHODS[method];
}

static enum http_method method_of(const char *name)
{
    for (int i = 0; i < HTTP_OTHER; i++)
        if (strcmp(name, METHODS[i]) == 0)
            return (enum http_method)i;
    return HTTP_OTHER;
}

struct taking {
    struct http_request *request;
    struct http_head head;
    struct http_lines lines;
};

static enum MHD_Result take_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                   size_t name_len, const char *value, size_t value_len)
{
    struct taking *taking = ctx;
    (void)kind;
    const struct str text = {value, value_len};
    http_lines_add(&taking->lines, name, text);
    return http_head_add(&taking->head, &taking->request->arena, (struct str){name, name_len}, text)
               ? MHD_YES
               : MHD_NO;
}

/* 0, or the status with which it is to be refused, and why. */
static int read_head(struct http_request *r, const char *method, const char *version,
                     const char **ret_why)
{
    struct taking taking = {.request = r};
    struct http_head *head = &taking.head;
    int n = MHD_get_connection_values_n(r->mhd, MHD_HEADER_KIND, NULL, NULL);
    http_lines_begin(&taking.lines, version);
    head->needs_host = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
    r->headers_read = true;
    r->method = method_of(method);
    head->headers = arena_array(&r->arena, n > 0 ? (size_t)n : 1, sizeof *head->headers);
    if (head->headers)
        (void)MHD_get_connection_values_n(r->mhd, MHD_HEADER_KIND, take_header, &taking);
    r->headers = head->headers;
    r->n_headers = head->n;
    *ret_why = "out of memory";
    if (r->arena.failed)
        return 503;
    if (!http_lines_sound(&taking.lines, r, method, version))
        head->why = "a line of the head is malformed";
    int status = http_head_finish(head, &r->length, ret_why);
    if (status)
        return status;
    *ret_why = r->refusal;
    if (r->refusal)
        return 400;
    *ret_why = "the body is over the size limit";
    return r->length > r->server->options.max_body_bytes ? 413 : 0;
}

/* ---- The body -------------------------------------------------------------------------------- */

static void drop_body(struct http_request *r)
{
    r->drops_body = true;
    buf_release(&r->body);
}

/* Counts what the body now takes; drops it when that is too much with those of all others. Whether
 * it is small is a matter of its length: the memory for it is rounded up. */
static void count_body(struct http_request *r)
{
    struct http_server *server = r->server;
    const bool is_small = (r->length > 0 ? r->length : r->seen_bytes) <= SMALL_BODY_BYTES;
    const size_t now = r->body.capacity;
    if (now == r->body_bytes)
        return;
    pthread_mutex_lock(&server->lock);
    const size_t others = server->body_bytes - r->body_bytes;
    r->lacks_room = !is_small && others + now > server->options.max_bodies_bytes;
    r->body_bytes = r->lacks_room ? 0 : now;
    server->body_bytes = others + r->body_bytes;
    pthread_mutex_unlock(&server->lock);
    if (r->lacks_room)
        drop_body(r);
}

/* Sets memory aside for the body. */
static void expect_body(struct http_request *r)
{
    if (r->length == 0 || r->drops_body)
        return;
    (void)buf_reserve(&r->body, r->length < RESERVE_MAX_BYTES ? r->length : RESERVE_MAX_BYTES);
    count_body(r);
}

/* Takes a piece of the body; false: enough of this, close. */
static bool take_piece(struct http_request *r, const char *bytes, size_t n)
{
    r->seen_bytes += n;
    if (r->drops_body)
        return r->seen_bytes / PATIENCE <= r->server->options.max_body_bytes;
    const int rc = buf_add(&r->body, bytes, n);
    r->too_big = rc == REDRIVE_E_TOO_BIG;
    if (rc < 0)
        drop_body(r);
    count_body(r);
    return rc == 0 || r->too_big;
}

/* ---- From the head of a request to its handler ----------------------------------------------- */

#define NO_ROOM "too many bodies are being read at this time"

static enum MHD_Result refuse(struct http_request *request, int status, const char *why)
{
    struct MHD_Response *response = http_response_refusal(status, why);
    log_event(request->server->options.log, LOG_LEVEL_DEBUG, clock_wall_ms(), "http_refused",
              LOG_I("http_status", status), LOG_S("error", why));
    if (!response)
        return MHD_NO;
    pthread_mutex_lock(&request->server->lock);
    request->given = true;
    request->connection->phase = HTTP_ANSWERING;
    pthread_mutex_unlock(&request->server->lock);
    enum MHD_Result queued = MHD_queue_response(request->mhd, (unsigned)status, response);
    MHD_destroy_response(response);
    return queued;
}

/* Hands a whole request over, once. */
static void hand_over(struct http_request *request)
{
    struct http_server *server = request->server;
    pthread_mutex_lock(&server->lock);
    bool stopping = server->stopping;
    struct MHD_Response *refusal = stopping ? http_response_stopping(request) : NULL;
    request->handed = true;
    server->n_busy++;
    server->n_unanswered++;
    request->connection->phase = HTTP_WORKING;
    request->connection->deadline_ms = 0;
    if (stopping)
        http_give(request, 503, refusal, HTTP_ANSWERING, 0);
    else
        request->refs++;
    pthread_mutex_unlock(&server->lock);
    if (!stopping)
        server->options.handler(request, server->options.ctx);
}

/* Takes the answer if there is one; else the connection sleeps until there is. */
static enum MHD_Result answer(struct http_request *request)
{
    struct http_server *server = request->server;
    pthread_mutex_lock(&server->lock);
    if (!request->given) {
        MHD_suspend_connection(request->mhd);
        request->suspended = true;
        pthread_mutex_unlock(&server->lock);
        return MHD_YES;
    }
    struct MHD_Response *response = request->response;
    unsigned status = request->status;
    request->response = NULL;
    pthread_mutex_unlock(&server->lock);
    if (!response)
        return MHD_NO;
    enum MHD_Result queued = MHD_queue_response(request->mhd, status, response);
    MHD_destroy_response(response);
    return queued;
}

/* Sends the answer that it was given when its head had come. */
static enum MHD_Result send_refusal(struct http_request *request)
{
    struct http_server *server = request->server;
    pthread_mutex_lock(&server->lock);
    request->connection->phase = HTTP_ANSWERING;
    request->connection->deadline_ms = clock_monotonic_ms() + server->options.request_timeout_ms;
    pthread_mutex_unlock(&server->lock);
    return answer(request);
}

/* The client asks before it sends the body, and will not send it now. libmicrohttpd leaves a body
 * unread only with these methods. */
static bool is_asked_first(const struct http_request *request)
{
    return (request->method == HTTP_POST || request->method == HTTP_PUT) &&
           str_eq_nocase(http_header(request, "Expect"), STR("100-continue"));
}

/* The head is there: is the body wanted? A refusal is sent when the body has come, of which nothing
 * is kept, because most clients do not look for an answer before they have sent everything. */
static enum MHD_Result admit(struct http_request *request)
{
    struct http_server *server = request->server;
    enum http_admission admission = HTTP_ADMIT;
    if (server->options.admit) {
        pthread_mutex_lock(&server->lock);
        request->refs++;
        pthread_mutex_unlock(&server->lock);
        admission = server->options.admit(request, server->options.ctx);
        pthread_mutex_lock(&server->lock);
        request->is_refused = admission == HTTP_ANSWERED;
        if (!request->is_refused)
            request->refs--;
        request->connection->phase = HTTP_READING;
        pthread_mutex_unlock(&server->lock);
    }
    request->drops_body = admission != HTTP_ADMIT;
    expect_body(request);
    if (request->lacks_room && is_asked_first(request))
        return refuse(request, 503, NO_ROOM);
    return request->is_refused && is_asked_first(request) ? send_refusal(request) : MHD_YES;
}

enum MHD_Result http_take(void *ctx, struct MHD_Connection *mhd, const char *url,
                          const char *method, const char *version, const char *upload,
                          size_t *upload_size, void **request_context)
{
    struct http_request *request = *request_context;
    const char *why;
    (void)ctx, (void)mhd, (void)url;
    if (!request)
        return MHD_NO;
    if (!request->headers_read) {
        int status = read_head(request, method, version, &why);
        return status ? refuse(request, status, why) : admit(request);
    }
    if (*upload_size > 0) {
        size_t n = *upload_size;
        *upload_size = 0;
        return take_piece(request, upload, n) ? MHD_YES : MHD_NO;
    }
    if (request->is_refused)
        return send_refusal(request);
    if (request->too_big)
        return refuse(request, 413, "the body is over the size limit");
    if (request->lacks_room)
        return refuse(request, 503, NO_ROOM);
    if (!request->handed)
        hand_over(request);
    return answer(request);
}

/* ---- For handlers ---------------------------------------------------------------------------- */

enum http_method http_method(const struct http_request *request)
{
    return request->method;
}

struct str http_path(const struct http_request *request)
{
    return request->path;
}

struct str http_raw_path(const struct http_request *request)
{
    return request->raw_path;
}

struct str http_query(const struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->n_query; i++)
        if (str_is(request->query[i].name, name))
            return request->query[i].value;
    return (struct str){NULL, 0};
}

void http_each_query(const struct http_request *request,
                     bool (*each)(struct str name, struct str value, void *ctx), void *ctx)
{
    for (size_t i = 0; i < request->n_query; i++)
        if (!each(request->query[i].name, request->query[i].value, ctx))
            return;
}

struct str http_header(const struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->n_headers; i++)
        if (str_eq_nocase(request->headers[i].name, str_of(name)))
            return request->headers[i].value;
    return (struct str){NULL, 0};
}

struct str http_header_prefix(const struct http_request *request, const char *prefix)
{
    const struct str wanted = str_of(prefix);
    for (size_t i = 0; i < request->n_headers; i++) {
        const struct str name = request->headers[i].name;
        if (name.len >= wanted.len && str_eq_nocase((struct str){name.ptr, wanted.len}, wanted))
            return request->headers[i].value;
    }
    return (struct str){NULL, 0};
}

bool http_is_unix(const struct http_request *request)
{
    return request->server->unix_socket.path[0] != '\0';
}

bool http_is_tls(const struct http_request *request)
{
    return request->server->is_tls;
}

bool http_is_extra(const struct http_request *request)
{
    return request->connection && request->connection->is_extra;
}

const struct sockaddr *http_client(const struct http_request *request)
{
    return request->connection ? (const struct sockaddr *)&request->connection->address : NULL;
}

struct str http_body(const struct http_request *request)
{
    return buf_str(&request->body);
}

struct arena *http_arena(struct http_request *request)
{
    return &request->arena;
}

void *http_user(const struct http_request *request)
{
    return request->user;
}

void http_set_user(struct http_request *request, void *user)
{
    request->user = user;
}

void http_on_release(struct http_request *request, void (*release)(void *ctx), void *ctx)
{
    request->release = release;
    request->release_ctx = ctx;
}
