#include "doors/http_int.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"

#define LOOK_EVERY_MS 500

void http_cut(struct http_connection *connection)
{
    if (connection->cut)
        return;
    connection->cut = true;
    (void)shutdown(connection->fd, SHUT_RDWR);
}

bool http_has_gone(const struct http_connection *connection)
{
    struct pollfd look = {.fd = connection->fd, .events = POLLRDHUP};
    return connection->cut || (poll(&look, 1, 0) > 0 && look.revents != 0);
}

/* libmicrohttpd does not look at a connection that is suspended. */
static void look_for_client(struct http_connection *c)
{
    struct http_request *request = c->request;
    if (!request || !request->suspended || !http_has_gone(c))
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

/* libmicrohttpd does not see the end of a connection when it came together with the last bytes. Who
 * has closed and said nothing since the last look will never finish a request. */
static void look_for_more(struct http_connection *c)
{
    int unread = 0;
    bool ending = http_has_gone(c) && ioctl(c->fd, FIONREAD, &unread) == 0 && unread == 0;
    if (ending && c->ending)
        http_cut(c);
    c->ending = ending;
}

static void look_at_all(struct http_server *server)
{
    int64_t now_ms = clock_monotonic_ms();
    LIST_FOREACH (&server->connections, link) {
        struct http_connection *c = LIST_ENTRY(link, struct http_connection, link);
        if (c->deadline_ms && now_ms >= c->deadline_ms)
            http_cut(c);
        else if (c->phase == HTTP_WAITING || c->phase == HTTP_READING)
            look_for_more(c);
        else
            look_for_client(c);
    }
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
        int64_t at_ns = clock_monotonic_ns() + every_ms * 1000000;
        struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
        (void)pthread_cond_timedwait(&server->changed, &server->lock, &at);
        look_at_all(server);
    }
    pthread_mutex_unlock(&server->lock);
    return NULL;
}
