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

static void lane_free(struct lane *lane)
{
    if (!lane)
        return;
    free(lane->tenant);
    free(lane->key);
    free(lane);
}

static void free_all(struct map *map)
{
    MAP_FOREACH (map, slot)
        lane_free(slot->value);
    map_release(map);
}

void lanes_init(struct lanes *lanes, uint64_t seed)
{
    *lanes = (struct lanes){.flush_ms = INT64_MAX};
    map_init(&lanes->breakers, seed);
    map_init(&lanes->limits, seed);
}

void lanes_release(struct lanes *lanes)
{
    free_all(&lanes->breakers);
    free_all(&lanes->limits);
    free(lanes->marked);
    lanes->marked = NULL;
}

/* Tenant, zero byte, key, in memory that the caller frees. */
static int name_of(struct str tenant, struct str key, struct buf *ret)
{
    buf_init(ret, KEY_MAX_BYTES);
    (void)buf_add_str(ret, tenant);
    (void)buf_putc(ret, '\0');
    return buf_add_str(ret, key);
}

struct lane *lane_find(const struct map *map, struct str tenant, struct str key)
{
    struct buf name;
    struct lane *lane = NULL;
    if (name_of(tenant, key, &name) == 0)
        lane = map_get(map, buf_str(&name));
    buf_release(&name);
    return lane;
}

static struct map *map_of(struct engine *e, enum shared_kind kind)
{
    return kind == SHARED_BREAKER ? &e->lanes.breakers : &e->lanes.limits;
}

int lane_new(struct engine *e, enum shared_kind kind, struct str tenant, struct str key,
             struct lane **ret, struct redrive_err *err)
{
    struct lane *lane = calloc(1, sizeof *lane);
    struct buf name;
    int rc = name_of(tenant, key, &name);
    if (lane) {
        lane->kind = kind;
        lane->tenant = str_dup(tenant);
        lane->key = str_dup(key);
    }
    if (rc == 0 && (!lane || !lane->tenant || !lane->key))
        rc = REDRIVE_E_NOMEM;
    if (rc == 0)
        rc = map_put(map_of(e, kind), buf_str(&name), lane);
    buf_release(&name);
    if (rc != 0) {
        lane_free(lane);
        (void)err_full(err, rc, "the key of a breaker or limit is too long");
        return rc;
    }
    *ret = lane;
    return 0;
}

void lane_drop(struct engine *e, struct lane *lane)
{
    struct buf name;
    if (name_of(str_of(lane->tenant), str_of(lane->key), &name) == 0 &&
        map_remove(map_of(e, lane->kind), buf_str(&name)))
        lane_free(lane);
    buf_release(&name);
}

int lane_breaker(struct engine *e, struct str tenant, struct str key,
                 const struct redrive_breaker_config *config, struct lane **ret,
                 struct redrive_err *err)
{
    *ret = lane_find(&e->lanes.breakers, tenant, key);
    const bool is_new = !*ret;
    if (is_new) {
        int rc = lane_new(e, SHARED_BREAKER, tenant, key, ret, err);
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

int lane_limit(struct engine *e, struct str tenant, struct str key, const struct rate *rate,
               uint32_t max, struct lane **ret, struct redrive_err *err)
{
    *ret = lane_find(&e->lanes.limits, tenant, key);
    if (!*ret) {
        int rc = lane_new(e, SHARED_BUCKET, tenant, key, ret, err);
        if (rc != 0)
            return rc;
    }
    struct lane *lane = *ret;
    if (rate->count > 0 && lane->rate.count == 0)
        bucket_init(&lane->bucket, rate, e->now_ms);
    else if (rate->count == 0 && elapsed_since(lane->bucket.updated_ms, e->now_ms) >= WANTED_LAG_MS)
        lane->bucket.updated_ms = e->now_ms; /* so that it is known when it was last wanted */
    lane->rate = *rate;
    lane->slots.max = max;
    return max > 0 ? lanes_need_slots(e, err) : 0;
}

/* ---- Candidates and slots -------------------------------------------------------------------- */

static bool is_limit(const struct lane *lane)
{
    return lane->kind == SHARED_BUCKET;
}

static void add_candidates(struct lane *lane, int64_t n)
{
    lane->candidates = (uint32_t)(lane->candidates + n);
    if (is_limit(lane))
        lane->add.sent += n;
}

uint32_t lane_wants(const struct lane *lane, uint32_t room, int64_t now_ms)
{
    const uint32_t sent = now_ms < lane->candidates_until_ms ? lane->candidates : 0;
    return room > sent ? room - sent : 0;
}

/* The time of a limit's candidates is not written anew for every one that is sent. */
void lane_sent(struct lane *lane, uint32_t n, int64_t now_ms)
{
    if (now_ms >= lane->candidates_until_ms)
        add_candidates(lane, -(int64_t)lane->candidates);
    add_candidates(lane, n);
    const int64_t left_ms = lane->candidates_until_ms - now_ms;
    if (!is_limit(lane) || left_ms < LANE_CANDIDATE_MS / 2 || left_ms > LANE_CANDIDATE_MS)
        lane->candidates_until_ms = now_ms + LANE_CANDIDATE_MS;
}

void lane_arrived(struct lane *lane)
{
    if (lane->candidates > 0)
        add_candidates(lane, -1);
}

void lane_parked(struct lane *lane)
{
    lane->has_parked = true;
    lane_arrived(lane);
    if (is_limit(lane)) {
        lane->seems_empty = false;
        lane->parks = true;
    }
}

void lane_looked(struct engine *e, struct lane *lane, bool some_left)
{
    const bool seems_empty = is_limit(lane) && !some_left && !lane->seems_empty;
    lane->has_parked = some_left || seems_empty;
    if (is_limit(lane))
        lane->seems_empty = seems_empty;
    if (seems_empty)
        engine_want(e, e->now_ms);
}

void lane_take_slot(struct lane *lane)
{
    (void)slots_take(&lane->slots, 1);
    lane->add.used++;
    lane->starts = true;
}

void lane_give_slot(struct lane *lane)
{
    slots_give(&lane->slots, 1);
    lane->add.used--;
}

bool lane_has_slots(const struct lane *lane)
{
    return lane->slots.max == 0 || lane->slots.used < lane->slots.max;
}

/* ---- Breakers -------------------------------------------------------------------------------- */

void lane_record(struct lane *lane, struct breaker_permit permit, enum breaker_result result,
                 int64_t run_ms, int64_t now_ms)
{
    const enum redrive_breaker_state before = lane->breaker.state;
    const bool counts =
        before == REDRIVE_BREAKER_CLOSED && permit.generation == lane->breaker.generation;
    const bool slow = breaker_is_slow(&lane->breaker_config, run_ms);
    if (counts && (result == BREAKER_SUCCESS || result == BREAKER_FAILURE)) {
        lane->unit.calls++;
        lane->unit.failures += result == BREAKER_FAILURE;
        lane->unit.slow += slow;
    }
    breaker_record(&lane->breaker, &lane->breaker_config, permit, result, run_ms, now_ms);
    if (lane->breaker.state != REDRIVE_BREAKER_CLOSED)
        lane->release = (struct release){0};
    else if (before != REDRIVE_BREAKER_CLOSED)
        release_start(&lane->release, &lane->breaker_config, now_ms);
    else if (result == BREAKER_FAILURE && lane->release.rate > 0)
        release_failed(&lane->release, &lane->breaker_config, now_ms);
}

bool lane_is_idle(const struct lane *lane, int64_t now_ms)
{
    const struct breaker *b = &lane->breaker;
    if (b->state != REDRIVE_BREAKER_OPEN && b->state != REDRIVE_BREAKER_HALF_OPEN)
        return false;
    for (int i = 0; i < REDRIVE_MAX_PROBES; i++)
        if (b->probes[i].token != 0 && b->probes[i].expires_ms > now_ms)
            return false;
    const bool is_sent = lane->candidates > 0 && lane->candidates_until_ms > now_ms;
    return b->retry_at_ms <= now_ms && !lane->has_parked && !is_sent;
}
