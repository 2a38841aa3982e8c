/* call.c - commands that are under way, in the order of their connection. */
#include "server/faktory/private.h"

#include <stdlib.h>

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
    list_init(&call->answer_link);
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
