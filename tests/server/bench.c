#include "bench.h"

#include "base/text/buf.h"

static void ended(struct http_request *request, void *ctx)
{
    struct bench *bench = ctx;
    (void)request;
    bench->n_ended++;
}

static bool add_param(struct str name, struct str value, void *ctx)
{
    buf_printf(ctx, " %.*s=[%.*s]", (int)name.len, name.ptr, (int)value.len, value.ptr);
    return true;
}

static void echo(struct http_request *request)
{
    static const struct http_header HEADER = {"X-Bench", "yes"};
    struct buf out;
    buf_init(&out, 64u * 1024 * 1024);
    buf_printf(&out, "%s %.*s", http_method_name(http_method(request)), (int)http_path(request).len,
               http_path(request).ptr);
    http_each_query(request, add_param, &out);
    buf_puts(&out, "\n");
    buf_add_str(&out, http_body(request));
    http_reply(request, 200, "text/plain", buf_str(&out), &HEADER, 1);
    buf_release(&out);
}

static void handle(struct http_request *request, void *ctx)
{
    struct bench *bench = ctx;
    struct str path = http_path(request);
    bench->n_requests++;
    bench->is_busy = bench->is_held;
    HOLD_UNTIL(!bench->is_held);
    if (str_is(path, "/later") || str_is(path, "/watched")) {
        if (str_is(path, "/watched"))
            http_on_end(request, ended, bench);
        pthread_mutex_lock(&bench->lock);
        bench->kept[bench->n_kept] = request;
        bench->n_kept++;
        pthread_mutex_unlock(&bench->lock);
    } else if (str_is(path, "/stream")) {
        http_on_end(request, ended, bench);
        struct http_stream *stream = http_stream_open(request, 200, "text/event-stream");
        pthread_mutex_lock(&bench->lock);
        bench->stream = stream;
        pthread_mutex_unlock(&bench->lock);
    } else {
        echo(request);
    }
}

void bench_start(struct bench *bench, struct http_server_options options)
{
    struct redrive_err err = {0};
    *bench = (struct bench){0};
    pthread_mutex_init(&bench->lock, NULL);
    options.address = "127.0.0.1:0";
    options.handler = handle;
    options.ctx = bench;
    if (http_server_start(&options, &bench->server, &err) != 0)
        fail_msg("%s: %s", err.message, err.detail);
    bench->port = http_server_port(bench->server);
}

void bench_stop(struct bench *bench)
{
    http_server_stop(bench->server);
    bench->server = NULL;
    pthread_mutex_destroy(&bench->lock);
}

void bench_wait_requests(struct bench *bench, unsigned n)
{
    WAIT_FOR(bench->n_requests >= n);
}

void bench_wait_kept(struct bench *bench, unsigned n)
{
    WAIT_FOR(bench->n_kept >= n);
}

void bench_wait_ended(struct bench *bench, unsigned n)
{
    WAIT_FOR(bench->n_ended >= n);
}

unsigned bench_release(struct bench *bench)
{
    struct http_request *kept[64];
    unsigned given = 0;
    pthread_mutex_lock(&bench->lock);
    unsigned n = bench->n_kept;
    memcpy(kept, bench->kept, n * sizeof kept[0]);
    bench->n_kept = 0;
    pthread_mutex_unlock(&bench->lock);
    for (unsigned i = 0; i < n; i++)
        given += http_reply(kept[i], 200, "text/plain", STR("late"), NULL, 0);
    return given;
}

static struct http_stream *stream_of(struct bench *bench)
{
    pthread_mutex_lock(&bench->lock);
    struct http_stream *stream = bench->stream;
    pthread_mutex_unlock(&bench->lock);
    return stream;
}

struct http_stream *bench_wait_stream(struct bench *bench)
{
    WAIT_FOR(stream_of(bench));
    return stream_of(bench);
}
