/* state.c - what an engine answers about itself: time, store, configuration. */
#include "engine/state.h"

#include "base/time/clock.h"
#include "base/time/duration.h"

/* ---- Time ------------------------------------------------------------------------------------ */

int64_t engine_clock_ms(const struct engine *e)
{
    return e->options.clock ? e->options.clock(e->options.clock_ctx) : clock_wall_ms();
}

int64_t engine_now_ms(const struct engine *e)
{
    return engine_clock_ms(e) + atomic_load_explicit(&e->skew_ms, memory_order_relaxed);
}

void engine_note_time(struct engine *e, int64_t asked_ms, int64_t now_ms)
{
    const int64_t skew_ms = now_ms == asked_ms ? 0 : now_ms - engine_clock_ms(e);
    atomic_store_explicit(&e->skew_ms, skew_ms, memory_order_relaxed);
}

int64_t store_time_ms(struct store *store, int64_t now_ms)
{
    const struct store_ops *ops = store_ops(store);
    int64_t store_ms, version;
    if (!(ops->capabilities & STORE_SERVER_TIME) ||
        ops->begin(store, now_ms, &store_ms, &version, NULL) != 0)
        return now_ms;
    ops->rollback(store);
    return store_ms;
}

int64_t engine_lease_until(const struct engine *e, int64_t lease_ms)
{
    return store_time_after(engine_time(e),
                            lease_ms < DURATION_MAX_MS ? lease_ms : DURATION_MAX_MS);
}

int64_t engine_next_ms(const struct engine *e)
{
    return e->wake_ms < e->own_ms ? e->wake_ms : e->own_ms;
}

int64_t engine_flush_ms(const struct engine *e)
{
    return e->gates.flush_ms;
}

void engine_set_leader(struct engine *e, bool is_leader)
{
    if (is_leader && !e->is_leader)
        e->wake_ms = 0;
    e->is_leader = is_leader;
}

/* ---- Store and callers ----------------------------------------------------------------------- */

struct store *engine_store(struct engine *e)
{
    return e->store;
}

struct store_status *engine_store_status(const struct engine *e)
{
    return e->store_status;
}

bool engine_made_ready(struct engine *e)
{
    bool made = e->made_ready;
    e->made_ready = false;
    return made;
}

bool engine_has_claimed(const struct engine *e)
{
    return e->has_claimed;
}

void engine_expect(struct engine *e, bool come_back)
{
    e->come_back = come_back;
}

/* ---- Configuration --------------------------------------------------------------------------- */

const struct config_task *engine_task(const struct engine *e, struct str name)
{
    return engine_task_by(e, e->options.config, name);
}

struct config *engine_config(const struct engine *e)
{
    pthread_mutex_t *mutex = (pthread_mutex_t *)&e->config_mutex;
    HOLD(mutex);
    return config_hold(e->options.config);
}

const struct config_task *engine_task_by(const struct engine *e, const struct config *config,
                                         struct str name)
{
    return config ? config_task(config, name) : &e->builtin;
}
