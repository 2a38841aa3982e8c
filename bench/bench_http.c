/* bench_http - clients of the HTTP interface that no ready-made load generator is.
 *
 *     bench_http paced NAME --port P --rate R --seconds S --connections N
 *     bench_http slow       --port P --connections N [--every S]
 *     bench_http polls      --port P --connections N
 *
 * `paced` submits jobs one by one at a steady rate, whatever the server does: a job's time counts
 * from the moment at which it was meant to be sent, so that waiting for a free connection is part
 * of it. Rows NAME.p50_ms, NAME.p99_ms and NAME.unanswered; a connection has one request under way.
 *
 * `slow` opens connections that begin a request and then send a byte of it every S seconds, never
 * to the end. `polls` opens connections that wait for work for a minute. Both print how many they
 * have as soon as they are there, and stay until their input ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/time/clock.h"

#define CONNECTIONS_MAX 256
#define PAYLOAD         100
#define ANSWER_MAX      4096

struct options {
    const char *name;
    int port;
    double rate;
    double seconds;
    double every_s;
    int connections;
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_http: %s\n", what);
    exit(1);
}

/* A connection; -1 and errno when there can be none. */
static int connect_to(int port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* ---- At a steady rate ------------------------------------------------------------------------ */

struct client {
    int fd;
    int64_t meant_ns; /* when its request was to be sent; 0: it has none */
    char in[ANSWER_MAX];
    size_t len;
};

struct pace {
    const struct options *options;
    struct client clients[CONNECTIONS_MAX];
    char request[PAYLOAD + 256];
    size_t request_len;
    int64_t start_ns;
    int64_t every_ns;
    long due, sent, answered; /* of them, in this order */
    long n;
    long unanswered; /* because the server has closed their connection */
    int64_t *took_ns;
};

static void make_request(struct pace *p)
{
    char body[PAYLOAD + 64];
    int len = snprintf(body, sizeof body, "{\"task\":\"bench\",\"payload\":\"%0*d\"}", PAYLOAD, 0);
    p->request_len = (size_t)snprintf(
        p->request, sizeof p->request,
        "POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len, body);
}

static int64_t meant_ns(const struct pace *p, long i)
{
    return p->start_ns + i * p->every_ns;
}

static void send_due(struct pace *p)
{
    int64_t now_ns = clock_monotonic_ns();
    while (p->due < p->n && meant_ns(p, p->due) <= now_ns)
        p->due++;
    for (int i = 0; i < p->options->connections && p->sent < p->due; i++) {
        struct client *c = &p->clients[i];
        if (c->meant_ns != 0)
            continue;
        if (write(c->fd, p->request, p->request_len) != (ssize_t)p->request_len)
            fail("a request was not taken");
        c->meant_ns = meant_ns(p, p->sent++);
    }
}

/* Whether the answer is whole. It is short and has a length. */
static bool is_whole(const struct client *c)
{
    const char *body = strstr(c->in, "\r\n\r\n");
    const char *length = strcasestr(c->in, "\r\ncontent-length:");
    if (!body || !length)
        return false;
    return c->in + c->len >= body + 4 + strtol(length + 17, NULL, 10);
}

static void finish(struct pace *p, struct client *c)
{
    p->took_ns[p->answered++] = clock_monotonic_ns() - c->meant_ns;
    c->meant_ns = 0;
    c->len = 0;
}

/* The request that it had counts as long as it has waited, and is told of. */
static void reconnect(struct pace *p, struct client *c)
{
    close(c->fd);
    c->fd = connect_to(p->options->port);
    if (c->fd < 0)
        fail("the server does not answer");
    if (c->meant_ns == 0)
        return;
    p->unanswered++;
    finish(p, c);
}

static void receive(struct pace *p, struct client *c)
{
    ssize_t n = read(c->fd, c->in + c->len, sizeof c->in - 1 - c->len);
    if (n <= 0) {
        reconnect(p, c);
        return;
    }
    c->len += (size_t)n;
    c->in[c->len] = '\0';
    if (!is_whole(c))
        return;
    if (strncmp(c->in, "HTTP/1.1 201", 12) != 0) {
        fprintf(stderr, "bench_http: a job was refused: %s\n", c->in);
        exit(1);
    }
    finish(p, c);
}

static void wait_for_something(struct pace *p)
{
    struct pollfd fds[CONNECTIONS_MAX];
    const int n = p->options->connections;
    int64_t left_ns = p->due < p->n ? meant_ns(p, p->due) - clock_monotonic_ns() : 1000000000;
    const struct timespec timeout = {.tv_sec = left_ns / 1000000000,
                                     .tv_nsec = left_ns % 1000000000};
    for (int i = 0; i < n; i++)
        fds[i] = (struct pollfd){.fd = p->clients[i].fd, .events = POLLIN};
    if (left_ns < 0 || ppoll(fds, (nfds_t)n, &timeout, NULL) <= 0)
        return;
    for (int i = 0; i < n; i++)
        if (fds[i].revents != 0)
            receive(p, &p->clients[i]);
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double percentile_ms(const struct pace *p, int percent)
{
    return (double)p->took_ns[(p->n - 1) * percent / 100] / 1e6;
}

static int run_paced(const struct options *o)
{
    struct pace *p = calloc(1, sizeof *p);
    if (!p || o->connections > CONNECTIONS_MAX)
        fail("too many connections");
    p->options = o;
    p->n = (long)(o->rate * o->seconds) + 1;
    p->every_ns = (int64_t)(1e9 / o->rate);
    p->took_ns = calloc((size_t)p->n, sizeof *p->took_ns);
    if (!p->took_ns)
        fail("out of memory");
    make_request(p);
    for (int i = 0; i < o->connections; i++)
        if ((p->clients[i].fd = connect_to(o->port)) < 0)
            fail("the server does not answer");
    p->start_ns = clock_monotonic_ns() + 50000000;
    while (p->answered < p->n) {
        wait_for_something(p);
        send_due(p);
    }
    qsort(p->took_ns, (size_t)p->n, sizeof *p->took_ns, by_size);
    printf("{\"rows\":[\n"
           "{\"name\":\"%s.p50_ms\",\"value\":%.3f,\"unit\":\"ms\",\"durable\":true},\n"
           "{\"name\":\"%s.p99_ms\",\"value\":%.3f,\"unit\":\"ms\",\"durable\":true},\n"
           "{\"name\":\"%s.unanswered\",\"value\":%ld,\"unit\":\"count\",\"durable\":null}"
           "\n]}\n",
           o->name, percentile_ms(p, 50), o->name, percentile_ms(p, 99), o->name, p->unanswered);
    free(p->took_ns);
    free(p);
    return 0;
}

/* ---- Many that do little --------------------------------------------------------------------- */

static bool input_has_ended(int wait_ms)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    return poll(&in, 1, wait_ms) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

/* As many connections as there can be, each of which has said `text`. */
static int open_many(const struct options *o, const char *text, int *ret_fds)
{
    int n = 0;
    while (n < o->connections) {
        int fd = connect_to(o->port);
        if (fd < 0)
            break;
        if (write(fd, text, strlen(text)) < 0)
            fail("write");
        ret_fds[n++] = fd;
    }
    return n;
}

/* Those that the server has not closed. */
static int count_open(const int *fds, int n)
{
    int open = 0;
    char byte;
    for (int i = 0; i < n; i++)
        open += recv(fds[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
    return open;
}

static void say_ready(const struct options *o, const int *fds, int n)
{
    usleep(500000); /* the server has its time to refuse some */
    printf("%d of %d\n", count_open(fds, n), o->connections);
    fflush(stdout);
}

/* The connections take turns, so that the bytes come evenly. */
static void drip(const struct options *o, const int *fds, int n)
{
    const double steps_per_s = 100;
    const int in_a_step = (int)(n / (o->every_s * steps_per_s)) + 1;
    for (int i = 0; !input_has_ended((int)(1000 / steps_per_s));)
        for (int k = 0; k < in_a_step && n > 0; k++, i = (i + 1) % n)
            (void)send(fds[i], "a", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int run_many(const struct options *o, bool are_slow)
{
    static const char POLL[] =
        "POST /claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 61\r\n\r\n"
        "{\"queues\": [\"nothing\"], \"n\": 1, \"worker\": \"idle\", \"wait\": 60}";
    int *fds = calloc((size_t)o->connections, sizeof *fds);
    if (!fds)
        fail("out of memory");
    int n =
        open_many(o, are_slow ? "POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: " : POLL, fds);
    say_ready(o, fds, n);
    if (are_slow)
        drip(o, fds, n);
    else
        while (!input_has_ended(1000))
            continue;
    printf("%d at the end\n", count_open(fds, n));
    free(fds);
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = {.rate = 100, .seconds = 1, .connections = 1, .every_s = 10};
    int first = 2;
    bool is_paced = argc > 2 && strcmp(argv[1], "paced") == 0;
    bool are_slow = argc > 1 && strcmp(argv[1], "slow") == 0;
    if (!is_paced && !are_slow && !(argc > 1 && strcmp(argv[1], "polls") == 0)) {
        fprintf(stderr, "usage: bench_http paced NAME|slow|polls --port P …\n");
        return 2;
    }
    if (is_paced)
        o.name = argv[first++];
    for (int i = first; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--port") == 0)
            o.port = atoi(value);
        if (strcmp(name, "--rate") == 0)
            o.rate = strtod(value, NULL);
        if (strcmp(name, "--seconds") == 0)
            o.seconds = strtod(value, NULL);
        if (strcmp(name, "--every") == 0)
            o.every_s = strtod(value, NULL);
        if (strcmp(name, "--connections") == 0)
            o.connections = atoi(value);
    }
    return is_paced ? run_paced(&o) : run_many(&o, are_slow);
}
