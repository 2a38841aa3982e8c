#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time/clock.h"

#define CLIENT_MAX_BYTES (64u * 1024 * 1024)

/* NULL: from any address. */
static int try_connect_from(const char *from, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in source = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (from) {
        assert_int_equal(inet_pton(AF_INET, from, &source.sin_addr), 1);
        assert_int_equal(bind(fd, (struct sockaddr *)&source, sizeof source), 0);
    }
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

int client_try_connect(uint16_t port)
{
    return try_connect_from(NULL, port);
}

static void start(struct client *client, int fd)
{
    *client = (struct client){.fd = fd};
    assert_true(client->fd >= 0);
    buf_init(&client->in, CLIENT_MAX_BYTES);
    buf_init(&client->head, CLIENT_MAX_BYTES);
    buf_init(&client->body, CLIENT_MAX_BYTES);
}

void client_connect(struct client *client, uint16_t port)
{
    start(client, client_try_connect(port));
}

void client_connect_from(struct client *client, const char *address, uint16_t port)
{
    start(client, try_connect_from(address, port));
}

void client_close(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    buf_release(&client->in);
    buf_release(&client->head);
    buf_release(&client->body);
}

static bool send_all(struct client *client, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(client->fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return false;
        if (sent > 0) {
            bytes += sent;
            n -= (size_t)sent;
        }
    }
    return true;
}

void client_send(struct client *client, const void *bytes, size_t n)
{
    (void)send_all(client, bytes, n);
}

bool client_say(struct client *client, const char *text)
{
    return send_all(client, text, strlen(text));
}

/* False at the end of the connection. */
static bool receive(struct client *client, int64_t deadline_ms)
{
    char bytes[65536];
    struct pollfd look = {.fd = client->fd, .events = POLLIN};
    int64_t left_ms = deadline_ms - clock_monotonic_ms();
    assert_true(left_ms > 0);
    assert_int_equal(poll(&look, 1, (int)left_ms), 1);
    ssize_t n = recv(client->fd, bytes, sizeof bytes, 0);
    if (n <= 0)
        return false;
    assert_int_equal(buf_add(&client->in, bytes, (size_t)n), 0);
    return true;
}

bool client_wait_for(struct client *client, size_t n)
{
    int64_t deadline_ms = clock_monotonic_ms() + WAIT_LIMIT_MS;
    while (client->in.len < n)
        if (!receive(client, deadline_ms))
            return false;
    return true;
}

bool client_wait_text(struct client *client, const char *text)
{
    int64_t deadline_ms = clock_monotonic_ms() + WAIT_LIMIT_MS;
    while (!strstr(buf_cstr(&client->in), text))
        if (!receive(client, deadline_ms))
            return false;
    return true;
}

void client_wait_close(struct client *client)
{
    int64_t deadline_ms = clock_monotonic_ms() + WAIT_LIMIT_MS;
    while (receive(client, deadline_ms))
        continue;
}

static void use(struct client *client, size_t n)
{
    memmove(client->in.data, client->in.data + n, client->in.len - n);
    buf_truncate(&client->in, client->in.len - n);
}

static bool read_head(struct client *client)
{
    if (!client_wait_text(client, "\r\n\r\n"))
        return false;
    size_t n = (size_t)(strstr(client->in.data, "\r\n\r\n") - client->in.data) + 4;
    buf_reset(&client->head);
    buf_reset(&client->body);
    buf_add(&client->head, client->in.data, n);
    use(client, n);
    assert_int_equal(sscanf(client->head.data, "HTTP/1.%*d %d", &client->status), 1);
    return true;
}

static bool read_chunks(struct client *client)
{
    for (;;) {
        if (!client_wait_text(client, "\r\n"))
            return false;
        char *end;
        size_t size = strtoul(client->in.data, &end, 16);
        size_t start = (size_t)(end - client->in.data) + 2;
        if (!client_wait_for(client, start + size + 2))
            return false;
        buf_add(&client->body, client->in.data + start, size);
        use(client, start + size + 2);
        if (size == 0)
            return true;
    }
}

int client_read(struct client *client, bool to_head)
{
    do {
        if (!read_head(client))
            return 0;
    } while (client->status == 100);
    struct str length = client_header(client, "Content-Length");
    if (to_head || client->status == 204)
        return client->status;
    if (client_header(client, "Transfer-Encoding").ptr)
        return read_chunks(client) ? client->status : 0;
    assert_non_null(length.ptr);
    size_t n = strtoul(length.ptr, NULL, 10);
    if (!client_wait_for(client, n))
        return 0;
    buf_add(&client->body, client->in.data ? client->in.data : "", n);
    if (n > 0)
        use(client, n);
    return client->status;
}

int client_get(struct client *client, const char *path)
{
    char text[1024];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    return client_say(client, text) ? client_read(client, false) : 0;
}

struct str client_header(const struct client *client, const char *name)
{
    struct str rest = buf_str(&client->head);
    while (rest.len > 0) {
        const char *end = memmem(rest.ptr, rest.len, "\r\n", 2);
        size_t n = (size_t)(end - rest.ptr);
        const char *colon = memchr(rest.ptr, ':', n);
        if (colon &&
            str_eq_nocase((struct str){rest.ptr, (size_t)(colon - rest.ptr)}, str_of(name)))
            return str_trim((struct str){colon + 1, n - (size_t)(colon + 1 - rest.ptr)});
        rest = (struct str){rest.ptr + n + 2, rest.len - n - 2};
    }
    return (struct str){NULL, 0};
}
