/* What a client that does everything right gets. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/http/private.h"

BENCH_TEST(one_connection_serves_many_requests, (struct http_server_options){0})
{
    struct client client;
    client_connect(&client, bench->port);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(client_get(&client, "/echo"), 200);
        check_str(buf_str(&client.body), "GET /echo\n");
    }
    client_close(&client);
}

BENCH_TEST(pipelined_requests_are_answered_in_order, (struct http_server_options){0})
{
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
                        "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
                        "GET /later HTTP/1.1\r\nHost: x\r\n\r\n"
                        "GET /c HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "GET /a\n");
    assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "POST /b\nhello");
    bench_wait_kept(bench, 1);
    bench_release(bench);
    assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "late");
    assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "GET /c\n");
    client_close(&client);
}

/* Libraries take what has happened in groups; 128 are a full one. The server is kept busy with one
 * request until all the others are there. */
TEST(a_full_group_of_connections_is_answered)
{
    enum {
        GROUP = 128
    };
    struct bench bench;
    struct client first;
    struct client *clients = calloc(GROUP, sizeof *clients);
    assert_non_null(clients);
    bench_start(&bench, (struct http_server_options){0});
    client_connect(&first, bench.port);
    assert_int_equal(client_get(&first, "/echo"), 200);
    for (int i = 0; i < GROUP; i++) {
        client_connect(&clients[i], bench.port);
        assert_int_equal(client_get(&clients[i], "/echo"), 200);
    }
    bench.is_held = true;
    client_say(&first, "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    WAIT_FOR(bench.is_busy);
    for (int i = 0; i < GROUP; i++)
        client_say(&clients[i], "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    bench.is_held = false;
    for (int i = 0; i < GROUP; i++) {
        assert_int_equal(client_read(&clients[i], false), 200);
        client_close(&clients[i]);
    }
    client_close(&first);
    bench_stop(&bench);
    free(clients);
}

BENCH_TEST(chunked_bodies_are_put_together, (struct http_server_options){0})
{
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "5\r\nhello\r\n7;note=1\r\n, world\r\n0\r\nX-Trailer: 1\r\n\r\n"
                        "GET /next HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "POST /echo\nhello, world");
    assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "GET /next\n");
    client_close(&client);
}

BENCH_TEST(a_body_may_hold_any_bytes, (struct http_server_options){0})
{
    static const char BYTES[] = "a\0b\r\n\r\nGET / HTTP/1.1\r\n\r\n\xff";
    struct client client;
    char head[100];
    client_connect(&client, bench->port);
    snprintf(head, sizeof head, "PUT /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
             sizeof BYTES);
    client_say(&client, head);
    client_send(&client, BYTES, sizeof BYTES);
    assert_int_equal(client_read(&client, false), 200);
    assert_int_equal(client.body.len, strlen("PUT /echo\n") + sizeof BYTES);
    assert_memory_equal(client.body.data + strlen("PUT /echo\n"), BYTES, sizeof BYTES);
    assert_int_equal(bench->n_requests, 1);
    client_close(&client);
}

BENCH_TEST(paths_and_parameters_are_decoded, (struct http_server_options){0})
{
    struct client client;
    client_connect(&client, bench->port);
    assert_int_equal(client_get(&client, "/a%20b%2Fc+d?x=1%262&y=a+b&flag&x=3&%C3%A4="), 200);
    check_str(buf_str(&client.body), "GET /a b/c+d x=[1&2] y=[a b] flag=[] x=[3] \xC3\xA4=[]\n");
    assert_int_equal(client_get(&client, "http://other/path?q"), 200);
    check_str(buf_str(&client.body), "GET /path q=[]\n");
    client_close(&client);
}

/* In pieces, so that the buffers of the library have to grow on the way. */
BENCH_TEST(a_long_head_in_pieces_is_taken, (struct http_server_options){0})
{
    struct client client;
    struct buf text;
    client_connect(&client, bench->port);
    buf_init(&text, 1u << 20);
    for (int round = 0; round < 3; round++) {
        buf_printf(&text, "GET /echo?a=1&b=%d HTTP/1.1\r\nHost:x\r\nEmpty:\r\nCookie: a=b; c=d\r\n",
                   round);
        for (int i = 0; i < 60; i++)
            buf_printf(&text, "X-Header-%d: \t %0*d  \r\n", i, 100 + i, i);
        buf_puts(&text, "\r\n");
    }
    for (size_t at = 0; at < text.len; at += 777)
        client_send(&client, text.data + at, text.len - at < 777 ? text.len - at : 777);
    for (int round = 0; round < 3; round++)
        assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "GET /echo a=[1] b=[2]\n");
    buf_release(&text);
    client_close(&client);
}

BENCH_TEST(head_gets_the_headers_of_get, (struct http_server_options){0})
{
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, "HEAD /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(client_read(&client, true), 200);
    check_str(client_header(&client, "Content-Length"), "11");
    assert_int_equal(client_get(&client, "/echo"), 200);
    client_close(&client);
}

BENCH_TEST(every_answer_has_security_headers, (struct http_server_options){0})
{
    struct client client;
    client_connect(&client, bench->port);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(client_get(&client, i ? "/%zz" : "/echo"), i ? 400 : 200);
        check_str(client_header(&client, "X-Content-Type-Options"), "nosniff");
        check_str(client_header(&client, "Cache-Control"), "no-store");
        assert_non_null(client_header(&client, "Content-Security-Policy").ptr);
    }
    client_close(&client);
}

BENCH_TEST(a_client_that_expects_100_gets_it, (struct http_server_options){.max_body_bytes = 100})
{
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                        "Expect: 100-continue\r\n\r\n");
    assert_true(client_wait_text(&client, "100 Continue"));
    client_say(&client, "ok");
    assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "POST /echo\nok");
    client_say(&client, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n"
                        "Expect: 100-continue\r\n\r\n");
    assert_true(client_wait_text(&client, "\r\n\r\n"));
    assert_null(strstr(buf_cstr(&client.in), "100 Continue"));
    assert_int_equal(client_read(&client, false), 413);
    client_wait_close(&client);
    client_close(&client);
}

/* Lets nobody into /closed, and no body into /empty. */
static enum http_admission admit(struct http_request *request, void *ctx)
{
    (void)ctx;
    assert_int_equal(http_body(request).len, 0);
    if (str_is(http_path(request), "/empty"))
        return HTTP_ADMIT_NO_BODY;
    if (!str_is(http_path(request), "/closed"))
        return HTTP_ADMIT;
    http_reply(request, 403, "text/plain", STR("closed"), NULL, 0);
    return HTTP_ANSWERED;
}

BENCH_TEST(a_request_is_refused_by_its_head,
           (struct http_server_options){.admit = admit, .max_body_bytes = 100})
{
    static const char CHUNKS[] = "4\r\nbody\r\n0\r\n\r\n";
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, "POST /closed HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody");
    assert_int_equal(client_read(&client, false), 403);
    client_say(&client, "PATCH /closed HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    client_say(&client, CHUNKS);
    assert_int_equal(client_read(&client, false), 403);
    assert_int_equal(client_get(&client, "/closed"), 403);
    assert_int_equal(bench->n_requests, 0);
    client_say(&client, "POST /empty HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody");
    assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "POST /empty\n");
    client_say(&client, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody");
    assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "POST /echo\nbody");
    client_close(&client);
}

BENCH_TEST(a_client_that_asks_first_is_refused_at_once,
           (struct http_server_options){.admit = admit})
{
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, "PUT /closed HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"
                        "Expect: 100-continue\r\n\r\n");
    assert_int_equal(client_read(&client, false), 403);
    client_wait_close(&client);
    client_close(&client);
}

#define LARGE_BYTES 90000

static void send_body(struct client *client, const char *path, int n_bytes)
{
    static char body[LARGE_BYTES];
    char head[128];
    memset(body, 'b', sizeof body);
    (void)snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
                   path, n_bytes);
    client_say(client, head);
    client_send(client, body, (size_t)n_bytes);
}

static int post_large(struct client *client, const char *path, bool waits)
{
    send_body(client, path, LARGE_BYTES);
    return waits ? client_read(client, false) : 0;
}

BENCH_TEST(bodies_of_all_clients_are_bounded,
           (struct http_server_options){.max_bodies_bytes = 2 * LARGE_BYTES})
{
    struct client first, second;
    client_connect(&first, bench->port);
    post_large(&first, "/later", false);
    bench_wait_kept(bench, 1);
    client_connect(&second, bench->port);
    assert_int_equal(post_large(&second, "/echo", true), 503);
    check_str(client_header(&second, "Retry-After"), "1");
    client_wait_close(&second);
    client_close(&second);
    client_connect(&second, bench->port);
    client_say(&second, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok");
    assert_int_equal(client_read(&second, false), 200);
    assert_int_equal(bench_release(bench), 1);
    assert_int_equal(client_read(&first, false), 200);
    /* On the same connection the former body has gone for sure. */
    assert_int_equal(post_large(&first, "/echo", true), 200);
    client_close(&first);
    client_close(&second);
}

static void send_chunk(struct client *client, const char *path, int n_bytes)
{
    static char body[LARGE_BYTES];
    char head[128];
    memset(body, 'b', sizeof body);
    (void)snprintf(head, sizeof head,
                   "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", path,
                   (unsigned)n_bytes);
    client_say(client, head);
    client_send(client, body, (size_t)n_bytes);
    client_say(client, "\r\n0\r\n\r\n");
}

/* The first body takes most of the room, and another one of 16 KiB has twice that set aside. */
BENCH_TEST(a_body_of_16_kib_is_small, (struct http_server_options){.max_bodies_bytes = 140000})
{
    struct client first, second;
    client_connect(&first, bench->port);
    post_large(&first, "/later", false);
    bench_wait_kept(bench, 1);
    client_connect(&second, bench->port);
    send_body(&second, "/echo", 16384);
    assert_int_equal(client_read(&second, false), 200);
    send_chunk(&second, "/echo", 16384);
    assert_int_equal(client_read(&second, false), 200);
    send_body(&second, "/echo", 16385);
    assert_int_equal(client_read(&second, false), 503);
    client_close(&second);
    client_connect(&second, bench->port);
    send_chunk(&second, "/echo", 16385);
    assert_int_equal(client_read(&second, false), 503);
    client_close(&second);
    assert_int_equal(bench_release(bench), 1);
    assert_int_equal(client_read(&first, false), 200);
    client_close(&first);
}

BENCH_TEST(answers_come_from_any_thread, (struct http_server_options){0})
{
    struct client clients[8];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 8; i++) {
            if (round == 0)
                client_connect(&clients[i], bench->port);
            client_say(&clients[i], "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        bench_wait_kept(bench, 8);
        bench_release(bench);
        for (int i = 0; i < 8; i++)
            assert_int_equal(client_read(&clients[i], false), 200);
    }
    for (int i = 0; i < 8; i++)
        client_close(&clients[i]);
}

BENCH_TEST(an_answer_to_a_client_that_has_gone_goes_nowhere, (struct http_server_options){0})
{
    struct client gone, other;
    client_connect(&gone, bench->port);
    client_say(&gone, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    bench_wait_kept(bench, 1);
    client_close(&gone);
    bench_release(bench);
    client_connect(&other, bench->port);
    assert_int_equal(client_get(&other, "/echo"), 200);
    client_close(&other);
}

BENCH_TEST(who_waits_learns_that_the_client_has_gone, (struct http_server_options){0})
{
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, "GET /watched HTTP/1.1\r\nHost: x\r\n\r\n");
    bench_wait_kept(bench, 1);
    assert_false(http_gone(bench->kept[0]));
    client_close(&client);
    bench_wait_ended(bench, 1);
    assert_true(http_gone(bench->kept[0]));
    check_str(http_path(bench->kept[0]), "/watched");
    bench_release(bench);
}

/* A stop would wait a second for its answer, however long ago that was. */
BENCH_TEST(a_client_that_has_gone_is_owed_no_answer, (struct http_server_options){0})
{
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, "GET /watched HTTP/1.1\r\nHost: x\r\n\r\n");
    bench_wait_kept(bench, 1);
    client_close(&client);
    bench_wait_ended(bench, 1);
    pthread_mutex_lock(&bench->server->lock);
    const unsigned n_unanswered = bench->server->n_unanswered;
    pthread_mutex_unlock(&bench->server->lock);
    assert_int_equal(n_unanswered, 0);
    bench_release(bench);
}

TEST(the_end_of_an_answered_request_is_told_once)
{
    struct bench bench;
    struct client client;
    bench_start(&bench, (struct http_server_options){0});
    client_connect(&client, bench.port);
    client_say(&client, "GET /watched HTTP/1.1\r\nHost: x\r\n\r\n");
    bench_wait_kept(&bench, 1);
    bench_release(&bench);
    assert_int_equal(client_read(&client, false), 200);
    bench_wait_ended(&bench, 1);
    client_close(&client);
    bench_stop(&bench);
    assert_int_equal(bench.n_ended, 1);
}
