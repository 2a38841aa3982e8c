/* unix_socket.c - opens and removes Unix sockets. */
#include "server/listen/unix_socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text/str.h"
#include "base/time/clock.h"
#include "server/listen/endpoint.h"

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
