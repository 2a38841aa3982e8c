/* take.c - takes a request from its head to the handler, as libmicrohttpd calls. */
#include "server/http/private.h"

#include "base/time/clock.h"

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
    request->handed = true;
    server->n_busy++;
    request->connection->phase = HTTP_WORKING;
    request->connection->deadline_ms = 0;
    bool stopping = server->stopping;
    if (stopping)
        http_give(request, 503, http_response_stopping(), HTTP_ANSWERING, 0);
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
    http_request_expect(request);
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
        int status = http_request_head(request, method, version, &why);
        return status ? refuse(request, status, why) : admit(request);
    }
    if (*upload_size > 0) {
        size_t n = *upload_size;
        *upload_size = 0;
        return http_request_piece(request, upload, n) ? MHD_YES : MHD_NO;
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
