/* verbs.c - the table of commands, and the small ones: BEAT, END, Enterprise. */
#include "server/faktory/private.h"

#include <stdlib.h>

#include "base/time/clock.h"
#include "server/faktory/format/line.h"

void faktory_put_failure(struct buf *out, const struct redrive_err *err)
{
    if (err->detail[0])
        faktory_put_error(out, "%s: %s", err->message, err->detail);
    else
        faktory_put_error(out, "%s", err->message);
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

void faktory_verb(struct faktory_conn *conn, const struct faktory_line *line)
{
    static const struct {
        const char *verb;
        void (*run)(struct faktory_conn *conn, struct str args);
        enum config_scope scope; /* 0: none, or it looks itself */
    } VERBS[] = {
        {"PUSH", faktory_push, CONFIG_SCOPE_ENQUEUE},
        {"FETCH", faktory_fetch, CONFIG_SCOPE_WORK},
        {"ACK", faktory_ack, CONFIG_SCOPE_WORK},
        {"FAIL", faktory_fail, CONFIG_SCOPE_WORK},
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
