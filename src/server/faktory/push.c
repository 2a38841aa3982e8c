/* push.c - PUSH and PUSHB: submits jobs. */
#include "server/faktory/private.h"

#include <stdlib.h>

#include "base/json/writer.h"
#include "base/time/clock.h"
#include "engine/verbs/submit.h"
#include "server/faktory/format/job.h"
#include "server/faktory/format/request.h"

/* Of one PUSHB. A thousand is what Faktory recommends. */
#define BULK_MAX 20000

/* Between two lines about a jid that is in use. */
#define REPETITION_EVERY_MS 1000

/* A job of a PUSHB that was refused before the engine was asked. */
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

/* Which number of retries counts for a job of this type. */
static enum faktory_policy policy_from(const struct engine *engine, struct str type)
{
    struct config *config = engine_config(engine);
    const struct config_task *task = engine_task_by(engine, config, type);
    const enum faktory_policy from = !*task->name           ? FAKTORY_POLICY_CLIENT
                                     : task->client_retries ? FAKTORY_POLICY_BOTH
                                                            : FAKTORY_POLICY_TASK;
    config_free(config);
    return from;
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
    if (!faktory_make_room((void **)&p->specs, p->n, &p->capacity, sizeof *p->specs))
        return REDRIVE_E_NOMEM;
    faktory_job_spec(&job, conn->tenant, policy_from(engine, job.type), &p->call.arena,
                     &p->specs[p->n]);
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
            faktory_put_failure(p->call.conn, out, &p->op.op.err);
        else if (p->op.answers[i].code < 0)
            faktory_put_failure(p->call.conn, out, p->op.answers[i].err);
        else
            faktory_put_ok(out);
}

/* Of several jobs with the same jid, or with none, the first: a name is in an object once. */
static void put_refusal(struct json_writer *w, struct map *told, struct str jid, const char *why)
{
    if (map_get(told, jid))
        return;
    (void)map_put(told, jid, told); /* without memory it may be there twice */
    json_key_str(w, jid);
    json_put_cstr(w, why);
}

/* The jobs that were refused, and why; {} when all is well. */
static void push_answer_bulk(struct push_call *p)
{
    struct faktory_server *server = p->call.conn->server;
    struct buf *text = &server->text;
    struct json_writer w;
    RELEASED_BY(map_release) struct map told;
    map_init(&told, server->held.seed);
    if (p->has_op && p->op.op.code < 0) {
        faktory_put_failure(p->call.conn, &p->call.reply, &p->op.op.err);
        return;
    }
    buf_reset(text);
    json_writer_init(&w, text);
    json_begin_object(&w);
    for (size_t i = 0; i < p->n_refusals; i++)
        put_refusal(&w, &told, p->refusals[i].jid, p->refusals[i].text);
    for (size_t i = 0; i < p->n; i++)
        if (p->op.answers[i].code < 0)
            put_refusal(&w, &told, p->specs[i].id, p->op.answers[i].err->message);
    json_end_object(&w);
    faktory_put_bulk(&p->call.reply, buf_str(text));
}

/* Faktory would run both. */
static void log_repetitions(struct push_call *p)
{
    struct faktory_server *server = p->call.conn->server;
    int64_t held_back = 0;
    for (size_t i = 0; p->has_op && p->op.op.code == 0 && i < p->n; i++)
        if (p->op.answers[i].existed && log_pace_allows(&server->repetitions, clock_monotonic_ms(),
                                                        REPETITION_EVERY_MS, &held_back))
            log_event(server->options.log, LOG_LEVEL_INFO, clock_wall_ms(), "faktory_jid_in_use",
                      LOG_STR("job_id", p->specs[i].id), LOG_STR("tenant", p->specs[i].tenant),
                      LOG_I("more", held_back));
}

static void push_answered(struct faktory_call *call)
{
    struct push_call *p = push_of(call);
    log_repetitions(p);
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
        faktory_put_failure(call->conn, &call->reply, &err);
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

void faktory_push(struct faktory_conn *conn, struct str args)
{
    struct faktory_call *open = faktory_conn_open_call(conn, &PUSH);
    struct redrive_err err = {.message = "out of memory"};
    struct str jid;
    if (!open) {
        faktory_conn_seal(conn);
        open = faktory_call_new(conn, &PUSH, sizeof(struct push_call));
    }
    if (!open)
        return;
    if (push_add(push_of(open), args, &jid, &err) < 0) {
        faktory_put_failure(conn, faktory_conn_reply(conn), &err);
    } else if (push_of(open)->n > 1) {
        faktory_call_add_load(open, 1);
    }
}

static bool refuse(struct push_call *p, struct str jid, const struct redrive_err *err)
{
    if (!faktory_make_room((void **)&p->refusals, p->n_refusals, &p->refusals_capacity,
                           sizeof *p->refusals))
        return false;
    const char *text = arena_dup(&p->call.arena, str_of(err->message));
    p->refusals[p->n_refusals++] = (struct refusal){jid, text};
    return text != NULL;
}

static int read_bulk(struct push_call *p, struct str json, struct redrive_err *err)
{
    RELEASED_BY(json_reader_release) struct json_reader r;
    struct str item = {NULL, 0}, jid;
    json_reader_init(&r, json, NULL);
    int rc = json_enter_array(&r);
    while (rc == 0 && (rc = json_next_item(&r)) > 0) {
        struct redrive_err why = {.message = "out of memory"};
        const int type = json_peek(&r);
        rc = type == JSON_TYPE_OBJECT || type == JSON_TYPE_NULL || type < 0
                 ? json_skip(&r, &item)
                 : json_fail(&r, REDRIVE_E_INVALID, "expected a job, found %s",
                             json_type_name((enum json_type)type));
        if (rc == 0 && p->n + p->n_refusals >= BULK_MAX)
            rc = json_fail(&r, REDRIVE_E_TOO_BIG, "expected at most %d jobs", BULK_MAX);
        if (rc == 0 && push_add(p, item, &jid, &why) < 0 && !refuse(p, jid, &why))
            rc = json_fail(&r, REDRIVE_E_NOMEM, "out of memory");
    }
    if (rc == 0)
        rc = json_end(&r);
    (void)json_error(&r, err);
    return rc;
}

void faktory_push_bulk(struct faktory_conn *conn, struct str args)
{
    struct redrive_err err = {0};
    faktory_conn_seal(conn);
    struct push_call *p = faktory_call_new(conn, &PUSH, sizeof *p);
    if (!p)
        return;
    conn->open = NULL;
    p->is_bulk = true;
    if (read_bulk(p, args, &err) == 0) {
        faktory_call_add_load(&p->call, p->n / FAKTORY_LOAD_JOBS);
        push_seal(&p->call);
        return;
    }
    faktory_put_error(&p->call.reply, "invalid JSON: %s", err.message);
    faktory_call_finish(&p->call);
}
