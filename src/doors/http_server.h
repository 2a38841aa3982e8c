/* http_server.h - HTTP in, answers out, and nothing about jobs.
 *
 * A server listens, reads whole requests within bounds, and hands each to one function. That
 * function answers at once, or later from any thread: until then the connection is suspended and
 * costs nothing but memory. Everything a stranger can do wrong with HTTP itself is dealt with here,
 * before the function is called:
 *
 *   - both Content-Length and Transfer-Encoding, or two Content-Lengths: 400, and the connection is
 *     closed without reading on, so that no body is ever taken for a request
 *   - a body over the limit: 413 and closed; headers over the limit: 431 or closed
 *   - a request that is not whole within its deadline, however slowly it trickles: closed
 *   - more connections than the limit: refused
 *
 * Only this file's .c and its neighbours http_*.c know libmicrohttpd.
 */
#ifndef DOORS_HTTP_SERVER_H
#define DOORS_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "redrive.h"

struct http_server;
struct http_request;

/* Called on the server's thread with a whole request. It must not wait. It answers by http_reply or
 * http_stream, now or later, exactly once. */
typedef void (*http_handler_fn)(struct http_request *request, void *ctx);

struct http_server_options {
    const char *address;  /* host:port; port 0: any, see http_server_port */
    const char *tls_cert; /* PEM texts, both or neither */
    const char *tls_key;
    http_handler_fn handler;
    void *ctx;
    const struct log *log;
    size_t max_body_bytes;      /* 0: 8 MiB */
    unsigned max_connections;   /* 0: 10 000, or what the limit on open files allows */
    int64_t request_timeout_ms; /* from the first byte to the last; 0: 30 s */
    int64_t idle_timeout_ms;    /* between requests; 0: 60 s */
};

/* REDRIVE_E_IO with the address and the reason when it cannot listen. */
int http_server_start(const struct http_server_options *options, struct http_server **ret,
                      struct redrive_err *err);
uint16_t http_server_port(const struct http_server *server);
/* Accepts no more; requests in hand are still answered. */
void http_server_quiesce(struct http_server *server);
/* Ends everything; requests that have no answer yet get 503. NULL does nothing. */
void http_server_stop(struct http_server *server);

/* ---- The request: valid until it has been answered --------------------------------------------
 */

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_OTHER,
};

enum http_method http_method(const struct http_request *request);
/* The path, decoded, without the query; never empty, starts with '/'. A path with %00 or bad
 * escapes has been refused (400). */
struct str http_path(const struct http_request *request);
/* A query parameter, decoded; absent: {NULL, 0}. `name` given without a value: an empty string that
 * is not NULL. The first one counts. */
struct str http_query(const struct http_request *request, const char *name);
/* Calls for every query parameter, in order, until it returns false. */
void http_each_query(const struct http_request *request,
                     bool (*each)(struct str name, struct str value, void *ctx), void *ctx);
struct str http_header(const struct http_request *request, const char *name);
struct str http_body(const struct http_request *request);
/* Memory that lives as long as the request. */
struct arena *http_arena(struct http_request *request);
void *http_user(const struct http_request *request);
void http_set_user(struct http_request *request, void *user);
/* Called once when the request is over, answered or not (the client has gone); on the server's
 * thread. The request may not be used after it returns. */
void http_on_end(struct http_request *request, void (*end)(struct http_request *, void *ctx),
                 void *ctx);

/* ---- The answer ----------------------------------------------------------------------------- */

struct http_header {
    const char *name;
    const char *value;
};

/* Answers; any thread. Everything is copied. Security headers (nosniff, no-store, a CSP that allows
 * nothing) and Content-Length are added here; HEAD gets the headers only. */
void http_reply(struct http_request *request, int status, const char *content_type, struct str body,
                const struct http_header *headers, size_t n_headers);

/* Answers with a body that goes on: any thread may write until it is closed. A reader that does not
 * read: what is waiting for it is bounded, and when it is full the connection is closed. */
struct http_stream;
struct http_stream *http_stream_open(struct http_request *request, int status,
                                     const char *content_type);
/* False when the client has gone: close it. */
bool http_stream_write(struct http_stream *stream, struct str bytes);
void http_stream_close(struct http_stream *stream);

#endif
