/* endpoint.c - parses addresses, and opens listening sockets. */
#include "server/listen/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text/str.h"
#include "base/time/clock.h"
#include "server/listen/unix_socket.h"

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= 5 && text[digits] == '\0' && atoi(text) <= UINT16_MAX;
}

static bool split(const char *address, char host[256], char port[16])
{
    struct str text = str_of(address);
    const char *colon = text.len ? memrchr(text.ptr, ':', text.len) : NULL;
    if (!colon)
        return false;
    struct str name = {text.ptr, (size_t)(colon - text.ptr)};
    if (name.len >= 2 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']')
        name = (struct str){name.ptr + 1, name.len - 2};
    else if (memchr(name.ptr, ':', name.len))
        return false;
    return name.len > 0 && is_port(colon + 1) && str_copy(host, 256, name) &&
           str_copy(port, 16, str_of(colon + 1));
}

static int resolve(const char *address, struct addrinfo **ret, struct redrive_err *err)
{
    char host[256], port[16];
    if (!split(address, host, port)) {
        err_set(err, REDRIVE_E_INVALID, "not an address to listen on: '%s'",
                address ? address : "");
        err_detail(err, "expected host:port, such as 127.0.0.1:7070 or [::1]:7070");
        return REDRIVE_E_INVALID;
    }
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
    };
    int rc = getaddrinfo(host, port, &hints, ret);
    if (rc != 0) {
        err_set(err, REDRIVE_E_IO, "cannot listen on %s", address);
        err_detail(err, "%s", rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
        return REDRIVE_E_IO;
    }
    return 0;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)address;
        if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
            return in6->sin6_addr.s6_addr[12] == 127;
        return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
    }
    return false;
}

static bool all_loopback(const struct addrinfo *list)
{
    bool all = list != NULL;
    for (const struct addrinfo *one = list; one; one = one->ai_next)
        all = all && is_loopback(one->ai_addr);
    return all;
}

bool endpoint_is_loopback(const char *address)
{
    struct addrinfo *list;
    if (unix_socket_is_address(address))
        return true;
    if (resolve(address, &list, NULL) < 0)
        return false;
    bool loopback = all_loopback(list);
    freeaddrinfo(list);
    return loopback;
}

/* -1 and errno. */
static int listen_on(const struct addrinfo *one)
{
    int fd = socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    const int yes = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, one->ai_addr, one->ai_addrlen) == 0 && listen(fd, ENDPOINT_BACKLOG) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* -1 and errno; of several addresses the first that can be had. */
static int listen_on_any(const struct addrinfo *list)
{
    const int64_t until_ms = clock_monotonic_ms() + ENDPOINT_TAKEN_MS;
    for (;;) {
        int fd = -1;
        for (const struct addrinfo *one = list; one && fd < 0; one = one->ai_next)
            fd = listen_on(one);
        if (fd >= 0 || errno != EADDRINUSE || clock_monotonic_ms() >= until_ms)
            return fd;
        (void)poll(NULL, 0, ENDPOINT_TAKEN_LOOK_MS);
    }
}

int endpoint_listen(const char *address, bool loopback_only, int *ret_fd, struct redrive_err *err)
{
    struct addrinfo *list;
    int rc = resolve(address, &list, err);
    if (rc < 0)
        return rc;
    if (loopback_only && !all_loopback(list)) {
        freeaddrinfo(list);
        err_set(err, REDRIVE_E_DENIED, "will not listen on %s", address);
        err_detail(err, "without tokens only loopback addresses are served");
        err_hint(err, "add tokens, or listen on 127.0.0.1");
        return REDRIVE_E_DENIED;
    }
    int fd = listen_on_any(list);
    int reason = errno;
    freeaddrinfo(list);
    if (fd < 0) {
        err_set(err, REDRIVE_E_IO, "cannot listen on %s", address);
        err_detail(err, "%s", strerror(reason));
        if (reason == EADDRINUSE)
            err_hint(err, "another program has this port; stop it, or choose another port");
        return REDRIVE_E_IO;
    }
    *ret_fd = fd;
    return 0;
}

uint16_t endpoint_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        return 0;
    if (address.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)(const void *)&address)->sin_port);
    if (address.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)(const void *)&address)->sin6_port);
    return 0;
}
