/* stream.c - bodies that go on: a buffer between a writer and libmicrohttpd. */
#include "server/http/private.h"

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
    pthread_mutex_lock(&request->server->lock);
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
    pthread_mutex_unlock(&request->server->lock);
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
        http_response_secure(response);
        /* Else libmicrohttpd before 1.0 sends the last chunk of a body that HEAD must not have. */
        if (request->method == HTTP_HEAD)
            (void)MHD_set_response_options(response, MHD_RF_HTTP_VERSION_1_0_ONLY, MHD_RO_END);
    }
    pthread_mutex_lock(&server->lock);
    request->stream.open = true;
    request->stream.failed = !response;
    http_give(request, status, response, HTTP_STREAMING, 0);
    pthread_mutex_unlock(&server->lock);
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
    pthread_mutex_lock(&request->server->lock);
    bool gone = stream->failed || !request->connection || request->server->stopping;
    if (!gone && !append(stream, bytes)) {
        stream->failed = gone = true;
        http_cut(request->connection);
    }
    if (request->connection)
        http_resume(request);
    pthread_mutex_unlock(&request->server->lock);
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
