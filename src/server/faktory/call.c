/* call.c - calls: commands under way, in the order of their connection, and their replies; and the
 * end of a connection. */
#include "server/faktory/private.h"

#include <stdlib.h>

#include "base/time/clock.h"
#include "server/auth/auth.h"
#include "server/faktory/format/request.h"

/* ---- Small things ---------------------------------------------------------------------------- */

struct str faktory_key(struct faktory_server *server, struct str a, struct str b)
{
    return buf_pair(&server->text, a, b);
}

void faktory_put_failure(const struct faktory_conn *conn, struct buf *out,
                         const struct redrive_err *err)
{
    const struct redrive_err shown = auth_shown_error(err, conn->scopes);
    if (shown.detail[0])
        faktory_put_error(out, "%s: %s", shown.message, shown.detail);
    else
        faktory_put_error(out, "%s", shown.message);
}

bool faktory_make_room(void **items, size_t n, size_t *capacity, size_t size)
{
    if (n < *capacity)
        return true;
    size_t grown_to = *capacity ? *capacity * 2 : 4;
    void *grown = realloc(*items, grown_to * size);
    if (!grown)
        return false;
    *items = grown;
    *capacity = grown_to;
    return true;
}

void faktory_block_unref(struct faktory_block *block)
{
    if (!block || --block->refs > 0)
        return;
    *block->held -= block->capacity;
    free(block);
}

void faktory_conn_touch(struct faktory_conn *conn)
{
    if (list_empty(&conn->touched))
        list_insert(&conn->server->touched, &conn->touched);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

void *faktory_call_new(struct faktory_conn *conn, const struct faktory_call_kind *kind, size_t size)
{
    struct faktory_call *call = calloc(1, size);
    if (!call) {
        faktory_conn_close(conn);
        return NULL;
    }
    call->kind = kind;
    call->conn = conn;
    call->block = conn->in;
    if (call->block)
        call->block->refs++;
    call->load = 1;
    conn->load += call->load;
    buf_init(&call->reply, FAKTORY_REPLY_MAX);
    arena_init(&call->arena);
    list_insert(&conn->calls, &call->link);
    if (kind && kind->seal)
        conn->open = call;
    return call;
}

void faktory_call_finish(struct faktory_call *call)
{
    call->is_done = true;
    faktory_conn_touch(call->conn);
}

void faktory_call_free(struct faktory_call *call)
{
    struct faktory_conn *conn = call->conn;
    if (call->kind && call->kind->release)
        call->kind->release(call);
    list_remove(&call->link);
    conn->load -= call->load;
    faktory_block_unref(call->block);
    buf_release(&call->reply);
    arena_release(&call->arena);
    free(call);
}

void faktory_call_add_load(struct faktory_call *call, size_t load)
{
    call->load += (unsigned)load;
    call->conn->load += (unsigned)load;
}

struct faktory_call *faktory_conn_open_call(struct faktory_conn *conn,
                                            const struct faktory_call_kind *kind)
{
    return conn->open && conn->open->kind == kind && conn->open->load < FAKTORY_RUN_MAX ? conn->open
                                                                                        : NULL;
}

void faktory_conn_seal(struct faktory_conn *conn)
{
    struct faktory_call *call = conn->open;
    conn->open = NULL;
    if (call)
        call->kind->seal(call);
}

/* Behind what is still unanswered, the reply has to wait in a call of its own. */
struct buf *faktory_conn_reply(struct faktory_conn *conn)
{
    faktory_conn_seal(conn);
    if (list_empty(&conn->calls))
        return &conn->out;
    struct faktory_call *last = LIST_ENTRY(conn->calls.prev, struct faktory_call, link);
    if (!last->kind && last->load < FAKTORY_RUN_MAX) {
        faktory_call_add_load(last, 1);
        return &last->reply;
    }
    struct faktory_call *call = faktory_call_new(conn, NULL, sizeof *call);
    if (!call)
        return &conn->out; /* it is being closed */
    faktory_block_unref(call->block);
    call->block = NULL;
    call->is_done = true;
    return &call->reply;
}

/* ---- The committer --------------------------------------------------------------------------- */

static void on_answer(struct op *op, void *ctx)
{
    struct faktory_call *call = ctx;
    (void)op;
    call->is_under_way = false;
    call->conn->server->n_under_way--;
    faktory_conn_touch(call->conn);
    call->kind->answered(call);
}

void faktory_call_send(struct faktory_call *call, struct op *op)
{
    struct faktory_server *server = call->conn->server;
    call->is_under_way = true;
    server->n_under_way++;
    mailbox_send(&server->mailbox, op, on_answer, call);
}

/* ---- The end of a connection ------------------------------------------------------------------
 */

static void on_closed(uv_handle_t *handle)
{
    struct faktory_conn *conn = handle->data;
    conn->is_closed = true;
    faktory_conn_touch(conn);
}

/* Calls that the committer does not have are over; the others will be answered. */
static void cancel_calls(struct faktory_conn *conn)
{
    LIST_FOREACH (&conn->calls, link) {
        struct faktory_call *call = LIST_ENTRY(link, struct faktory_call, link);
        if (!call->is_done && !call->is_under_way && call->kind->cancel)
            call->kind->cancel(call);
    }
}

void faktory_conn_close(struct faktory_conn *conn)
{
    if (conn->is_closing)
        return;
    conn->is_ending = conn->is_closing = true;
    uv_close((uv_handle_t *)&conn->tcp, on_closed);
    faktory_conn_seal(conn);
    cancel_calls(conn);
}

void faktory_conn_end(struct faktory_conn *conn)
{
    if (conn->is_ending)
        return;
    conn->is_ending = true;
    conn->taken_ms = clock_monotonic_ms();
    faktory_conn_seal(conn);
    cancel_calls(conn);
    if (conn->tls && !faktory_tls_is_open(conn->tls))
        buf_reset(&conn->out); /* the greeting, which cannot be sent any more */
    faktory_conn_touch(conn);
}
