/* server.c - starts and stops the server, and says which certificate a connection is shown. */
#include "server/http/private.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/os/thread.h"
#include "base/time/clock.h"
#include "server/listen/endpoint.h"

/* What libmicrohttpd has for one connection: the head of the request, a part of its body, the head
 * of the answer. */
#define POOL_BYTES (32u * 1024)

/* Of the open files, what is left for the store, for child processes and for the rest. */
#define FILES_KEPT_BACK 200

/* How long a stop waits for answers to be given, and then again for them to be sent. */
#define STOP_WAIT_MS 1000

/* ---- Holders --------------------------------------------------------------------------------- */

static unsigned connections_allowed(unsigned asked)
{
    struct rlimit limit;
    unsigned wanted = asked ? asked : 10000;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return wanted;
    rlim_t allowed = limit.rlim_cur > 2 * FILES_KEPT_BACK ? limit.rlim_cur - FILES_KEPT_BACK
                                                          : limit.rlim_cur / 2;
    return wanted < allowed ? wanted : (unsigned)allowed;
}

static struct http_server *server_new(const struct http_server_options *given)
{
    struct http_server *server = calloc(1, sizeof *server);
    if (!server)
        return NULL;
    struct http_server_options *o = &server->options;
    *o = *given;
    o->address = NULL;
    o->tls = NULL;
    server->is_tls = given->tls != NULL;
    server->tls = given->tls ? tls_identity_hold(given->tls) : NULL;
    o->max_body_bytes = o->max_body_bytes ? o->max_body_bytes : 8u * 1024 * 1024;
    o->max_bodies_bytes = o->max_bodies_bytes ? o->max_bodies_bytes : 256u * 1024 * 1024;
    o->max_connections = connections_allowed(o->max_connections);
    o->request_timeout_ms = o->request_timeout_ms ? o->request_timeout_ms : 30000;
    o->idle_timeout_ms = o->idle_timeout_ms ? o->idle_timeout_ms : 60000;
    o->stream_max_bytes = o->stream_max_bytes ? o->stream_max_bytes : 1024u * 1024;
    server->listen_fd = -1;
    server->refs = 1;
    list_init(&server->connections);
    address_counts_init(&server->addresses, o->max_per_address
                                                ? o->max_per_address
                                                : address_counts_default(o->max_connections));
    pthread_mutex_init(&server->lock, NULL);
    thread_cond_init(&server->changed);
    return server;
}

/* ---- Which certificate a connection is shown ------------------------------------------------- */

/* libmicrohttpd asks for each handshake, on its own thread. It leaves itself in the session's
 * pointer, which leads to the connection and its server.
 */

/* NULL when there was no memory for it. */
static struct http_connection *connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* A gnutls_certificate_retrieve_function2. */
static int choose(gnutls_session_t session, const gnutls_datum_t *ca, int n_ca,
                  const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
                  gnutls_pcert_st **ret_chain, unsigned *ret_n, gnutls_privkey_t *ret_key)
{
    struct http_connection *c = connection_of(gnutls_session_get_ptr(session));
    (void)ca, (void)n_ca, (void)algorithms, (void)n_algorithms;
    if (!c)
        return GNUTLS_E_INTERNAL_ERROR;
    pthread_mutex_lock(&c->server->lock);
    if (!c->tls)
        c->tls = tls_identity_hold(c->server->tls);
    pthread_mutex_unlock(&c->server->lock);
    tls_identity_parts(c->tls, ret_chain, ret_n, ret_key);
    return 0;
}

static void tls_options(struct MHD_OptionItem options[3])
{
    options[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)choose};
    options[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(TLS_PRIORITIES)};
    options[2] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
}

void http_server_set_tls(struct http_server *server, struct tls_identity *identity)
{
    pthread_mutex_lock(&server->lock);
    struct tls_identity *former = server->tls;
    if (former)
        server->tls = tls_identity_hold(identity);
    pthread_mutex_unlock(&server->lock);
    tls_identity_free(former);
}

/* ---- What libmicrohttpd calls ---------------------------------------------------------------- */

static void take_address(struct http_connection *c, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    if (address && address->sa_family == AF_INET)
        memcpy(&c->address, address, sizeof(struct sockaddr_in));
    else if (address && address->sa_family == AF_INET6)
        memcpy(&c->address, address, sizeof(struct sockaddr_in6));
}

/* The session is there already, and the handshake has not begun. */
static void prepare_tls(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info && info->tls_session)
        tls_accept_any_name(info->tls_session);
}

static void connected(struct http_server *server, struct MHD_Connection *mhd, void **ret)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http_connection *c = info ? calloc(1, sizeof *c) : NULL;
    *ret = c;
    if (!c)
        return;
    c->server = server;
    c->fd = info->connect_fd;
    take_address(c, mhd);
    if (server->is_tls)
        prepare_tls(mhd);
    c->phase = HTTP_WAITING;
    c->deadline_ms = clock_monotonic_ms() + server->options.idle_timeout_ms;
    HOLD(&server->lock);
    list_insert(&server->connections, &c->link);
    http_count_in(server, c);
}

static void disconnected(struct http_server *server, struct http_connection *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&server->lock);
    list_remove(&c->link);
    http_count_out(server, c);
    pthread_mutex_unlock(&server->lock);
    tls_identity_free(c->tls);
    free(c);
}

static void on_connection(void *ctx, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connected(ctx, mhd, socket_context);
    else
        disconnected(ctx, *socket_context);
}

/* The request line has arrived. */
static void *on_line(void *ctx, const char *uri, struct MHD_Connection *mhd)
{
    struct http_server *server = ctx;
    struct http_connection *c = connection_of(mhd);
    struct http_request *request = c ? http_request_new(server, c, mhd, uri) : NULL;
    if (!request)
        return NULL;
    HOLD(&server->lock);
    server->refs++;
    c->request = request;
    c->phase = HTTP_READING;
    c->deadline_ms = clock_monotonic_ms() + server->options.request_timeout_ms;
    return request;
}

/* The connection is through with a request, one way or the other. */
static void on_completed(void *ctx, struct MHD_Connection *mhd, void **request_context,
                         enum MHD_RequestTerminationCode code)
{
    struct http_server *server = ctx;
    struct http_request *request = *request_context;
    (void)mhd, (void)code;
    *request_context = NULL;
    if (!request)
        return;
    pthread_mutex_lock(&server->lock);
    struct http_connection *c = request->connection;
    c->request = NULL;
    c->phase = HTTP_WAITING;
    c->deadline_ms = clock_monotonic_ms() + server->options.idle_timeout_ms;
    request->connection = NULL;
    if (request->handed) {
        server->n_busy--;
        server->n_unanswered -= !request->given;
    }
    if (server->stopping)
        pthread_cond_broadcast(&server->changed);
    void (*end)(struct http_request *, void *) = request->end;
    void *end_ctx = request->end_ctx;
    pthread_mutex_unlock(&server->lock);
    if (end)
        end(request, end_ctx);
    pthread_mutex_lock(&server->lock);
    http_let_go(request);
}

static void on_message(void *ctx, const char *format, va_list args)
{
    struct http_server *server = ctx;
    char text[256];
    if (!log_wants(server->options.log, LOG_LEVEL_DEBUG))
        return;
    vsnprintf(text, sizeof text, format, args);
    if (!http_message_is_idle(server, text))
        log_event(server->options.log, LOG_LEVEL_DEBUG, clock_wall_ms(), "http",
                  LOG_STR("error", str_trim(str_of(text))));
}

/* ---- Start and stop -------------------------------------------------------------------------- */

static int start_daemon(struct http_server *server, const struct http_server_options *given,
                        struct redrive_err *err)
{
    unsigned flags =
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[3] = {{MHD_OPTION_END, 0, NULL}};
    if (given->tls) {
        flags |= MHD_USE_TLS;
        tls_options(tls);
    }
    errno = 0;
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, http_take, server, MHD_OPTION_EXTERNAL_LOGGER, on_message, server,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_LIMIT,
        server->options.max_connections + HTTP_SPARE_CONNECTIONS, MHD_OPTION_STRICT_FOR_CLIENT, 0,
        MHD_OPTION_URI_LOG_CALLBACK, on_line, server, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_ARRAY, tls,
        MHD_OPTION_END);
    if (server->daemon)
        return 0;
    err_set(err, REDRIVE_E_IO, "cannot serve HTTP on %s", given->address);
    if (given->tls && MHD_is_feature_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK) != MHD_YES)
        err_detail(err, "the HTTP library was built without TLS");
    else
        err_detail(err, "%s", errno ? strerror(errno) : "the HTTP library refused to start");
    return REDRIVE_E_IO;
}

static int open_listener(struct http_server *server, const struct http_server_options *given,
                         struct redrive_err *err)
{
    if (unix_socket_is_address(given->address)) {
        const mode_t mode = given->socket_mode ? given->socket_mode : 0600;
        const int rc = unix_socket_listen(given->address, mode, &server->unix_socket, err);
        server->listen_fd = rc < 0 ? -1 : server->unix_socket.fd;
        return rc;
    }
    const int rc = endpoint_listen(given->address, given->loopback_only, &server->listen_fd, err);
    server->port = rc < 0 ? 0 : endpoint_port(server->listen_fd);
    return rc;
}

static void remove_socket_file(const struct http_server *server)
{
    if (server->unix_socket.path[0] != '\0')
        unix_socket_remove(server->unix_socket.path);
}

static int start(struct http_server *server, const struct http_server_options *given,
                 struct redrive_err *err)
{
    int rc = open_listener(server, given, err);
    if (rc < 0)
        return rc;
    rc = start_daemon(server, given, err);
    if (rc < 0)
        return rc;
    rc = http_loop_start(server, err);
    if (rc == 0 && pthread_create(&server->sweeper, NULL, http_sweep, server) != 0) {
        http_loop_stop(server);
        rc = err_set(err, REDRIVE_E_IO, "cannot start a thread");
    }
    if (rc < 0)
        MHD_stop_daemon(server->daemon);
    return rc;
}

int http_server_start(const struct http_server_options *options, struct http_server **ret,
                      struct redrive_err *err)
{
    *ret = NULL;
    struct http_server *server = server_new(options);
    if (!server)
        return err_nomem(err);
    int rc = start(server, options, err);
    if (rc < 0) {
        if (server->listen_fd >= 0)
            close(server->listen_fd);
        remove_socket_file(server);
        pthread_mutex_lock(&server->lock);
        http_server_let_go(server);
        return rc;
    }
    *ret = server;
    return 0;
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

/* The loop may still be about to accept, so that the socket is closed later; but the kernel refuses
 * new connections from now on. */
void http_server_quiesce(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool already = server->quiesced;
    server->quiesced = true;
    http_loop_call(server);
    pthread_mutex_unlock(&server->lock);
    if (!already)
        (void)shutdown(server->listen_fd, SHUT_RDWR);
}

static void end_streams(struct http_server *server)
{
    LIST_FOREACH (&server->connections, link) {
        struct http_request *request = LIST_ENTRY(link, struct http_connection, link)->request;
        if (request && request->handed && request->given)
            http_resume(request);
    }
}

/* Waits until the counter is 0, or until the deadline; under the lock. */
static void await_none(struct http_server *server, const unsigned *counter, int64_t deadline_ms)
{
    while (*counter > 0 && thread_cond_wait_until(&server->changed, &server->lock, deadline_ms))
        continue;
}

/* A request that was handed over is being carried out, and its handler knows best what has become
 * of it: a 503 to a request that is then committed makes the client send it again. So the handlers
 * have some time before the rest is answered here. */
static void answer_all(struct http_server *server)
{
    end_streams(server);
    await_none(server, &server->n_unanswered, clock_monotonic_ms() + STOP_WAIT_MS);
    const int64_t deadline_ms = clock_monotonic_ms() + STOP_WAIT_MS;
    LIST_FOREACH (&server->connections, link) {
        struct http_request *request = LIST_ENTRY(link, struct http_connection, link)->request;
        if (request && request->handed && !request->given)
            http_give(request, 503, http_response_stopping(request), HTTP_ANSWERING, deadline_ms);
    }
    await_none(server, &server->n_busy, deadline_ms);
}

void http_server_stop(struct http_server *server)
{
    if (!server)
        return;
    http_server_quiesce(server);
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    answer_all(server);
    server->sweep_ended = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    (void)pthread_join(server->sweeper, NULL);
    http_loop_stop(server);
    MHD_stop_daemon(server->daemon);
    close(server->listen_fd);
    remove_socket_file(server);
    pthread_mutex_lock(&server->lock);
    http_server_let_go(server);
}
