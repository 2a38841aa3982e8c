/* Answers that go on, and how a server stops. */
#include "bench.h"

#include <stdlib.h>
#include <unistd.h>

static struct http_stream *open_stream(struct bench *bench, struct client *client,
                                       const char *version)
{
    client_connect(client, bench->port);
    client_say(client, "GET /stream HTTP/");
    client_say(client, version);
    client_say(client, "\r\nHost: x\r\n\r\n");
    return bench_wait_stream(bench);
}

BENCH_TEST(what_is_written_arrives_at_once, (struct http_server_options){0})
{
    struct client client;
    struct http_stream *stream = open_stream(bench, &client, "1.1");
    assert_true(client_wait_text(&client, "\r\n\r\n"));
    assert_non_null(strstr(client.in.data, "text/event-stream"));
    for (int i = 0; i < 3; i++) {
        assert_true(http_stream_write(stream, STR("data: tick\n\n")));
        assert_true(client_wait_text(&client, "data: tick\n\n\r\n"));
        buf_reset(&client.in);
    }
    http_stream_close(stream);
    assert_true(client_wait_text(&client, "0\r\n\r\n"));
    buf_reset(&client.in);
    assert_int_equal(client_get(&client, "/echo"), 200);
    bench_wait_ended(bench, 1);
    client_close(&client);
}

TEST(everything_written_before_the_close_is_sent)
{
    static char text[100000];
    struct bench bench;
    struct client client;
    memset(text, 'x', sizeof text);
    bench_start(&bench, (struct http_server_options){0});
    struct http_stream *stream = open_stream(&bench, &client, "1.1");
    for (int i = 0; i < 5; i++)
        assert_true(http_stream_write(stream, (struct str){text, sizeof text}));
    http_stream_close(stream);
    assert_int_equal(client_read(&client, false), 200);
    assert_int_equal(client.body.len, 5 * sizeof text);
    client_close(&client);
    bench_stop(&bench);
}

BENCH_TEST(an_old_client_gets_a_stream_without_chunks, (struct http_server_options){0})
{
    struct client client;
    struct http_stream *stream = open_stream(bench, &client, "1.0");
    assert_true(http_stream_write(stream, STR("hello")));
    http_stream_close(stream);
    client_wait_close(&client);
    assert_non_null(strstr(client.in.data, "\r\n\r\nhello"));
    client_close(&client);
}

BENCH_TEST(a_reader_that_does_not_read_is_closed,
           (struct http_server_options){.stream_max_bytes = 100000})
{
    static char text[65536];
    struct client client;
    struct http_stream *stream = open_stream(bench, &client, "1.1");
    WAIT_FOR(!http_stream_write(stream, (struct str){text, sizeof text}));
    bench_wait_ended(bench, 1);
    http_stream_close(stream);
    client_wait_close(&client);
    client_close(&client);
}

BENCH_TEST(a_reader_that_has_gone_is_noticed, (struct http_server_options){0})
{
    struct client client;
    struct http_stream *stream = open_stream(bench, &client, "1.1");
    assert_true(client_wait_text(&client, "\r\n\r\n"));
    client_close(&client);
    bench_wait_ended(bench, 1);
    assert_false(http_stream_write(stream, STR("x")));
    http_stream_close(stream);
}

BENCH_TEST(head_of_a_stream_is_only_its_head, (struct http_server_options){0})
{
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, "HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(client_read(&client, true), 200);
    http_stream_close(bench_wait_stream(bench));
    client_wait_close(&client);
    assert_int_equal(client.in.len, 0);
    client_close(&client);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

BENCH_TEST(a_stop_answers_what_is_in_hand, (struct http_server_options){0})
{
    struct client waiting[3], reader;
    for (int i = 0; i < 3; i++) {
        client_connect(&waiting[i], bench->port);
        client_say(&waiting[i], i ? "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"
                                  : "GET /watched HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    bench_wait_kept(bench, 3);
    struct http_stream *stream = open_stream(bench, &reader, "1.1");
    assert_true(http_stream_write(stream, STR("last words")));
    http_server_stop(bench->server);
    bench->server = NULL;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(client_read(&waiting[i], false), 503);
        check_str(client_header(&waiting[i], "Connection"), "close");
        client_wait_close(&waiting[i]);
        client_close(&waiting[i]);
    }
    assert_int_equal(client_read(&reader, false), 200);
    check_str(buf_str(&reader.body), "last words");
    client_close(&reader);
    assert_int_equal(bench->n_ended, 2);
    /* The handler's side, late. */
    assert_false(http_stream_write(stream, STR("x")));
    http_stream_close(stream);
    check_str(http_path(bench->kept[1]), "/later");
    assert_int_equal(bench_release(bench), 0);
}

BENCH_TEST(a_quiet_server_finishes_and_takes_no_more, (struct http_server_options){0})
{
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    bench_wait_kept(bench, 1);
    http_server_quiesce(bench->server);
    http_server_quiesce(bench->server);
    assert_int_equal(bench_release(bench), 1);
    assert_int_equal(client_read(&client, false), 200);
    check_str(client_header(&client, "Connection"), "close");
    client_wait_close(&client);
    client_close(&client);
    assert_int_equal(client_try_connect(bench->port), -1);
}

struct visitor {
    uint16_t port;
    atomic_int n_served;
};

static void *connect_on_and_on(void *ctx)
{
    struct visitor *visitor = ctx;
    int fd;
    while ((fd = client_try_connect(visitor->port)) >= 0) {
        close(fd);
        visitor->n_served++;
    }
    return NULL;
}

TEST(clients_may_race_with_a_quiesce)
{
    for (int round = 0; round < 20; round++) {
        struct bench bench;
        pthread_t thread;
        bench_start(&bench, (struct http_server_options){.max_connections = 2});
        struct visitor visitor = {.port = bench.port};
        assert_int_equal(pthread_create(&thread, NULL, connect_on_and_on, &visitor), 0);
        WAIT_FOR(visitor.n_served >= round);
        http_server_quiesce(bench.server);
        assert_int_equal(pthread_join(thread, NULL), 0);
        bench_stop(&bench);
    }
}

/* Answers race with the stop. */
static void *release_all(void *ctx)
{
    bench_release(ctx);
    return NULL;
}

TEST(answers_may_race_with_a_stop)
{
    for (int round = 0; round < 20; round++) {
        struct bench bench;
        struct client clients[8];
        pthread_t thread;
        bench_start(&bench, (struct http_server_options){0});
        for (int i = 0; i < 8; i++) {
            client_connect(&clients[i], bench.port);
            client_say(&clients[i], "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        bench_wait_kept(&bench, 8);
        assert_int_equal(pthread_create(&thread, NULL, release_all, &bench), 0);
        http_server_stop(bench.server);
        bench.server = NULL;
        pthread_join(thread, NULL);
        for (int i = 0; i < 8; i++) {
            int status = client_read(&clients[i], false);
            assert_true(status == 200 || status == 503);
            client_close(&clients[i]);
        }
        bench_stop(&bench);
    }
}

TEST(a_stop_does_not_wait_for_who_does_not_read)
{
    struct bench bench;
    struct client client;
    const struct http_server_options options = {.max_body_bytes = 64u << 20,
                                                .request_timeout_ms = 10 * WAIT_LIMIT_MS,
                                                .idle_timeout_ms = 10 * WAIT_LIMIT_MS};
    bench_start(&bench, options);
    client_connect(&client, bench.port);
    client_say(&client, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 33554432\r\n\r\n");
    char *body = calloc(1, 33554432);
    client_send(&client, body, 33554432);
    free(body);
    bench_wait_requests(&bench, 1);
    bench_stop(&bench); /* else it would outlast the time that Meson gives this test */
    client_close(&client);
}
