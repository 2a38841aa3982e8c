/* accept.c - accepts clients up to the limits, and greets each. */
#include "server/faktory/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time/clock.h"
#include "server/faktory/format/line.h"

#define KEEPALIVE_S    60
#define ITERATIONS_MIN 4000
/* Between two lines about connections that were refused. */
#define REFUSAL_EVERY_MS 1000

static void greet(struct faktory_conn *conn)
{
    struct faktory_server *server = conn->server;
    if (faktory_passwords_count(server->passwords) == 0) {
        (void)buf_puts(&conn->out, "+HI {\"v\":2}\r\n");
        return;
    }
    conn->iterations = ITERATIONS_MIN + (int)rng_below(&server->rng, 4096);
    (void)snprintf(conn->salt, sizeof conn->salt, "%016" PRIx64,
                   rng_mix(rng_system_seed() ^ rng_next(&server->rng)));
    (void)buf_printf(&conn->out, "+HI {\"v\":2,\"i\":%d,\"s\":\"%s\"}\r\n", conn->iterations,
                     conn->salt);
}

static void on_spare_closed(uv_handle_t *handle)
{
    struct faktory_server *server = handle->data;
    const bool accepts = server->is_one_too_many && !server->is_stopping;
    server->is_spare_used = server->is_one_too_many = false;
    if (accepts)
        faktory_conn_accept(server);
    faktory_server_handle_closed(handle);
}

/* libuv accepts no more clients until the last one that it reported has been taken. */
static void turn_away(struct faktory_server *server)
{
    server->is_one_too_many = server->is_spare_used;
    if (server->is_spare_used || uv_tcp_init(server->options.loop, &server->spare) < 0)
        return;
    server->is_spare_used = true;
    server->spare.data = server;
    server->n_handles++;
    (void)uv_accept((uv_stream_t *)&server->listener, (uv_stream_t *)&server->spare);
    uv_close((uv_handle_t *)&server->spare, on_spare_closed);
}

static void log_refusal(struct faktory_conn *conn, const char *why)
{
    struct faktory_server *server = conn->server;
    char text[ADDRESS_TEXT_MAX];
    int64_t held_back = 0;
    if (log_pace_allows(&server->turned_away, clock_monotonic_ms(), REFUSAL_EVERY_MS, &held_back))
        log_event(server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "connection_refused",
                  LOG_S("interface", "faktory"),
                  LOG_S("client", address_text((struct sockaddr *)&conn->address, text)),
                  LOG_S("error", why), LOG_I("more", held_back));
}

/* Whether the limits allow it; otherwise it gets an error. */
static bool is_welcome(struct faktory_conn *conn)
{
    struct faktory_server *server = conn->server;
    struct sockaddr *address = (struct sockaddr *)&conn->address;
    int size = sizeof conn->address;
    if (uv_tcp_getpeername(&conn->tcp, address, &size) < 0)
        return false; /* it has gone */
    const bool is_one_too_many = address_counts_full(&server->addresses, address);
    address_counts_enter(&server->addresses, address);
    conn->is_counted = true;
    if (server->n_conns > server->options.max_connections) {
        faktory_put_error(&conn->out, "too many connections: %zu", server->n_conns);
        log_refusal(conn, "there are as many connections as there may be (listen.max_connections)");
    } else if (is_one_too_many) {
        faktory_put_error(&conn->out, "too many connections of this address");
        log_refusal(conn, "the address has as many connections as it may (listen.max_per_address)");
    } else {
        return true;
    }
    return false;
}

void faktory_conn_accept(struct faktory_server *server)
{
    struct faktory_conn *conn = calloc(1, sizeof *conn);
    if (conn && server->tls)
        conn->tls = faktory_tls_new(server->tls);
    if (!conn || (server->tls && !conn->tls) || uv_tcp_init(server->options.loop, &conn->tcp) < 0) {
        if (conn)
            faktory_tls_free(conn->tls);
        free(conn);
        turn_away(server);
        return;
    }
    conn->server = server;
    conn->tcp.data = conn;
    (void)snprintf(conn->name, sizeof conn->name, NAME_FAKTORY_WORKER "%016" PRIx64,
                   rng_mix(rng_system_seed() ^ rng_next(&server->rng)));
    conn->opened_ms = conn->active_ms = conn->taken_ms = clock_monotonic_ms();
    list_init(&conn->calls);
    list_init(&conn->touched);
    buf_init(&conn->out, FAKTORY_REPLY_MAX);
    buf_init(&conn->sending, FAKTORY_REPLY_MAX);
    list_insert(&server->conns, &conn->link);
    server->n_conns++;
    if (uv_accept((uv_stream_t *)&server->listener, (uv_stream_t *)&conn->tcp) < 0) {
        faktory_conn_close(conn);
        return;
    }
    (void)uv_tcp_nodelay(&conn->tcp, 1);
    (void)uv_tcp_keepalive(&conn->tcp, 1, KEEPALIVE_S);
    if (is_welcome(conn))
        greet(conn);
    else
        faktory_conn_end(conn);
    faktory_conn_touch(conn);
}
