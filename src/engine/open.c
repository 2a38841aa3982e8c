/* open.c - opens and closes an engine, and gives it another configuration while it works. */
#include "engine/engine.h"

#include <stdlib.h>

#include "base/err.h"
#include "core/classify/classify.h"
#include "core/retry/policy.h"
#include "engine/clock/cron_entries.h"
#include "engine/state.h"
#include "engine/tasks.h"

#define RUN_TIME_HALF_LIFE_MS (10 * 60 * 1000)

static void init_builtin(struct config_task *task)
{
    *task = (struct config_task){
        .name = "",
        .queue = "default",
        .breaker = {.key = "{task}"},
        .lease_ms = 30000,
        .heartbeat_ms = 10000,
    };
    policy_init_queue(&task->retry);
    redrive_breaker_config_init(&task->breaker.config);
}

/* Delays that are asked for before the first transaction go by the store's clock as well, if it has
 * one. A store that does not answer now fails at the first operation. */
static void learn_time(struct engine *e)
{
    const int64_t asked_ms = engine_clock_ms(e);
    engine_note_time(e, asked_ms, store_time_ms(e->store, asked_ms));
}

static int build(struct engine *e, struct redrive_err *err)
{
    const struct config *config = e->options.config;
    uint64_t seed = e->options.seed ? e->options.seed : rng_system_seed();
    e->ops = store_ops(e->store);
    e->store_status =
        store_status_new(e->options.log, e->ops->capabilities & (STORE_SERVER_TIME | STORE_LATE),
                         e->options.n_shards > 0 ? e->options.shard + 1 : 0);
    if (!e->store_status)
        return err_nomem(err);
    arena_init(&e->arena);
    rng_seed(&e->rng, seed);
    id_gen_init(&e->ids, rng_mix(seed));
    gates_init(&e->gates, rng_mix(seed + 1));
    running_init(&e->running, rng_mix(seed + 2));
    map_init(&e->published, rng_mix(seed + 3));
    fence_init(&e->fence, rng_mix(seed + 4));
    e->map_seed = rng_mix(seed + 5);
    init_builtin(&e->builtin);
    if (e->options.payload_max_bytes == 0)
        e->options.payload_max_bytes = ENGINE_PAYLOAD_MAX_BYTES;
    e->shared_seen = -1;
    e->task_changes = 1;
    e->is_leader = true;
    e->wake_ms = 0;
    e->own_ms = INT64_MAX;
    learn_time(e);
    e->started_ms = engine_now_ms(e);
    health_init(&e->health, e->started_ms);
    quantile_init(&e->run_time, RUN_TIME_HALF_LIFE_MS, e->started_ms);
    if (!config)
        return 0;
    return classifier_new(config->classify, config->n_classify, &e->classifier, err);
}

int engine_open(const struct engine_options *options, struct engine **ret, struct redrive_err *err)
{
    *ret = NULL;
    struct engine *e = calloc(1, sizeof *e);
    if (!e) {
        store_close(options->store);
        return err_nomem(err);
    }
    e->options = *options;
    (void)config_hold(options->config);
    pthread_mutex_init(&e->config_mutex, NULL);
    e->store = options->store;
    int rc = build(e, err);
    if (rc < 0) {
        engine_close(e);
        return rc;
    }
    *ret = e;
    return 0;
}

void engine_close(struct engine *e)
{
    if (!e)
        return;
    gates_release(&e->gates);
    running_release(&e->running);
    tasks_release(e);
    fence_release(&e->fence);
    cron_entries_release(&e->cron_entries);
    arena_release(&e->arena);
    classifier_free(e->classifier);
    store_close(e->store);
    store_status_free(e->store_status);
    config_free((struct config *)e->options.config);
    pthread_mutex_destroy(&e->config_mutex);
    free(e->events);
    free(e->sweep_marks);
    free(e);
}

/* ---- Another configuration ------------------------------------------------------------------- */

static void exchange(struct engine *e, struct reload_op *op)
{
    struct config *config = (struct config *)e->options.config;
    struct classifier *classifier = e->classifier;
    pthread_mutex_lock(&e->config_mutex);
    e->options.config = op->config;
    pthread_mutex_unlock(&e->config_mutex);
    e->classifier = op->classifier;
    e->task_changes++;
    /* They point into the former configuration. */
    cron_entries_release(&e->cron_entries);
    op->config = config;
    op->classifier = classifier;
    op->in_force = true;
    /* Periodic tasks and alerts may want to be looked at earlier than the former ones. */
    e->alert_ms = 0;
    e->wake_ms = 0;
}

/* Memory is exchanged once, whatever becomes of the transaction. After a transaction that failed
 * the entries are read again anyway. */
static int apply_reload(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct reload_op *op = (struct reload_op *)base;
    struct publish_op publish;
    if (!op->in_force)
        exchange(e, op);
    int rc = cron_entries_load(e, err);
    if (rc == 0)
        rc = tasks_load(e, err);
    publish_op_init(&publish);
    return rc < 0 ? rc : publish.op.apply(e, &publish.op, err);
}

static const struct op_route RELOAD_ROUTE = {.to = ROUTE_RELOAD};

int reload_op_init(struct reload_op *op, const struct config *config, struct redrive_err *err)
{
    *op = (struct reload_op){.op = {.apply = apply_reload, .route = &RELOAD_ROUTE, .weight = 1}};
    op->config = config_hold(config);
    int rc = classifier_new(config->classify, config->n_classify, &op->classifier, err);
    if (rc < 0)
        reload_op_release(op);
    return rc;
}

void reload_op_release(struct reload_op *op)
{
    config_free(op->config);
    classifier_free(op->classifier);
    *op = (struct reload_op){0};
}
