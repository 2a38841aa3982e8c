/* verbs.c - the table of commands, and the small ones: ACK, FAIL, BEAT, END. */
#include "server/faktory/private.h"

#include <stdlib.h>

#include "base/time/clock.h"
#include "engine/verbs/settle.h"
#include "server/faktory/format/request.h"

/* ---- Small ones ------------------------------------------------------------------------------ */

static void answer_beat(struct buf *out, const struct faktory_server *server,
                        struct faktory_worker *worker)
{
    switch (faktory_drain_state(server, worker)) {
    case FAKTORY_QUIET: faktory_put_bulk(out, STR("{\"state\":\"quiet\"}")); break;
    case FAKTORY_TERMINATE: faktory_put_bulk(out, STR("{\"state\":\"terminate\"}")); break;
    case FAKTORY_RUNNING:
    default: faktory_put_ok(out); break;
    }
}

static void beat(struct faktory_conn *conn, struct str args)
{
    struct buf *out = faktory_conn_reply(conn);
    struct faktory_worker *worker = NULL;
    struct faktory_beat said;
    struct arena arena;
    arena_init(&arena);
    bool is_beat = faktory_beat_read(args, &arena, &said, NULL) == 0;
    if (is_beat)
        worker = faktory_worker_find(conn->server, conn->tenant, said.wid);
    if (worker) {
        faktory_worker_beat(conn->server, worker, said.state, clock_monotonic_ms());
        answer_beat(out, conn->server, worker);
    } else if (is_beat) {
        faktory_put_error(out, "unknown worker %.*s", FAKTORY_QUOTE(said.wid));
    } else {
        faktory_put_error(out, "invalid BEAT %.*s", FAKTORY_QUOTE(args));
    }
    arena_release(&arena);
}

static void end(struct faktory_conn *conn, struct str args)
{
    (void)args;
    faktory_conn_end(conn);
}

static void track(struct faktory_conn *conn, struct str args)
{
    (void)args;
    faktory_put_error(faktory_conn_reply(conn),
                      "tracking subsystem is only available in Faktory Enterprise");
}

static void batch(struct faktory_conn *conn, struct str args)
{
    (void)args;
    faktory_put_error(faktory_conn_reply(conn),
                      "batch subsystem is only available in Faktory Enterprise");
}

/* ---- ACK and FAIL ---------------------------------------------------------------------------- */

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

static void ack(struct faktory_conn *conn, struct str args)
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

static void fail(struct faktory_conn *conn, struct str args)
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

/* ---- The table ------------------------------------------------------------------------------- */

void faktory_verb(struct faktory_conn *conn, const struct faktory_line *line)
{
    static const struct {
        const char *verb;
        void (*run)(struct faktory_conn *conn, struct str args);
        enum config_scope scope; /* 0: none, or it looks itself */
    } VERBS[] = {
        {"PUSH", faktory_push, CONFIG_SCOPE_ENQUEUE},
        {"FETCH", faktory_fetch, CONFIG_SCOPE_WORK},
        {"ACK", ack, CONFIG_SCOPE_WORK},
        {"FAIL", fail, CONFIG_SCOPE_WORK},
        {"BEAT", beat, CONFIG_SCOPE_WORK},
        {"PUSHB", faktory_push_bulk, CONFIG_SCOPE_ENQUEUE},
        {"INFO", faktory_info, CONFIG_SCOPE_READ},
        {"QUEUE", faktory_queue, 0},
        {"FLUSH", faktory_flush, CONFIG_SCOPE_ADMIN},
        {"MUTATE", faktory_mutate, CONFIG_SCOPE_ADMIN},
        {"TRACK", track, 0},
        {"BATCH", batch, 0},
        {"END", end, 0},
    };
    conn->server->n_commands++;
    for (size_t i = 0; i < sizeof VERBS / sizeof VERBS[0]; i++)
        if (str_is(line->verb, VERBS[i].verb)) {
            if (!VERBS[i].scope || faktory_conn_may(conn, VERBS[i].scope, line->verb))
                VERBS[i].run(conn, line->args);
            return;
        }
    faktory_put_error(faktory_conn_reply(conn), "unknown command %.*s", FAKTORY_QUOTE(line->verb));
}
