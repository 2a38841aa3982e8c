/* sweep.c - closes connections past their deadline, and notices clients that have gone. */
#include "server/http/private.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/time/clock.h"

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

/* libmicrohttpd does not look at a connection that is suspended. */
static void look_for_client(struct http_connection *c, bool has_gone)
{
    struct http_request *request = c->request;
    if (!has_gone || !request || !request->suspended)
        return;
    if (c->phase == HTTP_STREAMING)
        request->stream.failed = true;
    else if (request->end)
        http_give(request, 503, NULL, HTTP_ANSWERING, 0);
    else
        return;
    http_cut(c);
    http_resume(request);
}

/* libmicrohttpd does not see the end of a connection when it came together with the last bytes. A
 * client that has closed its side and sent nothing since the last look will never finish a
 * request. */
static void look_for_more(struct http_connection *c, bool has_gone)
{
    int unread = 0;
    bool ending = has_gone && ioctl(c->fd, FIONREAD, &unread) == 0 && unread == 0;
    if (ending && c->ending)
        http_cut(c);
    c->ending = ending;
}

static void look_at(struct http_connection *c, int64_t now_ms, bool has_gone)
{
    if (c->deadline_ms && now_ms >= c->deadline_ms)
        http_cut(c);
    else if (c->phase == HTTP_WAITING || c->phase == HTTP_READING)
        look_for_more(c, has_gone);
    else
        look_for_client(c, has_gone);
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
    pthread_mutex_lock(&server->lock);
    while (!server->sweep_ended) {
        const int64_t n_groups = (server->n_connections + LOOK_TOGETHER - 1) / LOOK_TOGETHER;
        int64_t at_ns = clock_monotonic_ns() + every_ms * 1000000 / (n_groups ? n_groups : 1);
        struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
        (void)pthread_cond_timedwait(&server->changed, &server->lock, &at);
        look_at_some(server);
    }
    pthread_mutex_unlock(&server->lock);
    return NULL;
}
