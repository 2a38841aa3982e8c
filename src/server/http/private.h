/* private.h - what the files of the HTTP server share.
 *
 * Threads. One accepts and runs libmicrohttpd (http/workarounds.c), which reads, calls the handler
 * and writes; it alone calls MHD_add_connection, MHD_suspend_connection and MHD_queue_response. Any
 * thread answers: it leaves the response in the request and, when the connection is suspended,
 * resumes it; libmicrohttpd's thread then asks again and finds the response. A third thread watches
 * the time (the same file).
 *
 * One lock guards everything below that says so. It is taken before libmicrohttpd's own, and is
 * never held while the handler or an `end` is called.
 *
 * A connection is only ever suspended under the lock, with `suspended` set in its request; the
 * thread that clears that flag resumes it, under the same lock. So none is resumed twice, and
 * nothing that is suspended disappears.
 */
#ifndef SERVER_HTTP_PRIVATE_H
#define SERVER_HTTP_PRIVATE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "base/mem/list.h"
#include "base/os/log.h"
#include "base/text/buf.h"
#include "server/http/server.h"
#include "server/listen/endpoint.h"
#include "server/listen/tls.h"

/* Accepted beyond the limit, for /health; and what libmicrohttpd may have beyond it, with those
 * that are about to end. */
#define HTTP_EXTRA_CONNECTIONS 8
#define HTTP_SPARE_CONNECTIONS 64

/* What a connection is doing, and so how long it may. */
enum http_phase {
    HTTP_WAITING,   /* for a request line: idle_timeout */
    HTTP_READING,   /* the rest of a request: request_timeout */
    HTTP_WORKING,   /* the handler has it: no limit */
    HTTP_ANSWERING, /* the answer is on its way: request_timeout, and more for a long one */
    HTTP_STREAMING, /* no limit but the stream's own */
};

struct http_connection {
    struct list link; /* of http_server.connections */
    struct http_server *server;
    struct tls_identity *tls; /* that its client was shown; NULL: none yet */
    int fd;                   /* libmicrohttpd's; open as long as this is in the list */
    enum http_phase phase;
    int64_t deadline_ms;             /* monotonic; 0: none */
    struct sockaddr_storage address; /* of the client */
    unsigned turn;                   /* of the loop, in which it came */
    bool is_extra;                   /* it came when all connections were taken */
    bool cut;                        /* both directions have been shut down */
    bool ending;                     /* nothing more would come when it was last looked at */
    struct http_request *request;
};

struct http_server {
    struct http_server_options options; /* complete; the strings are gone */
    struct MHD_Daemon *daemon;
    int listen_fd;
    struct unix_socket unix_socket; /* with a path: it listens there */
    uint16_t port;
    bool is_tls;
    pthread_t loop;
    int loop_fd;   /* readable while the loop is called */
    unsigned turn; /* in which it accepts; the loop's own */
    pthread_t sweeper;

    pthread_mutex_t lock;     /* guards what follows, connections, and what requests say it does */
    pthread_cond_t changed;   /* signalled only while it stops */
    unsigned refs;            /* the owner's and one for each request */
    struct tls_identity *tls; /* NULL: without TLS */
    struct list connections;
    unsigned n_connections;
    unsigned n_cut; /* of these, that libmicrohttpd is about to find closed */
    struct address_counts addresses;
    struct log_pace refusals;
    struct log_pace failed_accepts;
    size_t body_bytes;     /* set aside for bodies by all requests */
    unsigned n_busy;       /* connections whose request has been handed over and is not over */
    unsigned n_unanswered; /* of these, without an answer */
    bool quiesced;
    bool stopping;
    bool sweep_ended;
    bool loop_called; /* and it has not noticed yet */
    bool loop_ended;
};

struct http_stream {
    struct buf waiting; /* guarded by the lock, like all of this */
    size_t taken;       /* bytes of it that have been sent */
    bool open;          /* a thread may write */
    bool failed;        /* the reader did not keep up, or memory ran out */
};

struct http_param {
    struct str name;
    struct str value;
};

struct http_request {
    struct http_server *server;
    struct MHD_Connection *mhd;

    /* Guarded by the lock. */
    unsigned refs;
    struct http_connection *connection; /* NULL: it is through with the request */
    struct MHD_Response *response;      /* given, not yet taken by libmicrohttpd */
    unsigned status;
    bool handed;       /* to the handler */
    bool given;        /* there is an answer, or the lack of one is final */
    bool suspended;    /* see above */
    size_t body_bytes; /* its part of the server's */
    void (*end)(struct http_request *, void *ctx);
    void *end_ctx;
    struct http_stream stream;

    /* Of libmicrohttpd's thread until the handler has it, then of the handler. */
    struct arena arena;
    uintptr_t target_end; /* the address behind it, as it was read */
    const char *refusal;  /* why it is malformed; NULL: it is not */
    bool headers_read;
    bool is_refused; /* it was answered instead of admitted */
    bool drops_body; /* what comes of it is thrown away */
    bool too_big;
    bool lacks_room;   /* there is none for its body */
    uint64_t length;   /* of the body, as it was named; 0: none, or in chunks */
    size_t seen_bytes; /* of the body, kept or not */
    enum http_method method;
    struct str raw_path;
    struct str path;
    struct http_param *query;
    size_t n_query;
    struct http_param *headers;
    size_t n_headers;
    struct buf body;
    void *user;
    void (*release)(void *ctx); /* NULL: not wanted */
    void *release_ctx;
};

/* ---- http/accept.c --------------------------------------------------------------------------- */

/* Accepts those who wait, on libmicrohttpd's thread. False: one could not be accepted; try again in
 * HTTP_ACCEPT_AGAIN_MS. */
#define HTTP_ACCEPT_AGAIN_MS 50
bool http_accept(struct http_server *server);

/* Count a connection that was accepted, or is over; under the lock. */
void http_count_in(struct http_server *server, struct http_connection *c);
void http_count_out(struct http_server *server, struct http_connection *c);

/* ---- http/head.c ----------------------------------------------------------------------------- */

/* The headers of a request: are they headers, and where does its body end?
 *
 * What one reader takes for the end of a request and the next does not is how requests are smuggled
 * past a proxy. So nothing that could be read in two ways is read at all. Pure: knows no socket.
 */

struct http_head {
    struct http_param *headers; /* space for all of them */
    size_t n;
    bool needs_host; /* HTTP/1.1 has one */
    unsigned n_hosts;
    unsigned n_lengths;
    unsigned n_encodings;
    struct str length;
    struct str encoding;
    const char *why; /* it is refused; NULL: it is not, so far */
};

/* Adds a copy of a header. False: there is no memory, which the arena remembers. */
bool http_head_add(struct http_head *head, struct arena *arena, struct str name, struct str value);

/* After the last: 0 and the length of the body that was named (0: none, or in chunks), at most
 * UINT32_MAX; or the status with which the request is to be refused, and why. */
int http_head_finish(const struct http_head *head, uint64_t *ret_length, const char **ret_why);

/* Takes path and query apart; what is wrong with them goes into `refusal`. */
void http_read_target(struct http_request *request, const char *uri);

/* ---- http/request.c -------------------------------------------------------------------------- */

/* For the request whose line has arrived; NULL when there is no memory. */
struct http_request *http_request_new(struct http_server *server, struct http_connection *c,
                                      struct MHD_Connection *mhd, const char *uri);
/* For libmicrohttpd: called with the head of a request, then with each piece of its body, then when
 * it is whole, and once more whenever its connection has been resumed. */
enum MHD_Result http_take(void *ctx, struct MHD_Connection *mhd, const char *url,
                          const char *method, const char *version, const char *upload,
                          size_t *upload_size, void **request_context);

/* ---- http/reply.c ---------------------------------------------------------------------------- */

/* A problem document that ends the connection. */
struct MHD_Response *http_response_refusal(int status, const char *why);
/* The server stops. Of a request that its handler has, and that may change something, it says that
 * the outcome is unknown. */
struct MHD_Response *http_response_stopping(const struct http_request *request);
/* Gives the answer, which may be NULL for none, unless there is one; under the lock. Whether it is
 * this one that will be sent. */
bool http_give(struct http_request *request, int status, struct MHD_Response *response,
               enum http_phase phase, int64_t deadline_ms);
/* Lets go of one hold and of the lock, which is held; the last hold frees it, and the last request
 * of a server that has been stopped frees the server. */
void http_let_go(struct http_request *request);
/* Lets go of one hold on the server and of the lock, which is held. */
void http_server_let_go(struct http_server *server);

/* ---- http/workarounds.c ---------------------------------------------------------------------- */

/* The lines of a head, while they are read: whether they lie one behind the other. */
struct http_lines {
    uintptr_t next; /* where the next one begins */
    bool broken;
};
void http_lines_begin(struct http_lines *lines, const char *version);
void http_lines_add(struct http_lines *lines, const char *name, struct str value);
/* After the last; false: the head is malformed. */
bool http_lines_sound(const struct http_lines *lines, const struct http_request *request,
                      const char *method, const char *version);

/* Whether a message of libmicrohttpd means nothing here. */
bool http_message_is_idle(const struct http_server *server, const char *text);

/* For a stream that answers HEAD. */
void http_response_without_chunks(struct MHD_Response *response);

/* Accepts, and runs the daemon, on a thread of its own, until http_loop_stop. */
int http_loop_start(struct http_server *server, struct redrive_err *err);
void http_loop_stop(struct http_server *server);
/* Has it look at connections that were resumed, and whether it is to be quiet; under the lock. Many
 * calls at a time cost one. */
void http_loop_call(struct http_server *server);
/* Clears `suspended` and resumes, if it was set; under the lock. */
void http_resume(struct http_request *request);

/* Closes what is past its deadline, and notices clients that have gone, until `stopping` and then
 * `sweep_ended`. */
void *http_sweep(void *ctx); /* the server */
/* Makes libmicrohttpd find the connection closed; under the lock. */
void http_cut(struct http_connection *connection);
bool http_has_gone(const struct http_connection *connection);

#endif
