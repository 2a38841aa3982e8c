/* endpoint.c - parses addresses, opens listening sockets, counts connections by address. */
#include "server/listen/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/text/str.h"
#include "base/time/clock.h"

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
    if (rc == EAI_MEMORY)
        return err_nomem(err);
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

/* ---- Sockets in the file system -------------------------------------------------------------- */

static int open_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

bool unix_socket_is_address(const char *address)
{
    return address && str_starts_with(str_of(address), STR(UNIX_SOCKET_PREFIX));
}

static int read_path(const char *address, char *ret_path, size_t size, struct redrive_err *err)
{
    const struct str path = str_of(address + strlen(UNIX_SOCKET_PREFIX));
    if (path.len > 0 && str_copy(ret_path, size, path))
        return 0;
    err_set(err, REDRIVE_E_INVALID, "not an address to listen on: '%s'", address);
    err_detail(err, "expected unix: and a path of at most %zu bytes", size - 1);
    return REDRIVE_E_INVALID;
}

/* Whether the file is a socket at which no server answers; else errno says why it is in the way. */
static bool is_stale(const struct sockaddr_un *address)
{
    struct stat st;
    if (lstat(address->sun_path, &st) != 0)
        return false;
    if (!S_ISSOCK(st.st_mode)) {
        errno = EEXIST;
        return false;
    }
    const int fd = open_socket();
    if (fd < 0)
        return false;
    const bool answers = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 ||
                         errno != ECONNREFUSED;
    close(fd);
    errno = EADDRINUSE;
    return !answers;
}

/* -1 and errno. */
static int bind_and_listen(int fd, const struct sockaddr_un *address, mode_t mode)
{
    int rc = bind(fd, (const struct sockaddr *)address, sizeof *address);
    if (rc != 0 && errno == EADDRINUSE && is_stale(address) && unlink(address->sun_path) == 0)
        rc = bind(fd, (const struct sockaddr *)address, sizeof *address);
    if (rc != 0)
        return -1;
    /* No client can connect before it listens. */
    if (chmod(address->sun_path, mode) != 0)
        return -1;
    return listen(fd, ENDPOINT_BACKLOG);
}

static int refuse_to_listen(const char *address, int reason, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_IO, "cannot listen on %s", address);
    if (reason == EEXIST)
        err_detail(err, "there is a file that is not a socket");
    else
        err_detail(err, "%s", strerror(reason));
    if (reason == EADDRINUSE)
        err_hint(err, "another server answers there; stop it, or choose another path");
    else if (reason == ENOENT)
        err_hint(err, "make the directory first");
    return REDRIVE_E_IO;
}

int unix_socket_listen(const char *address, mode_t mode, struct unix_socket *ret,
                       struct redrive_err *err)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int64_t until_ms = clock_monotonic_ms() + ENDPOINT_TAKEN_MS;
    int rc = read_path(address, name.sun_path, sizeof name.sun_path, err);
    if (rc < 0)
        return rc;
    const int fd = open_socket();
    if (fd < 0)
        return refuse_to_listen(address, errno, err);
    while ((rc = bind_and_listen(fd, &name, mode)) != 0 && errno == EADDRINUSE &&
           clock_monotonic_ms() < until_ms)
        (void)poll(NULL, 0, ENDPOINT_TAKEN_LOOK_MS);
    if (rc != 0) {
        rc = refuse_to_listen(address, errno, err);
        close(fd);
        return rc;
    }
    memcpy(ret->path, name.sun_path, sizeof ret->path);
    ret->fd = fd;
    return 0;
}

void unix_socket_remove(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (str_copy(name.sun_path, sizeof name.sun_path, str_of(path)) && is_stale(&name))
        (void)unlink(path);
}

/* ---- Connections by address ------------------------------------------------------------------ */

/* Bytes of an address that count: all of IPv4, the first half of IPv6. */
#define KEY_MAX 8

void address_counts_init(struct address_counts *counts, unsigned max_per_address)
{
    map_init(&counts->counts, rng_system_seed());
    counts->max = max_per_address;
}

void address_counts_release(struct address_counts *counts)
{
    MAP_FOREACH (&counts->counts, slot)
        free(slot->value);
    map_release(&counts->counts);
}

unsigned address_counts_default(unsigned max_connections)
{
    return max_connections - max_connections / 4;
}

/* Of 4 bytes or 8; none: it is not counted. */
static struct str key_of(const struct sockaddr *address, char out[KEY_MAX])
{
    if (address && address->sa_family == AF_INET) {
        memcpy(out, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        return (struct str){out, 4};
    }
    if (address && address->sa_family == AF_INET6) {
        const struct in6_addr *in6 =
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        const bool is_v4 = IN6_IS_ADDR_V4MAPPED(in6);
        memcpy(out, in6->s6_addr + (is_v4 ? 12 : 0), is_v4 ? 4 : 8);
        return (struct str){out, is_v4 ? 4 : 8};
    }
    return (struct str){NULL, 0};
}

bool address_same(const struct sockaddr *a, const struct sockaddr *b)
{
    char left[KEY_MAX], right[KEY_MAX];
    const struct str key = key_of(a, left);
    return key.ptr && str_eq(key, key_of(b, right));
}

/* NULL: the address has no connection, or is not counted. */
static size_t *count_of(const struct address_counts *counts, struct str key)
{
    return key.ptr ? map_get(&counts->counts, key) : NULL;
}

bool address_counts_full(const struct address_counts *counts, const struct sockaddr *address)
{
    char bytes[KEY_MAX];
    const size_t *count = count_of(counts, key_of(address, bytes));
    return counts->max > 0 && count && *count >= counts->max;
}

void address_counts_enter(struct address_counts *counts, const struct sockaddr *address)
{
    char bytes[KEY_MAX];
    const struct str key = key_of(address, bytes);
    size_t *count = count_of(counts, key);
    if (count) {
        ++*count;
    } else if (key.ptr && (count = malloc(sizeof *count))) {
        *count = 1;
        if (map_put(&counts->counts, key, count) != 0)
            free(count);
    }
}

void address_counts_leave(struct address_counts *counts, const struct sockaddr *address)
{
    char bytes[KEY_MAX];
    const struct str key = key_of(address, bytes);
    size_t *count = count_of(counts, key);
    if (count && --*count == 0)
        free(map_remove(&counts->counts, key));
}

const char *address_text(const struct sockaddr *address, char out[ADDRESS_TEXT_MAX])
{
    const void *bytes = NULL;
    if (address && address->sa_family == AF_INET)
        bytes = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
    else if (address && address->sa_family == AF_INET6)
        bytes = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    if (!bytes || !inet_ntop(address->sa_family, bytes, out, ADDRESS_TEXT_MAX))
        (void)snprintf(out, ADDRESS_TEXT_MAX, "unix");
    return out;
}
