/* sweep.c - breakers and limits that say no more than new ones would. */
#include "core/elapsed.h"
#include "engine/gates/gates.h"
#include "engine/private.h"

#define HOUR_MS (INT64_C(3600) * 1000)
#define DAY_MS  (24 * HOUR_MS)
#define WEEK_MS (7 * DAY_MS)

/* Its window is over, and so is the time in which a job that was started under it is likely to
 * end: that one's result counts in a new breaker only if this one has never opened. Failures in a
 * row count however old they are, and are forgotten after a day. */
static bool closed_is_spent(const struct gate *gate, int64_t now_ms)
{
    const struct breaker *b = &gate->breaker;
    const int64_t window_ms = gate->breaker_config.window_ms;
    const bool has_past = b->consecutive > 0 || b->generation > 1;
    const int64_t kept_ms = has_past ? DAY_MS : HOUR_MS;
    const int64_t quiet_ms = elapsed_since(b->window.start_ms, now_ms);
    return quiet_ms >= kept_ms && quiet_ms >= window_ms + window_ms / BREAKER_BUCKETS;
}

/* Nobody has wanted to know for a week whether it would let a probe go. */
static bool open_is_spent(const struct gate *gate, int64_t now_ms)
{
    for (int i = 0; i < REDRIVE_MAX_PROBES; i++)
        if (gate->breaker.probes[i].token != 0)
            return false;
    return elapsed_since(gate->breaker.retry_at_ms, now_ms) >= WEEK_MS;
}

static bool limit_is_spent(const struct gate *gate, int64_t now_ms)
{
    return gate->slots.used == 0 && elapsed_since(gate->bucket.updated_ms, now_ms) >= HOUR_MS &&
           (gate->rate.count == 0 || bucket_is_full(&gate->bucket, &gate->rate, now_ms));
}

bool gate_is_spent(const struct gate *gate, int64_t now_ms)
{
    if (gate->has_parked || (gate->candidates > 0 && now_ms < gate->candidates_until_ms))
        return false;
    if (gate->kind != SHARED_BREAKER)
        return limit_is_spent(gate, now_ms);
    switch (gate->breaker.state) {
    case REDRIVE_BREAKER_CLOSED: return closed_is_spent(gate, now_ms);
    case REDRIVE_BREAKER_OPEN:
    case REDRIVE_BREAKER_HALF_OPEN: return open_is_spent(gate, now_ms);
    case REDRIVE_BREAKER_FORCED_OPEN:
    case REDRIVE_BREAKER_DISABLED:
    case REDRIVE_BREAKER_STATE_COUNT:
    default: return false;
    }
}

static int sweep_map(struct engine *e, const struct map *map, size_t limit, size_t *n,
                     struct redrive_err *err)
{
    int rc = 0;
    MAP_FOREACH (map, slot) {
        struct gate *gate = slot->value;
        if (rc < 0 || *n == limit || !gate_is_spent(gate, e->now_ms))
            continue;
        gate->may_go = true;
        rc = gate_mark(e, gate, err);
        ++*n;
    }
    return rc;
}

int gates_sweep(struct engine *e, size_t limit, size_t *ret_n, struct redrive_err *err)
{
    *ret_n = 0;
    int rc = sweep_map(e, &e->gates.breakers, limit, ret_n, err);
    return rc < 0 ? rc : sweep_map(e, &e->gates.limits, limit, ret_n, err);
}
