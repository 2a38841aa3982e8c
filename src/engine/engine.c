#include "engine/engine.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "core/classify/classify.h"
#include "core/retry/policy.h"
#include "engine/clock/retention.h"
#include "engine/private.h"
#include "engine/store_time.h"

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

/* Of a store that has a clock: what is asked for by a delay, before there was any transaction, goes
 * by it as well. One that does not answer now says so to whoever needs it. */
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
    e->store_status = store_status_new(e->options.log, e->ops->capabilities & STORE_SERVER_TIME);
    if (!e->store_status)
        return err_nomem(err);
    arena_init(&e->arena);
    rng_seed(&e->rng, seed);
    id_gen_init(&e->ids, rng_mix(seed));
    gates_init(&e->gates, rng_mix(seed + 1));
    running_init(&e->running, rng_mix(seed + 2));
    published_init(&e->published, rng_mix(seed + 3));
    init_builtin(&e->builtin);
    if (e->options.payload_max_bytes == 0)
        e->options.payload_max_bytes = ENGINE_PAYLOAD_MAX_BYTES;
    e->shared_seen = -1;
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

void engine_note_time(struct engine *e, int64_t asked_ms, int64_t now_ms)
{
    const int64_t skew_ms = now_ms == asked_ms ? 0 : now_ms - engine_clock_ms(e);
    atomic_store_explicit(&e->skew_ms, skew_ms, memory_order_relaxed);
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
    published_release(&e->published);
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

struct store *engine_store(struct engine *e)
{
    return e->store;
}

struct store_status *engine_store_status(const struct engine *e)
{
    return e->store_status;
}

int64_t engine_next_ms(const struct engine *e)
{
    return e->wake_ms < e->own_ms ? e->wake_ms : e->own_ms;
}

int64_t engine_clock_ms(const struct engine *e)
{
    return e->options.clock ? e->options.clock(e->options.clock_ctx) : clock_wall_ms();
}

int64_t engine_now_ms(const struct engine *e)
{
    return engine_clock_ms(e) + atomic_load_explicit(&e->skew_ms, memory_order_relaxed);
}

void engine_expect(struct engine *e, bool come_back)
{
    e->come_back = come_back;
}

bool engine_has_claimed(const struct engine *e)
{
    return e->has_claimed;
}

int64_t engine_lease_until(const struct engine *e, int64_t lease_ms)
{
    const int64_t span_ms = lease_ms < DURATION_MAX_MS ? lease_ms : DURATION_MAX_MS;
    int64_t until_ms;
    return __builtin_add_overflow(e->now_ms, span_ms, &until_ms) ? INT64_MAX : until_ms;
}

bool engine_made_ready(struct engine *e)
{
    bool made = e->made_ready;
    e->made_ready = false;
    return made;
}

const struct config_task *engine_task(const struct engine *e, struct str name)
{
    return engine_task_by(e, e->options.config, name);
}

struct config *engine_config(const struct engine *e)
{
    pthread_mutex_t *mutex = (pthread_mutex_t *)&e->config_mutex;
    pthread_mutex_lock(mutex);
    struct config *config = config_hold(e->options.config);
    pthread_mutex_unlock(mutex);
    return config;
}

const struct config_task *engine_task_by(const struct engine *e, const struct config *config,
                                         struct str name)
{
    return config ? config_task(config, name) : &e->builtin;
}

void engine_health(const struct engine *e, const struct health_thresholds *thresholds,
                   struct redrive_health *ret)
{
    uint32_t breakers = 0, open = 0;
    MAP_FOREACH (&e->gates.breakers, slot) {
        const struct gate *gate = slot->value;
        breakers++;
        open += breaker_is_open(gate->breaker.state);
    }
    health_read(&e->health, thresholds, breakers, open, engine_now_ms(e), ret);
}

double engine_run_time_ms(const struct engine *e, double p)
{
    return quantile_get(&e->run_time, p);
}

int engine_refresh(struct engine *e, int64_t shared_version, struct redrive_err *err)
{
    if (shared_version == STORE_VERSION_UNKNOWN)
        gates_distrust(&e->gates);
    else if (e->shared_seen == shared_version)
        return gates_count_slots(e, err);
    e->shared_seen = -1;
    int rc = gates_load(e, err);
    if (rc == 0)
        rc = cron_entries_load(e, err);
    if (rc == 0)
        rc = published_load(e, err);
    if (rc == 0)
        e->shared_seen = shared_version;
    return rc < 0 ? rc : gates_count_slots(e, err);
}

void engine_forget(struct engine *e)
{
    gates_rollback(&e->gates);
    cron_entries_forget(&e->cron_entries);
    retention_undo(e);
    e->shared_seen = -1;
    e->n_events = 0;
    e->cancels_ms = 0;
    /* Whatever was found out about times may not have been so. Who is not the leader need not find
     * out again. */
    if (e->is_leader)
        e->wake_ms = 0;
}

int engine_find(struct engine *e, struct str tenant, struct str id, int64_t seq,
                struct job_page *ret, struct redrive_err *err)
{
    struct job_filter filter = {.tenant = tenant, .limit = 1};
    if (seq != 0)
        filter.after_seq = seq - 1;
    else
        filter.id = id;
    if (seq == 0 && id.len == 0)
        return 0;
    int rc = e->ops->list(e->store, &filter, ret, err);
    if (rc < 0)
        return rc;
    return ret->n == 1 && (seq == 0 || ret->jobs[0].status.seq == seq);
}
