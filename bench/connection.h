/* connection.h - a loopback connection that speaks in lines, for clients that pipeline.
 *
 * For programs of one file: whatever goes wrong ends the program.
 */
#ifndef BENCH_CONNECTION_H
#define BENCH_CONNECTION_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
    int fd;
    char in[131072];
    size_t from, to;
};

/* False: nobody listens there. */
static inline bool connection_open(struct connection *c, int port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int one = 1;
    c->from = c->to = 0;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(c->fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        close(c->fd);
        return false;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return true;
}

static inline void send_all(struct connection *c, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(c->fd, bytes, len);
        if (n <= 0) {
            fprintf(stderr, "the server does not read\n");
            exit(1);
        }
        bytes += n;
        len -= (size_t)n;
    }
}

static inline void receive(struct connection *c)
{
    if (c->from == c->to)
        c->from = c->to = 0;
    if (c->to == sizeof c->in) {
        memmove(c->in, c->in + c->from, c->to - c->from);
        c->to -= c->from;
        c->from = 0;
    }
    ssize_t n = read(c->fd, c->in + c->to, sizeof c->in - c->to);
    if (n <= 0) {
        fprintf(stderr, "the server has closed the connection\n");
        exit(1);
    }
    c->to += (size_t)n;
}

/* The next line without its end, terminated. */
static inline char *read_line(struct connection *c)
{
    for (;;) {
        char *start = c->in + c->from;
        char *end = memchr(start, '\n', c->to - c->from);
        if (end) {
            c->from = (size_t)(end - c->in) + 1;
            end[-1] = '\0';
            return start;
        }
        receive(c);
    }
}

#endif
