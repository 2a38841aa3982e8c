/* clients.c - the socket between clients and the server, and an input as what clients do. */
#include "session.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/listen/endpoint.h"

#define GOT_MAX   ((size_t)64 * 1024 * 1024)
#define N_SLOTS   4
#define SEND_ASKS 16 /* how often a server that takes nothing is given another turn */

/* ---- In the place of a port ------------------------------------------------------------------ */

int __wrap_endpoint_listen(const char *address, bool loopback_only, int *ret_fd,
                           struct redrive_err *err);

static struct sockaddr_un place;
static socklen_t place_size;

/* One socket for the whole process, of which each server has a descriptor. */
int __wrap_endpoint_listen(const char *address, bool loopback_only, int *ret_fd,
                           struct redrive_err *err)
{
    static int listener = -1;
    (void)address, (void)loopback_only, (void)err;
    if (listener < 0) {
        const struct sockaddr any = {.sa_family = AF_UNIX};
        listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        FUZZ_CHECK(listener >= 0 && bind(listener, &any, sizeof any.sa_family) == 0);
        FUZZ_CHECK(listen(listener, SESSION_MAX_CLIENTS) == 0);
        place_size = sizeof place;
        FUZZ_CHECK(getsockname(listener, (struct sockaddr *)&place, &place_size) == 0);
    }
    *ret_fd = dup(listener);
    FUZZ_CHECK(*ret_fd >= 0);
    return 0;
}

/* ---- One client ------------------------------------------------------------------------------ */

static struct client *client_new(struct session *s)
{
    if (s->n_clients == SESSION_MAX_CLIENTS || s->has_stopped)
        return NULL;
    struct client *client = &s->clients[s->n_clients++];
    *client = (struct client){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    buf_init(&client->said, GOT_MAX);
    buf_init(&client->got, GOT_MAX);
    FUZZ_CHECK(client->fd >= 0);
    FUZZ_CHECK(connect(client->fd, (struct sockaddr *)&place, place_size) == 0);
    s->server->turn(true);
    if (s->server->connected)
        s->server->connected(client);
    return client;
}

static void client_close(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
}

static bool client_read(struct client *client)
{
    char bytes[16 * 1024];
    bool any = false;
    while (client->fd >= 0 && !client->is_over) {
        const ssize_t n = recv(client->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            break;
        any = true;
        if (n > 0)
            FUZZ_CHECK(buf_add(&client->got, bytes, (size_t)n) == 0);
        else
            client->is_over = true;
    }
    return any;
}

/* What a server that has closed, or that stops, does not take is lost. */
static void client_say(struct session *s, struct client *client, struct str bytes)
{
    for (int asks = 0; bytes.len > 0 && asks < SEND_ASKS && !client->is_over;) {
        const ssize_t n = send(client->fd, bytes.ptr, bytes.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0) {
            s->server->turn(true);
            asks++;
            continue;
        }
        FUZZ_CHECK(buf_add(&client->said, bytes.ptr, (size_t)n) == 0);
        bytes.ptr += n;
        bytes.len -= (size_t)n;
    }
}

static void client_leave(struct client *client)
{
    if (client->fd >= 0 && !client->has_left)
        (void)shutdown(client->fd, SHUT_WR);
    client->has_left = true;
}

/* ---- All of them ----------------------------------------------------------------------------- */

bool session_read(struct session *s)
{
    bool any = false;
    for (size_t i = 0; i < s->n_clients; i++)
        any |= client_read(&s->clients[i]);
    return any;
}

struct client *session_ask(struct session *s, struct str text)
{
    struct client *client = client_new(s);
    if (!client)
        return NULL;
    client_say(s, client, text);
    s->server->turn(true);
    client_leave(client);
    s->server->turn(true);
    return client;
}

void session_leave(struct session *s)
{
    for (size_t i = 0; i < s->n_clients; i++)
        client_leave(&s->clients[i]);
    s->server->turn(true);
}

void session_release(struct session *s)
{
    for (size_t i = 0; i < s->n_clients; i++) {
        client_close(&s->clients[i]);
        buf_release(&s->clients[i].said);
        buf_release(&s->clients[i].got);
    }
    s->n_clients = 0;
}

/* ---- An input -------------------------------------------------------------------------------- */

static void pass(struct session *s, uint8_t choice)
{
    static const int64_t SPANS_MS[] = {1, 400, 1000, 2500, 16000, 61000, 1900000, 90000000};
    const int64_t ms = SPANS_MS[choice % (sizeof SPANS_MS / sizeof SPANS_MS[0])];
    s->passed_ms += ms;
    s->server->pass(ms);
}

static bool is_sign(uint8_t byte)
{
    return (byte >= 1 && byte <= 7) || byte == 14 || byte == 15;
}

/* The connection that is meant, as it is now; NULL: there is none, and `opens` is false or
 * there have been enough. */
static struct client *client_of(struct session *s, struct client **slot, bool opens)
{
    if (*slot && ((*slot)->is_over || (*slot)->has_left || (*slot)->fd < 0))
        *slot = NULL;
    if (!*slot && opens && s->n_clients + 1 < SESSION_MAX_CLIENTS)
        *slot = client_new(s);
    return *slot;
}

static void carry_out(struct session *s, uint8_t sign, struct client **slot)
{
    struct client *client = client_of(s, slot, false);
    switch (sign) {
    case 2: s->server->turn(false); break;
    case 3: s->server->turn(true); break;
    case 4:
        if (client)
            client_leave(client);
        break;
    case 5:
        if (client) {
            client->is_reset = true;
            client_close(client);
        }
        break;
    case 14:
        if (s->server->stop && !s->has_stopped)
            s->server->stop();
        s->has_stopped |= s->server->stop != NULL;
        break;
    case 15:
        if (s->server->drain && !s->has_stopped)
            s->server->drain();
        break;
    default: break;
    }
}

void session_play(struct session *s, const struct session_server *server, const uint8_t *data,
                  size_t size)
{
    struct client *slots[N_SLOTS] = {NULL};
    unsigned which = 0;
    *s = (struct session){.server = server};
    for (size_t i = 0; i < size;) {
        const uint8_t sign = data[i];
        size_t n = 1;
        if (is_sign(sign) && sign != 7) {
            i++;
            if (sign == 1)
                which = (which + 1) % N_SLOTS;
            else if (sign == 6 && i < size)
                pass(s, data[i++]);
            else
                carry_out(s, sign, &slots[which]);
            continue;
        }
        if (sign == 7)
            i++;
        else
            while (i + n < size && !is_sign(data[i + n]))
                n++;
        n = i < size ? n : 0;
        struct client *client = client_of(s, &slots[which], true);
        if (client)
            client_say(s, client, (struct str){(const char *)data + i, n});
        i += n;
    }
    server->turn(true);
}
