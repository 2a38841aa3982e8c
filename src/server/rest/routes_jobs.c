/* routes_jobs.c - jobs one by one and in pages: show, list, cancel, run now. */
#include "server/rest/routes.h"

#include "engine/gates/view.h"
#include "engine/verbs/change.h"
#include "server/rest/body/views.h"
#include "server/rest/resource.h"

/* ---- Reading --------------------------------------------------------------------------------- */

static void get_jobs(struct rest_call *call)
{
    struct job_query query;
    job_query_init(&query, call->principal.tenant, JOB_QUERY_STATE | JOB_QUERY_PAGE, ORDER_NEWEST,
                   rest_now_ms(call), http_arena(call->request));
    if (kit_query(call, &query))
        kit_send_page(call, &query.filter, view_job);
}

static void get_job(struct rest_call *call)
{
    struct store *store = rest_store(call);
    struct job_page page = {0};
    struct attempt_page history = {0};
    struct redrive_err err = {0};
    if (!kit_find(call, 0, &page)) {
        job_page_release(&page);
        return;
    }
    int rc = store_ops(store)->history(store, &page.jobs[0].status.seq, 1, &history, &err);
    struct gate_info gate;
    if (rc == 0)
        rc = gate_read(store, &page.jobs[0], rest_now_ms(call), &gate, &err);
    if (rc < 0) {
        rest_fail(call, &err, NULL);
    } else {
        view_whole_job(rest_json(call), &page.jobs[0], &history, &gate);
        rest_send(call, 200);
    }
    attempt_page_release(&history);
    job_page_release(&page);
}

/* ---- Changing -------------------------------------------------------------------------------- */

struct job_change {
    struct change_op change; /* first */
    struct change_item item;
};

static void change(struct rest_call *call, enum move_kind kind,
                   void (*then)(struct rest_call *call, struct op *op))
{
    struct job_change *c = arena_alloc(http_arena(call->request), sizeof *c);
    if (!c) {
        kit_nomem(call);
        return;
    }
    c->item = (struct change_item){.tenant = call->principal.tenant, .id = call->params[0]};
    change_op_init(&c->change, kind, &c->item, 1);
    rest_commit(call, &c->change.op, then);
}

static void answer(struct rest_call *call, const struct op *op, const char *verb)
{
    const struct change_item *item = &((const struct job_change *)(const void *)op)->item;
    if (op->code < 0)
        rest_fail(call, &op->err, NULL);
    else if (item->ret.code < 0)
        kit_refused(call, verb, "job", item->id, &item->ret);
    else
        kit_send_state(call, item->id, item->ret.state);
}

static void cancelled(struct rest_call *call, struct op *op)
{
    answer(call, op, "cancel");
}

static void delete_job(struct rest_call *call)
{
    change(call, MOVE_CANCEL, cancelled);
}

static void redriven(struct rest_call *call, struct op *op)
{
    answer(call, op, "retry");
}

/* A time-locked job runs now; one that is dead or has failed begins anew. Each of the two moves is
 * made only from the states that it is for, so that nothing can go wrong in between. */
static void run_now(struct rest_call *call, struct op *op)
{
    const struct move_result *ret = &((const struct job_change *)(const void *)op)->item.ret;
    const bool is_refused = op->code == 0 && ret->code == REDRIVE_E_STATE;
    if (is_refused &&
        (ret->state == REDRIVE_STATE_DEAD_LETTER || ret->state == REDRIVE_STATE_FAILED))
        change(call, MOVE_REDRIVE, redriven);
    else if (is_refused && ret->state == REDRIVE_STATE_QUEUED)
        /* It is as ready as it can be: asking twice is no mistake. */
        kit_send_state(call, call->params[0], REDRIVE_STATE_QUEUED);
    else
        answer(call, op, "retry");
}

static void retry_job(struct rest_call *call)
{
    change(call, MOVE_RUN_NOW, run_now);
}

const struct rest_route REST_JOBS[] = {
    {HTTP_GET, "/jobs", CONFIG_SCOPE_READ, true, get_jobs},
    {HTTP_GET, "/jobs/{id}", CONFIG_SCOPE_READ, true, get_job},
    {HTTP_DELETE, "/jobs/{id}", CONFIG_SCOPE_ADMIN, false, delete_job},
    {HTTP_POST, "/jobs/{id}/retry", CONFIG_SCOPE_ADMIN, false, retry_job},
    {0},
};
