/* accept.c - accepts connections, and says which there may be.
 *
 * When a server has all the connections it may have, a new one replaces that of a client that does
 * nothing: the one that has been idle for longest, or else the one whose request has been arriving
 * for longest. An address that has all it may have loses one of its own. Connections at work are
 * never closed. When all are at work, a few more are accepted, on which only /health and the like
 * are served.
 *
 * A connection that cannot be accepted because descriptors or memory have run out waits in the
 * kernel, also for a client that does nothing to go. libmicrohttpd, left to accept by itself, then
 * takes none until one that it has ends, which may be never. One that is accepted and that
 * libmicrohttpd has no room for is lost, but those behind it wait.
 */
#include "server/http/private.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/thread.h"
#include "base/time/clock.h"

/* So long a request may take to arrive before its connection can be closed for another. */
#define READING_GRACE_MS 5000

#define TELL_EVERY_MS 10000

/* The one that has been in this phase for longest, among those whose deadline is before `until`;
 * in one phase all have the same time, so that the first deadline is that of the longest. With an
 * address only one of that. Of those that came in this turn it is not known yet what they do: their
 * requests may be there, unread. */
static struct http_connection *longest_in(struct http_server *server, enum http_phase phase,
                                          int64_t until_ms, const struct sockaddr *address)
{
    struct http_connection *longest = NULL;
    LIST_FOREACH (&server->connections, link) {
        struct http_connection *c = LIST_ENTRY(link, struct http_connection, link);
        if (c->phase != phase || c->cut || c->turn == server->turn || c->deadline_ms >= until_ms ||
            (address && !address_same(address, (const struct sockaddr *)&c->address)))
            continue;
        longest = c;
        until_ms = c->deadline_ms;
    }
    return longest;
}

static bool make_room(struct http_server *server, const struct sockaddr *address)
{
    const int64_t now_ms = clock_monotonic_ms();
    struct http_connection *c = longest_in(server, HTTP_WAITING, INT64_MAX, address);
    if (!c)
        c = longest_in(server, HTTP_READING,
                       now_ms + server->options.request_timeout_ms - READING_GRACE_MS, address);
    if (c)
        http_cut(c);
    return c != NULL;
}

static unsigned n_live(const struct http_server *server)
{
    return server->n_connections - server->n_cut;
}

/* NULL, or why it is refused. */
static const char *refusal_of(struct http_server *server, const struct sockaddr *address)
{
    if (address_counts_full(&server->addresses, address) && !make_room(server, address))
        return "the address has as many connections as it may (listen.max_per_address)";
    if (n_live(server) < server->options.max_connections || make_room(server, NULL) ||
        n_live(server) < server->options.max_connections + HTTP_EXTRA_CONNECTIONS)
        return NULL;
    return "there are as many connections as there may be (listen.max_connections)";
}

static bool may_connect(struct http_server *server, const struct sockaddr *address)
{
    char text[ADDRESS_TEXT_MAX];
    int64_t held_back = 0;
    pthread_mutex_lock(&server->lock);
    const char *why = refusal_of(server, address);
    const bool is_told =
        why && log_pace_allows(&server->refusals, clock_monotonic_ms(), TELL_EVERY_MS, &held_back);
    pthread_mutex_unlock(&server->lock);
    if (is_told)
        log_event(server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "connection_refused",
                  LOG_S("interface", "http"), LOG_S("client", address_text(address, text)),
                  LOG_S("error", why), LOG_I("more", held_back));
    return !why;
}

/* ---- Accepting ------------------------------------------------------------------------------- */

/* In one turn of the loop. Those that are there are served as well; and each may have had another
 * one closed, which libmicrohttpd still has until the end of the turn. From 1.0 on those that are
 * added are not counted before. */
#if MHD_VERSION < 0x01000000
#define ACCEPTED_TOGETHER 32
#else
#define ACCEPTED_TOGETHER 1
#endif
_Static_assert(ACCEPTED_TOGETHER + HTTP_EXTRA_CONNECTIONS < HTTP_SPARE_CONNECTIONS,
               "libmicrohttpd has room for all that may be accepted");

/* Of accept4: this client has gone, and the next one may be there. */
static bool is_passing(int why)
{
    return why == EINTR || why == ECONNABORTED || why == EPROTO;
}

static bool is_want_of_room(int why)
{
    return why == EMFILE || why == ENFILE || why == ENOMEM || why == ENOBUFS || why == ENOSPC;
}

static void cannot_accept(struct http_server *server, int why)
{
    int64_t held_back = 0;
    pthread_mutex_lock(&server->lock);
    const bool is_told =
        !server->quiesced &&
        log_pace_allows(&server->failed_accepts, clock_monotonic_ms(), TELL_EVERY_MS, &held_back);
    if (!server->quiesced && is_want_of_room(why))
        (void)make_room(server, NULL);
    pthread_mutex_unlock(&server->lock);
    if (is_told)
        log_event(server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "accept_failed",
                  LOG_S("interface", "http"), LOG_S("error", strerror(why)),
                  LOG_I("more", held_back));
}

/* 0, EAGAIN when there is none, or why it could not be accepted. One that is refused was. */
static int accept_one(struct http_server *server)
{
    struct sockaddr_storage address = {0};
    struct sockaddr *const client = (struct sockaddr *)&address;
    socklen_t size = sizeof address;
    const int fd = accept4(server->listen_fd, client, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return is_passing(errno) ? 0 : errno;
    if (!may_connect(server, client)) {
        close(fd);
        return 0;
    }
    errno = 0;
    if (MHD_add_connection(server->daemon, fd, client, size) == MHD_YES)
        return 0;
    return errno ? errno : ENOMEM; /* it has closed it */
}

/* Without room it is one in each turn: what those that are there do is known then. */
static bool has_room(struct http_server *server)
{
    HOLD(&server->lock);
    return n_live(server) < server->options.max_connections;
}

bool http_accept(struct http_server *server)
{
    int why;
    int n = 0;
    server->turn++;
    do {
        why = accept_one(server);
    } while (why == 0 && ++n < ACCEPTED_TOGETHER && has_room(server));
    if (why == 0 || why == EAGAIN)
        return true;
    cannot_accept(server, why);
    return false;
}

/* ---- Counting -------------------------------------------------------------------------------- */

void http_count_in(struct http_server *server, struct http_connection *c)
{
    server->n_connections++;
    c->turn = server->turn;
    c->is_extra = n_live(server) > server->options.max_connections;
    address_counts_enter(&server->addresses, (const struct sockaddr *)&c->address);
}

void http_count_out(struct http_server *server, struct http_connection *c)
{
    server->n_connections--;
    server->n_cut -= c->cut;
    address_counts_leave(&server->addresses, (const struct sockaddr *)&c->address);
}
