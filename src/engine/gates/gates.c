#include "engine/gates/gates.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/text/buf.h"
#include "core/elapsed.h"
#include "engine/private.h"

#define KEY_MAX_BYTES (64u * 1024)

/* When a limit without a rate was last wanted is known to about this. */
#define WANTED_LAG_MS (5 * INT64_C(60000))

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

static struct map *map_of(struct engine *e, enum shared_kind kind)
{
    return kind == SHARED_BREAKER ? &e->gates.breakers : &e->gates.limits;
}

int gate_new(struct engine *e, enum shared_kind kind, struct str tenant, struct str key,
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
        rc = map_put(map_of(e, kind), buf_str(&name), gate);
    buf_release(&name);
    if (rc != 0) {
        gate_free(gate);
        (void)err_full(err, rc, "the key of a breaker or limit is too long");
        return rc;
    }
    *ret = gate;
    return 0;
}

void gate_drop(struct engine *e, struct gate *gate)
{
    struct buf name;
    if (name_of(str_of(gate->tenant), str_of(gate->key), &name) == 0 &&
        map_remove(map_of(e, gate->kind), buf_str(&name)))
        gate_free(gate);
    buf_release(&name);
}

int gate_breaker(struct engine *e, struct str tenant, struct str key,
                 const struct redrive_breaker_config *config, struct gate **ret,
                 struct redrive_err *err)
{
    *ret = gate_find(&e->gates.breakers, tenant, key);
    const bool is_new = !*ret;
    if (is_new) {
        int rc = gate_new(e, SHARED_BREAKER, tenant, key, ret, err);
        if (rc != 0)
            return rc;
        uint64_t seed = rng_hash(tenant.ptr, tenant.len, 0);
        breaker_init(&(*ret)->breaker, rng_hash(key.ptr, key.len, seed));
        redrive_breaker_config_init(&(*ret)->breaker_config);
    }
    if (config)
        (*ret)->breaker_config = *config;
    if (is_new)
        breaker_window_advance(&(*ret)->breaker.window, &(*ret)->breaker_config, e->now_ms);
    return 0;
}

int gate_limit(struct engine *e, struct str tenant, struct str key, const struct rate *rate,
               uint32_t max, struct gate **ret, struct redrive_err *err)
{
    *ret = gate_find(&e->gates.limits, tenant, key);
    if (!*ret) {
        int rc = gate_new(e, SHARED_BUCKET, tenant, key, ret, err);
        if (rc != 0)
            return rc;
    }
    struct gate *gate = *ret;
    if (rate->count > 0 && gate->rate.count == 0)
        bucket_init(&gate->bucket, rate, e->now_ms);
    else if (rate->count == 0 && elapsed_since(gate->bucket.updated_ms, e->now_ms) >= WANTED_LAG_MS)
        gate->bucket.updated_ms = e->now_ms; /* so that it is known when it was last wanted */
    gate->rate = *rate;
    gate->slots.max = max;
    return max > 0 ? gates_need_slots(e, err) : 0;
}

/* ---- Candidates and slots -------------------------------------------------------------------- */

static bool is_limit(const struct gate *gate)
{
    return gate->kind == SHARED_BUCKET;
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

void gate_looked(struct engine *e, struct gate *gate, bool some_left)
{
    const bool seems_empty = is_limit(gate) && !some_left && !gate->seems_empty;
    gate->has_parked = some_left || seems_empty;
    if (is_limit(gate))
        gate->seems_empty = seems_empty;
    if (seems_empty)
        engine_want(e, e->now_ms);
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
