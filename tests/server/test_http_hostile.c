/* What strangers can do wrong with HTTP, and that it reaches nobody. */
#include "bench.h"

#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time/clock.h"

/* Connections beyond the limit, when all are at work. */
#define EXTRA 8

/* Where a request hides that must never be seen. */
#define SMUGGLED "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST     "POST /seen HTTP/1.1\r\nHost: x\r\n"

struct attack {
    const char *what;
    const char *bytes;
    size_t n;   /* 0: up to the terminator */
    int status; /* of our problem document; 0: closed without an answer; -1: either that or an
                 * answer of the library's own, which knows the request to be none */
};

#define BYTES(literal) literal, sizeof(literal) - 1

static const struct attack ATTACKS[] = {
    {"length and chunks",
     BYTES(POST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
    {"chunks and length",
     BYTES(POST "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
    {"two lengths", BYTES(POST "Content-Length: 0\r\nContent-Length: 35\r\n\r\n" SMUGGLED), 400},
    {"the same length twice", BYTES(POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"), 400},
    {"a list of lengths", BYTES(POST "Content-Length: 3, 3\r\n\r\nabc"), -1},
    {"a negative length", BYTES(POST "Content-Length: -3\r\n\r\nabc" SMUGGLED), -1},
    {"a signed length", BYTES(POST "Content-Length: +3\r\n\r\nabc" SMUGGLED), -1},
    {"a hexadecimal length", BYTES(POST "Content-Length: 0x3\r\n\r\nabc" SMUGGLED), -1},
    {"an empty length", BYTES(POST "Content-Length:\r\n\r\n" SMUGGLED), -1},
    {"a length with a space in it", BYTES(POST "Content-Length: 3 3\r\n\r\nabc" SMUGGLED), -1},
    {"a length beyond 64 bits", BYTES(POST "Content-Length: 99999999999999999999\r\n\r\n"), -1},
    {"a length over the limit", BYTES(POST "Content-Length: 1001\r\n\r\n" SMUGGLED), 413},
    {"a space before the colon", BYTES(POST "Content-Length : 35\r\n\r\n" SMUGGLED), 400},
    {"a tab before the colon", BYTES(POST "Content-Length\t: 35\r\n\r\n" SMUGGLED), 400},
    {"chunks by another name", BYTES(POST "Transfer-Encoding : chunked\r\n\r\n" SMUGGLED), 400},
    {"compressed chunks", BYTES(POST "Transfer-Encoding: gzip, chunked\r\n\r\n" SMUGGLED), 400},
    {"chunks twice", BYTES(POST "Transfer-Encoding: chunked, chunked\r\n\r\n" SMUGGLED), 400},
    {"two encodings",
     BYTES(POST "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SMUGGLED),
     400},
    {"no encoding", BYTES(POST "Transfer-Encoding: identity\r\n\r\n" SMUGGLED), 400},
    {"a chunk without a size", BYTES(POST "Transfer-Encoding: chunked\r\n\r\n\r\nabc\r\n"), -1},
    {"a chunk of size zz", BYTES(POST "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n"), -1},
    {"a chunk beyond 64 bits",
     BYTES(POST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n"), -1},
    {"a chunk longer than its size",
     BYTES(POST "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n"), -1},
    {"a percent sign at the end", BYTES("GET /% HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"half an escape", BYTES("GET /a%2 HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"an escape that is none", BYTES("GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"an escaped NUL", BYTES("GET /a%00b HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"a path that is not UTF-8", BYTES("GET /%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"an overlong slash", BYTES("GET /%c0%af HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"a bad escape in the query", BYTES("GET /?a=%g1 HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"a NUL in the query", BYTES("GET /?a%00=1 HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"no path", BYTES("GET  HTTP/1.1\r\nHost: x\r\n\r\n"), -1},
    {"a path without a slash", BYTES("GET seen HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"a star", BYTES("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"a space in the path", BYTES("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"a tab in the query", BYTES("GET /a?b=\t HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"no version", BYTES("GET /seen\r\n\r\n"), -1},
    {"another version", BYTES("GET /seen HTTP/2.0\r\nHost: x\r\n\r\n"), -1},
    {"half a version", BYTES("GET /seen HTTP/1\r\nHost: x\r\n\r\n"), -1},
    {"the preface of HTTP/2", BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), -1},
    {"no host", BYTES("GET /seen HTTP/1.1\r\n\r\n"), 400},
    {"a space behind Host", BYTES("GET /seen HTTP/1.1\r\nHost : x\r\n\r\n"), 400},
    {"two hosts", BYTES("GET /seen HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"), 400},
    {"a header without a colon", BYTES("GET /seen HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n"), -1},
    {"a header without a name", BYTES("GET /seen HTTP/1.1\r\nHost: x\r\n: x\r\n\r\n"), -1},
    {"a header of two words", BYTES("GET /seen HTTP/1.1\r\nHost: x\r\nA B: x\r\n\r\n"), 400},
    {"a control character in a header", BYTES("GET /seen HTTP/1.1\r\nHost: x\r\nA: \x01\r\n\r\n"),
     400},
    {"a folded length", BYTES(POST "Content-Length: 3\r\n 5\r\n\r\n" SMUGGLED), 400},
    {"folded chunks", BYTES(POST "Transfer-Encoding: chun\r\n ked\r\n\r\n0\r\n\r\n" SMUGGLED), 400},
    {"a folded header before others",
     BYTES(POST "A: b\r\n\tc\r\nContent-Length: 35\r\n\r\n" SMUGGLED), 400},
    {"a header that begins with a fold", BYTES("GET /seen HTTP/1.1\r\n Host: x\r\n\r\n"), -1},
    {"a line that ends with LF", BYTES(POST "A: b\nContent-Length: 35\r\n\r\n" SMUGGLED), 400},
    {"a line that ends with CR", BYTES(POST "A: b\rContent-Length: 35\r\n\r\n" SMUGGLED), 400},
    {"a request line that ends with LF", BYTES("GET /seen HTTP/1.1\nHost: x\r\n\r\n"), 400},
    {"a head that ends with LF", BYTES("GET /seen HTTP/1.1\r\nHost: x\r\n\n"), 400},
    {"a NUL in the path", BYTES("GET /seen\0x HTTP/1.1\r\nHost: x\r\n\r\n"), 400},
    {"a NUL in a header", BYTES("GET /seen HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n"), 400},
    {"a NUL in a header's name", BYTES("GET /seen HTTP/1.1\r\nHost: x\r\nA\0: b\r\n\r\n"), -1},
    {"a NUL in a length", BYTES(POST "Content-Length: 3\0 5\r\n\r\n" SMUGGLED), 400},
    {"a TLS hello", BYTES("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"), -1},
    {"nothing but NULs", BYTES("\0\0\0\0\0\0\0\0\r\n\r\n"), -1},
    {"a NUL for a method", BYTES("\0 /seen HTTP/1.1\r\nHost: x\r\n\r\n"), -1},
    {"half a request line", BYTES("GET /se"), 0},
    {"half the headers", BYTES("GET /seen HTTP/1.1\r\nHost: x\r\nAcc"), 0},
    {"half a body", BYTES(POST "Content-Length: 10\r\n\r\nhello"), 0},
    {"half a chunk", BYTES(POST "Transfer-Encoding: chunked\r\n\r\n5\r\nhe"), 0},
};

/* What we refuse is refused by a document, with the headers that every answer has. What
 * libmicrohttpd refuses before it asks us gets a fixed page: nothing of the request is in it. */
static void check_refusal(const struct client *client, const struct attack *attack)
{
    static const char *const SECURITY[] = {"Cache-Control", "Content-Security-Policy",
                                           "Referrer-Policy", "X-Content-Type-Options"};
    static const char *const SENT[] = {"seen", "smuggled", "nonsense", "abc", "/a"};
    const bool ours = str_is(client_header(client, "Content-Type"), "application/problem+json");
    if (!str_is(client_header(client, "Connection"), "close"))
        fail_msg("%s: the connection would go on", attack->what);
    if (attack->status > 0 && !ours)
        fail_msg("%s: it was not refused by us", attack->what);
    for (size_t i = 0; ours && i < sizeof SECURITY / sizeof SECURITY[0]; i++)
        if (!client_header(client, SECURITY[i]).ptr)
            fail_msg("%s: there is no %s", attack->what, SECURITY[i]);
    for (size_t i = 0; !ours && i < sizeof SENT / sizeof SENT[0]; i++)
        if (strstr(buf_cstr(&client->body), SENT[i]))
            fail_msg("%s: the request is in the answer", attack->what);
}

static void attack(struct bench *bench, const struct attack *attack)
{
    struct client client;
    client_connect(&client, bench->port);
    client_send(&client, attack->bytes, attack->n);
    /* Nothing more comes; whoever waits for more will see that. */
    shutdown(client.fd, SHUT_WR);
    int status = client_read(&client, false);
    if (attack->status >= 0 ? status != attack->status : status != 0 && status < 400)
        fail_msg("%s: %d", attack->what, status);
    if (status != 0) {
        check_refusal(&client, attack);
        client_wait_close(&client);
    }
    /* Some answers of the library's own come with their head twice. */
    if (strstr(buf_cstr(&client.in), "200 OK"))
        fail_msg("%s: something more was answered: %s", attack->what, client.in.data);
    client_close(&client);
    if (bench->n_requests != 0)
        fail_msg("%s: it was let through", attack->what);
}

BENCH_TEST(malformed_requests_reach_nobody,
           (struct http_server_options){.max_body_bytes = 1000, .idle_timeout_ms = 4000})
{
    struct client client;
    for (size_t i = 0; i < sizeof ATTACKS / sizeof ATTACKS[0]; i++)
        attack(bench, &ATTACKS[i]);
    client_connect(&client, bench->port);
    assert_int_equal(client_get(&client, "/echo"), 200);
    client_close(&client);
}

/* Cut at every place. */
BENCH_TEST(no_cut_request_does_harm, (struct http_server_options){0})
{
    static const char GOOD[] = "POST /ok?a=%41 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
                               "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    struct client clients[sizeof GOOD];
    for (size_t n = 1; n < sizeof GOOD; n++) {
        client_connect(&clients[n], bench->port);
        client_send(&clients[n], GOOD, n);
        shutdown(clients[n].fd, SHUT_WR);
    }
    for (size_t n = 1; n < sizeof GOOD; n++) {
        assert_int_equal(client_read(&clients[n], false), n == sizeof GOOD - 1 ? 200 : 0);
        client_close(&clients[n]);
    }
    assert_int_equal(bench->n_requests, 1);
}

BENCH_TEST(a_request_byte_by_byte_is_as_good_as_any, (struct http_server_options){0})
{
    static const char GOOD[] = "POST /ok?a=%41 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
                               "chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    struct client client;
    client_connect(&client, bench->port);
    for (size_t i = 0; i < sizeof GOOD - 1; i++)
        client_send(&client, GOOD + i, 1);
    assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "POST /ok a=[A]\nabc");
    client_close(&client);
}

BENCH_TEST(rubbish_behind_a_good_request_spoils_only_itself, (struct http_server_options){0})
{
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, "GET /good HTTP/1.1\r\nHost: x\r\n\r\n\x01\x02 rubbish\r\n\r\n" SMUGGLED);
    assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "GET /good\n");
    client_wait_close(&client);
    client_close(&client);
    assert_int_equal(bench->n_requests, 1);
}

BENCH_TEST(an_unknown_method_is_handed_over_as_such, (struct http_server_options){0})
{
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, "BREW /pot HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(client_read(&client, false), 200);
    check_str(buf_str(&client.body), "another /pot\n");
    client_close(&client);
}

BENCH_TEST(long_heads_are_refused, (struct http_server_options){0})
{
    struct client client;
    for (int i = 0; i < 2; i++) {
        struct buf text;
        buf_init(&text, 1u << 20);
        buf_puts(&text, i ? "GET /x HTTP/1.1\r\nHost: x\r\n" : "GET /");
        for (int n = 0; n < 20000; n++)
            buf_puts(&text, i ? "A: b\r\n" : "long");
        buf_puts(&text, i ? "\r\n" : " HTTP/1.1\r\nHost: x\r\n\r\n");
        client_connect(&client, bench->port);
        client_send(&client, text.data, text.len);
        int status = client_read(&client, false);
        assert_true(status == 0 || status == 413 || status == 414 || status == 431);
        client_close(&client);
        buf_release(&text);
    }
    assert_int_equal(bench->n_requests, 0);
}

BENCH_TEST(long_bodies_are_refused_and_not_read_as_requests,
           (struct http_server_options){.max_body_bytes = 1000})
{
    struct client client;
    struct buf text;
    buf_init(&text, 1u << 20);
    buf_puts(&text, POST "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 50; i++)
        buf_puts(&text, "23\r\n" SMUGGLED "\r\n");
    buf_puts(&text, "0\r\n\r\n" SMUGGLED);
    client_connect(&client, bench->port);
    client_send(&client, text.data, text.len);
    assert_int_equal(client_read(&client, false), 413);
    check_str(client_header(&client, "Connection"), "close");
    assert_non_null(strstr(buf_cstr(&client.body), "urn:redrive:too-big"));
    client_wait_close(&client);
    assert_int_equal(client.in.len, 0);
    client_close(&client);
    assert_int_equal(bench->n_requests, 0);
    buf_release(&text);
}

BENCH_TEST(a_body_without_end_is_cut_off, (struct http_server_options){.max_body_bytes = 1000})
{
    struct client client;
    client_connect(&client, bench->port);
    client_say(&client, POST "Transfer-Encoding: chunked\r\n\r\n");
    bool taken = true;
    for (int i = 0; taken && i < 1000000; i++)
        taken = client_say(&client, "10\r\n0123456789abcdef\r\n");
    assert_false(taken);
    client_close(&client);
}

BENCH_TEST(a_body_at_the_limit_is_taken, (struct http_server_options){.max_body_bytes = 1000})
{
    struct client client;
    char body[1001] = "";
    memset(body, 'x', 1000);
    client_connect(&client, bench->port);
    client_say(&client, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
    client_say(&client, body);
    assert_int_equal(client_read(&client, false), 200);
    assert_int_equal(client.body.len, strlen("POST /x\n") + 1000);
    client_close(&client);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static bool is_closed(struct client *client)
{
    char byte;
    return recv(client->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

/* Each is sent a byte more. */
static int count_closed(struct client slow[4])
{
    int n = 0;
    for (int i = 0; i < 4; i++) {
        client_say(&slow[i], "a");
        n += is_closed(&slow[i]) || !client_say(&slow[i], "a");
    }
    return n;
}

static int ask_once(uint16_t port)
{
    struct client client;
    client_connect(&client, port);
    const int status = client_get(&client, "/echo");
    client_close(&client);
    return status;
}

/* Each writes on for ever, a byte at a time. */
BENCH_TEST(clients_that_trickle_are_closed_and_others_served,
           (struct http_server_options){.request_timeout_ms = 300, .idle_timeout_ms = 600})
{
    static const char *const STARTS[] = {
        "G",
        "GET /slow HTTP/1.1\r\nA: ",
        "POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
        "POST /slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
    };
    struct client slow[4];
    for (int i = 0; i < 4; i++) {
        client_connect(&slow[i], bench->port);
        client_say(&slow[i], STARTS[i]);
    }
    /* One who asks late on a busy machine is closed as well. */
    unsigned n_asked = 1, n_served = ask_once(bench->port) == 200;
    WAIT_RUNNING(count_closed(slow) == 4, (n_asked++, n_served += ask_once(bench->port) == 200));
    assert_true(n_served >= n_asked / 2);
    for (int i = 0; i < 4; i++)
        client_close(&slow[i]);
}

BENCH_TEST(a_request_that_is_late_is_told, (struct http_server_options){.request_timeout_ms = 200})
{
    static const char *const STARTS[] = {
        POST "Content-Length: 10\r\n\r\nabc",
        POST "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc",
    };
    struct client client;
    for (size_t i = 0; i < sizeof STARTS / sizeof STARTS[0]; i++) {
        client_connect(&client, bench->port);
        client_say(&client, STARTS[i]);
        assert_int_equal(client_read(&client, false), 408);
        assert_string_equal(buf_cstr(&client.body), "");
        client_wait_close(&client);
        client_close(&client);
    }
    assert_int_equal(bench->n_requests, 0);
}

BENCH_TEST(a_connection_without_requests_is_closed,
           (struct http_server_options){.idle_timeout_ms = 200})
{
    struct client fresh, used;
    client_connect(&fresh, bench->port);
    client_connect(&used, bench->port);
    /* On a busy machine it may be closed before it asks. */
    WAIT_RUNNING(client_get(&used, "/echo") == 200,
                 (client_close(&used), client_connect(&used, bench->port)));
    client_wait_close(&fresh);
    client_wait_close(&used);
    client_close(&fresh);
    client_close(&used);
}

BENCH_TEST(waiting_for_an_answer_has_no_deadline,
           (struct http_server_options){.request_timeout_ms = 1000, .idle_timeout_ms = 3000})
{
    struct client client, idle;
    client_connect(&client, bench->port);
    client_say(&client, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    bench_wait_kept(bench, 1);
    client_connect(&idle, bench->port);
    client_wait_close(&idle);
    bench_release(bench);
    assert_int_equal(client_read(&client, false), 200);
    client_close(&client);
    client_close(&idle);
}

/* /later holds its connection at work. */
static void hold(struct client *client, struct bench *bench, unsigned n)
{
    client_connect(client, bench->port);
    client_say(client, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    bench_wait_kept(bench, n);
}

/* What becomes of the next connections, in this order: accepted, or 'x', there is no descriptor.
 * Called in the C library's place, and calls it. */
static _Atomic(const char *) accepts = "";
static atomic_int n_failed_accepts;

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    int (*real)(int, struct sockaddr *, socklen_t *, int);
    const char *now = accepts;
    if (*now != '\0')
        accepts = now + 1;
    if (*now == 'x') {
        n_failed_accepts++;
        errno = EMFILE;
        return -1;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "accept4");
    return real(fd, address, size, flags);
}

static atomic_int n_not_added;

enum MHD_Result MHD_add_connection(struct MHD_Daemon *daemon, MHD_socket fd,
                                   const struct sockaddr *address, socklen_t size)
{
    enum MHD_Result (*real)(struct MHD_Daemon *, MHD_socket, const struct sockaddr *, socklen_t);
    if (n_not_added > 0) {
        n_not_added--;
        close(fd);
        errno = ENOMEM;
        return MHD_NO;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "MHD_add_connection");
    return real(daemon, fd, address, size);
}

/* One more comes while one works and two are idle: the one that has been idle longer goes. */
static void expect_room(struct http_server_options options, const char *accepted)
{
    struct bench bench;
    struct client busy, idle[2], more;
    bench_start(&bench, options);
    hold(&busy, &bench, 1);
    for (int i = 0; i < 2; i++) {
        client_connect(&idle[i], bench.port);
        assert_int_equal(client_get(&idle[i], "/echo"), 200);
    }
    accepts = accepted;
    client_connect(&more, bench.port);
    client_wait_close(&idle[0]);
    assert_int_equal(client_get(&more, "/echo"), 200);
    assert_int_equal(client_get(&idle[1], "/echo"), 200);
    bench_release(&bench);
    assert_int_equal(client_read(&busy, false), 200);
    client_close(&busy);
    client_close(&idle[0]);
    client_close(&idle[1]);
    client_close(&more);
    bench_stop(&bench);
}

TEST(an_idle_connection_makes_room_for_a_new_one)
{
    expect_room((struct http_server_options){.max_connections = 3, .max_per_address = 100}, "");
}

TEST(an_idle_connection_makes_room_when_descriptors_have_run_out)
{
    expect_room((struct http_server_options){0}, "x");
}

BENCH_TEST(some_more_are_let_in_when_all_are_at_work_and_then_none,
           (struct http_server_options){.max_connections = 3, .max_per_address = 100})
{
    struct client busy[3 + EXTRA], more;
    for (unsigned i = 0; i < 3 + EXTRA; i++)
        hold(&busy[i], bench, i + 1);
    client_connect(&more, bench->port);
    assert_int_equal(client_get(&more, "/echo"), 0);
    client_close(&more);
    for (unsigned i = 0; i < 3 + EXTRA; i++)
        assert_int_equal(http_is_extra(bench->kept[i]), i >= 3);
    bench_release(bench);
    for (unsigned i = 0; i < 3 + EXTRA; i++) {
        assert_int_equal(client_read(&busy[i], false), 200);
        assert_int_equal(client_header(&busy[i], "Connection").ptr != NULL, i >= 3);
        client_close(&busy[i]);
    }
}

BENCH_TEST(who_comes_when_descriptors_have_run_out_is_served_later, (struct http_server_options){0})
{
    struct client busy, more;
    hold(&busy, bench, 1);
    n_failed_accepts = 0;
    accepts = "xxxxx";
    const int64_t began_ms = clock_monotonic_ms();
    client_connect(&more, bench->port);
    assert_int_equal(client_get(&more, "/echo"), 200);
    assert_int_equal(n_failed_accepts, 5);
    assert_true(clock_monotonic_ms() - began_ms >= 200); /* not tried on and on */
    bench_release(bench);
    assert_int_equal(client_read(&busy, false), 200);
    client_close(&busy);
    client_close(&more);
}

BENCH_TEST(an_idle_connection_makes_room_when_memory_has_run_out, (struct http_server_options){0})
{
    struct client idle, lost, more;
    client_connect(&idle, bench->port);
    assert_int_equal(client_get(&idle, "/echo"), 200);
    n_not_added = 1;
    client_connect(&lost, bench->port);
    client_wait_close(&lost);
    client_wait_close(&idle);
    client_connect(&more, bench->port);
    assert_int_equal(client_get(&more, "/echo"), 200);
    client_close(&idle);
    client_close(&lost);
    client_close(&more);
}

/* It has come in the same moment, and its request is not read yet: it is not idle. */
BENCH_TEST(who_has_just_come_makes_no_room, (struct http_server_options){0})
{
    struct client first, second;
    accepts = "xxxxx.x";
    client_connect(&first, bench->port);
    client_say(&first, "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    client_connect(&second, bench->port);
    client_say(&second, "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(client_read(&first, false), 200);
    assert_int_equal(client_read(&second, false), 200);
    client_close(&first);
    client_close(&second);
}

BENCH_TEST(one_address_cannot_have_all,
           (struct http_server_options){.max_connections = 100, .max_per_address = 2})
{
    struct client busy[2], more;
    hold(&busy[0], bench, 1);
    hold(&busy[1], bench, 2);
    client_connect(&more, bench->port);
    assert_int_equal(client_get(&more, "/echo"), 0);
    client_close(&more);
    /* Another address of this machine. */
    client_connect_from(&more, "127.0.0.2", bench->port);
    assert_int_equal(client_get(&more, "/echo"), 200);
    client_close(&more);
    /* Of its own that are idle, one gives way. */
    bench_release(bench);
    assert_int_equal(client_read(&busy[0], false), 200);
    assert_int_equal(client_read(&busy[1], false), 200);
    /* A client may have its answer a moment before the server knows that the connection is idle. */
    WAIT_FOR(ask_once(bench->port) == 200);
    client_close(&busy[0]);
    client_close(&busy[1]);
}
