/* route.c - the ways of operations over shards. */
#include "engine/shards/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/verbs/change.h"
#include "engine/verbs/submit.h"

/* ---- Sending and answering ------------------------------------------------------------------- */

/* A shard that hangs is given nothing more: what waits behind its transaction would wait as long.
 */
void route_send(struct sending *sending, struct router *router, size_t lane, struct op *op)
{
    const struct lane *to = router_lane(router, lane);
    op->moved_to = 0;
    if (lane_hangs(to, &op->err)) {
        op->code = op->err.code;
        op->done(op, op->done_ctx);
    } else if (sending) {
        list_insert(&sending->ops[lane], &op->link);
    } else {
        committer_submit(to->committer, op);
    }
}

static void send_trip(struct sending *sending, struct trip *trip, size_t lane,
                      void (*done)(struct op *op, void *ctx))
{
    trip->lane = lane;
    trip->op->done = done;
    trip->op->done_ctx = trip;
    route_send(sending, trip->router, lane, trip->op);
}

void route_keep_failure(struct trip *trip, const struct op *op)
{
    const bool is_worse = trip->err.code == REDRIVE_E_IO && op->code != REDRIVE_E_IO;
    if (op->code < 0 && (trip->err.code == 0 || is_worse)) {
        trip->err = op->err;
        trip->err.code = op->code;
    }
}

void route_fail(struct trip *trip)
{
    trip->op->code = trip->err.code;
    if (trip->err.code < 0)
        trip->op->err = trip->err;
}

void route_free(struct trip *trip)
{
    for (size_t i = 0; i < trip->n_parts; i++) {
        free(trip->parts[i].op);
        free(trip->parts[i].items);
        free(trip->parts[i].places);
    }
    for (size_t i = 1; i < n_lanes(trip) && trip->reloads; i++)
        reload_op_release(&trip->reloads[i]);
    free(trip->reloads);
    free(trip);
}

void route_end(struct trip *trip)
{
    struct router *router = trip->router;
    struct op *op = trip->op;
    op->done = trip->done;
    op->done_ctx = trip->done_ctx;
    route_free(trip);
    router_answer(router, op);
}

void route_blame(const struct trip *trip, struct op *op, size_t lane)
{
    if (op->code == REDRIVE_E_IO)
        lane_name(router_lane(trip->router, lane), &op->err);
}

bool route_follows(struct trip *trip, struct op *op, size_t *ret_lane)
{
    return trip->hops++ < n_lanes(trip) && router_learn(trip->router, op, ret_lane);
}

static void refuse_op(struct router *router, struct op *op, int code, const char *why)
{
    op->code = err_set(&op->err, code, "%s", why);
    router_answer(router, op);
}

/* ---- To one shard ---------------------------------------------------------------------------- */

static void on_arrived(struct op *op, void *ctx)
{
    struct trip *trip = ctx;
    size_t lane;
    if (op->moved_to > 0 && route_follows(trip, op, &lane)) {
        send_trip(NULL, trip, lane, on_arrived);
        return;
    }
    route_blame(trip, op, trip->lane);
    route_end(trip);
}

static void begin_tenant(struct sending *sending, struct trip *trip)
{
    struct str tenant = {0};
    const size_t place = trip->op->route->tenant_at;
    if (place > 0)
        tenant = *(const struct str *)at(trip->op, place);
    send_trip(sending, trip, router_lane_of(trip->router, tenant), on_arrived);
}

/* ---- Submits --------------------------------------------------------------------------------- */

static void begin_submit(struct sending *sending, struct trip *trip);

static void on_submitted(struct op *op, void *ctx)
{
    struct trip *trip = ctx;
    struct submit_op *submit = (struct submit_op *)op;
    size_t lane;
    if (op->moved_to > 0 && route_follows(trip, op, &lane)) {
        begin_submit(NULL, trip);
        return;
    }
    route_blame(trip, op, trip->lane);
    for (size_t i = 0; i < submit->n && op->code == 0; i++)
        if (submit->answers[i].seq > 0)
            submit->answers[i].seq = shard_seq(submit->answers[i].seq, trip->lane);
    route_end(trip);
}

/* A request is one transaction, and that is one shard's. */
static void begin_submit(struct sending *sending, struct trip *trip)
{
    const struct submit_op *submit = (const struct submit_op *)trip->op;
    const struct str none = {0};
    const size_t lane =
        router_lane_of(trip->router, submit->n > 0 ? submit->specs[0].tenant : none);
    for (size_t i = 1; i < submit->n; i++) {
        if (router_lane_of(trip->router, submit->specs[i].tenant) == lane)
            continue;
        trip->op->code = err_set(&trip->op->err, REDRIVE_E_INVALID,
                                 "jobs of one request are of tenants on different shards");
        err_hint(&trip->op->err, "submit the jobs of each tenant by themselves");
        route_end(trip);
        return;
    }
    send_trip(sending, trip, lane, on_submitted);
}

/* ---- To every shard -------------------------------------------------------------------------- */

static void on_stop(struct op *op, void *ctx);

/* Shards that are slow or away come last, so that the others need not wait for them. */
static void stop_next(struct sending *sending, struct trip *trip)
{
    const size_t n = n_lanes(trip);
    size_t next = n;
    for (size_t i = 0; i < n; i++) {
        if (trip->asked >> i & 1)
            continue;
        const bool is_slow = lane_is_slow(router_lane(trip->router, i));
        if (next == n || !is_slow)
            next = i;
        if (!is_slow)
            break;
    }
    trip->asked |= UINT32_C(1) << next;
    send_trip(sending, trip, next, on_stop);
}

static void end_every(struct trip *trip)
{
    const bool can_wait = trip->op->route->to == ROUTE_TASKS && trip->err.code == REDRIVE_E_IO;
    if ((trip->op->route->to == ROUTE_ANY || can_wait) && trip->worked)
        trip->err.code = 0;
    route_fail(trip);
    route_end(trip);
}

/* A claim goes to a shard after the other, at the most once to each: after as many rounds as there
 * are shards, all that were on their way have been answered; mostly after the first. */
static bool is_round_trip_over(struct trip *trip)
{
    const bool is_round = trip->asked == (UINT32_C(1) << n_lanes(trip)) - 1;
    if (!is_round)
        return trip->op->route->to == ROUTE_ANY && trip->worked;
    trip->asked = 0;
    return trip->n_left-- == 0 || route_claims_are_over(trip->router, trip->n_claims);
}

static void on_stop(struct op *op, void *ctx)
{
    struct trip *trip = ctx;
    route_blame(trip, op, trip->lane);
    route_keep_failure(trip, op);
    trip->worked |= op->code == 0;
    if (trip->op->route->to == ROUTE_TASKS && op->code == REDRIVE_E_IO)
        router_lane(trip->router, trip->lane)->owes_tasks = true;
    if (is_round_trip_over(trip))
        end_every(trip);
    else
        stop_next(NULL, trip);
}

static void begin_every(struct sending *sending, struct trip *trip)
{
    trip->n_left = trip->op->route->to == ROUTE_FENCE ? n_lanes(trip) - 1 : 0;
    trip->n_claims = route_claims_begun(trip->router);
    stop_next(sending, trip);
}

/* ---- Bulks ----------------------------------------------------------------------------------- */

static void begin_bulk(struct sending *sending, struct trip *trip);

/* A bulk goes through one shard after the other. Its number says how far it has come: a number
 * within a shard that is 0 is the shard's beginning. */
static void on_bulk(struct op *op, void *ctx)
{
    struct trip *trip = ctx;
    struct bulk_op *bulk = (struct bulk_op *)op;
    size_t lane;
    if (op->moved_to > 0 && route_follows(trip, op, &lane)) {
        bulk->filter = trip->filter;
        begin_bulk(NULL, trip);
        return;
    }
    const bool is_last = bulk->filter.tenant.len > 0 || trip->lane + 1 == n_lanes(trip);
    route_blame(trip, op, trip->lane);
    bulk->filter = trip->filter;
    bulk->last_seq = shard_seq(bulk->last_seq, trip->lane);
    if (op->code == 0 && !bulk->more && !is_last) {
        bulk->more = true;
        bulk->last_seq = shard_seq(0, trip->lane + 1);
    }
    route_end(trip);
}

static void begin_bulk(struct sending *sending, struct trip *trip)
{
    struct bulk_op *bulk = (struct bulk_op *)trip->op;
    const struct str tenant = bulk->filter.tenant;
    const size_t from = shard_of_seq(bulk->filter.after_seq) % n_lanes(trip);
    const size_t lane = tenant.len > 0 ? router_lane_of(trip->router, tenant) : from;
    trip->filter = bulk->filter;
    /* The numbers of a tenant that has been moved meanwhile are others. */
    bulk->filter.after_seq = lane == from ? shard_own_seq(bulk->filter.after_seq) : 0;
    send_trip(sending, trip, lane, on_bulk);
}

/* ---- Another configuration ------------------------------------------------------------------- */

static void send_reload(struct sending *sending, struct trip *trip, size_t lane,
                        void (*done)(struct op *op, void *ctx))
{
    struct op *op = lane == 0 ? trip->op : &trip->reloads[lane].op;
    trip->lane = lane;
    op->done = done;
    op->done_ctx = trip;
    route_send(sending, trip->router, lane, op);
}

static void refuse_reload(struct trip *trip)
{
    struct redrive_err *err = &trip->op->err;
    err_set(err, REDRIVE_E_IO, "a shard does not answer: no shard has the new configuration");
    err_detail(err, "%s: %s", trip->err.detail, trip->err.message);
    err_hint(err, "reload again when all shards answer");
    trip->op->code = REDRIVE_E_IO;
    ((struct reload_op *)trip->op)->in_force = false;
    route_end(trip);
}

/* A shard that has the new configuration gets the former one back, which its operation holds. */
static void take_back(struct op *op, void *ctx);
static void take_back_from(struct trip *trip, size_t lane)
{
    struct op *op = lane == 0 ? trip->op : &trip->reloads[lane].op;
    ((struct reload_op *)op)->in_force = false;
    send_reload(NULL, trip, lane, take_back);
}

static void take_back(struct op *op, void *ctx)
{
    struct trip *trip = ctx;
    /* It has failed meanwhile, and keeps the new one. */
    if (!((const struct reload_op *)op)->in_force)
        log_kept_reload(router_lane(trip->router, trip->lane), &op->err);
    if (trip->lane == 0)
        refuse_reload(trip);
    else
        take_back_from(trip, trip->lane - 1);
}

/* A shard that fails before the configuration is in force there is why all keep the former one; a
 * failure after that is made up for by its engine. */
static void on_reloaded(struct op *op, void *ctx)
{
    struct trip *trip = ctx;
    const size_t next = trip->lane + 1;
    route_blame(trip, op, trip->lane);
    route_keep_failure(trip, op);
    if (((const struct reload_op *)op)->in_force && next < n_lanes(trip)) {
        send_reload(NULL, trip, next, on_reloaded);
    } else if (((const struct reload_op *)op)->in_force) {
        route_fail(trip);
        route_end(trip);
    } else if (op->code == REDRIVE_E_STOPPING) {
        ((struct reload_op *)trip->op)->in_force = false;
        route_fail(trip);
        route_end(trip);
    } else if (trip->lane > 0) {
        take_back_from(trip, trip->lane - 1);
    } else {
        refuse_reload(trip);
    }
}

/* Whether a shard is known not to answer; the trip's error says which. */
static bool knows_away(struct trip *trip)
{
    for (size_t i = 0; i < n_lanes(trip); i++) {
        const struct lane *lane = router_lane(trip->router, i);
        if (lane_is_away(lane, &trip->err)) {
            lane_name(lane, &trip->err);
            return true;
        }
    }
    return false;
}

static void begin_reload(struct sending *sending, struct trip *trip)
{
    const struct reload_op *whole = (const struct reload_op *)trip->op;
    int rc = 0;
    if (knows_away(trip)) {
        refuse_reload(trip);
        return;
    }
    trip->reloads = calloc(n_lanes(trip), sizeof *trip->reloads);
    if (!trip->reloads)
        rc = err_nomem(&trip->op->err);
    for (size_t i = 1; i < n_lanes(trip) && rc == 0; i++)
        rc = reload_op_init(&trip->reloads[i], whole->config, &trip->op->err);
    if (rc == 0) {
        send_reload(sending, trip, 0, on_reloaded);
        return;
    }
    trip->op->code = rc;
    route_end(trip);
}

/* ---- All of them ----------------------------------------------------------------------------- */

void route_begin(struct sending *sending, struct op *op)
{
    struct router *router = sending->router;
    if (!op->route) {
        refuse_op(router, op, REDRIVE_E_STATE, "not with shards yet");
        return;
    }
    if (op->route->to == ROUTE_CLAIM) {
        route_claim(sending, (struct claim_op *)op);
        return;
    }
    struct trip *trip = calloc(1, sizeof *trip);
    if (!trip) {
        refuse_op(router, op, REDRIVE_E_NOMEM, "out of memory");
        return;
    }
    trip->router = router;
    trip->op = op;
    trip->done = op->done;
    trip->done_ctx = op->done_ctx;
    switch (op->route->to) {
    case ROUTE_TENANT: begin_tenant(sending, trip); break;
    case ROUTE_ITEMS: route_begin_items(sending, trip); break;
    case ROUTE_SUBMIT: begin_submit(sending, trip); break;
    case ROUTE_BULK: begin_bulk(sending, trip); break;
    case ROUTE_RELOAD: begin_reload(sending, trip); break;
    case ROUTE_EVERY:
    case ROUTE_ANY:
    case ROUTE_TASKS:
    case ROUTE_FENCE:
    case ROUTE_CLAIM:
    default: begin_every(sending, trip); break;
    }
}
