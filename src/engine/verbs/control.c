/* control.c - breakers and queues by hand. */
#include "engine/verbs/control.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "core/check.h"
#include "engine/gates/gates.h"
#include "engine/gates/view.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "engine/tasks.h"

/* How many jobs a transaction gives the time of a pause back to. */
#define CREDIT_BATCH 1000

static const char IN_THE_WAY[] = "another process pauses or resumes the queue";

static struct str tenant_or_default(struct str tenant)
{
    return tenant.len > 0 ? tenant : STR(ENGINE_TENANT_DEFAULT);
}

/* ---- Breakers -------------------------------------------------------------------------------- */

static void carry_out(struct engine *e, struct gate *gate, enum breaker_verb verb)
{
    struct breaker *b = &gate->breaker;
    enum redrive_breaker_state before = b->state;
    switch (verb) {
    case BREAKER_RESET:
        breaker_reset(b);
        breaker_window_advance(&b->window, &gate->breaker_config, e->now_ms);
        break;
    case BREAKER_TRIP: breaker_trip(b, e->now_ms); break;
    case BREAKER_DISABLE: breaker_disable(b); break;
    case BREAKER_SIMULATE_FAILURE:
        breaker_simulate_failure(b, &gate->breaker_config, e->now_ms);
        break;
    case BREAKER_LOOK:
    default: return;
    }
    if (b->state != before)
        gate->release = (struct release){0};
    if (gate->has_parked)
        engine_want(e, e->now_ms);
}

/* The task whose breaker has this key for all of its jobs; NULL: none that is known here. */
static const struct config_task *declaring_task(const struct engine *e, struct str key)
{
    const struct config_task *task = task_in_force(e, key);
    const bool is_its_own =
        *task->name != '\0' && task->breaker.key && strcmp(task->breaker.key, "{task}") == 0;
    return is_its_own ? task : breakers_declared_by(e->options.config, key);
}

/* Whether it makes no breaker that is not there. */
static bool needs_breaker(const struct engine *e, const struct breaker_op *op)
{
    return op->verb == BREAKER_LOOK || (op->known_only && !declaring_task(e, op->key));
}

static int apply_breaker(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct breaker_op *op = (struct breaker_op *)base;
    struct str tenant = tenant_or_default(op->tenant);
    struct gate *gate = gate_find(&e->gates.breakers, tenant, op->key);
    int rc = 0;
    /* A breaker that is there may be reset, whatever its name. */
    if (!gate && name_check("breaker", op->key, &base->err) < 0) {
        base->code = base->err.code;
        return 0;
    }
    if (!gate && needs_breaker(e, op)) {
        base->code = err_set(&base->err, REDRIVE_E_NOT_FOUND, "there is no breaker '%.*s'",
                             (int)op->key.len, op->key.ptr);
        err_detail(&base->err, "no job has met it, and no task declares it");
        return 0;
    }
    /* Most breakers have the name of their task; what a job brings later holds in any case. */
    if (!gate) {
        const struct config_task *task = declaring_task(e, op->key);
        rc = gate_breaker(e, tenant, op->key,
                          &(task ? task : engine_task(e, op->key))->breaker.config, &gate, err);
    }
    if (rc == 0 && op->verb != BREAKER_LOOK) {
        carry_out(e, gate, op->verb);
        rc = gate_mark(&e->gates, gate, err);
    }
    if (rc == 0)
        breaker_status(&gate->breaker, &gate->breaker_config, e->now_ms, &op->status);
    return rc;
}

static const struct op_route BREAKER_ROUTE = {.to = ROUTE_TENANT,
                                              .tenant_at = offsetof(struct breaker_op, tenant)};

void breaker_op_init(struct breaker_op *op, struct str tenant, struct str key,
                     enum breaker_verb verb)
{
    *op = (struct breaker_op){
        .op = {.apply = apply_breaker, .route = &BREAKER_ROUTE, .weight = 1, .asks = true},
        .tenant = tenant,
        .key = key,
        .verb = verb};
}

/* ---- Queues ---------------------------------------------------------------------------------- */

/* The version of the row that says so, 0 when the queue is not paused, and since when it is. */
static int find_pause(struct engine *e, struct str tenant, struct str queue, int64_t *ret,
                      int64_t *ret_since_ms, struct redrive_err *err)
{
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    *ret_since_ms = 0;
    int rc = e->ops->shared_list(e->store, SHARED_PAUSE, tenant, &page, err);
    const struct shared_row *row = rc == 0 ? shared_row_find(&page, queue) : NULL;
    *ret = row ? row->version : 0;
    const struct row_field since = {"since_ms", ROW_INT, ret_since_ms};
    if (row && (!shared_value_read(row->value, &since, 1) || *ret_since_ms < 0))
        *ret_since_ms = 0;
    return rc;
}

static int put_pause(struct engine *e, struct pause_op *op, struct str tenant, int64_t version,
                     struct redrive_err *err)
{
    char value[48];
    (void)snprintf(value, sizeof value, "{\"since_ms\":%" PRId64 "}", e->now_ms);
    const struct shared_row row = {
        .kind = SHARED_PAUSE,
        .tenant = tenant,
        .key = op->queue,
        .value = op->pause ? str_of(value) : (struct str){0},
        .version = version,
        .removed = !op->pause,
    };
    bool won;
    int rc = shared_row_put(e, &row, &won, err);
    if (rc < 0)
        return rc;
    if (won && !op->pause)
        engine_made_some_ready(e);
    if (!won)
        op->op.code = err_set(&op->op.err, REDRIVE_E_STATE, "%s", IN_THE_WAY);
    return 0;
}

/* Gives the time of the pause back to some of the jobs in the queue. */
static int credit_some(struct engine *e, const struct pause_op *op, struct str tenant,
                       struct pause_progress *progress, struct redrive_err *err)
{
    struct scan ready = {.index = SCAN_READY,
                         .limit = CREDIT_BATCH,
                         .tenant = tenant,
                         .name = op->queue,
                         .after = progress->at};
    struct scan_outcome outcome;
    const struct move_list credit = {MOVE_CREDIT, .pause = progress->pause};
    int rc = scan_and_move(e, &ready, credit, &outcome, err);
    progress->at = ready.after;
    progress->more = outcome.more;
    e->touched = true;
    return rc;
}

static int apply_pause(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct pause_op *op = (struct pause_op *)base;
    struct str tenant = tenant_or_default(op->tenant);
    struct pause_progress *progress = &op->after;
    struct pause_time *pause = &progress->pause;
    int64_t version, since_ms;
    *progress = op->done;
    int rc = find_pause(e, tenant, op->queue, &version, &since_ms, err);
    /* A queue that is paused may be resumed, whatever its name. */
    if (rc == 0 && version == 0 && name_check_queue(op->queue, &base->err) < 0) {
        base->code = base->err.code;
        progress->more = false;
        return 0;
    }
    if (rc < 0 || op->pause == (version != 0)) {
        progress->more = false;
        return rc;
    }
    if (op->pause || since_ms == 0)
        return put_pause(e, op, tenant, version, err);
    if (pause->until_ms == 0)
        *pause = (struct pause_time){since_ms, e->now_ms};
    if (pause->since_ms != since_ms) {
        /* Resumed and paused again in the meantime. */
        progress->more = false;
        base->code = err_set(&base->err, REDRIVE_E_STATE, "%s", IN_THE_WAY);
        return 0;
    }
    rc = credit_some(e, op, tenant, progress, err);
    return rc < 0 || progress->more ? rc : put_pause(e, op, tenant, version, err);
}

bool pause_op_goes_on(struct pause_op *op)
{
    op->done = op->after;
    return op->after.more;
}

static const struct op_route PAUSE_ROUTE = {.to = ROUTE_TENANT,
                                            .tenant_at = offsetof(struct pause_op, tenant)};

void pause_op_init(struct pause_op *op, struct str tenant, struct str queue, bool pause)
{
    *op = (struct pause_op){.op = {.apply = apply_pause, .route = &PAUSE_ROUTE, .weight = 1},
                            .tenant = tenant,
                            .queue = queue,
                            .pause = pause};
}
