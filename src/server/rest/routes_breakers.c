/* routes_breakers.c - circuit breakers: look at all of them, and move one by hand. */
#include "server/rest/routes.h"

#include "base/err.h"
#include "engine/gates/view.h"
#include "engine/verbs/control.h"
#include "server/rest/body/body.h"
#include "server/rest/body/views.h"
#include "server/rest/resource.h"

static void write_breaker(struct json_writer *w, const void *page, size_t i)
{
    breaker_write_json(w, &((const struct breaker_page *)page)->breakers[i]);
}

static void get_breakers(struct rest_call *call)
{
    struct store *store = rest_store(call);
    struct breaker_page page = {0};
    struct redrive_err err = {0};
    int rc = breakers_read(store, call->principal.tenant, rest_now_ms(call), &page, &err);
    if (rc == 0)
        rc = breakers_add_declared(call->config, call->principal.tenant, rest_now_ms(call), &page,
                                   &err);
    if (rc == 0)
        rc = breakers_count_parked(store, call->principal.tenant, &page, &err);
    kit_send_items(call, rc, &err, &page, page.n, write_breaker);
    breaker_page_release(&page);
}

static void moved(struct rest_call *call, struct op *op)
{
    const struct breaker_op *b = (const struct breaker_op *)(const void *)op;
    if (rest_refused(call, op))
        return;
    view_breaker(rest_json(call), b->key, &b->status);
    rest_send(call, 200);
}

static void move(struct rest_call *call, struct str key, const char *field, enum breaker_verb verb)
{
    struct redrive_err err = {0};
    struct breaker_op *op = arena_alloc(http_arena(call->request), sizeof *op);
    if (!op) {
        kit_nomem(call);
        return;
    }
    if (key.len == 0 || key.len > BODY_NAME_MAX) {
        (void)err_set(&err, REDRIVE_E_INVALID, "%s: it is %s", field,
                      key.len == 0 ? "missing" : "too long");
        err_detail(&err, "expected the name of a breaker, 1 to %d bytes", BODY_NAME_MAX);
        rest_fail(call, &err, field);
        return;
    }
    breaker_op_init(op, call->principal.tenant, key, verb);
    /* There would be nothing to reset, and a failure of what does not run means nothing. */
    op->known_only = verb == BREAKER_RESET || verb == BREAKER_SIMULATE_FAILURE;
    rest_commit(call, &op->op, moved);
}

static void post_reset(struct rest_call *call)
{
    move(call, call->params[0], "type", BREAKER_RESET);
}

static void post_trip(struct rest_call *call)
{
    move(call, call->params[0], "type", BREAKER_TRIP);
}

static void post_disable(struct rest_call *call)
{
    move(call, call->params[0], "type", BREAKER_DISABLE);
}

static void post_failure(struct rest_call *call)
{
    move(call, http_query(call->request, "task_type"), "task_type", BREAKER_SIMULATE_FAILURE);
}

#define BREAKERS "/retry/circuit-breakers"

const struct rest_route REST_BREAKERS[] = {
    {HTTP_GET, BREAKERS, CONFIG_SCOPE_READ, true, get_breakers},
    {HTTP_POST, BREAKERS "/{type}/reset", CONFIG_SCOPE_ADMIN, false, post_reset},
    {HTTP_POST, BREAKERS "/{type}/trip", CONFIG_SCOPE_ADMIN, false, post_trip},
    {HTTP_POST, BREAKERS "/{type}/disable", CONFIG_SCOPE_ADMIN, false, post_disable},
    {HTTP_POST, "/retry/simulate-failure", CONFIG_SCOPE_ADMIN, false, post_failure},
    {0},
};
