/* route_items.c - lists of items over shards: a part to each shard, and one answer. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/shards/route.h"

/* 0: it is named by tenant and id. */
static int64_t seq_of_item(const struct op_route *route, void *item)
{
    return route->item_seq_at == NO_PLACE ? 0 : *(const int64_t *)at(item, route->item_seq_at);
}

static size_t lane_of_item(const struct trip *trip, const struct op_route *route, void *item)
{
    const int64_t seq = seq_of_item(route, item);
    const size_t named = shard_of_seq(seq);
    if (seq > 0 && named < n_lanes(trip))
        return named;
    return router_lane_of(trip->router, *(const struct str *)at(item, route->item_tenant_at));
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
        route_blame(trip, part->op, part->lane);
        if (part->op->code < 0)
            trip->op->err = part->op->err;
        if (part->op->code < 0 && !is_for_items(trip->op, part->op->code))
            route_keep_failure(trip, part->op);
        answer_items(route, part);
        put_items_back(trip, part);
    }
    route_fail(trip);
    route_end(trip);
}

/* Sends a part whose tenant has been moved after it, if all of its items are that tenant's, and are
 * named by tenant and id: a number is that of another job on another shard. Other parts are the
 * caller's to try again. */
static bool send_after_tenant(struct trip *trip, struct part *part)
{
    const struct op_route *route = part->op->route;
    size_t lane;
    if (part->op->moved_to == 0 || trip->n_parts > 1)
        return false;
    for (size_t i = 0; i < part->n; i++) {
        char *item = part->items + i * route->item_size;
        const struct str *tenant = at(item, route->item_tenant_at);
        if (!str_eq(*tenant, part->op->moved) || seq_of_item(route, item) > 0)
            return false;
    }
    if (!route_follows(trip, part->op, &lane))
        return false;
    part->lane = lane;
    route_send(NULL, trip->router, lane, part->op);
    return true;
}

static void on_part(struct op *op, void *ctx)
{
    struct part *part = ctx;
    struct trip *trip = part->trip;
    struct open_claims *open = router_open_claims(trip->router);
    size_t lane;
    if (send_after_tenant(trip, part))
        return;
    (void)router_learn(trip->router, op, &lane);
    pthread_mutex_lock(&open->mutex);
    part->is_back = true;
    const bool is_last = --trip->n_left == 0;
    const bool is_answered = trip->is_answered;
    if (is_last && !is_answered)
        list_remove(&trip->open);
    pthread_mutex_unlock(&open->mutex);
    if (is_last && is_answered)
        route_free(trip);
    else if (is_last)
        end_items(trip);
}

/* The items of a part that is late have the code of a shard that does not answer. What its shard
 * answers later is dropped. */
static void answer_late_part(struct trip *trip, const struct part *part)
{
    const struct op_route *route = trip->route;
    char *items = *(char **)at(trip->op, route->items_at);
    for (size_t i = 0; i < part->n; i++) {
        struct move_result *ret =
            at(items + part->places[i] * route->item_size, route->item_ret_at);
        *ret = (struct move_result){.code = REDRIVE_E_IO};
    }
    err_set(&trip->op->err, REDRIVE_E_IO, "the shard has not answered in time");
    lane_name(router_lane(trip->router, part->lane), &trip->op->err);
}

/* The mutex is held, so that no part comes back meanwhile. */
static void answer_without_late(struct trip *trip)
{
    trip->op->code = 0;
    for (size_t i = 0; i < trip->n_parts; i++) {
        struct part *part = &trip->parts[i];
        if (!part->is_back) {
            answer_late_part(trip, part);
            continue;
        }
        answer_items(trip->route, part);
        put_items_back(trip, part);
    }
}

void route_items_expire(struct router *router, int64_t now_ms)
{
    struct open_claims *open = router_open_claims(router);
    for (;;) {
        struct trip *late = NULL;
        pthread_mutex_lock(&open->mutex);
        if (!list_empty(&open->items))
            late = LIST_ENTRY(open->items.next, struct trip, open);
        if (!late || now_ms - late->since_ms < ROUTE_ITEMS_WAIT_MS) {
            pthread_mutex_unlock(&open->mutex);
            return;
        }
        list_remove(&late->open);
        late->is_answered = true;
        answer_without_late(late);
        struct op *op = late->op;
        op->done = late->done;
        op->done_ctx = late->done_ctx;
        pthread_mutex_unlock(&open->mutex);
        router_answer(router, op);
    }
}

/* The oldest are first. */
static void open_items(struct trip *trip)
{
    struct open_claims *open = router_open_claims(trip->router);
    list_init(&trip->open);
    trip->route = trip->op->route;
    if (!trip->op->goes_alone || !trip->op->by_item || trip->route->item_ret_at == NO_PLACE)
        return;
    pthread_mutex_lock(&open->mutex);
    trip->since_ms = clock_monotonic_ms();
    list_insert(&open->items, &trip->open);
    pthread_mutex_unlock(&open->mutex);
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

void route_begin_items(struct sending *sending, struct trip *trip)
{
    const struct op_route *route = trip->op->route;
    char *items = *(char **)at(trip->op, route->items_at);
    const size_t n = *(const size_t *)at(trip->op, route->n_at);
    if (!split_items(trip, items, n)) {
        trip->op->code = err_nomem(&trip->op->err);
        route_end(trip);
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
    open_items(trip);
    for (size_t i = 0; i < n_parts; i++) {
        *(size_t *)at(parts[i].op, route->n_at) = parts[i].n;
        parts[i].op->weight = parts[i].n;
        route_send(sending, router, parts[i].lane, parts[i].op);
    }
}
