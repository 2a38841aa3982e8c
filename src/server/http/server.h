/* server.h - HTTP in, answers out, and nothing about jobs.
 *
 * A server listens, reads whole requests within bounds, and hands each to one function. That
 * function answers at once, or later from any thread: until then the connection is suspended and
 * costs nothing but memory. Everything a client can do wrong with HTTP itself is dealt with here,
 * before the function is called:
 *
 *   - both Content-Length and Transfer-Encoding, two of either, a Transfer-Encoding other than
 *     chunked, a header name that is no name, no Host or two of them: 400, and the connection is
 * closed without reading on, so that no body is ever taken for a request
 *   - a body over the limit: 413 and closed; headers over the limit: 431 or closed
 *   - bodies of all clients together over their limit: 503 and closed, but for small ones
 *   - a request that is not whole within its deadline, however slowly it trickles, or whatever
 *     size it gave for a chunk: 408 (over TLS: no answer) and closed
 *   - an answer that is not taken within its deadline: closed
 *   - more connections than the limit: the one that has been idle for longest is closed, or one
 *     whose request has been coming for too long; when all are at work, a few more are accepted for
 *     /health (http_is_extra), then the new one is closed
 *   - more connections of one address than its limit: the new one is closed
 *
 * A body is memory that an unknown client asks for. So a second function may look at the head
 * alone, and say before any of the body has been read whether that will be needed.
 *
 * A request has two holders: its connection, and the handler from the moment it is called until it
 * has answered. So a handler may use a request, and what is in its arena, for as long as it has not
 * answered, even if the client or the server has gone. It answers in any case, exactly once; an
 * answer without a client is dropped.
 *
 * Only this folder knows libmicrohttpd.
 */
#ifndef SERVER_HTTP_SERVER_H
#define SERVER_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/json/writer.h"
#include "base/mem/arena.h"
#include "base/os/log.h"
#include "base/text/str.h"
#include "redrive.h"

struct http_server;
struct http_request;
struct sockaddr;
struct tls_identity;

/* Called on the server's thread with a whole request. It must not wait. It answers by http_reply or
 * http_stream_open, now or later. */
typedef void (*http_handler_fn)(struct http_request *request, void *ctx);

/* What becomes of a request whose head is there. */
enum http_admission {
    HTTP_ADMIT,         /* the body is read, then the handler is called */
    HTTP_ADMIT_NO_BODY, /* the same, but nothing of the body is kept: http_body is empty */
    HTTP_ANSWERED,      /* by http_reply, within the call; the handler will not be called */
};

/* Called on the server's thread with a request that has no body yet. It must not wait. */
typedef enum http_admission (*http_admit_fn)(struct http_request *request, void *ctx);

struct http_server_options {
    const char *address;      /* host:port, port 0: any, see http_server_port; or unix:PATH */
    mode_t socket_mode;       /* of the file of a Unix socket; 0: 0600 */
    bool loopback_only;       /* another address is refused with REDRIVE_E_DENIED */
    struct tls_identity *tls; /* is held; NULL: without TLS */
    http_admit_fn admit;      /* NULL: every request is admitted */
    http_handler_fn handler;
    void *ctx; /* of both */
    const struct log *log;
    size_t max_body_bytes;      /* 0: 8 MiB */
    size_t max_bodies_bytes;    /* of all requests that are not over; 0: 256 MiB */
    unsigned max_connections;   /* 0: 10 000, or what the limit on open files allows */
    unsigned max_per_address;   /* 0: three quarters of all */
    int64_t request_timeout_ms; /* from the request line to the last byte; 0: 30 s */
    int64_t idle_timeout_ms;    /* from the last answer to the next request line; 0: 60 s */
    size_t stream_max_bytes;    /* that may wait in one stream for its reader; 0: 1 MiB */
};

/* REDRIVE_E_IO with the address and the reason when it cannot listen. */
int http_server_start(const struct http_server_options *options, struct http_server **ret,
                      struct redrive_err *err);
uint16_t http_server_port(const struct http_server *server);
/* Another certificate, for connections that come from now on; nothing happens without TLS. Any
 * thread. */
void http_server_set_tls(struct http_server *server, struct tls_identity *identity);
/* Accepts no more connections; requests on those that it has are still answered, and each is closed
 * after its next answer. */
void http_server_quiesce(struct http_server *server);
/* Ends everything: streams end, and handlers have a second for the requests that they hold. Those
 * that have no answer by then get a 503 that says that the outcome is unknown; requests that become
 * whole meanwhile get 503 and reach no handler. A handler that holds a request still answers it, or
 * closes its stream, before or after this has returned. NULL does nothing. */
void http_server_stop(struct http_server *server);

/* ---- The request: valid until it has been answered ------------------------------------------- */

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
const char *http_method_name(enum http_method method);
/* The path, decoded, without the query; never empty, starts with '/', UTF-8. A path with %00 or
 * bad escapes has been refused (400). */
struct str http_path(const struct http_request *request);
/* The same as it was sent, for a caller that splits it at its slashes first. */
struct str http_raw_path(const struct http_request *request);
/* Decodes %XX into memory of the request's; {NULL, 0} for a bad escape, a NUL, or what is not
 * UTF-8. */
struct str http_decode(struct http_request *request, struct str text);
/* A query parameter, decoded; absent: {NULL, 0}. `name` given without a value: an empty string that
 * is not NULL. The first one counts. */
struct str http_query(const struct http_request *request, const char *name);
/* Calls for every query parameter, in order, until it returns false. */
void http_each_query(const struct http_request *request,
                     bool (*each)(struct str name, struct str value, void *ctx), void *ctx);
/* The first header of that name, whatever its case; absent: {NULL, 0}. */
struct str http_header(const struct http_request *request, const char *name);
/* The first header whose name begins so, whatever its case; absent: {NULL, 0}. */
struct str http_header_prefix(const struct http_request *request, const char *prefix);
/* Whether it came over a Unix socket: the permissions of its file have let the client in. */
bool http_is_unix(const struct http_request *request);
/* Whether it came over TLS that ends here. */
bool http_is_tls(const struct http_request *request);
/* Whether it came over a connection beyond the limit: only what is short and important should be
 * served, all else refused with 503. The connection is closed after the answer. */
bool http_is_extra(const struct http_request *request);
/* The client's address; NULL when it is not known. Valid until the request has been answered. */
const struct sockaddr *http_client(const struct http_request *request);
struct str http_body(const struct http_request *request);
/* Memory with the lifetime of the request. One thread at a time. */
struct arena *http_arena(struct http_request *request);
void *http_user(const struct http_request *request);
void http_set_user(struct http_request *request, void *user);
/* Calls `end` once when the connection is through with the request: the answer has been sent, or
 * the client has gone, or the server stops. On the server's thread; or on this one, at once, when
 * that has already happened. So a handler that waits learns within about a second that its client
 * has gone; a client that has closed its sending side counts as gone. The request is valid during
 * the call; it still has to be answered if it has not been, now or later. */
void http_on_end(struct http_request *request, void (*end)(struct http_request *, void *ctx),
                 void *ctx);
/* Calls `release` when the memory of the request is given back, that is when the connection and the
 * handler are both through with it; on any thread. For what is used as long as it. */
void http_on_release(struct http_request *request, void (*release)(void *ctx), void *ctx);
/* Whether the client has gone, as far as is known now; any thread. For a caller that is about to do
 * something for the client that would be lost. */
bool http_gone(struct http_request *request);

/* ---- The answer ------------------------------------------------------------------------------ */

struct http_header {
    const char *name;
    const char *value;
};

/* Answers; any thread. Everything is copied. Security headers (nosniff, no-store, a CSP that allows
 * nothing) and Content-Length are added here; a header of the same name in `headers` takes their
 * place; HEAD gets the headers only. The content type may be NULL when the body is empty. False: it
 * is not sent, because the client has gone, or a stop has answered instead. */
bool http_reply(struct http_request *request, int status, const char *content_type, struct str body,
                const struct http_header *headers, size_t n_headers);

/* Answers with a body that goes on: any thread may write until it is closed, one at a time. The
 * request stays valid until then. A reader that does not read: what is waiting for it is bounded,
 * and when it is full the connection is closed. Never NULL; a stream that could not be opened is
 * one whose client has gone. */
struct http_stream;
struct http_stream *http_stream_open(struct http_request *request, int status,
                                     const char *content_type);
/* False when the client has gone: close it. What is written is sent at once. */
bool http_stream_write(struct http_stream *stream, struct str bytes);
/* Ends the body in good order; the stream must not be used any more. */
void http_stream_close(struct http_stream *stream);

/* ---- Problem documents ----------------------------------------------------------------------- */

/* Errors as documents that programs can read (RFC 9457).
 *
 *     {"type":"urn:redrive:not-found","title":"not found","status":404,
 *      "detail":"no such job: '0190…'","hint":"…","field":"…","expected":"…"}
 *
 * `type` and `title` depend on the code alone; `detail` is the error's message with its detail.
 * A detail that begins with "expected " becomes `expected` instead. Parts that are empty are left
 * out.
 */
#define PROBLEM_CONTENT_TYPE "application/problem+json"

/* A status of 0 is that of the code. `field` names the parameter or member that is at fault; NULL:
 * none is. */
void problem_write(struct json_writer *w, int status, const struct redrive_err *err,
                   const char *field);

/* Answers with such a document, as http_reply does. */
void http_reply_problem(struct http_request *request, int status, const struct redrive_err *err,
                        const struct http_header *headers, size_t n_headers);

#endif
