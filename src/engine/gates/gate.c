/* gate.c - one breaker or limit, and the table of those that this process knows. */
#include "engine/gates/gate.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"
#include "core/elapsed.h"

#define KEY_MAX_BYTES (64u * 1024)

static void gate_free(struct gate *gate)
{
    if (!gate)
        return;
    free(gate->tenant);
    free(gate->key);
    free(gate);
}

static void free_all(struct map *map)
{
    MAP_FOREACH (map, slot)
        gate_free(slot->value);
    map_release(map);
}

void gates_init(struct gates *gates, uint64_t seed)
{
    *gates = (struct gates){.flush_ms = INT64_MAX};
    map_init(&gates->breakers, seed);
    map_init(&gates->limits, seed);
}

void gates_release(struct gates *gates)
{
    free_all(&gates->breakers);
    free_all(&gates->limits);
    free(gates->marked);
    gates->marked = NULL;
}

/* Tenant, zero byte, key, in memory that the caller frees. */
static int name_of(struct str tenant, struct str key, struct buf *ret)
{
    buf_init(ret, KEY_MAX_BYTES);
    (void)buf_add_str(ret, tenant);
    (void)buf_putc(ret, '\0');
    return buf_add_str(ret, key);
}

struct gate *gate_find(const struct map *map, struct str tenant, struct str key)
{
    struct buf name;
    struct gate *gate = NULL;
    if (name_of(tenant, key, &name) == 0)
        gate = map_get(map, buf_str(&name));
    buf_release(&name);
    return gate;
}

static struct map *map_of(struct gates *gates, enum shared_kind kind)
{
    return kind == SHARED_BREAKER ? &gates->breakers : &gates->limits;
}

void gate_reset(struct gate *gate)
{
    if (gate->kind == SHARED_BREAKER) {
        const uint64_t seed = rng_hash(gate->tenant, strlen(gate->tenant), 0);
        breaker_init(&gate->breaker, rng_hash(gate->key, strlen(gate->key), seed));
        redrive_breaker_config_init(&gate->breaker_config);
        gate->release = (struct release){0};
    } else {
        gate->bucket = (struct bucket){0};
        gate->rate = (struct rate){0};
        gate->slots = (struct slots){0};
        gate->budget = (struct budget){0};
        gate->budget_config = (struct budget_config){0};
        gate->adaptive = (struct adaptive){0};
        gate->adaptive_config = (struct adaptive_config){0};
        gate->seems_empty = false;
    }
}

int gate_new(struct gates *gates, enum shared_kind kind, struct str tenant, struct str key,
             struct gate **ret, struct redrive_err *err)
{
    struct gate *gate = calloc(1, sizeof *gate);
    struct buf name;
    int rc = name_of(tenant, key, &name);
    if (gate) {
        gate->kind = kind;
        gate->tenant = str_dup(tenant);
        gate->key = str_dup(key);
    }
    if (rc == 0 && (!gate || !gate->tenant || !gate->key))
        rc = REDRIVE_E_NOMEM;
    if (rc == 0)
        rc = map_put(map_of(gates, kind), buf_str(&name), gate);
    buf_release(&name);
    if (rc != 0) {
        gate_free(gate);
        (void)err_full(err, rc, "the key of a breaker or limit is too long");
        return rc;
    }
    gate_reset(gate);
    *ret = gate;
    return 0;
}

void gate_drop(struct gates *gates, struct gate *gate)
{
    struct buf name;
    if (name_of(str_of(gate->tenant), str_of(gate->key), &name) == 0 &&
        map_remove(map_of(gates, gate->kind), buf_str(&name)))
        gate_free(gate);
    buf_release(&name);
}

int gate_mark(struct gates *gates, struct gate *gate, struct redrive_err *err)
{
    if (gate->marked)
        return 0;
    if (gates->n_marked == gates->capacity) {
        size_t capacity = gates->capacity ? gates->capacity * 2 : 16;
        struct gate **grown = realloc(gates->marked, capacity * sizeof(struct gate *));
        if (!grown)
            return err_nomem(err);
        gates->marked = grown;
        gates->capacity = capacity;
    }
    gates->marked[gates->n_marked++] = gate;
    gate->marked = true;
    return 0;
}

/* ---- Candidates and slots -------------------------------------------------------------------- */

static bool is_limit(const struct gate *gate)
{
    return gate->kind == SHARED_LIMIT;
}

static void add_candidates(struct gate *gate, int64_t n)
{
    gate->candidates = (uint32_t)(gate->candidates + n);
    if (is_limit(gate))
        gate->add.sent += n;
}

uint32_t gate_wants(const struct gate *gate, uint32_t room, int64_t now_ms)
{
    const uint32_t sent = now_ms < gate->candidates_until_ms ? gate->candidates : 0;
    return room > sent ? room - sent : 0;
}

/* The time of a limit's candidates is not written anew for every one that is sent. */
void gate_sent(struct gate *gate, uint32_t n, int64_t now_ms)
{
    if (now_ms >= gate->candidates_until_ms)
        add_candidates(gate, -(int64_t)gate->candidates);
    add_candidates(gate, n);
    const int64_t left_ms = gate->candidates_until_ms - now_ms;
    if (!is_limit(gate) || left_ms < GATE_CANDIDATE_MS / 2 || left_ms > GATE_CANDIDATE_MS)
        gate->candidates_until_ms = now_ms + GATE_CANDIDATE_MS;
}

void gate_arrived(struct gate *gate)
{
    if (gate->candidates > 0)
        add_candidates(gate, -1);
}

void gate_parked(struct gate *gate)
{
    gate->has_parked = true;
    gate_arrived(gate);
    if (is_limit(gate)) {
        gate->seems_empty = false;
        gate->parks = true;
    }
}

void gate_take_slot(struct gate *gate)
{
    (void)slots_take(&gate->slots, 1);
    gate->add.used++;
    gate->starts = true;
}

void gate_give_slot(struct gate *gate)
{
    slots_give(&gate->slots, 1);
    gate->add.used--;
}

bool gate_has_slots(const struct gate *gate)
{
    return gate->slots.max == 0 || gate->slots.used < gate->slots.max;
}

void gate_set_slots(struct gate *gate, uint32_t max, const struct adaptive_config *config)
{
    if (!adaptive_is_set(config))
        gate->adaptive = (struct adaptive){0};
    else if (!adaptive_is_set(&gate->adaptive_config))
        adaptive_init(&gate->adaptive, config);
    gate->adaptive_config = *config;
    gate->slots.max = adaptive_is_set(config) ? adaptive_limit(&gate->adaptive, config) : max;
}

void gate_succeeded(struct gate *gate)
{
    const struct adaptive_config *config = &gate->adaptive_config;
    if (!adaptive_is_set(config))
        return;
    /* How many ran when the transaction began: it may settle all of them. */
    const int64_t running = (int64_t)gate->slots.used - gate->add.used;
    adaptive_succeeded(&gate->adaptive, config, running > 0 ? (uint32_t)running : 0);
    gate->slots.max = adaptive_limit(&gate->adaptive, config);
}

void gate_overloaded(struct gate *gate, int64_t started_ms, int64_t now_ms)
{
    const struct adaptive_config *config = &gate->adaptive_config;
    if (!adaptive_is_set(config))
        return;
    adaptive_overloaded(&gate->adaptive, config, started_ms, now_ms);
    gate->slots.max = adaptive_limit(&gate->adaptive, config);
}

void gate_set_budget(struct gate *gate, const struct budget_config *config, int64_t now_ms)
{
    if (!budget_is_set(config))
        gate->budget = (struct budget){0};
    else if (!budget_is_set(&gate->budget_config) ||
             (config->max_tokens > 0) != (gate->budget_config.max_tokens > 0))
        budget_init(&gate->budget, config, now_ms);
    gate->budget_config = *config;
}

int64_t gate_wait_ms(const struct gate *gate, bool is_retry, int64_t now_ms)
{
    int64_t wait_ms = 0, budget_ms = 0;
    if (gate->rate.count > 0)
        wait_ms = bucket_wait_ms(&gate->bucket, &gate->rate, now_ms);
    if (is_retry && budget_is_set(&gate->budget_config))
        budget_ms = budget_wait_ms(&gate->budget, &gate->budget_config, now_ms);
    return wait_ms > budget_ms ? wait_ms : budget_ms;
}

/* ---- Breakers -------------------------------------------------------------------------------- */

void gate_record(struct gate *gate, struct breaker_permit permit, enum breaker_result result,
                 int64_t run_ms, int64_t now_ms)
{
    const enum redrive_breaker_state before = gate->breaker.state;
    const bool counts =
        before == REDRIVE_BREAKER_CLOSED && permit.generation == gate->breaker.generation;
    const bool slow = breaker_is_slow(&gate->breaker_config, run_ms);
    if (counts && (result == BREAKER_SUCCESS || result == BREAKER_FAILURE)) {
        gate->transaction.calls++;
        gate->transaction.failures += result == BREAKER_FAILURE;
        gate->transaction.slow += slow;
    }
    breaker_record(&gate->breaker, &gate->breaker_config, permit, result, run_ms, now_ms);
    if (gate->breaker.state != REDRIVE_BREAKER_CLOSED)
        gate->release = (struct release){0};
    else if (before != REDRIVE_BREAKER_CLOSED)
        release_start(&gate->release, &gate->breaker_config, now_ms);
    else if (result == BREAKER_FAILURE && gate->release.rate > 0)
        release_failed(&gate->release, &gate->breaker_config, now_ms);
}

/* ---- Clocks that are set back ---------------------------------------------------------------- */

bool gate_follow_clock(struct gate *gate, int64_t now_ms)
{
    bool changed = elapsed_end_is_ahead(gate->candidates_until_ms, GATE_CANDIDATE_MS, now_ms);
    if (changed)
        gate->candidates_until_ms = now_ms + GATE_CANDIDATE_MS;
    if (is_limit(gate)) {
        changed |= bucket_follow_clock(&gate->bucket, now_ms);
        changed |= budget_follow_clock(&gate->budget, now_ms);
    } else {
        changed |= breaker_follow_clock(&gate->breaker, &gate->breaker_config, now_ms);
        changed |= release_follow_clock(&gate->release, now_ms);
    }
    return changed;
}

/* ---- Which say nothing ----------------------------------------------------------------------- */

bool gate_is_idle(const struct gate *gate, int64_t now_ms)
{
    const struct breaker *b = &gate->breaker;
    if (b->state != REDRIVE_BREAKER_OPEN && b->state != REDRIVE_BREAKER_HALF_OPEN)
        return false;
    for (int i = 0; i < REDRIVE_MAX_PROBES; i++)
        if (b->probes[i].token != 0 && b->probes[i].expires_ms > now_ms)
            return false;
    const bool is_sent = gate->candidates > 0 && gate->candidates_until_ms > now_ms;
    return b->retry_at_ms <= now_ms && !gate->has_parked && !is_sent;
}

/* ---- Which can be removed -------------------------------------------------------------------- */

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

/* No job has asked for a week whether it may go as a probe. */
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
           (gate->rate.count == 0 || bucket_is_full(&gate->bucket, &gate->rate, now_ms)) &&
           (!budget_is_set(&gate->budget_config) ||
            budget_is_full(&gate->budget, &gate->budget_config, now_ms));
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
