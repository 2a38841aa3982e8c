/* bench_faktory - lives a second through a server that speaks the Faktory protocol.
 *
 * A life is PUSH, FETCH, ACK, with an argument of 100 bytes. Each connection is a thread that keeps
 * `window` commands under way: it writes that many PUSHes, reads their answers, then the same with
 * FETCHes and with ACKs, so that the server never waits for the client's next command within a
 * window. A FETCH gives one job, whoever pushed it: all connections share one queue.
 *
 *     bench_faktory NAME durable|volatile --port P [--jobs N] [--seconds S] [--window N]
 *                   [--connections N] [--bulk yes]
 *
 * `--bulk yes` sends the jobs of a window with one PUSHB. The server is somebody else's, on
 * loopback, without a password. NAME is that of the row; whether what was answered survives a power
 * failure depends on the server, so the caller has to say it.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/time/clock.h"
#include "connection.h"

#define WINDOW_MAX      1024
#define CONNECTIONS_MAX 64
#define PAYLOAD         100
#define JID_LEN         24
#define COMMAND_MAX_LEN (PAYLOAD + 128)

struct options {
    const char *name;
    bool durable;
    bool bulk;
    int port;
    long jobs;
    double seconds;
    int window;
    int connections;
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_faktory: %s\n", what);
    exit(1);
}

/* ---- A connection ---------------------------------------------------------------------------- */

/* A bulk answer, terminated; NULL when it is nil. It stays until the next read. */
static char *read_bulk(struct connection *c)
{
    const char *line = read_line(c);
    long len = line[0] == '$' ? atol(line + 1) : -2;
    if (len < -1 || len > (long)sizeof c->in - 2) {
        fprintf(stderr, "bench_faktory: unexpected answer: %.80s\n", line);
        exit(1);
    }
    if (len == -1)
        return NULL;
    while (c->to - c->from < (size_t)len + 2)
        receive(c);
    char *start = c->in + c->from;
    start[len] = '\0';
    c->from += (size_t)len + 2;
    return start;
}

static void expect_ok(struct connection *c)
{
    const char *line = read_line(c);
    if (strcmp(line, "+OK") == 0)
        return;
    fprintf(stderr, "bench_faktory: unexpected answer: %.80s\n", line);
    exit(1);
}

static void connect_to(struct connection *c, int port, int number)
{
    char hello[128];
    if (!connection_open(c, port))
        fail("the server does not answer");
    if (strncmp(read_line(c), "+HI ", 4) != 0)
        fail("the server does not speak Faktory");
    int len = snprintf(hello, sizeof hello,
                       "HELLO {\"v\":2,\"hostname\":\"bench\",\"wid\":\"bench-%d\",\"pid\":%d,"
                       "\"labels\":[]}\r\n",
                       number, (int)getpid());
    send_all(c, hello, (size_t)len);
    expect_ok(c);
}

/* ---- Lives ----------------------------------------------------------------------------------- */

struct race {
    const struct options *options;
    int64_t end_ns;
    atomic_long left;
    atomic_long lives;
    atomic_int n_clients;
};

struct client {
    struct connection connection;
    struct rng rng;
    char jids[WINDOW_MAX][JID_LEN + 1];
    char out[WINDOW_MAX * COMMAND_MAX_LEN];
};

/* With a jid as clients make them. */
static size_t write_job(struct client *client, char *to)
{
    int len = snprintf(to, COMMAND_MAX_LEN,
                       "{\"jid\":\"%016" PRIx64 "%08" PRIx64 "\",\"queue\":\"bench\","
                       "\"jobtype\":\"bench\",\"args\":[\"",
                       rng_next(&client->rng), rng_next(&client->rng) >> 32);
    memset(to + len, 'x', PAYLOAD);
    memcpy(to + len + PAYLOAD, "\"]}", 3);
    return (size_t)len + PAYLOAD + 3;
}

static void push(struct client *client, int n)
{
    struct connection *c = &client->connection;
    size_t len = 0;
    for (int i = 0; i < n; i++) {
        memcpy(client->out + len, "PUSH ", 5);
        len += 5;
        len += write_job(client, client->out + len);
        memcpy(client->out + len, "\r\n", 2);
        len += 2;
    }
    send_all(c, client->out, len);
    for (int i = 0; i < n; i++)
        expect_ok(c);
}

static void push_bulk(struct client *client, int n)
{
    struct connection *c = &client->connection;
    size_t len = 6;
    memcpy(client->out, "PUSHB ", 6);
    for (int i = 0; i < n; i++) {
        client->out[len++] = i == 0 ? '[' : ',';
        len += write_job(client, client->out + len);
    }
    memcpy(client->out + len, "]\r\n", 3);
    send_all(c, client->out, len + 3);
    const char *refused = read_bulk(c);
    if (!refused || strcmp(refused, "{}") != 0)
        fail("jobs of a PUSHB were refused");
}

/* There are at least as many jobs as are asked for, but a server may be late to say so. */
static void fetch(struct client *client, int n)
{
    struct connection *c = &client->connection;
    for (int got = 0, asked = 0; got < n;) {
        size_t len = 0;
        for (asked = n - got; asked > 0; asked--) {
            memcpy(client->out + len, "FETCH bench\r\n", 13);
            len += 13;
        }
        send_all(c, client->out, len);
        for (asked = n - got; asked > 0; asked--) {
            const char *job = read_bulk(c);
            const char *jid = job ? strstr(job, "\"jid\":\"") : NULL;
            if (job && !jid)
                fail("a job without a jid was fetched");
            if (jid)
                memcpy(client->jids[got++], jid + 7, JID_LEN);
        }
    }
}

static void acknowledge(struct client *client, int n)
{
    struct connection *c = &client->connection;
    size_t len = 0;
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(client->out + len, COMMAND_MAX_LEN, "ACK {\"jid\":\"%s\"}\r\n",
                                client->jids[i]);
    send_all(c, client->out, len);
    for (int i = 0; i < n; i++)
        expect_ok(c);
}

static void *live(void *arg)
{
    struct race *race = arg;
    const struct options *o = race->options;
    struct client *client = calloc(1, sizeof *client);
    if (!client)
        fail("out of memory");
    rng_seed(&client->rng, rng_system_seed());
    connect_to(&client->connection, o->port, atomic_fetch_add(&race->n_clients, 1));
    while (clock_monotonic_ns() < race->end_ns) {
        long left = atomic_fetch_sub(&race->left, o->window);
        if (left <= 0)
            break;
        int n = left < o->window ? (int)left : o->window;
        if (o->bulk)
            push_bulk(client, n);
        else
            push(client, n);
        fetch(client, n);
        acknowledge(client, n);
        atomic_fetch_add(&race->lives, n);
    }
    close(client->connection.fd);
    free(client);
    return NULL;
}

static double lives_per_s(const struct options *options)
{
    pthread_t threads[CONNECTIONS_MAX];
    struct race race = {.options = options};
    int64_t start_ns = clock_monotonic_ns();
    race.end_ns = start_ns + (int64_t)(options->seconds * 1e9);
    atomic_init(&race.left, options->jobs);
    for (int i = 0; i < options->connections; i++)
        if (pthread_create(&threads[i], NULL, live, &race) != 0)
            fail("no thread");
    for (int i = 0; i < options->connections; i++)
        pthread_join(threads[i], NULL);
    return (double)atomic_load(&race.lives) / ((double)(clock_monotonic_ns() - start_ns) / 1e9);
}

static int number(const char *text, int max)
{
    int n = atoi(text);
    return n < 1 ? 1 : n > max ? max : n;
}

int main(int argc, char **argv)
{
    struct options o = {.jobs = 100000, .seconds = 10, .window = 64, .connections = 1};
    if (argc < 3 || (strcmp(argv[2], "durable") != 0 && strcmp(argv[2], "volatile") != 0)) {
        fprintf(stderr, "usage: bench_faktory NAME durable|volatile --port P …\n");
        return 2;
    }
    o.name = argv[1];
    o.durable = strcmp(argv[2], "durable") == 0;
    for (int i = 3; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--port") == 0)
            o.port = number(value, 65535);
        if (strcmp(name, "--jobs") == 0)
            o.jobs = number(value, 100000000);
        if (strcmp(name, "--seconds") == 0)
            o.seconds = strtod(value, NULL);
        if (strcmp(name, "--window") == 0)
            o.window = number(value, WINDOW_MAX);
        if (strcmp(name, "--connections") == 0)
            o.connections = number(value, CONNECTIONS_MAX);
        if (strcmp(name, "--bulk") == 0)
            o.bulk = strcmp(value, "yes") == 0;
    }
    double rate = lives_per_s(&o);
    printf("{\"rows\":[\n{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"1/s\","
           "\"durable\":%s}\n]}\n",
           o.name, rate, o.durable ? "true" : "false");
    return 0;
}
