/* workarounds.c - what is done here only because of libmicrohttpd, as 0.9.75 has it.
 *
 *   1. Lines of a head that it reads differently from other servers. Mended in 1.0.
 *   2. The last chunk of a body that HEAD must not have. Mended in 1.0.
 *   3. A thread of its own that can stop for good: the loop below takes its place. Found in 0.9.75;
 *      no later version is known to mend it.
 *   4. Connections that it does not look at; the sweeper looks at all of them. Those that are
 *      suspended it ignores on purpose, in every version. That it misses the end of some others was
 *      found in 0.9.75.
 *   5. A request whose deadline passes while it is read: it can only be closed, so that the answer
 * is sent past libmicrohttpd. In every version.
 *   6. Complaints that a Unix socket is not one of TCP. Only of a socket on which it accepts by
 *      itself does it know that. In every version.
 *
 * What cannot be mended here: 0.9.75 refuses a Content-Length that is no number, or is beyond 64
 * bits, by itself, before any function of ours is called, and sends the head of that answer (400 or
 * 413) twice, so that the page in its body begins with a second head. The connection is closed
 * behind it. It did the same where Host is missing; MHD_OPTION_STRICT_FOR_CLIENT is 0 so that this
 * is looked at in head.c. It does not tell the size of a chunk either: a chunk that can never come
 * to an end is one that is late. Mended in 1.0.
 */
#include "server/http/private.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"

/* ---- 1. Lines of a head ----------------------------------------------------------------------
 *
 * Before 1.0 it takes a NUL for the end of a name or value, a lone CR or LF for that of a line, and
 * appends the continuation of a folded line to the name of its header. So a Content-Length may get
 * lost, and a body becomes a request. It parses in place, so all of these show in the addresses.
 * Lines that end with CRLF and have only name, colon and value lie directly one behind the other,
 * from the request line to the end of the head.
 */

void http_lines_begin(struct http_lines *lines, const char *version)
{
    *lines = (struct http_lines){.next = (uintptr_t)version + strlen(version) + 2};
}

void http_lines_add(struct http_lines *lines, const char *name, struct str value)
{
    lines->broken |= (uintptr_t)name != lines->next;
    lines->next = (uintptr_t)value.ptr + value.len + 2;
}

bool http_lines_sound(const struct http_lines *lines, const struct http_request *request,
                      const char *method, const char *version)
{
#if MHD_VERSION < 0x01000000
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info && !lines->broken && request->target_end + 1 == (uintptr_t)version &&
           lines->next + 2 == (uintptr_t)method + info->header_size;
#else
    (void)lines, (void)request, (void)method, (void)version;
    return true;
#endif
}

/* ---- 2. The answer to HEAD -------------------------------------------------------------------
 *
 * Before 1.0 it sends the last chunk of a body that is sent in chunks also when the method is HEAD.
 * HTTP/1.0 has no chunks.
 */

void http_response_without_chunks(struct MHD_Response *response)
{
    (void)MHD_set_response_options(response, MHD_RF_HTTP_VERSION_1_0_ONLY, MHD_RO_END);
}

/* ---- 3. The loop -----------------------------------------------------------------------------
 *
 * Its own thread can stop when a multiple of 128 connections are ready at one moment. It takes
 * events 128 at a time and asks for more as long as it got all 128. Then it waits for more without
 * having looked at any of them. MHD_run never waits; waiting is done here. Run in this way
 * libmicrohttpd does not wake its thread when a connection is resumed, so http_resume calls the
 * loop. It accepts as well (http/accept.c).
 */

static int wait_ms(struct http_server *server, int most_ms)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(server->daemon, &ms) != MHD_YES)
        return most_ms;
    return most_ms < 0 || ms < (unsigned)most_ms ? (int)(ms < 60000 ? ms : 60000) : most_ms;
}

/* Takes the calls that have come; whether to go on, and to accept. A thread that resumes a
 * connection from now on calls again. */
static bool take_calls(struct http_server *server, bool *ret_accepts)
{
    eventfd_t calls;
    pthread_mutex_lock(&server->lock);
    if (server->loop_called)
        (void)eventfd_read(server->loop_fd, &calls);
    server->loop_called = false;
    const bool goes_on = !server->loop_ended;
    *ret_accepts = !server->quiesced;
    pthread_mutex_unlock(&server->lock);
    return goes_on;
}

static void *run(void *ctx)
{
    struct http_server *server = ctx;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd events[] = {
        {.fd = info->epoll_fd, .events = POLLIN},
        {.fd = server->loop_fd, .events = POLLIN},
        {.events = POLLIN},
    };
    bool goes_on = true, accepts = true;
    int64_t again_ms = 0; /* when to accept again */
    while (goes_on) {
        const int64_t left_ms = again_ms ? again_ms - clock_monotonic_ms() : 0;
        events[2].fd = accepts && left_ms <= 0 ? server->listen_fd : -1;
        (void)poll(events, 3, wait_ms(server, left_ms > 0 ? (int)left_ms : -1));
        if (events[1].revents != 0)
            goes_on = take_calls(server, &accepts);
        if (accepts && events[2].revents != 0 && !http_accept(server))
            again_ms = clock_monotonic_ms() + HTTP_ACCEPT_AGAIN_MS;
        (void)MHD_run(server->daemon);
    }
    return NULL;
}

void http_loop_call(struct http_server *server)
{
    if (server->loop_called)
        return;
    server->loop_called = true;
    (void)eventfd_write(server->loop_fd, 1);
}

int http_loop_start(struct http_server *server, struct redrive_err *err)
{
    server->loop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->loop_fd < 0)
        return err_set(err, REDRIVE_E_IO, "cannot open an event");
    if (pthread_create(&server->loop, NULL, run, server) == 0)
        return 0;
    close(server->loop_fd);
    return err_set(err, REDRIVE_E_IO, "cannot start a thread");
}

void http_loop_stop(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->loop_ended = true;
    http_loop_call(server);
    pthread_mutex_unlock(&server->lock);
    (void)pthread_join(server->loop, NULL);
    close(server->loop_fd);
}

void http_resume(struct http_request *request)
{
    if (!request->suspended)
        return;
    request->suspended = false;
    MHD_resume_connection(request->mhd);
    http_loop_call(request->server);
}

/* ---- 4. The sweeper --------------------------------------------------------------------------
 *
 * Closes connections past their deadline, for which libmicrohttpd has one time for all phases, and
 * notices clients that have gone.
 */

#define LOOK_EVERY_MS 500

/* Looking holds the lock, and so delays threads that have an answer: connections are looked at in
 * groups of this size, spread over the time that there is for all. */
#define LOOK_TOGETHER 64

void http_cut(struct http_connection *connection)
{
    if (connection->cut)
        return;
    connection->cut = true;
    connection->server->n_cut++;
    (void)shutdown(connection->fd, SHUT_RDWR);
}

bool http_has_gone(const struct http_connection *connection)
{
    struct pollfd look = {.fd = connection->fd, .events = POLLRDHUP};
    return connection->cut || (poll(&look, 1, 0) > 0 && look.revents != 0);
}

/* Of a connection that is suspended. */
static void look_for_client(struct http_connection *c, bool has_gone)
{
    struct http_request *request = c->request;
    if (!has_gone || !request || !request->suspended)
        return;
    if (c->phase == HTTP_STREAMING)
        request->stream.failed = true;
    else if (request->end)
        (void)http_give(request, 503, NULL, HTTP_ANSWERING, 0);
    else
        return;
    http_cut(c);
    http_resume(request);
}

/* The end of a connection is missed when it came together with the last bytes. A client that has
 * closed its side and sent nothing since the last look will never finish a request. */
static void look_for_more(struct http_connection *c, bool has_gone)
{
    int unread = 0;
    bool ending = has_gone && ioctl(c->fd, FIONREAD, &unread) == 0 && unread == 0;
    if (ending && c->ending)
        http_cut(c);
    c->ending = ending;
}

/* ---- 5. A request that is late ----------------------------------------------------------------
 *
 * While a request is read libmicrohttpd sends nothing but 100 Continue, and no answer can begin
 * without the lock. Over TLS the bytes would have to go through its session.
 */
static void tell_late(const struct http_connection *c)
{
    static const char LATE[] = "HTTP/1.1 408 Request Timeout\r\n"
                               "Connection: close\r\n"
                               "Cache-Control: no-store\r\n"
                               "Content-Length: 0\r\n\r\n";
    if (c->phase == HTTP_READING && c->request && !c->request->given && !c->cut &&
        !c->server->is_tls)
        (void)send(c->fd, LATE, sizeof LATE - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void look_at(struct http_connection *c, int64_t now_ms, bool has_gone)
{
    if (c->deadline_ms && now_ms >= c->deadline_ms) {
        tell_late(c);
        http_cut(c);
    } else if (c->phase == HTTP_WAITING || c->phase == HTTP_READING) {
        look_for_more(c, has_gone);
    } else {
        look_for_client(c, has_gone);
    }
}

/* Those at the front of the list go to its end. */
static void look_at_some(struct http_server *server)
{
    struct http_connection *some[LOOK_TOGETHER];
    struct pollfd looks[LOOK_TOGETHER];
    const unsigned n =
        server->n_connections < LOOK_TOGETHER ? server->n_connections : LOOK_TOGETHER;
    const int64_t now_ms = clock_monotonic_ms();
    for (unsigned i = 0; i < n; i++) {
        struct list *first = server->connections.next;
        list_remove(first);
        list_insert(&server->connections, first);
        some[i] = LIST_ENTRY(first, struct http_connection, link);
        looks[i] = (struct pollfd){.fd = some[i]->fd, .events = POLLRDHUP};
    }
    const bool is_known = poll(looks, n, 0) >= 0;
    for (unsigned i = 0; i < n; i++)
        look_at(some[i], now_ms, some[i]->cut || (is_known && looks[i].revents != 0));
}

/* Short time-outs are kept about as exactly as long ones. */
static int64_t interval_ms(const struct http_server_options *options)
{
    int64_t least_ms = options->request_timeout_ms < options->idle_timeout_ms
                           ? options->request_timeout_ms
                           : options->idle_timeout_ms;
    return least_ms / 4 < LOOK_EVERY_MS ? least_ms / 4 + 1 : LOOK_EVERY_MS;
}

void *http_sweep(void *ctx)
{
    struct http_server *server = ctx;
    const int64_t every_ms = interval_ms(&server->options);
    HOLD(&server->lock);
    while (!server->sweep_ended) {
        const int64_t n_groups = (server->n_connections + LOOK_TOGETHER - 1) / LOOK_TOGETHER;
        int64_t at_ns = clock_monotonic_ns() + every_ms * 1000000 / (n_groups ? n_groups : 1);
        struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
        (void)pthread_cond_timedwait(&server->changed, &server->lock, &at);
        look_at_some(server);
    }
    return NULL;
}

/* ---- 6. What it says ------------------------------------------------------------------------- */

bool http_message_is_idle(const struct http_server *server, const char *text)
{
    return server->unix_socket.path[0] != '\0' &&
           (strstr(text, "TCP_") || strstr(text, "push the data"));
}
