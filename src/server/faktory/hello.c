/* hello.c - the handshake: checks the password of a client.
 *
 * The password is checked on a thread of libuv's pool: a client may connect as often as it likes,
 * and thousands of rounds of SHA-256 would hold up the loop.
 */
#include "server/faktory/private.h"

#include <stdlib.h>

#include "base/time/clock.h"
#include "server/faktory/format/line.h"

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
    struct arena arena;
    arena_init(&arena);
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
    arena_release(&arena);
}
