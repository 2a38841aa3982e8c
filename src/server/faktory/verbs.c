/* verbs.c - the table of commands, and all but PUSH and FETCH: ACK, FAIL, BEAT, END, and those of
 * administrators. */
#include "server/faktory/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "engine/verbs/settle.h"
#include "server/faktory/admin/admin.h"
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
    RELEASED_BY(arena_release) struct arena arena = {0};
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

/* Begins as the answer of the open-source server does, which clients may know. */
static void batch(struct faktory_conn *conn, struct str args)
{
    (void)args;
    faktory_put_error(faktory_conn_reply(conn),
                      "batch subsystem is only available in Faktory Enterprise; here a job can "
                      "wait for others by `after` over HTTP");
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
            faktory_put_failure(call->conn, &call->reply, &s->op.op.err);
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

/* ---- INFO, FLUSH, QUEUE and MUTATE -------------------------------------------------------------
 *
 * Steps of faktory/admin/admin.h until they are done.
 */

#define NAMES_MAX 100

struct admin_call {
    struct faktory_call call;
    struct faktory_admin admin;
    struct faktory_mutation mutation;
    struct str *names;
    size_t capacity;
};

static struct admin_call *admin_of(struct faktory_call *call)
{
    return (struct admin_call *)(void *)call;
}

static void admin_answered(struct faktory_call *call)
{
    struct admin_call *a = admin_of(call);
    if (a->admin.op.code < 0) {
        faktory_put_failure(call->conn, &call->reply, &a->admin.op.err);
    } else if (a->admin.more && call->conn->server->is_stopping) {
        faktory_put_error(&call->reply, "the server stops; the rest was not done");
    } else if (a->admin.more) {
        faktory_admin_next(&a->admin);
        faktory_call_send(call, &a->admin.op);
        return;
    } else if (a->admin.text.len > 0) {
        faktory_put_bulk(&call->reply, buf_str(&a->admin.text));
    } else {
        faktory_put_ok(&call->reply);
    }
    faktory_call_finish(call);
}

static void admin_release(struct faktory_call *call)
{
    struct admin_call *a = admin_of(call);
    faktory_admin_release(&a->admin);
    free(a->names);
}

static const struct faktory_call_kind ADMIN = {
    .answered = admin_answered,
    .release = admin_release,
};

static struct admin_call *admin_new(struct faktory_conn *conn, enum faktory_admin_kind kind)
{
    faktory_conn_seal(conn);
    struct admin_call *a = faktory_call_new(conn, &ADMIN, sizeof *a);
    if (!a)
        return NULL;
    faktory_admin_init(&a->admin, kind, conn->tenant);
    a->admin.removed = conn->server->removed;
    return a;
}

static void admin_refuse(struct admin_call *a, const char *text)
{
    faktory_put_error(&a->call.reply, "%s", text);
    faktory_call_finish(&a->call);
}

/* What this process has in memory; 0: unknown. */
static uint64_t resident_mb(void)
{
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%lu %lu", &total, &resident) != 2)
        resident = 0;
    (void)fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) / (1024 * 1024);
}

static void info(struct faktory_conn *conn, struct str args)
{
    const struct faktory_server *server = conn->server;
    struct admin_call *a = admin_new(conn, FAKTORY_INFO);
    (void)args;
    if (!a)
        return;
    a->admin.facts = (struct faktory_server_facts){
        .uptime_s = (clock_monotonic_ms() - server->started_ms) / 1000,
        .connections = server->n_conns,
        .commands = server->n_commands,
        .workers = server->workers.count,
        .reaped = server->n_reaped,
        .memory_mb = resident_mb(),
    };
    faktory_call_send(&a->call, &a->admin.op);
}

static void flush(struct faktory_conn *conn, struct str args)
{
    struct admin_call *a = admin_new(conn, FAKTORY_FLUSH);
    (void)args;
    if (!a)
        return;
    log_event(conn->server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "faktory_flush",
              LOG_STR("tenant", conn->tenant));
    faktory_call_send(&a->call, &a->admin.op);
}

static const char *read_names(struct admin_call *a, struct str words)
{
    struct str word;
    while (faktory_word_next(&words, &word)) {
        if (!str_is(word, "*") && name_check_queue(word, NULL) < 0)
            return "queue names must match [a-zA-Z0-9._-]+";
        if (a->admin.n_names == NAMES_MAX)
            return "too many queues";
        if (!faktory_make_room((void **)&a->names, a->admin.n_names, &a->capacity,
                               sizeof *a->names))
            return "out of memory";
        a->names[a->admin.n_names++] = word;
    }
    a->admin.names = a->names;
    if (a->admin.n_names == 0)
        return "QUEUE needs the name of a queue";
    a->admin.all = a->admin.n_names == 1 && str_is(a->names[0], "*");
    return a->admin.all && a->admin.kind == FAKTORY_LATENCY
               ? "QUEUE LATENCY does not support wildcards"
               : NULL;
}

static void queue(struct faktory_conn *conn, struct str args)
{
    static const struct {
        const char *word;
        enum faktory_admin_kind kind;
        enum config_scope scope;
    } KINDS[] = {
        {"PAUSE", FAKTORY_PAUSE, CONFIG_SCOPE_ADMIN},
        {"RESUME", FAKTORY_RESUME, CONFIG_SCOPE_ADMIN},
        {"REMOVE", FAKTORY_REMOVE, CONFIG_SCOPE_ADMIN},
        {"LATENCY", FAKTORY_LATENCY, CONFIG_SCOPE_READ},
    };
    struct str word = STR("");
    (void)faktory_word_next(&args, &word);
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        if (!str_eq_nocase(word, str_of(KINDS[i].word)))
            continue;
        if (!faktory_conn_may(conn, KINDS[i].scope, word))
            return;
        struct admin_call *a = admin_new(conn, KINDS[i].kind);
        const char *wrong = a ? read_names(a, args) : NULL;
        if (wrong)
            admin_refuse(a, wrong);
        else if (a)
            faktory_call_send(&a->call, &a->admin.op);
        return;
    }
    faktory_put_error(faktory_conn_reply(conn), "no such QUEUE subcommand: %.*s",
                      FAKTORY_QUOTE(word));
}

static void mutate(struct faktory_conn *conn, struct str args)
{
    struct redrive_err err = {0};
    struct admin_call *a = admin_new(conn, FAKTORY_MUTATE);
    if (!a)
        return;
    int rc = faktory_mutation_read(args, &a->call.arena, &a->mutation, &err);
    if (rc == 0)
        rc = faktory_mutation_check(&a->mutation, &err);
    if (rc < 0) {
        admin_refuse(a, err.message);
        return;
    }
    a->admin.mutation = &a->mutation;
    faktory_call_send(&a->call, &a->admin.op);
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
        {"INFO", info, CONFIG_SCOPE_READ},
        {"QUEUE", queue, 0},
        {"FLUSH", flush, CONFIG_SCOPE_ADMIN},
        {"MUTATE", mutate, CONFIG_SCOPE_ADMIN},
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
