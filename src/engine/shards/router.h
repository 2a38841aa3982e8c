/* router.h - several engines behind one committer: a store that is spread over shards.
 *
 *     router_open(&options, &router, err);          stores and engines, one a shard
 *     router_start(router, …, &committer, err);     from here on it is a committer like any other
 *
 * Each shard has an engine with a committer of its own, so that transactions of shards run side by
 * side. An operation is handed to the committer of all of them, and goes where its route says
 * (op.h): a tenant's operations to the tenant's shard, a list of items in parts, a claim to one
 * shard after the other, with another one first each time. Servers, workers and commands do not
 * know how many there are. Numbers of jobs are those of store/shards/shards.h outside, and those of
 * the shard within its engine.
 *
 * A shard that does not answer fails what is asked of it, with REDRIVE_E_IO and its name. Claims
 * pass over one that is known to be away or slow, wait ROUTE_CLAIM_WAIT_MS for one that is not, and
 * say which they know nothing of (claim_op.missed). One whose transaction has taken
 * STORE_STATUS_HANGS_MS hangs: what waits behind that transaction, and what comes, fails at once;
 * what is in the transaction waits for the time-out of its store. A list of items for several
 * shards fails as a whole, although some of them have taken their part, unless the caller asks for
 * the code of each item (op.by_item).
 *
 * Callbacks of all shards, and answers, come from several threads, one at a time.
 */
#ifndef ENGINE_SHARDS_ROUTER_H
#define ENGINE_SHARDS_ROUTER_H

#include <pthread.h>

#include "engine/committer.h"

struct router;

struct router_options {
    const char *url; /* shards:… */
    bool create;     /* as of struct store_options */
    bool needs_all;  /* a shard that is away is a reason to fail */
    uint64_t origin; /* likewise; must not be 0 if it is to be started with `watches` */
    struct engine_options engine; /* of each; its store is filled in here */
};

/* Opens the shards, and checks that they are those that the store was made of
 * (store/shards/record.h). Those that are away, unless all are, get handles that open and check
 * them when they are back (store/late.h): until then they are shards that do not answer. A store
 * is set up only when all are there. */
int router_open(const struct router_options *options, struct router **ret, struct redrive_err *err);
/* For one that was not started. Accepts NULL. */
void router_close(struct router *router);

/* An engine, for what any thread may ask of one: the configuration in force, the time. */
const struct engine *router_engine(const struct router *router);

/* The shards that were away when it was opened, by bit. */
uint32_t router_away(const struct router *router);

struct router_start {
    bool watches;   /* changes by other processes are noticed, and what time asks for is done */
    bool publishes; /* the tasks of the configuration, for it is about to work */
    void (*on_ready)(void *ctx); /* as of struct committer_options */
    void *ready_ctx;
};
/* The committer owns the router from here on, also when that fails. */
int router_start(struct router *router, const struct router_start *start, struct committer **ret,
                 struct redrive_err *err);

/* ---- For the committer ----------------------------------------------------------------------- */

void router_submit_all(struct router *router, struct list *ops);
/* How all shards together are doing. */
struct store_status *router_store_status(const struct router *router);
/* Ends every committer, and frees the router. */
void router_stop(struct router *router);

/* In committer.c: a committer that hands everything to a router. NULL: no memory. */
struct committer *committer_of_router(struct router *router);
/* The two halves of committer_stop. In between it refuses what is handed in: operations may be on
 * their way from shards that have not stopped yet. Both accept NULL. */
void committer_end(struct committer *committer);
void committer_free(struct committer *committer);
/* Fails what has been handed in and is in no transaction yet. */
void committer_fail_waiting(struct committer *committer, const struct redrive_err *err);

/* ---- In router.c, for route.c and route_claims.c --------------------------------------------- */

struct lane {
    struct router *router;
    size_t index;
    struct engine *engine; /* NULL once the committer has it */
    struct committer *committer;
    _Atomic bool is_ready;   /* there may be ready jobs: claims go there first */
    _Atomic bool is_missed;  /* a claim was given nothing, and has not looked here */
    _Atomic bool owes_tasks; /* its tasks are to be published when the shard is back */
};

size_t router_count(const struct router *router);
struct lane *router_lane(struct router *router, size_t i);
/* Whether the shard is away, or its transaction takes longer than most. */
bool lane_is_slow(const struct lane *lane);
/* Whether it is known not to answer: it is away, or hangs. Then `err` says why. */
bool lane_is_away(const struct lane *lane, struct redrive_err *err);
bool lane_hangs(const struct lane *lane, struct redrive_err *err);
/* The lane of a tenant, as far as is known: a shard that it has left says where it is. */
size_t router_lane_of(struct router *router, struct str tenant);
/* Learns from an operation that a shard has refused for that where its tenant is: true if there is
 * such a lane. */
bool router_learn(struct router *router, const struct op *op, size_t *ret_lane);
/* Where the next claim begins. */
size_t router_turn(struct router *router);
/* Names the shard in an error that it has caused. */
void lane_name(const struct lane *lane, struct redrive_err *err);
/* Logs that a shard has kept a configuration that was to be taken back. */
void log_kept_reload(const struct lane *lane, const struct redrive_err *err);
/* Gives an operation its answer. */
void router_answer(struct router *router, struct op *op);

/* What is handed in at one moment. */
struct sending {
    struct router *router;
    struct list ops[16]; /* by lane */
};
/* In route.c: takes an operation on its way. */
void route_begin(struct sending *sending, struct op *op);

/* In route_items.c: lists of items that have waited for a shard for so long are answered without
 * it. */
#define ROUTE_ITEMS_WAIT_MS 2000
void route_items_expire(struct router *router, int64_t now_ms);

/* Claims that are at a shard. */
struct open_claims {
    pthread_mutex_t mutex;
    struct list questions;
    struct list trips; /* claims that have no answer yet, oldest first */
    uint64_t n_begun;
    struct list items; /* lists of items that do not wait for a shard that is late */
};
struct open_claims *router_open_claims(struct router *router);
/* In route_claims.c. */
struct claim_op;
void route_claim(struct sending *sending, struct claim_op *claim);
/* How many claims have begun so far, and whether the first `n` of them have been answered. */
uint64_t route_claims_begun(struct router *router);
bool route_claims_are_over(struct router *router, uint64_t n);
/* Claims that have been at a shard for so long go on without it. */
#define ROUTE_CLAIM_WAIT_MS 1000
void route_claims_expire(struct router *router, int64_t now_ms);

#endif
