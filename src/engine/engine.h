/* engine.h - the queue itself: jobs in a store, moved by the decisions of core.
 *
 * An engine holds a store handle, what it has cached of the state that processes share, and the
 * time at which it next wants to be asked what is due. Verbs are operations (transaction.h) that
 * are run many to a transaction; each has a header of its own: verbs/submit.h, verbs/claim.h,
 * verbs/settle.h, verbs/change.h, verbs/control.h. What only time asks for is engine_tick
 * (clock/tick.h). A committer (committer.h) does all of it on a thread of its own and takes
 * operations from any other.
 *
 * Invariants
 *   1. What an operation answers and what events tell has been committed.
 *   2. Breakers, limits and counters move in the transaction of the job that moves them, never
 *      apart.
 *   3. After a failure nothing cached is believed: it is read again.
 *   4. Nothing here reads a clock or makes randomness of its own: both are given.
 *
 * One thread at a time.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdint.h>

#include "base/os/log.h"
#include "config/config.h"
#include "core/breaker/health.h"
#include "engine/clock/alert.h"
#include "engine/report/events.h"
#include "engine/store_status.h"
#include "store/store.h"

#define ENGINE_TENANT_DEFAULT    "default"
#define ENGINE_PAYLOAD_MAX_BYTES (1024u * 1024)

typedef int64_t (*engine_clock_fn)(void *ctx);

struct engine_options {
    struct store *store;         /* owned from engine_open on, also when that fails */
    const struct config *config; /* held by the engine; NULL: the defaults */
    engine_clock_fn clock;       /* wall time in ms; NULL: the system's */
    void *clock_ctx;
    uint64_t seed;            /* of tokens and ids; 0: from the system */
    const struct log *log;    /* borrowed; NULL: silence */
    engine_event_fn on_event; /* after the commit, on the thread that applies; may be NULL */
    void *event_ctx;
    engine_alert_fn on_alert; /* NULL: alerts are not looked at */
    void *alert_ctx;
    const struct log *alert_log; /* where alerts are logged; borrowed; NULL: `log` */
    size_t payload_max_bytes;    /* 0: ENGINE_PAYLOAD_MAX_BYTES */
};

struct engine;

int engine_open(const struct engine_options *options, struct engine **ret, struct redrive_err *err);
/* Closes the store too. Accepts NULL. */
void engine_close(struct engine *engine);

/* The store, for reads between transactions, by the thread that owns the engine. */
struct store *engine_store(struct engine *engine);
int64_t engine_now_ms(const struct engine *engine);

/* When a tick (clock/tick.h) is wanted, as of all that was applied since the last one. */
int64_t engine_next_ms(const struct engine *engine);

/* Whether anybody has ever claimed jobs through it, with success or in vain. */
bool engine_has_claimed(const struct engine *engine);

/* Whether callers whose claims are served come back at once, as far as is known: then the store may
 * look for their next jobs ahead. */
void engine_expect(struct engine *engine, bool come_back);

/* How the store is doing (store_status.h). Any thread. */
struct store_status *engine_store_status(const struct engine *engine);

/* Whether anything has been applied since the last time of asking that put a job into the queue. */
bool engine_made_ready(struct engine *engine);

/* The definition of a task: what the configuration says, or the defaults. What other processes have
 * published is in tasks.h. For the thread that owns the engine: a reload (reload.h) may put another
 * configuration into force at any time. */
const struct config_task *engine_task(const struct engine *engine, struct str name);

/* The configuration that is in force, held for the caller, who frees it; NULL: there is none. Any
 * thread. */
struct config *engine_config(const struct engine *engine);
/* The definition of a task by a configuration that engine_config has given. Any thread. */
const struct config_task *engine_task_by(const struct engine *engine, const struct config *config,
                                         struct str name);

/* Of the work that this engine has settled; fills in all of `ret`. */
void engine_health(const struct engine *engine, const struct health_thresholds *thresholds,
                   struct redrive_health *ret);
/* How long runs took; p as in quantile_get, in ms. */
double engine_run_time_ms(const struct engine *engine, double p);

#endif
