/* routes_cron.c - cron entries: list them, set one, remove one. */
#include "server/rest/routes.h"

#include "engine/clock/cron.h"
#include "server/rest/resource.h"

static void get_cron(struct rest_call *call)
{
    struct cron_page page = {0};
    struct redrive_err err = {0};
    int rc = cron_page_read(rest_store(call), call->config, call->principal.tenant,
                            rest_now_ms(call), &page, &err);
    if (rc < 0) {
        rest_fail(call, &err, NULL);
    } else {
        struct json_writer *w = rest_json(call);
        kit_begin_items(w);
        for (size_t i = 0; i < page.n; i++)
            cron_item_write_json(w, &page.items[i]);
        kit_end_items(w);
        rest_send(call, 200);
    }
    cron_page_release(&page);
}

/* What is sent is a copy; the request and all that is in its arena are gone afterwards. */
static void was_put(struct rest_call *call, struct op *op)
{
    struct cron_put_op kept = *(struct cron_put_op *)op;
    if (!rest_refused(call, op)) {
        cron_item_write_json(rest_json(call), &kept.shown);
        rest_send(call, kept.created ? 201 : 200);
    }
    cron_put_op_release(&kept);
}

/* The definition may name a time zone, whose file has to be read: not on the server's thread. */
static void put_entry(struct rest_call *call)
{
    struct cron_put_op *op = arena_alloc(http_arena(call->request), sizeof *op);
    struct redrive_err err = {0};
    if (!op) {
        kit_nomem(call);
        return;
    }
    int rc = cron_put_op_init(op, committer_engine(rest_committer(call)), call->principal.tenant,
                              call->params[0], http_body(call->request), &err);
    if (rc == 0) {
        rest_commit(call, &op->op, was_put);
        return;
    }
    cron_put_op_release(op);
    kit_fail(call, &err, op->field);
}

static void was_removed(struct rest_call *call, struct op *op)
{
    if (!rest_refused(call, op))
        rest_send_empty(call, 204);
}

static void delete_entry(struct rest_call *call)
{
    struct cron_remove_op *op = arena_alloc(http_arena(call->request), sizeof *op);
    if (!op) {
        kit_nomem(call);
        return;
    }
    cron_remove_op_init(op, call->principal.tenant, call->params[0]);
    rest_commit(call, &op->op, was_removed);
}

const struct rest_route REST_CRON[] = {
    {HTTP_GET, "/cron", CONFIG_SCOPE_READ, true, get_cron},
    {HTTP_PUT, "/cron/{name}", CONFIG_SCOPE_ADMIN, true, put_entry},
    {HTTP_DELETE, "/cron/{name}", CONFIG_SCOPE_ADMIN, false, delete_entry},
    {0},
};
