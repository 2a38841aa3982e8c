/* route.c - the ways of operations over shards. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/router.h"
#include "engine/verbs/change.h"
#include "engine/verbs/submit.h"
#include "store/shards/shards.h"

/* A part of a list of items, on its way to one shard. */
struct part {
    struct trip *trip;
    size_t lane;
    struct op *op; /* a copy of the operation, with items of its own */
    size_t n;
    char *items;
    size_t *places; /* of each item in the whole list */
};

/* An operation on its way. */
struct trip {
    struct router *router;
    struct op *op;
    void (*done)(struct op *op, void *ctx); /* the caller's */
    void *done_ctx;
    size_t lane;       /* where it is */
    size_t n_left;     /* how many rounds are left after this one, or parts without an answer */
    uint64_t n_claims; /* of a fence: how many claims have begun before it */
    uint32_t asked;    /* lanes, by bit, in this round */
    bool worked;       /* a lane has taken it */
    struct redrive_err err;    /* the first failure; code 0: there was none */
    struct job_filter filter;  /* of a bulk, as it came */
    struct reload_op *reloads; /* for the lanes after the first */
    struct part parts[SHARDS_MAX];
    size_t n_parts;
};

static size_t n_lanes(const struct trip *trip)
{
    return router_count(trip->router);
}

static void *at(void *object, size_t place)
{
    return (char *)object + place;
}

/* ---- Sending and answering ------------------------------------------------------------------- */

/* A shard that hangs is given nothing more: what waits behind its transaction would wait as long.
 */
static void send_op(struct sending *sending, struct router *router, size_t lane, struct op *op)
{
    const struct lane *to = router_lane(router, lane);
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
    send_op(sending, trip->router, lane, trip->op);
}

static void keep_failure(struct trip *trip, const struct op *op)
{
    if (op->code < 0 && trip->err.code == 0) {
        trip->err = op->err;
        trip->err.code = op->code;
    }
}

/* The trip's first failure is the answer. */
static void fail_trip(struct trip *trip)
{
    trip->op->code = trip->err.code;
    if (trip->err.code < 0)
        trip->op->err = trip->err;
}

static void end_trip(struct trip *trip)
{
    struct router *router = trip->router;
    struct op *op = trip->op;
    for (size_t i = 0; i < trip->n_parts; i++) {
        free(trip->parts[i].op);
        free(trip->parts[i].items);
        free(trip->parts[i].places);
    }
    for (size_t i = 1; i < router_count(router) && trip->reloads; i++)
        reload_op_release(&trip->reloads[i]);
    free(trip->reloads);
    op->done = trip->done;
    op->done_ctx = trip->done_ctx;
    free(trip);
    router_answer(router, op);
}

static void blame(const struct trip *trip, struct op *op, size_t lane)
{
    if (op->code == REDRIVE_E_IO)
        lane_name(router_lane(trip->router, lane), &op->err);
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
    blame(trip, op, trip->lane);
    end_trip(trip);
}

static void begin_tenant(struct sending *sending, struct trip *trip)
{
    struct str tenant = {0};
    const size_t place = trip->op->route->tenant_at;
    if (place > 0)
        tenant = *(const struct str *)at(trip->op, place);
    send_trip(sending, trip, shard_of_tenant(tenant, n_lanes(trip)), on_arrived);
}

/* ---- Submits --------------------------------------------------------------------------------- */

static void on_submitted(struct op *op, void *ctx)
{
    struct trip *trip = ctx;
    struct submit_op *submit = (struct submit_op *)op;
    blame(trip, op, trip->lane);
    for (size_t i = 0; i < submit->n && op->code == 0; i++)
        if (submit->answers[i].seq > 0)
            submit->answers[i].seq = shard_seq(submit->answers[i].seq, trip->lane);
    end_trip(trip);
}

/* A request is one transaction, and that is one shard's. */
static void begin_submit(struct sending *sending, struct trip *trip)
{
    const struct submit_op *submit = (const struct submit_op *)trip->op;
    const struct str none = {0};
    const size_t lane =
        shard_of_tenant(submit->n > 0 ? submit->specs[0].tenant : none, n_lanes(trip));
    for (size_t i = 1; i < submit->n; i++) {
        if (shard_of_tenant(submit->specs[i].tenant, n_lanes(trip)) == lane)
            continue;
        trip->op->code = err_set(&trip->op->err, REDRIVE_E_INVALID,
                                 "jobs of one request are of tenants on different shards");
        err_hint(&trip->op->err, "submit the jobs of each tenant by themselves");
        end_trip(trip);
        return;
    }
    send_trip(sending, trip, lane, on_submitted);
}

/* ---- Items ----------------------------------------------------------------------------------- */

static size_t lane_of_item(const struct trip *trip, const struct op_route *route, void *item)
{
    const int64_t seq =
        route->item_seq_at == NO_PLACE ? 0 : *(const int64_t *)at(item, route->item_seq_at);
    const size_t named = shard_of_seq(seq);
    if (seq > 0 && named < n_lanes(trip))
        return named;
    return shard_of_tenant(*(const struct str *)at(item, route->item_tenant_at), n_lanes(trip));
}

/* Numbers that are 0 stay so. */
static void set_own_seq(const struct op_route *route, void *item)
{
    if (route->item_seq_at != NO_PLACE) {
        int64_t *seq = at(item, route->item_seq_at);
        *seq = shard_own_seq(*seq);
    }
}

/* A shard that does not answer is no reason to hold back what the others have answered: its items
 * have its code each. */
static void answer_items(const struct op_route *route, const struct part *part)
{
    if (part->op->code == 0 || route->item_ret_at == NO_PLACE)
        return;
    for (size_t i = 0; i < part->n; i++) {
        struct move_result *ret = at(part->items + i * route->item_size, route->item_ret_at);
        *ret = (struct move_result){.code = part->op->code};
    }
}

/* Puts the items with their answers back where they came from; their numbers are the caller's. */
static void put_items_back(struct trip *trip, const struct part *part)
{
    const struct op_route *route = trip->op->route;
    char *items = *(char **)at(trip->op, route->items_at);
    for (size_t i = 0; i < part->n; i++) {
        char *to = items + part->places[i] * route->item_size;
        char *from = part->items + i * route->item_size;
        if (route->item_seq_at != NO_PLACE)
            *(int64_t *)at(from, route->item_seq_at) = *(int64_t *)at(to, route->item_seq_at);
        memcpy(to, from, route->item_size);
    }
}

/* Whether a failure is told by its items, while the operation as a whole has worked. */
static bool is_for_items(const struct op *op, int code)
{
    return op->by_item && op->route->item_ret_at != NO_PLACE && redrive_err_retryable(code) &&
           code != REDRIVE_E_STOPPING;
}

static void end_items(struct trip *trip)
{
    const struct op_route *route = trip->op->route;
    trip->op->code = 0;
    for (size_t i = 0; i < trip->n_parts; i++) {
        struct part *part = &trip->parts[i];
        blame(trip, part->op, part->lane);
        if (part->op->code < 0)
            trip->op->err = part->op->err;
        if (part->op->code < 0 && !is_for_items(trip->op, part->op->code))
            keep_failure(trip, part->op);
        answer_items(route, part);
        put_items_back(trip, part);
    }
    fail_trip(trip);
    end_trip(trip);
}

static void on_part(struct op *op, void *ctx)
{
    struct part *part = ctx;
    (void)op;
    if (__atomic_sub_fetch(&part->trip->n_left, 1, __ATOMIC_ACQ_REL) == 0)
        end_items(part->trip);
}

static struct part *part_of_lane(struct trip *trip, size_t lane)
{
    for (size_t i = 0; i < trip->n_parts; i++)
        if (trip->parts[i].lane == lane)
            return &trip->parts[i];
    trip->parts[trip->n_parts] = (struct part){.trip = trip, .lane = lane};
    return &trip->parts[trip->n_parts++];
}

static bool fill_part(struct part *part, size_t capacity)
{
    const struct op *op = part->trip->op;
    const struct op_route *route = op->route;
    part->op = malloc(route->size);
    part->items = calloc(capacity, route->item_size);
    part->places = calloc(capacity, sizeof *part->places);
    if (!part->op || !part->items || !part->places)
        return false;
    memcpy(part->op, op, route->size);
    *(char **)at(part->op, route->items_at) = part->items;
    part->op->done = on_part;
    part->op->done_ctx = part;
    return true;
}

/* False: no memory. */
static bool split_items(struct trip *trip, char *items, size_t n)
{
    const struct op_route *route = trip->op->route;
    for (size_t i = 0; i < n; i++) {
        char *item = items + i * route->item_size;
        struct part *part = part_of_lane(trip, lane_of_item(trip, route, item));
        if (!part->op && !fill_part(part, n - i))
            return false;
        char *copy = part->items + part->n * route->item_size;
        memcpy(copy, item, route->item_size);
        set_own_seq(route, copy);
        part->places[part->n++] = i;
    }
    return true;
}

static void begin_items(struct sending *sending, struct trip *trip)
{
    const struct op_route *route = trip->op->route;
    char *items = *(char **)at(trip->op, route->items_at);
    const size_t n = *(const size_t *)at(trip->op, route->n_at);
    if (!split_items(trip, items, n)) {
        trip->op->code = err_nomem(&trip->op->err);
        end_trip(trip);
        return;
    }
    const size_t n_parts = trip->n_parts;
    trip->n_left = n_parts;
    if (n_parts == 0) {
        end_items(trip);
        return;
    }
    struct part *parts = trip->parts;
    struct router *router = trip->router;
    for (size_t i = 0; i < n_parts; i++) {
        *(size_t *)at(parts[i].op, route->n_at) = parts[i].n;
        parts[i].op->weight = parts[i].n;
        send_op(sending, router, parts[i].lane, parts[i].op);
    }
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
    if (trip->op->route->to == ROUTE_ANY && trip->worked)
        trip->err.code = 0;
    fail_trip(trip);
    end_trip(trip);
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
    blame(trip, op, trip->lane);
    keep_failure(trip, op);
    trip->worked |= op->code == 0;
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

/* A bulk goes through one shard after the other. Its number says how far it has come: a number
 * within a shard that is 0 is the shard's beginning. */
static void on_bulk(struct op *op, void *ctx)
{
    struct trip *trip = ctx;
    struct bulk_op *bulk = (struct bulk_op *)op;
    const bool is_last = bulk->filter.tenant.len > 0 || trip->lane + 1 == n_lanes(trip);
    blame(trip, op, trip->lane);
    bulk->filter = trip->filter;
    bulk->last_seq = shard_seq(bulk->last_seq, trip->lane);
    if (op->code == 0 && !bulk->more && !is_last) {
        bulk->more = true;
        bulk->last_seq = shard_seq(0, trip->lane + 1);
    }
    end_trip(trip);
}

static void begin_bulk(struct sending *sending, struct trip *trip)
{
    struct bulk_op *bulk = (struct bulk_op *)trip->op;
    const struct str tenant = bulk->filter.tenant;
    const size_t lane = tenant.len > 0 ? shard_of_tenant(tenant, n_lanes(trip))
                                       : shard_of_seq(bulk->filter.after_seq) % n_lanes(trip);
    trip->filter = bulk->filter;
    bulk->filter.after_seq = shard_own_seq(bulk->filter.after_seq);
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
    send_op(sending, trip->router, lane, op);
}

static void refuse_reload(struct trip *trip)
{
    struct redrive_err *err = &trip->op->err;
    err_set(err, REDRIVE_E_IO, "a shard does not answer: no shard has the new configuration");
    err_detail(err, "%s: %s", trip->err.detail, trip->err.message);
    err_hint(err, "reload again when all shards answer");
    trip->op->code = REDRIVE_E_IO;
    ((struct reload_op *)trip->op)->in_force = false;
    end_trip(trip);
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
    blame(trip, op, trip->lane);
    keep_failure(trip, op);
    if (((const struct reload_op *)op)->in_force && next < n_lanes(trip)) {
        send_reload(NULL, trip, next, on_reloaded);
    } else if (((const struct reload_op *)op)->in_force) {
        fail_trip(trip);
        end_trip(trip);
    } else if (op->code == REDRIVE_E_STOPPING) {
        ((struct reload_op *)trip->op)->in_force = false;
        fail_trip(trip);
        end_trip(trip);
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
    end_trip(trip);
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
    case ROUTE_ITEMS: begin_items(sending, trip); break;
    case ROUTE_SUBMIT: begin_submit(sending, trip); break;
    case ROUTE_BULK: begin_bulk(sending, trip); break;
    case ROUTE_RELOAD: begin_reload(sending, trip); break;
    case ROUTE_EVERY:
    case ROUTE_ANY:
    case ROUTE_FENCE:
    case ROUTE_CLAIM:
    default: begin_every(sending, trip); break;
    }
}
