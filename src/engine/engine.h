/* engine.h - the queue itself: jobs in a store, moved by the decisions of core.
 *
 * An engine holds a store handle, what it has cached of the state that processes share, and the
 * time at which it next wants a tick. Work is handed to it as operations (op.h), many to a
 * transaction; each has its struct in a header of verbs/. What becomes due as time passes is done
 * by engine_tick. A committer (committer.h) does all of it on a thread of its own and takes
 * operations from any other.
 *
 * Invariants
 *   1. What an operation answers and what events tell has been committed.
 *   2. Breakers, limits and counters change in the transaction of the job that changes them.
 *   3. After a failure nothing cached is used: it is read again.
 *   4. Nothing here reads a clock or makes randomness of its own: both are given.
 *
 * One thread at a time, unless a function says otherwise.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdint.h>

#include "base/os/log.h"
#include "config/config.h"
#include "engine/event.h"
#include "engine/op.h"
#include "engine/store_status.h"
#include "store/store.h"

#define ENGINE_TENANT_DEFAULT    "default"
#define ENGINE_PAYLOAD_MAX_BYTES (1024u * 1024)

struct alert_event;
struct classifier;

typedef int64_t (*engine_clock_fn)(void *ctx);
/* After the commit, on the thread that applies. It must not wait. See clock/alert.h. */
typedef void (*engine_alert_fn)(const struct alert_event *event, void *ctx);

struct engine_options {
    struct store *store;         /* owned from engine_open on, also when that fails */
    const struct config *config; /* held by the engine; NULL: the defaults */
    engine_clock_fn clock;       /* wall time in ms; NULL: the system's */
    void *clock_ctx;
    uint64_t seed;            /* of tokens and ids; 0: from the system */
    const struct log *log;    /* borrowed; NULL: nothing is logged */
    bool starts_at_info;      /* logs the start of an attempt at `info`, not at `debug` */
    engine_event_fn on_event; /* after the commit, on the thread that applies; may be NULL */
    void *event_ctx;
    engine_alert_fn on_alert; /* NULL: alert rules are not checked */
    void *alert_ctx;
    const struct log *alert_log; /* where alerts are logged; borrowed; NULL: `log` */
    size_t payload_max_bytes;    /* 0: ENGINE_PAYLOAD_MAX_BYTES */
    /* Which shard the store is, and of how many (shards/router.h): periodic tasks of the
     * configuration belong to the shard of their tenant, and alerts name theirs. 0 of 0: there are
     * no shards. */
    size_t shard;
    size_t n_shards;
    size_t n_hashed; /* by how many of them names of tenants are hashed */
    /* Instead of the limits of verbs/after.h, for tests; 0: those. */
    size_t after_max;
};

struct engine;

int engine_open(const struct engine_options *options, struct engine **ret, struct redrive_err *err);
/* Closes the store too. Accepts NULL. */
void engine_close(struct engine *engine);

/* ---- Operations ------------------------------------------------------------------------------ */

/* Runs all of them in one transaction and returns when every one has its answer. An operation that
 * makes the store fail fails alone. */
void engine_apply(struct engine *engine, struct op **ops, size_t n);
/* Runs the operations of a batch in one transaction. When it returns, each operation in the batch
 * has its answer, or is blocked if the batch sets blocked operations aside. */
void engine_apply_batch(struct engine *engine, struct op_batch *batch);
/* From now on no transaction waits long for a lock that another one holds: for callers that share
 * the engine. An operation that needs such a lock fails alone, or is set aside (op_batch). */
void engine_wait_briefly(struct engine *engine);
/* The same for one; returns its code, with detail in `err`. */
int engine_apply_one(struct engine *engine, struct op *op, struct redrive_err *err);

/* Whether operations applied since the last call have put a job into the queue. */
bool engine_made_ready(struct engine *engine);

/* Whether a claim has ever been made through it, with or without jobs for an answer. */
bool engine_has_claimed(const struct engine *engine);

/* Whether callers whose claims are served come back at once, as far as is known: then the store may
 * look for their next jobs ahead. */
void engine_expect(struct engine *engine, bool come_back);

/* ---- Time ------------------------------------------------------------------------------------
 *
 * A tick carries out cancels that were left in the store, puts jobs whose time has come into the
 * queue, takes jobs back whose lease has ended, ends jobs whose deadline has passed, lets parked
 * jobs go, makes the jobs of periodic tasks, removes what has been kept long enough and checks the
 * alert rules: each in a batch. It says when it wants to be called next. Until then there is
 * nothing to do, unless other processes use the store: when they have changed it, tick again.
 *
 * Of many processes on one store one is the leader. The others tick only for the jobs that they
 * have changed themselves and for their own configuration (periodic tasks, retention, alerts).
 */

/* Does what is due now. `ret_next_ms`: when to tick again; INT64_MAX: never. When a part of it
 * fails the others are still done, the first failure is returned, and the next tick is soon. */
int engine_tick(struct engine *engine, int64_t *ret_next_ms, struct redrive_err *err);
/* When a tick is wanted, as of all that was applied since the last one. */
int64_t engine_next_ms(const struct engine *engine);

/* Writes what the store may lag behind with: successes that breakers count (gates/gate.h). It is
 * due at engine_flush_ms (INT64_MAX: never), unless a transaction does it before, and before the
 * process ends. */
void engine_flush(struct engine *engine);
int64_t engine_flush_ms(const struct engine *engine);

/* Whether this process is the leader; after engine_open it is. One that becomes the leader wants a
 * tick at once. */
void engine_set_leader(struct engine *engine, bool is_leader);

/* The time by the store's clock, or by the engine's if the store has none. Any thread. */
int64_t engine_now_ms(const struct engine *engine);
/* The same for a store without an engine, outside of a transaction; `now_ms`, which is ours, if the
 * store has no clock or does not answer. */
int64_t store_time_ms(struct store *store, int64_t now_ms);

/* ---- The store ------------------------------------------------------------------------------- */

/* The store, for reads between transactions, by the thread that owns the engine. */
struct store *engine_store(struct engine *engine);
/* How the store is doing (store_status.h). Any thread. */
struct store_status *engine_store_status(const struct engine *engine);

/* ---- Configuration --------------------------------------------------------------------------- */

/* The definition of a task: what the configuration says, or the defaults. What other processes have
 * published is in tasks.h. For the thread that owns the engine: a reload may put another
 * configuration into force at any time. */
const struct config_task *engine_task(const struct engine *engine, struct str name);

/* The configuration that is in force, held for the caller, who frees it; NULL: there is none. Any
 * thread. */
struct config *engine_config(const struct engine *engine);
/* The definition of a task by a configuration that engine_config has given. Any thread. */
const struct config_task *engine_task_by(const struct engine *engine, const struct config *config,
                                         struct str name);

/* Another configuration for an engine that is at work:
 *
 *     struct reload_op op;
 *     reload_op_init(&op, config, err);
 *     committer_run(committer, &op.op, err);
 *     … op.in_force …
 *     reload_op_release(&op);                    lets go of the former one
 *
 * From the operation on everything goes by the new configuration: policies, classification, limits,
 * breakers, periodic tasks, alerts, retention; its tasks are published. Jobs that were submitted
 * before keep the queue and the keys that they came in with. The engine holds its configuration,
 * and so does a submit that is under way: the former one is freed when the last of them lets go.
 */
struct reload_op {
    struct op op;
    bool in_force; /* the answer; a failure after that is of the store, and is made up for */
    /* What the engine gets, and afterwards what it had. */
    struct config *config;
    struct classifier *classifier;
};

/* Holds the configuration until release. */
int reload_op_init(struct reload_op *op, const struct config *config, struct redrive_err *err);
void reload_op_release(struct reload_op *op);

#endif
