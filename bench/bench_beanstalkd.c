/* bench_beanstalkd - lives a second through beanstalkd, with a client that pipelines.
 *
 * Starts a beanstalkd of its own on a free loopback port and ends it again. A life is put, reserve,
 * delete, with a payload of 100 bytes or of --payload. Each connection is a thread that keeps
 * `window` commands under way: it writes that many puts, reads their answers, then the same with
 * reserves and with deletes, so that the server never waits for the client's next command within a
 * window.
 *
 *     bench_beanstalkd sync|memory [--dir D] [--jobs N] [--seconds S] [--window N]
 *                      [--connections N] [--payload N]
 *
 * `sync`: a binlog in a folder below D, fsync after each write (-f0); a put that was answered
 * survives a power failure. `memory`: no binlog, nothing survives the process.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "connection.h"

#define WINDOW_MAX      1024
#define CONNECTIONS_MAX 64
#define PAYLOAD_MAX     (1024 * 1024)
#define JOB_MAX_TEXT    "1048576" /* the same, for the server */
#define LINE_MAX_LEN    64

struct options {
    bool sync;
    const char *dir;
    long jobs;
    double seconds;
    int window;
    int connections;
    int payload;
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_beanstalkd: %s\n", what);
    exit(1);
}

/* ---- The server ------------------------------------------------------------------------------ */

static pid_t server;
static char folder[512];

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        fail("no free port");
    close(fd);
    return ntohs(address.sin_port);
}

static void remove_folder(void)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    char path[1024];
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

static void end_server(void)
{
    if (server > 0) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    server = 0;
    if (folder[0])
        remove_folder();
}

static void start_server(const struct options *options, int port)
{
    char port_text[16];
    snprintf(port_text, sizeof port_text, "%d", port);
    if (options->sync) {
        snprintf(folder, sizeof folder, "%s/beanstalkd-bench-XXXXXX", options->dir);
        if (!mkdtemp(folder))
            fail("cannot make a folder for the binlog");
    }
    server = fork();
    if (server < 0)
        fail("fork");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (options->sync)
            execlp("beanstalkd", "beanstalkd", "-l", "127.0.0.1", "-p", port_text, "-b", folder,
                   "-f0", "-z", JOB_MAX_TEXT, (char *)NULL);
        else
            execlp("beanstalkd", "beanstalkd", "-l", "127.0.0.1", "-p", port_text, "-z",
                   JOB_MAX_TEXT, (char *)NULL);
        _exit(127);
    }
    atexit(end_server);
}

/* ---- A connection ---------------------------------------------------------------------------- */

static void connect_to(struct connection *c, int port)
{
    for (int i = 0; i < 500; i++) {
        if (connection_open(c, port))
            return;
        if (waitpid(server, NULL, WNOHANG) != 0) {
            server = 0;
            fail("beanstalkd does not start");
        }
        usleep(10000);
    }
    fail("beanstalkd does not answer");
}

static void skip(struct connection *c, size_t len)
{
    while (c->to - c->from < len) {
        len -= c->to - c->from;
        c->from = c->to;
        receive(c);
    }
    c->from += len;
}

/* ---- Lives ----------------------------------------------------------------------------------- */

struct race {
    const struct options *options;
    int port;
    int64_t end_ns;
    atomic_long left;
    atomic_long lives;
};

struct client {
    struct connection connection;
    unsigned payload;
    unsigned long long ids[WINDOW_MAX];
    char out[]; /* a window of puts */
};

static struct client *client_new(const struct options *options)
{
    const size_t puts = (size_t)options->window * ((size_t)options->payload + LINE_MAX_LEN);
    struct client *client = malloc(sizeof *client + puts);
    if (!client)
        fail("out of memory");
    client->payload = (unsigned)options->payload;
    return client;
}

static void put(struct client *client, int n)
{
    struct connection *c = &client->connection;
    size_t len = 0;
    for (int i = 0; i < n; i++) {
        len += (size_t)snprintf(client->out + len, LINE_MAX_LEN, "put 100 0 60 %u\r\n",
                                client->payload);
        memset(client->out + len, 'x', client->payload);
        memcpy(client->out + len + client->payload, "\r\n", 2);
        len += client->payload + 2;
    }
    send_all(c, client->out, len);
    for (int i = 0; i < n; i++)
        if (strncmp(read_line(c), "INSERTED ", 9) != 0)
            fail("a put was refused");
}

static void reserve(struct client *client, int n)
{
    struct connection *c = &client->connection;
    size_t len = 0;
    for (int i = 0; i < n; i++, len += 9)
        memcpy(client->out + len, "reserve\r\n", 9);
    send_all(c, client->out, len);
    for (int i = 0; i < n; i++) {
        unsigned bytes;
        if (sscanf(read_line(c), "RESERVED %llu %u", &client->ids[i], &bytes) != 2 ||
            bytes != client->payload)
            fail("a reserve was refused");
        skip(c, bytes + 2);
    }
}

static void delete_all(struct client *client, int n)
{
    struct connection *c = &client->connection;
    size_t len = 0;
    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(client->out + len, LINE_MAX_LEN, "delete %llu\r\n", client->ids[i]);
    send_all(c, client->out, len);
    for (int i = 0; i < n; i++)
        if (strcmp(read_line(c), "DELETED") != 0)
            fail("a delete was refused");
}

static void *live(void *arg)
{
    struct race *race = arg;
    struct client *client = client_new(race->options);
    connect_to(&client->connection, race->port);
    while (clock_monotonic_ns() < race->end_ns) {
        long left = atomic_fetch_sub(&race->left, race->options->window);
        if (left <= 0)
            break;
        int n = left < race->options->window ? (int)left : race->options->window;
        put(client, n);
        reserve(client, n);
        delete_all(client, n);
        atomic_fetch_add(&race->lives, n);
    }
    close(client->connection.fd);
    free(client);
    return NULL;
}

static double lives_per_s(const struct options *options, int port)
{
    pthread_t threads[CONNECTIONS_MAX];
    struct race race = {.options = options, .port = port};
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
    struct options o = {
        .dir = ".", .jobs = 100000, .seconds = 10, .window = 64, .connections = 1, .payload = 100};
    if (argc < 2 || (strcmp(argv[1], "sync") != 0 && strcmp(argv[1], "memory") != 0)) {
        fprintf(stderr, "usage: bench_beanstalkd sync|memory [--dir D] …\n");
        return 2;
    }
    o.sync = strcmp(argv[1], "sync") == 0;
    for (int i = 2; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--dir") == 0)
            o.dir = value;
        if (strcmp(name, "--jobs") == 0)
            o.jobs = number(value, 100000000);
        if (strcmp(name, "--seconds") == 0)
            o.seconds = strtod(value, NULL);
        if (strcmp(name, "--window") == 0)
            o.window = number(value, WINDOW_MAX);
        if (strcmp(name, "--connections") == 0)
            o.connections = number(value, CONNECTIONS_MAX);
        if (strcmp(name, "--payload") == 0)
            o.payload = number(value, PAYLOAD_MAX);
    }
    int port = free_port();
    start_server(&o, port);
    struct client *first = client_new(&o);
    connect_to(&first->connection, port);
    close(first->connection.fd);
    free(first);
    double rate = lives_per_s(&o, port);
    printf("{\"rows\":[\n{\"name\":\"beanstalkd.%s.lives\",\"value\":%.2f,\"unit\":\"1/s\","
           "\"durable\":%s}\n]}\n",
           o.sync ? "fsync" : "memory", rate, o.sync ? "true" : "false");
    return 0;
}
