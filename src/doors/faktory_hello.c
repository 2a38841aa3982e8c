/* faktory_hello.c - the handshake: who is it, and may it come in?
 *
 * The password is checked on a thread of libuv's pool: the client chooses how often it comes, and
 * thousands of rounds of SHA-256 are not for the loop.
 */
#include "doors/faktory_int.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "doors/faktory_line.h"
#include "engine/engine.h"

struct check {
    uv_work_t work;
    struct faktory_conn *conn;
    int iterations;
    char *pwdhash;
    char *wid;
    size_t found; /* which password it was; n_tenants: none */
};

static void welcome(struct faktory_conn *conn, struct str tenant, struct str wid)
{
    conn->tenant = tenant;
    if (wid.len > 0) {
        conn->worker = faktory_worker_enter(conn->server, tenant, wid);
        if (!conn->worker) {
            faktory_conn_close(conn);
            return;
        }
    }
    conn->has_said_hello = true;
    faktory_put_ok(&conn->out);
}

/* On a thread of the pool; the passwords never change. */
static void compare(uv_work_t *work)
{
    struct check *check = work->data;
    const struct faktory_server *server = check->conn->server;
    struct str given = str_of(check->pwdhash);
    check->found = server->n_tenants;
    for (size_t i = 0; i < server->n_tenants; i++) {
        char expected[FAKTORY_HASH_TEXT];
        faktory_password_hash(str_of(server->tenants[i].password), str_of(check->conn->salt),
                              check->iterations, expected);
        if (given.len == strlen(expected) && mem_equal_ct(given.ptr, expected, given.len) &&
            check->found == server->n_tenants)
            check->found = i;
    }
}

static void check_free(struct check *check)
{
    free(check->pwdhash);
    free(check->wid);
    free(check);
}

static void on_compared(uv_work_t *work, int status)
{
    struct check *check = work->data;
    struct faktory_conn *conn = check->conn;
    struct faktory_server *server = conn->server;
    conn->is_hashing = false;
    server->n_under_way--;
    if (status == 0 && check->found < server->n_tenants) {
        if (!conn->is_closing)
            welcome(conn, str_of(server->tenants[check->found].tenant), str_of(check->wid));
    } else {
        log_event(server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "faktory_wrong_password",
                  LOG_S("worker", check->wid));
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
    struct arena arena;
    arena_init(&arena);
    bool is_one = str_is(verb, "HELLO") && faktory_hello_read(args, &arena, &hello, NULL) == 0;
    if (!is_one)
        faktory_conn_end(conn); /* it speaks something else: nothing to be said */
    else if (hello.wid.len > 0 && !faktory_is_name(hello.wid)) {
        faktory_put_error(&conn->out, "invalid wid");
        faktory_conn_end(conn);
    } else if (conn->server->n_tenants > 0)
        start_check(conn, &hello);
    else
        welcome(conn, STR(ENGINE_TENANT_DEFAULT), hello.wid);
    arena_release(&arena);
}
