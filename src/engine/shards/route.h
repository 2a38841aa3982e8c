/* route.h - an operation on its way over shards; for route.c and route_items.c alone. */
#ifndef ENGINE_SHARDS_ROUTE_H
#define ENGINE_SHARDS_ROUTE_H

#include "engine/shards/router.h"
#include "store/shards/shards.h"

/* A part of a list of items, on its way to one shard. */
struct part {
    struct trip *trip;
    size_t lane;
    struct op *op; /* a copy of the operation, with items of its own */
    size_t n;
    char *items;
    size_t *places; /* of each item in the whole list */
    bool is_back;   /* it has its answer; guarded by the mutex of struct open_claims */
};

/* An operation on its way. */
struct trip {
    struct router *router;
    struct op *op;
    void (*done)(struct op *op, void *ctx); /* the caller's */
    void *done_ctx;
    size_t lane;       /* where it is */
    size_t hops;       /* how often it was sent after a tenant that has been moved */
    size_t n_left;     /* how many rounds are left after this one, or parts without an answer */
    uint64_t n_claims; /* of a fence: how many claims have begun before it */
    uint32_t asked;    /* lanes, by bit, in this round */
    bool worked;       /* a lane has taken it */
    struct redrive_err err;    /* the first failure; code 0: there was none */
    struct job_filter filter;  /* of a bulk, as it came */
    struct reload_op *reloads; /* for the lanes after the first */
    struct part parts[SHARDS_MAX];
    size_t n_parts;
    const struct op_route *route; /* of a list of items */
    bool is_answered;             /* its parts are still on their way; guarded as they are */
    int64_t since_ms;             /* monotonic */
    struct list open;             /* in struct open_claims, or among those that are late */
};

static inline size_t n_lanes(const struct trip *trip)
{
    return router_count(trip->router);
}

static inline void *at(void *object, size_t place)
{
    return (char *)object + place;
}

/* Hands an operation to a shard, unless that hangs. */
void route_send(struct sending *sending, struct router *router, size_t lane, struct op *op);
/* Names the shard in the error of an operation that it has failed. */
void route_blame(const struct trip *trip, struct op *op, size_t lane);
/* The trip's first failure is the answer; one that is not REDRIVE_E_IO comes before one that is. */
void route_keep_failure(struct trip *trip, const struct op *op);
void route_fail(struct trip *trip);
/* Whether a shard has refused the operation because its tenant is on another lane. */
bool route_follows(struct trip *trip, struct op *op, size_t *ret_lane);
/* Gives the answer, and frees the trip. */
void route_end(struct trip *trip);
void route_free(struct trip *trip);

/* In route_items.c. */
void route_begin_items(struct sending *sending, struct trip *trip);

#endif
