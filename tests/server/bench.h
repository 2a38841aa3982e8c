/* bench.h - a server on a free port of loopback whose handler a test can steer.
 *
 * Paths: /echo answers with what arrived; /later is kept until bench_release, or the time of its
 * `ms` parameter, and answered by another thread; /stream opens a stream, which the test writes;
 * /none does nothing but note. Everything that a test looks at is guarded by the lock, but for the
 * counters and flags.
 */
#ifndef TESTS_SERVER_BENCH_H
#define TESTS_SERVER_BENCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "client.h"
#include "server/http/server.h"

struct bench {
    struct http_server *server;
    uint16_t port;
    pthread_mutex_t lock;
    atomic_bool is_held;    /* each request waits until it is not, and the server with it */
    atomic_bool is_busy;    /* one does */
    atomic_uint n_requests; /* handed over */
    atomic_uint n_ended;    /* whose end was told */
    struct http_request *kept[64];
    atomic_uint n_kept;
    struct http_stream *stream;
};

/* Fills in handler and address. */
void bench_start(struct bench *bench, struct http_server_options options);
void bench_stop(struct bench *bench);

#define BENCH_TEST(test, ...) \
    TEST_OF(test, struct bench, bench, bench_start(bench, __VA_ARGS__), bench_stop(bench))
/* Waits until so many requests have been handed over, are kept, have ended. */
void bench_wait_requests(struct bench *bench, unsigned n);
void bench_wait_kept(struct bench *bench, unsigned n);
void bench_wait_ended(struct bench *bench, unsigned n);
/* Answers what is kept, from this thread; how many of these answers will be sent. */
unsigned bench_release(struct bench *bench);
struct http_stream *bench_wait_stream(struct bench *bench);

#endif
