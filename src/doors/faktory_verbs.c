#include "doors/faktory_int.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/json_writer.h"
#include "doors/faktory_admin.h"
#include "doors/faktory_job.h"
#include "doors/faktory_line.h"
#include "engine/settle.h"
#include "engine/submit.h"

static void put_failure(struct buf *out, const struct redrive_err *err)
{
    if (err->detail[0])
        faktory_put_error(out, "%s: %s", err->message, err->detail);
    else
        faktory_put_error(out, "%s", err->message);
}

/* Makes room for one more in an array that doubles. */
static bool make_room(void **items, size_t n, size_t *capacity, size_t size)
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

/* ---- PUSH and PUSHB ------------------------------------------------------------------------- */

/* A job of a PUSHB that was refused before anybody was asked. */
struct refusal {
    struct str jid;
    const char *text;
};

struct push_call {
    struct faktory_call call;
    bool is_bulk;
    struct job_spec *specs;
    size_t n;
    size_t capacity;
    struct submit_op op;
    bool has_op;
    struct refusal *refusals;
    size_t n_refusals;
    size_t refusals_capacity;
};

static struct push_call *push_of(struct faktory_call *call)
{
    return (struct push_call *)(void *)call;
}

static int push_add(struct push_call *p, struct str json, struct str *ret_jid,
                    struct redrive_err *err)
{
    const struct faktory_conn *conn = p->call.conn;
    const struct engine *engine = committer_engine(conn->server->options.committer);
    struct faktory_job job;
    int rc = faktory_job_read(json, &p->call.arena, &job, err);
    *ret_jid = job.jid;
    if (rc < 0)
        return rc;
    if (!make_room((void **)&p->specs, p->n, &p->capacity, sizeof *p->specs))
        return REDRIVE_E_NOMEM;
    bool is_declared = *engine_task(engine, job.type)->name != '\0';
    faktory_job_spec(&job, conn->tenant, is_declared, &p->call.arena, &p->specs[p->n]);
    if (p->call.arena.failed)
        return REDRIVE_E_NOMEM;
    p->n++;
    return 0;
}

static void push_answer_each(struct push_call *p)
{
    struct buf *out = &p->call.reply;
    for (size_t i = 0; i < p->n; i++)
        if (p->op.op.code < 0)
            put_failure(out, &p->op.op.err);
        else if (p->op.answers[i].code < 0)
            put_failure(out, &p->op.answers[i].err);
        else
            faktory_put_ok(out);
}

/* The jobs that were refused, and why; {} when all is well. */
static void push_answer_bulk(struct push_call *p)
{
    struct buf *text = &p->call.conn->server->text;
    struct json_writer w;
    if (p->has_op && p->op.op.code < 0) {
        put_failure(&p->call.reply, &p->op.op.err);
        return;
    }
    buf_reset(text);
    json_writer_init(&w, text);
    json_begin_object(&w);
    for (size_t i = 0; i < p->n_refusals; i++) {
        json_key_str(&w, p->refusals[i].jid);
        json_put_cstr(&w, p->refusals[i].text);
    }
    for (size_t i = 0; i < p->n; i++)
        if (p->op.answers[i].code < 0) {
            json_key_str(&w, p->specs[i].id);
            json_put_cstr(&w, p->op.answers[i].err.message);
        }
    json_end_object(&w);
    faktory_put_bulk(&p->call.reply, buf_str(text));
}

static void push_answered(struct faktory_call *call)
{
    struct push_call *p = push_of(call);
    if (p->is_bulk)
        push_answer_bulk(p);
    else
        push_answer_each(p);
    faktory_call_finish(call);
}

static void push_seal(struct faktory_call *call)
{
    struct push_call *p = push_of(call);
    const struct engine *engine = committer_engine(call->conn->server->options.committer);
    struct redrive_err err = {0};
    if (p->n == 0) {
        if (p->is_bulk)
            push_answer_bulk(p);
        faktory_call_finish(call);
        return;
    }
    p->has_op = submit_op_init(&p->op, engine, p->specs, p->n, &err) == 0;
    if (p->has_op) {
        faktory_call_send(call, &p->op.op);
        return;
    }
    for (size_t i = 0; i < (p->is_bulk ? 1 : p->n); i++)
        put_failure(&call->reply, &err);
    faktory_call_finish(call);
}

static void push_release(struct faktory_call *call)
{
    struct push_call *p = push_of(call);
    if (p->has_op)
        submit_op_release(&p->op);
    free(p->specs);
    free(p->refusals);
}

static const struct faktory_call_kind PUSH = {
    .seal = push_seal,
    .answered = push_answered,
    .release = push_release,
};

static void push(struct faktory_conn *conn, struct str args)
{
    struct faktory_call *open = faktory_conn_open(conn, &PUSH);
    struct redrive_err err = {.message = "out of memory"};
    struct str jid;
    if (!open) {
        faktory_conn_seal(conn);
        open = faktory_call_new(conn, &PUSH, sizeof(struct push_call));
    }
    if (!open)
        return;
    if (push_add(push_of(open), args, &jid, &err) < 0) {
        put_failure(faktory_conn_reply(conn), &err);
    } else if (push_of(open)->n > 1) {
        open->load++;
        conn->load++;
    }
}

static bool refuse(struct push_call *p, struct str jid, const struct redrive_err *err)
{
    if (!make_room((void **)&p->refusals, p->n_refusals, &p->refusals_capacity,
                   sizeof *p->refusals))
        return false;
    const char *text = arena_dup(&p->call.arena, str_of(err->message));
    p->refusals[p->n_refusals++] = (struct refusal){jid, text};
    return text != NULL;
}

static int read_bulk(struct push_call *p, struct str json, struct redrive_err *err)
{
    struct json_reader r;
    struct str item, jid;
    json_reader_init(&r, json, NULL);
    int rc = json_enter_array(&r);
    while (rc == 0 && (rc = json_next_item(&r)) > 0) {
        struct redrive_err why = {.message = "out of memory"};
        rc = json_skip(&r, &item);
        if (rc == 0 && push_add(p, item, &jid, &why) < 0 && !refuse(p, jid, &why))
            rc = json_fail(&r, REDRIVE_E_NOMEM, "out of memory");
    }
    if (rc == 0)
        rc = json_end(&r);
    (void)json_error(&r, err);
    json_reader_release(&r);
    return rc;
}

static void push_bulk(struct faktory_conn *conn, struct str args)
{
    struct redrive_err err = {0};
    faktory_conn_seal(conn);
    struct push_call *p = faktory_call_new(conn, &PUSH, sizeof *p);
    if (!p)
        return;
    conn->open = NULL;
    p->is_bulk = true;
    if (read_bulk(p, args, &err) == 0) {
        push_seal(&p->call);
        return;
    }
    faktory_put_error(&p->call.reply, "invalid JSON: %s", err.message);
    faktory_call_finish(&p->call);
}

/* ---- ACK and FAIL --------------------------------------------------------------------------- */

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
            put_failure(&call->reply, &s->op.op.err);
        else if (s->items[i].ret.code < 0 && s->jids[i].len > 0)
            faktory_put_error(&call->reply, "Job not found %.*s", (int)s->jids[i].len,
                              s->jids[i].ptr);
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
    struct faktory_call *open = faktory_conn_open(conn, &SETTLE);
    if (open)
        return settle_of(open);
    faktory_conn_seal(conn);
    return faktory_call_new(conn, &SETTLE, sizeof(struct settle_call));
}

static void settle_add(struct settle_call *s, struct str jid, const struct outcome *outcome)
{
    struct faktory_conn *conn = s->call.conn;
    const struct str worker = faktory_worker_name(conn);
    if (!make_room((void **)&s->items, s->n, &s->capacity, sizeof *s->items) ||
        !make_room((void **)&s->jids, s->n, &s->jids_capacity, sizeof *s->jids)) {
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
        s->call.load++;
        conn->load++;
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
        faktory_put_error(faktory_conn_reply(conn), "invalid ACK %.*s",
                          args.len < 400 ? (int)args.len : 400, args.ptr);
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
        faktory_put_error(faktory_conn_reply(conn), "invalid FAIL %.*s",
                          args.len < 400 ? (int)args.len : 400, args.ptr);
        return;
    }
    if (failure.jid.len == 0) {
        faktory_put_error(faktory_conn_reply(conn), "missing JID");
        return;
    }
    const struct outcome outcome = {
        .ending = ENDING_RAN,
        .failure = {.error_type = failure.error_type,
                    .message = failure.message,
                    .stacktrace = failure.backtrace,
                    .failed = true},
    };
    settle_add(s, failure.jid, &outcome);
}

/* ---- INFO, FLUSH, QUEUE, MUTATE ------------------------------------------------------------- */

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
        put_failure(&call->reply, &a->admin.op.err);
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
    if (a)
        faktory_admin_init(&a->admin, kind, conn->tenant);
    return a;
}

static void admin_refuse(struct admin_call *a, const char *text)
{
    faktory_put_error(&a->call.reply, "%s", text);
    faktory_call_finish(&a->call);
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
        if (!faktory_is_name(word))
            return "invalid queue name";
        if (!make_room((void **)&a->names, a->admin.n_names, &a->capacity, sizeof *a->names))
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
    } KINDS[] = {
        {"PAUSE", FAKTORY_PAUSE},
        {"RESUME", FAKTORY_RESUME},
        {"REMOVE", FAKTORY_REMOVE},
        {"LATENCY", FAKTORY_LATENCY},
    };
    struct str word = STR("");
    (void)faktory_word_next(&args, &word);
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        if (!str_eq_nocase(word, str_of(KINDS[i].word)))
            continue;
        struct admin_call *a = admin_new(conn, KINDS[i].kind);
        const char *wrong = a ? read_names(a, args) : NULL;
        if (wrong)
            admin_refuse(a, wrong);
        else if (a)
            faktory_call_send(&a->call, &a->admin.op);
        return;
    }
    faktory_put_error(faktory_conn_reply(conn), "no such QUEUE subcommand: %.*s",
                      word.len < 64 ? (int)word.len : 64, word.ptr);
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

/* ---- The rest ------------------------------------------------------------------------------- */

static void beat(struct faktory_conn *conn, struct str args)
{
    struct buf *out = faktory_conn_reply(conn);
    struct faktory_beat said;
    struct arena arena;
    arena_init(&arena);
    if (faktory_beat_read(args, &arena, &said, NULL) < 0) {
        faktory_put_error(out, "invalid BEAT %.*s", args.len < 400 ? (int)args.len : 400, args.ptr);
    } else {
        struct faktory_worker *worker = faktory_worker_find(conn->server, conn->tenant, said.wid);
        if (!worker) {
            faktory_put_error(out, "unknown worker %.*s",
                              said.wid.len < 255 ? (int)said.wid.len : 255,
                              said.wid.ptr ? said.wid.ptr : "");
        } else {
            enum faktory_state state = conn->server->state;
            faktory_worker_beat(worker, said.state, clock_monotonic_ms());
            if (worker->state > state)
                state = worker->state;
            if (state == FAKTORY_RUNNING)
                faktory_put_ok(out);
            else
                faktory_put_bulk(out, state == FAKTORY_QUIET ? STR("{\"state\":\"quiet\"}")
                                                             : STR("{\"state\":\"terminate\"}"));
        }
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
    } VERBS[] = {
        {"PUSH", push},   {"FETCH", faktory_fetch}, {"ACK", ack},     {"FAIL", fail},
        {"BEAT", beat},   {"PUSHB", push_bulk},     {"INFO", info},   {"QUEUE", queue},
        {"FLUSH", flush}, {"MUTATE", mutate},       {"TRACK", track}, {"BATCH", batch},
        {"END", end},
    };
    conn->server->n_commands++;
    for (size_t i = 0; i < sizeof VERBS / sizeof VERBS[0]; i++)
        if (str_is(line->verb, VERBS[i].verb)) {
            VERBS[i].run(conn, line->args);
            return;
        }
    faktory_put_error(faktory_conn_reply(conn), "unknown command %.*s",
                      line->verb.len < 64 ? (int)line->verb.len : 64, line->verb.ptr);
}
