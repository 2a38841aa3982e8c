/* routes_control.c - queues, limits and circuit breakers: look at all; pause one, move one by hand.
 */
#include "server/rest/private.h"

#include "base/err.h"
#include "engine/gates/view.h"
#include "engine/verbs/control.h"
#include "server/dashboard/breaker_history.h"
#include "server/rest/body/views.h"
#include "server/rest/resource.h"
#include "store/job_json.h"

/* ---- Queues ---------------------------------------------------------------------------------- */

/* The engine refuses names that are none; the answer says in which parameter. */
static bool is_name_refused(struct rest_call *call, const struct op *op, const char *field)
{
    if (op->code != REDRIVE_E_INVALID && op->code != REDRIVE_E_TOO_BIG)
        return false;
    rest_fail(call, &op->err, field);
    return true;
}

static void paused(struct rest_call *call, struct op *op)
{
    struct pause_op *p = (struct pause_op *)op;
    if (is_name_refused(call, op, "queue") || rest_refused(call, op))
        return;
    if (pause_op_goes_on(p)) {
        rest_commit(call, op, paused);
        return;
    }
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    json_field_string(w, "queue", p->queue);
    json_field_bool(w, "paused", p->pause);
    json_end_object(w);
    rest_send(call, 200);
}

static void set_pause(struct rest_call *call, bool pause)
{
    struct pause_op *op = kit_alloc(call, sizeof *op);
    if (!op)
        return;
    pause_op_init(op, call->principal.tenant, call->params[0], pause);
    rest_commit(call, &op->op, paused);
}

static void post_pause(struct rest_call *call)
{
    set_pause(call, true);
}

static void post_resume(struct rest_call *call)
{
    set_pause(call, false);
}

/* ---- Breakers -------------------------------------------------------------------------------- */

/* The path is that of no breaker: those of breakers end with a verb. */
#define HISTORY_MINUTES_MAX (7 * 24 * 60)

static void get_history(struct rest_call *call)
{
    const int64_t now_ms = rest_now_ms(call);
    struct breaker_history *history = call->rest->breakers;
    struct redrive_err err = {0};
    static const struct field MINUTES = {"minutes", &FIELD_INT, 0, .min = 1,
                                         .max = HISTORY_MINUTES_MAX};
    int64_t minutes = 60;
    if (!kit_parameter(call, &MINUTES, &minutes))
        return;
    if (breaker_history_take(history, rest_store(call), now_ms, &err) < 0) {
        rest_fail(call, &err, NULL);
        return;
    }
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    job_write_time(w, "at", now_ms);
    job_write_time(w, "since", breaker_history_since_ms(history));
    json_open_array(w, "items");
    breaker_history_write(history, call->principal.tenant, now_ms, minutes * 60 * 1000, w);
    json_end_array(w);
    json_end_object(w);
    rest_send(call, 200);
}

/* ---- Breakers by hand ------------------------------------------------------------------------ */

static void breaker_moved(struct rest_call *call, struct op *op)
{
    const struct breaker_op *b = (const struct breaker_op *)(const void *)op;
    const char *field = b->verb == BREAKER_SIMULATE_FAILURE ? "task_type" : "type";
    if (is_name_refused(call, op, field) || rest_refused(call, op))
        return;
    view_breaker(rest_json(call), b->key, &b->status);
    rest_send(call, 200);
}

static void move_breaker(struct rest_call *call, struct str key, enum breaker_verb verb)
{
    struct breaker_op *op = kit_alloc(call, sizeof *op);
    if (!op)
        return;
    breaker_op_init(op, call->principal.tenant, key, verb);
    /* There would be nothing to reset, and a failure of what does not run means nothing. */
    op->known_only = verb == BREAKER_RESET || verb == BREAKER_SIMULATE_FAILURE;
    rest_commit(call, &op->op, breaker_moved);
}

static void post_reset(struct rest_call *call)
{
    move_breaker(call, call->params[0], BREAKER_RESET);
}

static void post_trip(struct rest_call *call)
{
    move_breaker(call, call->params[0], BREAKER_TRIP);
}

static void post_disable(struct rest_call *call)
{
    move_breaker(call, call->params[0], BREAKER_DISABLE);
}

static void post_failure(struct rest_call *call)
{
    move_breaker(call, http_query(call->request, "task_type"), BREAKER_SIMULATE_FAILURE);
}

#define BREAKERS "/retry/circuit-breakers"

const struct rest_route REST_CONTROL[] = {
    {HTTP_GET, .operation = &API_QUEUES},
    {HTTP_POST, "/queues/{queue}/pause", CONFIG_SCOPE_ADMIN, false, post_pause},
    {HTTP_POST, "/queues/{queue}/resume", CONFIG_SCOPE_ADMIN, false, post_resume},
    {HTTP_GET, .operation = &API_LIMITS},
    {HTTP_GET, .operation = &API_BREAKERS},
    {HTTP_GET, BREAKERS "/history", CONFIG_SCOPE_READ, true, get_history},
    {HTTP_POST, BREAKERS "/{type}/reset", CONFIG_SCOPE_ADMIN, false, post_reset},
    {HTTP_POST, BREAKERS "/{type}/trip", CONFIG_SCOPE_ADMIN, false, post_trip},
    {HTTP_POST, BREAKERS "/{type}/disable", CONFIG_SCOPE_ADMIN, false, post_disable},
    {HTTP_POST, "/retry/simulate-failure", CONFIG_SCOPE_ADMIN, false, post_failure},
    {0},
};
