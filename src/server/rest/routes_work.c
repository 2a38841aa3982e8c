/* routes_work.c - remote workers: POST /claim, /settle, /extend. */
#include "server/rest/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/engine.h"
#include "server/claim_waits.h"
#include "server/remote_workers.h"
#include "server/rest/body/views.h"
#include "server/rest/body/work.h"
#include "server/rest/resource.h"

/* Of the jobs of one answer; more than the first ones are left to the next claim. */
#define CLAIM_MAX_BYTES ((size_t)16 * 1024 * 1024)

/* ---- Claims ---------------------------------------------------------------------------------- */

/* In the request's arena, which is there until both the answer has been given and the connection is
 * through with the request. */
struct polling {
    struct claim_wait wait; /* first */
    struct rest_call *call;
    bool is_named; /* the worker has a name of its own */
};

/* ---- Jobs whose client has gone: they are given back, and the attempt does not count --------- */

struct giving_back {
    struct settle_op settle; /* first */
    struct settlement items[];
};

static void given_back(struct op *op, void *ctx)
{
    (void)ctx;
    free(op);
}

/* When there is no memory even for this, their leases end by themselves. */
static void give_back(struct committer *committer, const struct claim_op *claim)
{
    struct giving_back *g = calloc(1, sizeof *g + claim->n * sizeof g->items[0]);
    if (!g)
        return;
    for (size_t i = 0; i < claim->n; i++)
        g->items[i] = (struct settlement){
            .seq = claim->jobs[i].status.seq,
            .token = claim->jobs[i].status.token,
            .outcome = {.ending = ENDING_RELEASED},
        };
    settle_op_init(&g->settle, g->items, claim->n);
    g->settle.op.done = given_back;
    committer_submit(committer, &g->settle.op);
}

/* ---- The jobs of workers with a name --------------------------------------------------------- */

static struct job_name name_of(const struct job *job)
{
    return (struct job_name){job->spec.tenant, job->spec.id};
}

/* Before the answer, so that a settlement never comes first. */
static void hold(struct remote_workers *remote, const struct claim_op *claim, int64_t now_ms)
{
    for (size_t i = 0; i < claim->n; i++) {
        const struct job_status *s = &claim->jobs[i].status;
        const struct lease lease = {name_of(&claim->jobs[i]), s->token, s->lease_until_ms};
        remote_jobs_add(remote, &lease, now_ms);
    }
}

static void let_go(struct remote_workers *remote, const struct claim_op *claim)
{
    for (size_t i = 0; i < claim->n; i++) {
        const struct job_name name = name_of(&claim->jobs[i]);
        remote_jobs_drop(remote, &name, claim->jobs[i].status.token);
    }
}

/* ---- The answer ------------------------------------------------------------------------------ */

static void write_jobs(struct rest_call *call, const struct claim_op *claim, size_t parents_bytes)
{
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    json_open_array(w, "jobs");
    for (size_t i = 0; i < claim->n; i++)
        view_claimed(w, &claim->jobs[i], tracing_sampler(call->rest->tracing), parents_bytes);
    json_end_array(w);
    json_end_object(w);
}

/* Whether a client will get the jobs. An answer that would be too long with the results of parents
 * has none of these: the same jobs would be claimed again and again. */
static bool send_jobs(struct rest_call *call, const struct claim_op *claim)
{
    write_jobs(call, claim, PARENTS_BYTES);
    if (buf_failed(&call->body))
        write_jobs(call, claim, 0);
    return rest_send(call, 200);
}

/* A client that has closed its sending side has most likely gone, and its jobs would wait for their
 * leases to end. It may still be reading, so it must not see the jobs that are given back. */
static void refuse_half_closed(struct rest_call *call)
{
    kit_refuse_as(call, 0, REDRIVE_E_IO, "no jobs for a connection that is being closed",
                  "keep the sending side open until the answer has come");
}

/* The configuration has been reloaded while it waited. */
static bool is_still_admitted(const struct claim_wait *wait)
{
    const struct rest_call *call = ((const struct polling *)(const void *)wait)->call;
    return rest_still_admits(call->rest, &call->principal, rest_route_scope(call->route));
}

static void claimed(struct claim_wait *wait)
{
    struct polling *p = (struct polling *)(void *)wait;
    struct rest_call *call = p->call;
    struct claim_op claim = wait->claim;
    struct committer *committer = call->rest->committer;
    struct remote_workers *remote = p->is_named ? call->rest->remote : NULL;
    bool is_taken = true;
    if (claim.op.code < 0) {
        rest_fail(call, &claim.op.err, NULL);
    } else if (!is_still_admitted(wait)) {
        rest_refuse_former(call);
        is_taken = false;
    } else if (claim.n > 0 && http_gone(call->request)) {
        refuse_half_closed(call);
        is_taken = false;
    } else {
        hold(remote, &claim, rest_now_ms(call));
        is_taken = send_jobs(call, &claim);
    }
    if (!is_taken && claim.n > 0) {
        let_go(remote, &claim);
        give_back(committer, &claim);
    }
    claim_op_release(&claim);
}

static void gone(struct http_request *request, void *ctx)
{
    (void)request;
    claim_waits_end(ctx);
}

/* ---- The question ---------------------------------------------------------------------------- */

static void add_names(struct buf *key, const struct field_names *names)
{
    buf_putc(key, '\n');
    for (size_t i = 0; i < names->n; i++) {
        buf_add_str(key, names->items[i]);
        buf_putc(key, '\t');
    }
}

/* Names have no control characters, so that no two questions have the same key. */
static struct str line_key(struct str tenant, const struct claim_body *body, struct arena *arena)
{
    RELEASED_BY(buf_release)
    struct buf key = BUF_MAX((CLAIM_BODY_QUEUES + CLAIM_BODY_TASKS + 3) * (FIELD_NAME_MAX + 2));
    buf_add_str(&key, tenant);
    add_names(&key, &body->queues);
    add_names(&key, &body->tasks);
    return arena_str(arena, buf_str(&key));
}

/* Before the claim, so that its jobs are counted. */
static void tell_of_worker(const struct rest_call *call, const struct claim_body *body)
{
    const int64_t now_ms = rest_now_ms(call);
    if (body->worker.len > 0)
        remote_workers_seen(call->rest->remote, call->principal.tenant, body->worker, now_ms,
                            now_ms + body->wait_ms);
}

static void post_claim(struct rest_call *call)
{
    struct arena *arena = http_arena(call->request);
    struct redrive_err err = {0};
    struct claim_body body;
    if (!call->rest->ready) {
        kit_refuse_as(call, 0, REDRIVE_E_STOPPING, "takes no work now",
                      "settle the jobs that you have, and claim at another server");
        return;
    }
    if (claim_body_read(http_body(call->request), arena, &body, &err) < 0) {
        kit_fail(call, &err, body.field);
        return;
    }
    struct polling *p = kit_alloc(call, sizeof *p);
    if (!p)
        return;
    p->call = call;
    p->is_named = body.worker.len > 0;
    const struct claim_filter filter = {
        .tenant = call->principal.tenant,
        .queues = body.queues.items,
        .n_queues = body.queues.n,
        .tasks = body.tasks.items,
        .n_tasks = body.tasks.n,
        .limit = (size_t)body.n,
        .max_bytes = CLAIM_MAX_BYTES,
    };
    const char *name = call->principal.name ? call->principal.name : "remote";
    claim_op_init(&p->wait.claim, &filter, body.worker.len > 0 ? body.worker : str_of(name),
                  body.lease_ms);
    p->wait.claim.with_parents = true;
    p->wait.key = line_key(call->principal.tenant, &body, arena);
    p->wait.until_ms = clock_monotonic_ms() + body.wait_ms;
    p->wait.done = claimed;
    p->wait.may_wait = is_still_admitted;
    claim_wait_init(call->rest->claims, &p->wait);
    tell_of_worker(call, &body);
    if (body.wait_ms > 0)
        http_on_end(call->request, gone, &p->wait);
    claim_waits_add(&p->wait);
}

/* ---- Settlements and heartbeats -------------------------------------------------------------- */

struct items_call {
    union { /* first */
        struct op op;
        struct settle_op settle;
        struct extend_op extend;
    };
    struct items_body body;
};

/* What the request has sent; NULL: it has been answered. */
static struct items_call *read_items(struct rest_call *call,
                                     int (*read)(struct str text, struct str tenant,
                                                 struct arena *arena, struct items_body *ret,
                                                 struct redrive_err *err))
{
    struct redrive_err err = {0};
    struct items_call *c = kit_alloc(call, sizeof *c);
    if (!c || read(http_body(call->request), call->principal.tenant, http_arena(call->request),
                   &c->body, &err) == 0)
        return c;
    kit_fail(call, &err, c->body.field);
    return NULL;
}

/* One answer for each item that was sent, in that order: what is wrong with it, or what `write`
 * says of the next one of those that were handed in. */
static void send_items(struct rest_call *call, const struct op *op,
                       void (*write)(struct rest_call *call, const struct items_body *body,
                                     size_t i))
{
    const struct items_body *body = &((const struct items_call *)(const void *)op)->body;
    if (op->code < 0) {
        rest_fail(call, &op->err, NULL);
        return;
    }
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    json_open_array(w, "items");
    for (size_t i = 0, good = 0; i < body->n_sent; i++) {
        const struct item_fault *fault = body->faults[i];
        if (fault)
            view_bad_item(w, fault->id, &fault->err, fault->field);
        else
            write(call, body, good++);
    }
    json_end_array(w);
    json_end_object(w);
    rest_send(call, 200);
}

static void write_settled(struct rest_call *call, const struct items_body *body, size_t i)
{
    const struct settlement *item = &body->settlements[i];
    view_item(&call->writer, item->id, &item->ret, &item->decision, item->again_ms);
}

static void settled(struct rest_call *call, struct op *op)
{
    send_items(call, op, write_settled);
}

static void post_settle(struct rest_call *call)
{
    struct items_call *c = read_items(call, settle_body_read);
    if (!c)
        return;
    settle_op_init(&c->settle, c->body.settlements, c->body.n);
    rest_commit(call, &c->op, settled);
}

static void write_extended(struct rest_call *call, const struct items_body *body, size_t i)
{
    const struct extension *item = &body->extensions[i];
    const struct job_name name = {item->tenant, item->id};
    if (item->ret.code == 0)
        remote_jobs_extend(call->rest->remote, &name, item->token, item->lease_ms,
                           rest_now_ms(call));
    view_item(&call->writer, item->id, &item->ret, NULL, 0);
}

static void extended(struct rest_call *call, struct op *op)
{
    send_items(call, op, write_extended);
}

static void post_extend(struct rest_call *call)
{
    struct items_call *c = read_items(call, extend_body_read);
    if (!c)
        return;
    extend_op_init(&c->extend, c->body.extensions, c->body.n);
    rest_commit(call, &c->op, extended);
}

const struct rest_route REST_WORK[] = {
    {HTTP_POST, "/claim", CONFIG_SCOPE_WORK, false, post_claim,
     .own_summary = "Take up to n ready jobs, each under a lease"},
    {HTTP_POST, "/settle", CONFIG_SCOPE_WORK, false, post_settle,
     .own_summary = "Report how runs ended"},
    {HTTP_POST, "/extend", CONFIG_SCOPE_WORK, false, post_extend, .own_summary = "Extend leases"},
    {0},
};
