/* settle.c - how runs ended, and leases while they last. */
#include "engine/verbs/settle.h"

#include "base/err.h"
#include "core/state.h"
#include "engine/gates/gates.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "engine/tasks.h"
#include "engine/verbs/after.h"
#include "engine/verbs/ending.h"

static void settle_budget(const struct engine *e, struct gate *limit, const struct job *job,
                          const struct decision *d)
{
    const struct budget_config *config = &limit->budget_config;
    const bool has_failed = d->state == REDRIVE_STATE_RETRYING;
    if (!budget_is_set(config))
        return;
    if (!d->uses_attempt)
        budget_take_back(&limit->budget, config, job->status.attempts > 1, e->now_ms);
    else if (has_failed || d->state == REDRIVE_STATE_COMPLETED)
        budget_settle(&limit->budget, config, has_failed, e->now_ms);
}

static void settle_slots(const struct engine *e, struct gate *limit, const struct job *job,
                         const struct decision *d)
{
    gate_give_slot(limit);
    if (d->state == REDRIVE_STATE_COMPLETED)
        gate_succeeded(limit);
    else if (d->is_overload)
        gate_overloaded(limit, job->status.started_ms, e->now_ms);
}

int settle_gates(struct engine *e, const struct job *job, const struct decision *decision,
                 int64_t run_ms, struct redrive_err *err)
{
    const struct job_spec *spec = &job->spec;
    int rc = 0;
    if (spec->limit_key.len > 0) {
        struct gate *gate = gate_find(&e->gates.limits, spec->tenant, spec->limit_key);
        if (!gate && !e->gates.are_fresh) /* another process may have made it a moment ago */
            return err_set(err, REDRIVE_E_CANCELLED, "the limits are to be read again");
        if (gate) {
            settle_slots(e, gate, job, decision);
            settle_budget(e, gate, job, decision);
            if (gate->has_parked && gate_has_slots(gate))
                engine_want(e, e->now_ms);
            rc = gate_mark(&e->gates, gate, err);
        }
    }
    if (rc < 0 || spec->breaker_key.len == 0)
        return rc;
    struct gate *gate;
    rc = gate_breaker(e, spec->tenant, spec->breaker_key,
                      &task_in_force(e, spec->task)->breaker.config, &gate, err);
    if (rc < 0)
        return rc;
    gate_record(gate, job->status.permit, decision->breaker, run_ms, e->now_ms);
    if (gate->has_parked)
        engine_want(e, e->now_ms);
    return gate_mark(&e->gates, gate, err);
}

static enum engine_event_kind kind_of(const struct decision *d)
{
    switch (d->state) {
    case REDRIVE_STATE_COMPLETED: return ENGINE_EVENT_COMPLETED;
    case REDRIVE_STATE_RETRYING: return ENGINE_EVENT_RETRYING;
    case REDRIVE_STATE_DEAD_LETTER: return ENGINE_EVENT_DEAD;
    case REDRIVE_STATE_FAILED: return ENGINE_EVENT_FAILED;
    case REDRIVE_STATE_CANCELLED: return ENGINE_EVENT_CANCELLED;
    case REDRIVE_STATE_QUEUED:
    case REDRIVE_STATE_SCHEDULED:
    case REDRIVE_STATE_RUNNING:
    case REDRIVE_STATE_PARKED:
    case REDRIVE_STATE_WAITING:
    case REDRIVE_STATE_COUNT:
    default: return ENGINE_EVENT_RELEASED;
    }
}

static int64_t run_ms_of(const struct engine *e, const struct job *job, const struct settlement *s)
{
    const int64_t ms = e->now_ms - job->status.started_ms - s->waited_ms;
    return ms > 0 ? ms : 0;
}

static void tell(struct engine *e, const struct job *job, const struct settlement *s,
                 const struct job_error *error)
{
    const struct decision *d = &s->decision;
    struct engine_event event = event_of(e, kind_of(d), job);
    event.ran = true;
    event.run_ms = run_ms_of(e, job, s);
    event.delay_ms = d->delay_ms;
    event.class_ = d->class_;
    event.severity = d->severity;
    event.reason = d->reason;
    if (d->max_attempts > 0)
        event.max_attempts = d->max_attempts;
    event.unclassified = d->unclassified;
    event.message = error->message;
    event_add(e, &event);
}

/* ---- Together -------------------------------------------------------------------------------- */

int settle_batch_add(struct engine *e, struct settle_batch *batch, const struct job *job,
                     struct settlement *s, struct redrive_err *err)
{
    s->decision = ending_decide(e, job, &s->outcome);
    s->ret = (struct move_result){0};
    s->is_shut = false;
    struct job_error error = ending_error(&s->outcome, &s->decision);
    const uint64_t group = ending_group(&error);
    error.message = ending_message(e, error.message, &s->decision);
    const bool is_done = s->decision.state == REDRIVE_STATE_COMPLETED;
    batch->moves[batch->n] = (struct settle_move){
        .seq = job->status.seq,
        .token = job->status.token,
        .decision = &s->decision,
        .error = error,
        .result = is_done ? s->result : (struct str){0},
        .fingerprint = group,
    };
    batch->items[batch->n].s = s;
    batch->items[batch->n].job = job;
    return ++batch->n == SETTLE_TOGETHER_MAX ? settle_batch_flush(e, batch, err) : 0;
}

/* Whether the breaker of a job that has failed is open now. */
static bool is_shut(const struct engine *e, const struct job *job, enum breaker_result result)
{
    if (result != BREAKER_FAILURE || job->spec.breaker_key.len == 0)
        return false;
    const struct gate *gate =
        gate_find(&e->gates.breakers, job->spec.tenant, job->spec.breaker_key);
    return gate && (gate->breaker.state == REDRIVE_BREAKER_OPEN ||
                    gate->breaker.state == REDRIVE_BREAKER_FORCED_OPEN);
}

/* The store has made the move. */
static int settled(struct engine *e, const struct job *job, struct settlement *s,
                   const struct job_error *error, struct redrive_err *err)
{
    const struct decision *d = &s->decision;
    e->touched = true;
    tell(e, job, s, error);
    s->again_ms = store_time_after(engine_time(e), d->delay_ms);
    if (d->state == REDRIVE_STATE_RETRYING || d->state == REDRIVE_STATE_SCHEDULED)
        engine_waits_until(e, s->again_ms);
    /* While it ran, no tick was asked for at its deadline. */
    if (!state_has_ended(d->state))
        engine_waits_until(e, job->spec.deadline_ms);
    if (d->state == REDRIVE_STATE_QUEUED)
        engine_made_some_ready(e);
    int rc = settle_gates(e, job, d, run_ms_of(e, job, s), err);
    s->is_shut = is_shut(e, job, d->breaker);
    return rc;
}

int settle_batch_flush(struct engine *e, struct settle_batch *batch, struct redrive_err *err)
{
    struct move_result results[SETTLE_TOGETHER_MAX];
    struct ended_job parents[SETTLE_TOGETHER_MAX];
    const size_t n = batch->n;
    size_t n_parents = 0;
    int rc = n == 0 ? 0 : e->ops->move(e->store, SETTLES(batch->moves, n), results, err);
    for (size_t i = 0; i < n; i++) {
        struct settlement *s = batch->items[i].s;
        if (rc == 0)
            s->ret = results[i];
        if (rc == 0 && s->ret.code == 0)
            rc = settled(e, batch->items[i].job, s, &batch->moves[i].error, err);
        if (rc == 0 && s->ret.children > 0 && s->ret.code == 0 && state_has_ended(s->ret.state))
            parents[n_parents++] = (struct ended_job){.seq = batch->moves[i].seq,
                                                      .state = s->ret.state,
                                                      .id = batch->items[i].job->spec.id};
    }
    batch->n = 0;
    return rc == 0 && n_parents > 0 ? after_ended(e, parents, n_parents, err) : rc;
}

/* ---- By the workers that ran them ------------------------------------------------------------ */

static bool holds_token(const struct job_status *job, uint64_t token)
{
    return job->state == REDRIVE_STATE_RUNNING && job->token == token;
}

static bool holds_lease(const struct settlement *s, const struct job_status *job)
{
    if (s->token != 0)
        return holds_token(job, s->token);
    return job->state == REDRIVE_STATE_RUNNING && s->worker.len > 0 &&
           str_eq(s->worker, job->worker);
}

/* The row has to be read, after the moves of the batch have been made. */
static int settle_unknown(struct engine *e, struct settle_batch *batch, struct settlement *s,
                          struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    int rc = settle_batch_flush(e, batch, err);
    if (rc == 0)
        rc = engine_find(e, s->tenant, s->id, s->seq, &page, err);
    s->ret = (struct move_result){.code = REDRIVE_E_NOT_FOUND};
    if (rc > 0 && page.jobs) {
        const struct job *job = &page.jobs[0];
        const bool holds = holds_lease(s, &job->status);
        rc = holds ? settle_batch_add(e, batch, job, s, err) : 0;
        if (rc == 0 && holds)
            rc = settle_batch_flush(e, batch, err);
        if (!holds)
            s->ret = (struct move_result){.code = REDRIVE_E_STATE, .state = job->status.state};
        else if (rc == 0 && s->ret.code == 0)
            running_drop(&e->running, job->status.token);
    }
    return rc;
}

/* Whether the settlement names this job: by number, or by tenant and id. */
static bool settles(const struct settlement *s, const struct job *job)
{
    if (s->seq == 0)
        return str_eq(s->tenant, job->spec.tenant) && str_eq(s->id, job->spec.id);
    return s->seq == job->status.seq && (s->tenant.len == 0 || str_eq(s->tenant, job->spec.tenant));
}

static int settle_one(struct engine *e, struct settle_batch *batch, struct settlement *s,
                      struct redrive_err *err)
{
    const struct job *known = running_get(&e->running, s->token);
    if (!known || !settles(s, known))
        return settle_unknown(e, batch, s, err);
    return settle_batch_add(e, batch, running_take(&e->running, s->token), s, err);
}

static int settle_ops(struct engine *e, struct op *const *ops, size_t n, struct redrive_err *err)
{
    struct settle_batch batch;
    batch.n = 0;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct settle_op *op = (const struct settle_op *)ops[i];
        for (size_t k = 0; k < op->n && rc == 0; k++)
            rc = settle_one(e, &batch, &op->items[k], err);
    }
    return rc == 0 ? settle_batch_flush(e, &batch, err) : rc;
}

static int apply_settle(struct engine *e, struct op *base, struct redrive_err *err)
{
    return settle_ops(e, &base, 1, err);
}

static const struct op_kind SETTLE = {.rank = 1, .apply = settle_ops};
static const struct op_route SETTLE_ROUTE = {
    .to = ROUTE_ITEMS,
    .settles = true,
    .size = sizeof(struct settle_op),
    .items_at = offsetof(struct settle_op, items),
    .n_at = offsetof(struct settle_op, n),
    .item_size = sizeof(struct settlement),
    .item_tenant_at = offsetof(struct settlement, tenant),
    .item_seq_at = offsetof(struct settlement, seq),
    .item_ret_at = offsetof(struct settlement, ret),
};

/* A token was given with a claim that has been answered. Without one, the claim may be on its way
 * in the same transaction, and must be made first. */
static bool all_have_tokens(const struct settlement *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (items[i].token == 0)
            return false;
    return true;
}

void settle_op_init(struct settle_op *op, struct settlement *items, size_t n)
{
    *op = (struct settle_op){
        .op = {.apply = apply_settle,
               .route = &SETTLE_ROUTE,
               .kind = all_have_tokens(items, n) ? &SETTLE : NULL,
               .weight = n},
        .items = items,
        .n = n,
    };
    for (size_t i = 0; i < n; i++)
        op->op.bytes += items[i].result.len;
}

/* ---- Heartbeats ------------------------------------------------------------------------------ */

/* Fills in what an extension by id leaves open; a refusal stands in its result. */
static int find_extended(struct engine *e, struct extension *x, int64_t *ret_seq,
                         struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    int rc = engine_find(e, x->tenant, x->id, 0, &page, err);
    x->ret = (struct move_result){.code = REDRIVE_E_NOT_FOUND};
    if (rc > 0) {
        const struct job *job = &page.jobs[0];
        const bool holds = holds_token(&job->status, x->token);
        x->ret =
            (struct move_result){.code = holds ? 0 : REDRIVE_E_STATE, .state = job->status.state};
        *ret_seq = job->status.seq;
        if (x->lease_ms == 0)
            x->lease_ms = task_in_force(e, job->spec.task)->lease_ms;
    }
    return rc < 0 ? rc : 0;
}

/* Extensions that the store hears of together. */
#define EXTEND_TOGETHER_MAX 256
struct extend_batch {
    struct extend_move moves[EXTEND_TOGETHER_MAX];
    struct extension *items[EXTEND_TOGETHER_MAX];
    size_t n;
};

static int extend_flush(struct engine *e, struct extend_batch *batch, struct redrive_err *err)
{
    struct move_result results[EXTEND_TOGETHER_MAX];
    const size_t n = batch->n;
    int rc = n == 0 ? 0 : e->ops->move(e->store, EXTENDS(batch->moves, n), results, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        batch->items[i]->ret = results[i];
        e->touched |= results[i].code == 0;
    }
    batch->n = 0;
    return rc;
}

static int extend_add(struct engine *e, struct extend_batch *batch, struct extension *x,
                      struct redrive_err *err)
{
    int64_t seq = x->seq;
    x->ret = (struct move_result){.code = x->token == 0 ? REDRIVE_E_STATE : 0};
    int rc = seq == 0 ? find_extended(e, x, &seq, err) : 0;
    if (rc < 0 || x->ret.code < 0 || x->token == 0)
        return rc;
    batch->moves[batch->n] =
        (struct extend_move){seq, x->token, engine_lease_until(e, x->lease_ms)};
    batch->items[batch->n++] = x;
    return batch->n == EXTEND_TOGETHER_MAX ? extend_flush(e, batch, err) : 0;
}

static int extend_ops(struct engine *e, struct op *const *ops, size_t n, struct redrive_err *err)
{
    struct extend_batch batch;
    batch.n = 0;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct extend_op *op = (const struct extend_op *)ops[i];
        for (size_t k = 0; k < op->n && rc == 0; k++)
            rc = extend_add(e, &batch, &op->items[k], err);
    }
    return rc == 0 ? extend_flush(e, &batch, err) : rc;
}

static int apply_extend(struct engine *e, struct op *base, struct redrive_err *err)
{
    return extend_ops(e, &base, 1, err);
}

/* Before settlements: one that is made in the same transaction has no lease to extend any more. */
static const struct op_kind EXTEND = {.rank = 0, .apply = extend_ops};
static const struct op_route EXTEND_ROUTE = {
    .to = ROUTE_ITEMS,
    .settles = true,
    .size = sizeof(struct extend_op),
    .items_at = offsetof(struct extend_op, items),
    .n_at = offsetof(struct extend_op, n),
    .item_size = sizeof(struct extension),
    .item_tenant_at = offsetof(struct extension, tenant),
    .item_seq_at = offsetof(struct extension, seq),
    .item_ret_at = offsetof(struct extension, ret),
};

void extend_op_init(struct extend_op *op, struct extension *items, size_t n)
{
    *op = (struct extend_op){
        .op = {.apply = apply_extend, .kind = &EXTEND, .route = &EXTEND_ROUTE, .weight = n},
        .items = items,
        .n = n};
}

/* ---- Whether leases are held ----------------------------------------------------------------- */

static bool is_of(const struct job *job, const struct job_name *name)
{
    return str_eq(job->spec.id, name->id) && str_eq(job->spec.tenant, name->tenant);
}

static int apply_leases(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct leases_op *op = (struct leases_op *)base;
    RELEASED_BY(job_page_release) struct job_page page = {0};
    struct job_name *names = arena_array(&e->arena, op->n, sizeof *names);
    if (!names)
        return err_nomem(err);
    for (size_t i = 0; i < op->n; i++)
        names[i] = op->leases[i].job;
    int rc = e->ops->lookup(e->store, names, op->n, &page, err);
    /* The page is in the order of the names, and lacks those that are gone. */
    for (size_t i = 0, found = 0; i < op->n && rc == 0; i++) {
        struct lease *lease = &op->leases[i];
        lease->until_ms = 0;
        if (found == page.n || !is_of(&page.jobs[found], &lease->job))
            continue;
        const struct job *job = &page.jobs[found++];
        lease->until_ms = holds_token(&job->status, lease->token) ? job->status.lease_until_ms : 0;
    }
    return rc;
}

static const struct op_route LEASES_ROUTE = {
    .to = ROUTE_ITEMS,
    .settles = true,
    .size = sizeof(struct leases_op),
    .items_at = offsetof(struct leases_op, leases),
    .n_at = offsetof(struct leases_op, n),
    .item_size = sizeof(struct lease),
    .item_tenant_at = offsetof(struct lease, job.tenant),
    .item_seq_at = NO_PLACE,
    .item_ret_at = NO_PLACE,
};

void leases_op_init(struct leases_op *op, struct lease *leases, size_t n)
{
    *op = (struct leases_op){.op = {.apply = apply_leases, .route = &LEASES_ROUTE, .weight = n},
                             .leases = leases,
                             .n = n};
}
