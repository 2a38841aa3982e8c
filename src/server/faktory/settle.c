/* settle.c - ACK and FAIL: how runs ended. */
#include "server/faktory/private.h"

#include <stdlib.h>

#include "engine/verbs/settle.h"
#include "server/faktory/format/line.h"

struct settle_call {
    struct faktory_call call;
    struct settlement *items;
    struct str *jids; /* of those that fail; absent: an ACK */
    size_t n;
    size_t capacity;
    size_t jids_capacity;
    struct settle_op op;
};

static struct settle_call *settle_of(struct faktory_call *call)
{
    return (struct settle_call *)(void *)call;
}

static void settle_answered(struct faktory_call *call)
{
    struct settle_call *s = settle_of(call);
    for (size_t i = 0; i < s->n; i++)
        if (s->op.op.code < 0)
            faktory_put_failure(&call->reply, &s->op.op.err);
        else if (s->items[i].ret.code < 0 && s->jids[i].len > 0)
            faktory_put_error(&call->reply, "Job not found %.*s", FAKTORY_QUOTE(s->jids[i]));
        else
            faktory_put_ok(&call->reply);
    faktory_call_finish(call);
}

static void settle_seal(struct faktory_call *call)
{
    struct settle_call *s = settle_of(call);
    if (s->n == 0) {
        faktory_call_finish(call);
        return;
    }
    settle_op_init(&s->op, s->items, s->n);
    faktory_call_send(call, &s->op.op);
}

static void settle_release(struct faktory_call *call)
{
    free(settle_of(call)->items);
    free(settle_of(call)->jids);
}

static const struct faktory_call_kind SETTLE = {
    .seal = settle_seal,
    .answered = settle_answered,
    .release = settle_release,
};

static struct settle_call *settle_open(struct faktory_conn *conn)
{
    struct faktory_call *open = faktory_conn_open_call(conn, &SETTLE);
    if (open)
        return settle_of(open);
    faktory_conn_seal(conn);
    return faktory_call_new(conn, &SETTLE, sizeof(struct settle_call));
}

static void settle_add(struct settle_call *s, struct str jid, const struct outcome *outcome)
{
    struct faktory_conn *conn = s->call.conn;
    const struct str worker = faktory_worker_name(conn);
    if (!faktory_make_room((void **)&s->items, s->n, &s->capacity, sizeof *s->items) ||
        !faktory_make_room((void **)&s->jids, s->n, &s->jids_capacity, sizeof *s->jids)) {
        faktory_conn_close(conn);
        return;
    }
    struct settlement item = {.tenant = conn->tenant, .outcome = *outcome};
    if (!faktory_held_take(conn->server, conn->tenant, jid, worker, &item.seq, &item.token)) {
        item.id = jid;
        item.worker = worker;
    }
    s->items[s->n] = item;
    s->jids[s->n] = outcome->failure.failed ? jid : (struct str){0};
    if (s->n++ > 0) {
        faktory_call_add_load(&s->call, 1);
    }
}

void faktory_ack(struct faktory_conn *conn, struct str args)
{
    static const struct outcome SUCCESS = {.ending = ENDING_RAN};
    struct settle_call *s = settle_open(conn);
    struct str jid;
    if (!s)
        return;
    if (faktory_ack_read(args, &s->call.arena, &jid, NULL) < 0 || jid.len == 0)
        faktory_put_error(faktory_conn_reply(conn), "invalid ACK %.*s", FAKTORY_QUOTE(args));
    else
        settle_add(s, jid, &SUCCESS);
}

void faktory_fail(struct faktory_conn *conn, struct str args)
{
    struct settle_call *s = settle_open(conn);
    struct faktory_fail failure;
    if (!s)
        return;
    if (faktory_fail_read(args, &s->call.arena, &failure, NULL) < 0) {
        faktory_put_error(faktory_conn_reply(conn), "invalid FAIL %.*s", FAKTORY_QUOTE(args));
        return;
    }
    if (failure.jid.len == 0) {
        faktory_put_error(faktory_conn_reply(conn), "missing JID");
        return;
    }
    const struct outcome outcome = {
        .ending = ENDING_RAN,
        .failure = {.error_type = failure.error_type,
                    .error_types = failure.error_types,
                    .n_error_types = failure.n_error_types,
                    .message = failure.message,
                    .stacktrace = failure.backtrace,
                    .failed = true},
    };
    settle_add(s, failure.jid, &outcome);
}
