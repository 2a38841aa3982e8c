/* access.c - accepts clients up to the limits, checks their passwords, and what each may do. */
#include "server/faktory/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time/clock.h"
#include "engine/engine.h"
#include "server/auth/auth.h"
#include "server/faktory/format/request.h"
#include "server/listen/endpoint.h"

/* The server's copy of a tenant's name, kept as long as the server; {NULL, 0} without memory. */
static struct str faktory_tenant(struct faktory_server *server, const char *name)
{
    char *known = map_get(&server->tenants, str_of(name));
    if (known)
        return str_of(known);
    char *copy = strdup(name);
    if (!copy || map_put(&server->tenants, str_of(name), copy) < 0) {
        free(copy);
        return (struct str){0};
    }
    return str_of(copy);
}

void faktory_tenants_release(struct faktory_server *server)
{
    MAP_FOREACH (&server->tenants, slot)
        free(slot->value);
    map_release(&server->tenants);
}

/* Accepts the client by this password of `set`, or (NULL) without one. */
static void faktory_conn_let_in(struct faktory_conn *conn, struct faktory_passwords *set,
                                const struct faktory_password *password)
{
    struct faktory_passwords *before = conn->passwords;
    conn->passwords = faktory_passwords_hold(set);
    conn->password = password;
    conn->scopes = password ? password->scopes : FAKTORY_SCOPES_ALL;
    conn->tenant =
        faktory_tenant(conn->server, password ? password->tenant : ENGINE_TENANT_DEFAULT);
    faktory_passwords_free(before);
    if (!conn->tenant.ptr)
        faktory_conn_close(conn);
}

/* ---- The log --------------------------------------------------------------------------------- */

static struct audit audit_of(const struct faktory_conn *conn, const char *action,
                             char client[ADDRESS_TEXT_MAX])
{
    return (struct audit){
        .interface = "faktory",
        .token = conn->password ? conn->password->name : "",
        .tenant = conn->tenant,
        .client = address_text((const struct sockaddr *)&conn->address, client),
        .action = action,
    };
}

static void faktory_audit_action(const struct faktory_conn *conn, struct str verb)
{
    char client[ADDRESS_TEXT_MAX], action[64];
    (void)snprintf(action, sizeof action, "%.*s", FAKTORY_QUOTE(verb));
    const struct audit what = audit_of(conn, action, client);
    audit_action(conn->server->options.log, &what, "asked");
}

/* Logs that a client was refused. */
static void faktory_audit_refusal(struct faktory_conn *conn, struct str verb, const char *why)
{
    char client[ADDRESS_TEXT_MAX], action[64];
    (void)snprintf(action, sizeof action, "%.*s", FAKTORY_QUOTE(verb));
    const struct audit what = audit_of(conn, action, client);
    audit_refusal(conn->server->options.log, &conn->server->refusals, &what, why);
}

bool faktory_conn_may(struct faktory_conn *conn, enum config_scope scope, struct str verb)
{
    if (conn->scopes & scope) {
        if (scope == CONFIG_SCOPE_ADMIN)
            faktory_audit_action(conn, verb);
        return true;
    }
    faktory_audit_refusal(conn, verb, "the password lacks the scope");
    faktory_put_error(faktory_conn_reply(conn), "%.*s needs the scope '%s'", FAKTORY_QUOTE(verb),
                      config_scope_name(scope));
    return false;
}

/* ---- Other passwords ------------------------------------------------------------------------- */

/* A client that has not said hello yet, or whose hello is being looked at, is judged by the
 * passwords that are in force then; one that was greeted without a salt cannot prove anything. */
static bool stays(struct faktory_conn *conn, struct faktory_passwords *set)
{
    if (!conn->has_said_hello)
        return conn->iterations > 0 || faktory_passwords_count(set) == 0;
    if (!conn->password)
        return faktory_passwords_count(set) == 0;
    const struct faktory_password *same = faktory_passwords_same(set, conn->password);
    if (same)
        faktory_conn_let_in(conn, set, same);
    return same;
}

void faktory_server_set_passwords(struct faktory_server *server,
                                  struct faktory_passwords *passwords)
{
    struct faktory_passwords *before = server->passwords;
    size_t n_ended = 0;
    server->passwords = faktory_passwords_hold(passwords);
    faktory_passwords_free(before);
    LIST_FOREACH (&server->conns, link) {
        struct faktory_conn *conn = LIST_ENTRY(link, struct faktory_conn, link);
        if (conn->is_ending || stays(conn, passwords))
            continue;
        conn->scopes = 0;
        faktory_conn_end(conn);
        n_ended++;
    }
    if (n_ended > 0)
        log_event(server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "faktory_clients_ended",
                  LOG_I("connections", (int64_t)n_ended),
                  LOG_S("error", "their password is not valid any more"));
}

/* ---- The handshake --------------------------------------------------------------------------- */

/* The password of a client is checked on a thread of libuv's pool: a client may connect as often as
 * it likes, and thousands of rounds of SHA-256 would hold up the loop.
 */

struct check {
    uv_work_t work;
    struct faktory_conn *conn;
    struct faktory_passwords *passwords; /* in force when the client said hello */
    int iterations;
    char *pwdhash;
    char *wid;
    const struct faktory_password *found; /* NULL: none */
};

/* A client that may not work is not a worker, whatever it calls itself. */
static void welcome(struct faktory_conn *conn, struct str wid)
{
    if (conn->is_closing)
        return;
    if (wid.len > 0 && conn->scopes & CONFIG_SCOPE_WORK) {
        conn->worker = faktory_worker_enter(conn->server, conn->tenant, wid);
        if (!conn->worker) {
            faktory_conn_close(conn);
            return;
        }
    }
    conn->has_said_hello = true;
    faktory_put_ok(&conn->out);
}

/* On a thread of the pool. */
static void compare(uv_work_t *work)
{
    struct check *check = work->data;
    check->found = faktory_passwords_find(check->passwords, str_of(check->pwdhash),
                                          str_of(check->conn->salt), check->iterations);
}

static void check_free(struct check *check)
{
    faktory_passwords_free(check->passwords);
    free(check->pwdhash);
    free(check->wid);
    free(check);
}

/* Meanwhile there may be other passwords. */
static const struct faktory_password *still_valid(const struct check *check)
{
    const struct faktory_server *server = check->conn->server;
    return check->found ? faktory_passwords_same(server->passwords, check->found) : NULL;
}

static void on_compared(uv_work_t *work, int status)
{
    struct check *check = work->data;
    struct faktory_conn *conn = check->conn;
    struct faktory_server *server = conn->server;
    conn->is_hashing = false;
    server->n_under_way--;
    const struct faktory_password *password = status == 0 ? still_valid(check) : NULL;
    if (password && !conn->is_closing) {
        faktory_conn_let_in(conn, server->passwords, password);
        welcome(conn, str_of(check->wid));
    } else if (!password) {
        faktory_audit_refusal(conn, STR("HELLO"), "the password is not known");
        faktory_put_error(&conn->out, "Invalid password");
        faktory_conn_end(conn);
    }
    check_free(check);
    faktory_conn_touch(conn);
}

static void start_check(struct faktory_conn *conn, const struct faktory_hello *hello)
{
    struct faktory_server *server = conn->server;
    struct check *check = calloc(1, sizeof *check);
    if (check) {
        check->work.data = check;
        check->conn = conn;
        check->passwords = faktory_passwords_hold(server->passwords);
        /* The first version of the protocol hashed once. */
        check->iterations = hello->version < 2 ? 1 : conn->iterations;
        check->pwdhash = str_dup(hello->pwdhash.len > 0 ? hello->pwdhash : STR(""));
        check->wid = str_dup(hello->wid.len > 0 ? hello->wid : STR(""));
    }
    if (!check || !check->pwdhash || !check->wid ||
        uv_queue_work(server->options.loop, &check->work, compare, on_compared) < 0) {
        if (check)
            check_free(check);
        faktory_conn_close(conn);
        return;
    }
    conn->is_hashing = true;
    server->n_under_way++;
}

void faktory_conn_hello(struct faktory_conn *conn, struct str verb, struct str args)
{
    struct faktory_hello hello;
    RELEASED_BY(arena_release) struct arena arena = {0};
    bool is_one = str_is(verb, "HELLO") && faktory_hello_read(args, &arena, &hello, NULL) == 0;
    if (!is_one)
        faktory_conn_end(conn); /* it uses another protocol: no answer would be understood */
    else if (hello.wid.len > FAKTORY_WID_MAX ||
             (hello.wid.len > 0 && !faktory_is_name(hello.wid))) {
        faktory_put_error(&conn->out, "invalid wid");
        faktory_conn_end(conn);
    } else if (faktory_passwords_count(conn->server->passwords) > 0) {
        start_check(conn, &hello);
    } else {
        faktory_conn_let_in(conn, NULL, NULL);
        welcome(conn, hello.wid);
    }
}

/* ---- Accepting ------------------------------------------------------------------------------- */

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

void faktory_server_handle_closed(uv_handle_t *handle)
{
    struct faktory_server *server = handle->data;
    if (--server->n_handles > 0 || !server->stopped)
        return;
    server->stopped(server->stopped_ctx);
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
