/* server.c - starts and stops the server, and runs its turns. */
#include "server/faktory/server.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/engine.h"
#include "server/faktory/admin/removed.h"
#include "server/faktory/private.h"
#include "server/listen/endpoint.h"

#define SWEEP_MS 500

/* ---- The committer --------------------------------------------------------------------------- */

/* Answers come before the notification that jobs are ready: a FETCH that found none must be among
 * those that wait when they are woken. */
static void on_async(uv_async_t *async)
{
    struct faktory_server *server = async->data;
    if (mailbox_deliver(&server->mailbox))
        faktory_fetch_wake(server);
}

static void wake_loop(void *async)
{
    (void)uv_async_send(async);
}

void faktory_server_wake(struct faktory_server *server)
{
    mailbox_wake(&server->mailbox, 1);
}

/* ---- The end of a turn ----------------------------------------------------------------------- */

/* Looks whether a server that stops has nothing left. */
static void settle_down(struct faktory_server *server)
{
    if (!server->is_stopping || server->is_closing_handles || server->n_conns > 0 ||
        server->n_under_way > 0)
        return;
    server->is_closing_handles = true;
    mailbox_close(&server->mailbox);
    uv_close((uv_handle_t *)&server->async, faktory_server_handle_closed);
    uv_close((uv_handle_t *)&server->turn, faktory_server_handle_closed);
    uv_close((uv_handle_t *)&server->sweep, faktory_server_handle_closed);
    uv_close((uv_handle_t *)&server->fetch_timer, faktory_server_handle_closed);
    uv_close((uv_handle_t *)&server->drain_timer, faktory_server_handle_closed);
}

static void on_turn(uv_prepare_t *turn)
{
    struct faktory_server *server = turn->data;
    while (!list_empty(&server->touched)) {
        struct faktory_conn *conn = LIST_ENTRY(server->touched.next, struct faktory_conn, touched);
        list_remove(&conn->touched);
        faktory_conn_advance(conn);
    }
    mailbox_flush(&server->mailbox);
    settle_down(server);
}

static void on_sweep(uv_timer_t *timer)
{
    struct faktory_server *server = timer->data;
    int64_t now_ms = clock_monotonic_ms();
    faktory_workers_reap(server, now_ms);
    LIST_FOREACH (&server->conns, link)
        faktory_conn_check(LIST_ENTRY(link, struct faktory_conn, link), now_ms);
}

static void on_connection(uv_stream_t *listener, int status)
{
    if (status == 0)
        faktory_conn_accept(listener->data);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

void faktory_server_stop(struct faktory_server *server, void (*stopped)(void *ctx), void *ctx)
{
    if (server->is_stopping)
        return;
    server->is_stopping = true;
    server->state = FAKTORY_TERMINATE;
    server->stopped = stopped;
    server->stopped_ctx = ctx;
    if (server->options.send_timeout_ms > 2000)
        server->options.send_timeout_ms = 2000;
    uv_close((uv_handle_t *)&server->listener, faktory_server_handle_closed);
    LIST_FOREACH (&server->conns, link)
        faktory_conn_end(LIST_ENTRY(link, struct faktory_conn, link));
}

/* ---- Starting -------------------------------------------------------------------------------- */

static int refuse_address(const char *address, int code, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_IO, "cannot listen on %s", address);
    err_detail(err, "%s", uv_strerror(code));
    return REDRIVE_E_IO;
}

static int listen_on(struct faktory_server *server, const char *address, struct redrive_err *err)
{
    int fd = -1;
    int rc = endpoint_listen(address, faktory_passwords_count(server->passwords) == 0, &fd, err);
    if (rc == REDRIVE_E_DENIED) {
        err_set(err, REDRIVE_E_CONFIG, "the Faktory server has no password");
        err_detail(err, "%s can be reached by others", address);
        err_hint(err, "set a password, or listen on 127.0.0.1");
        return REDRIVE_E_CONFIG;
    }
    if (rc < 0)
        return rc;
    server->port = endpoint_port(fd);
    rc = uv_tcp_open(&server->listener, fd);
    if (rc < 0)
        close(fd);
    else
        rc = uv_listen((uv_stream_t *)&server->listener, ENDPOINT_BACKLOG, on_connection);
    return rc < 0 ? refuse_address(address, rc, err) : 0;
}

static void set_defaults(struct faktory_options *o)
{
    if (o->max_connections == 0)
        o->max_connections = 10000;
    if (o->max_line_bytes == 0)
        o->max_line_bytes = (size_t)8 * 1024 * 1024;
    if (o->max_held_bytes == 0)
        o->max_held_bytes = (size_t)256 * 1024 * 1024;
    if (o->command_timeout_ms == 0)
        o->command_timeout_ms = 30000;
    if (o->handshake_timeout_ms == 0)
        o->handshake_timeout_ms = 2000;
    if (o->fetch_wait_ms == 0)
        o->fetch_wait_ms = 2000;
    if (o->beat_timeout_ms == 0)
        o->beat_timeout_ms = 60000;
    if (o->send_timeout_ms == 0)
        o->send_timeout_ms = 30000;
}

static int open_handles(struct faktory_server *server, struct redrive_err *err)
{
    uv_loop_t *loop = server->options.loop;
    int rc = uv_async_init(loop, &server->async, on_async);
    if (rc == 0) {
        (void)uv_tcp_init(loop, &server->listener);
        (void)uv_prepare_init(loop, &server->turn);
        (void)uv_timer_init(loop, &server->sweep);
        (void)uv_timer_init(loop, &server->fetch_timer);
        (void)uv_timer_init(loop, &server->drain_timer);
        server->n_handles = 6;
    }
    server->async.data = server->listener.data = server->turn.data = server;
    server->sweep.data = server->fetch_timer.data = server->drain_timer.data = server;
    return rc < 0
               ? err_set(err, REDRIVE_E_IO, "cannot start the Faktory server: %s", uv_strerror(rc))
               : 0;
}

static struct faktory_server *server_new(const struct faktory_options *options)
{
    struct faktory_server *server = calloc(1, sizeof *server);
    if (!server)
        return NULL;
    const uint64_t seed = rng_system_seed();
    server->options = *options;
    set_defaults(&server->options);
    mailbox_init(&server->mailbox, options->committer, wake_loop, &server->async);
    list_init(&server->conns);
    list_init(&server->touched);
    list_init(&server->worker_list);
    map_init(&server->workers, seed);
    faktory_fetch_init(server, seed);
    map_init(&server->held, seed);
    map_init(&server->tenants, seed);
    const unsigned most = (unsigned)server->options.max_connections;
    address_counts_init(&server->addresses, options->max_per_address
                                                ? options->max_per_address
                                                : address_counts_default(most));
    server->passwords = faktory_passwords_hold(options->passwords);
    server->tls = options->tls ? tls_identity_hold(options->tls) : NULL;
    rng_seed(&server->rng, seed);
    buf_init(&server->text, FAKTORY_REPLY_MAX);
    server->read_buffer = malloc(FAKTORY_READ_BYTES);
    server->removed = faktory_removed_new(seed);
    server->started_ms = clock_monotonic_ms();
    if (!server->read_buffer || !server->removed) {
        faktory_server_free(server);
        return NULL;
    }
    return server;
}

/* It has handles on the loop, so that it goes when they have been closed. */
static void free_abandoned(void *ctx)
{
    faktory_server_free(ctx);
}

int faktory_server_start(const struct faktory_options *options, struct faktory_server **ret,
                         struct redrive_err *err)
{
    const char *address = options->address  ? options->address
                          : options->config ? options->config->listen.faktory
                                            : NULL;
    *ret = NULL;
    if (!address)
        return err_set(err, REDRIVE_E_CONFIG, "no address to listen on for Faktory clients");
    struct faktory_server *server = server_new(options);
    if (!server)
        return err_nomem(err);
    int rc = open_handles(server, err);
    if (rc < 0) {
        faktory_server_free(server);
        return rc;
    }
    rc = listen_on(server, address, err);
    if (rc < 0) {
        faktory_server_stop(server, free_abandoned, server);
        settle_down(server);
        return rc;
    }
    /* A write to a client that has gone must give an error, and not end the process. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)uv_prepare_start(&server->turn, on_turn);
    (void)uv_timer_start(&server->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    *ret = server;
    return 0;
}

void faktory_server_set_tls(struct faktory_server *server, struct tls_identity *identity)
{
    struct tls_identity *former = server->tls;
    if (!former)
        return;
    server->tls = tls_identity_hold(identity);
    tls_identity_free(former);
}

uint16_t faktory_server_port(const struct faktory_server *server)
{
    return server->port;
}

void faktory_server_free(struct faktory_server *server)
{
    if (!server)
        return;
    faktory_passwords_free(server->passwords);
    tls_identity_free(server->tls);
    faktory_tenants_release(server);
    address_counts_release(&server->addresses);
    faktory_held_release(server);
    map_release(&server->workers);
    claim_lines_release(&server->lines);
    buf_release(&server->text);
    free(server->read_buffer);
    faktory_removed_free(server->removed);
    mailbox_release(&server->mailbox);
    free(server);
}
