/* socket.c - the time that is left after a signal. */
#include "store/redis/net/socket.h"

#include <errno.h>
#include <poll.h>

#include "base/time/clock.h"

void rd_socket_set_limit(int fd, int64_t limit_ms)
{
    const struct timeval limit = {.tv_sec = limit_ms / 1000, .tv_usec = limit_ms % 1000 * 1000};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* For poll; -1: no limit. */
static int left_of(int fd, int limit_option, int64_t began_ms)
{
    struct timeval limit = {0};
    socklen_t size = sizeof limit;
    (void)getsockopt(fd, SOL_SOCKET, limit_option, &limit, &size);
    const int64_t limit_ms = (int64_t)limit.tv_sec * 1000 + limit.tv_usec / 1000;
    const int64_t left_ms = limit_ms - (clock_monotonic_ms() - began_ms);
    return limit_ms == 0 ? -1 : left_ms > 0 ? (int)left_ms : 0;
}

/* Whether a call that was interrupted can be made again; if it cannot, errno says why. */
static bool is_ready_again(int fd, short event, int limit_option, int64_t began_ms)
{
    struct pollfd socket = {.fd = fd, .events = event};
    int n;
    do
        n = poll(&socket, 1, left_of(fd, limit_option, began_ms));
    while (n < 0 && errno == EINTR);
    if (n == 0)
        errno = EAGAIN;
    return n > 0;
}

ssize_t rd_socket_receive(int fd, void *ret, size_t size, bool waits)
{
    const int64_t began_ms = clock_monotonic_ms();
    ssize_t n;
    do
        n = recv(fd, ret, size, waits ? 0 : MSG_DONTWAIT);
    while (n < 0 && errno == EINTR && is_ready_again(fd, POLLIN, SO_RCVTIMEO, began_ms));
    return n;
}

ssize_t rd_socket_send(int fd, const struct msghdr *message, bool waits)
{
    const int64_t began_ms = clock_monotonic_ms();
    ssize_t n;
    do
        n = sendmsg(fd, message, MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT));
    while (n < 0 && errno == EINTR && is_ready_again(fd, POLLOUT, SO_SNDTIMEO, began_ms));
    return n;
}
