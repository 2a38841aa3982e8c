#include "engine/lane.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"
#include "engine/private.h"

#define KEY_MAX_BYTES  (64u * 1024)
#define WINDOW_LAG_MS  1000
#define SAVE_MAX_BYTES (64u * 1024 * 1024)

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
    uint64_t seed = map->seed;
    MAP_FOREACH (map, slot)
        lane_free(slot->value);
    map_release(map);
    map_init(map, seed);
}

void lanes_init(struct lanes *lanes, uint64_t seed)
{
    *lanes = (struct lanes){0};
    map_init(&lanes->breakers, seed);
    map_init(&lanes->limits, seed);
}

void lanes_forget(struct lanes *lanes)
{
    free_all(&lanes->breakers);
    free_all(&lanes->limits);
    lanes->n_marked = 0;
}

void lanes_release(struct lanes *lanes)
{
    lanes_forget(lanes);
    map_release(&lanes->breakers);
    map_release(&lanes->limits);
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

static int lane_new(struct engine *e, enum shared_kind kind, struct str tenant, struct str key,
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
        return rc == REDRIVE_E_TOO_BIG
                   ? err_set(err, rc, "the key of a breaker or limit is too long")
                   : err_nomem(err);
    }
    *ret = lane;
    return 0;
}

int lane_breaker(struct engine *e, struct str tenant, struct str key,
                 const struct redrive_breaker_config *config, struct lane **ret,
                 struct redrive_err *err)
{
    *ret = lane_find(&e->lanes.breakers, tenant, key);
    if (!*ret) {
        int rc = lane_new(e, SHARED_BREAKER, tenant, key, ret, err);
        if (rc < 0)
            return rc;
        uint64_t seed = rng_hash(tenant.ptr, tenant.len, 0);
        breaker_init(&(*ret)->breaker, rng_hash(key.ptr, key.len, seed));
        (*ret)->breaker.bucket_start_ms = e->now_ms;
        redrive_breaker_config_init(&(*ret)->breaker_config);
    }
    if (config)
        (*ret)->breaker_config = *config;
    return 0;
}

int lane_limit(struct engine *e, struct str tenant, struct str key, const struct rate *rate,
               uint32_t max, struct lane **ret, struct redrive_err *err)
{
    *ret = lane_find(&e->lanes.limits, tenant, key);
    if (!*ret) {
        int rc = lane_new(e, SHARED_BUCKET, tenant, key, ret, err);
        if (rc < 0)
            return rc;
    }
    struct lane *lane = *ret;
    if (rate->count > 0 && lane->rate.count == 0)
        bucket_init(&lane->bucket, rate, e->now_ms);
    else if (rate->count == 0)
        lane->bucket.updated_ms = e->now_ms; /* so that it is known when it was last wanted */
    lane->rate = *rate;
    lane->slots.max = max;
    return 0;
}

uint32_t lane_wants(struct lane *lane, uint32_t room, int64_t now_ms)
{
    if (now_ms >= lane->candidates_until_ms)
        lane->candidates = 0;
    return room > lane->candidates ? room - lane->candidates : 0;
}

void lane_sent(struct lane *lane, uint32_t n, int64_t now_ms)
{
    lane->candidates += n;
    lane->candidates_until_ms = now_ms + LANE_CANDIDATE_MS;
}

void lane_arrived(struct lane *lane)
{
    if (lane->candidates > 0)
        lane->candidates--;
}

void lane_record(struct lane *lane, struct breaker_permit permit, enum breaker_result result,
                 int64_t now_ms)
{
    enum redrive_breaker_state before = lane->breaker.state;
    breaker_record(&lane->breaker, &lane->breaker_config, permit, result, now_ms);
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

int lane_mark(struct engine *e, struct lane *lane, struct redrive_err *err)
{
    struct lanes *lanes = &e->lanes;
    if (lane->marked)
        return 0;
    if (lanes->n_marked == lanes->capacity) {
        size_t capacity = lanes->capacity ? lanes->capacity * 2 : 16;
        struct lane **grown = realloc(lanes->marked, capacity * sizeof(struct lane *));
        if (!grown)
            return err_nomem(err);
        lanes->marked = grown;
        lanes->capacity = capacity;
    }
    lanes->marked[lanes->n_marked++] = lane;
    lane->marked = true;
    return 0;
}

/* Only the sums of the window have changed, and not long ago. */
static bool may_lag(const struct lane *lane, int64_t now_ms)
{
    if (lane->kind != SHARED_BREAKER || lane->version == 0 || lane->has_parked ||
        lane->candidates > 0)
        return false;
    const struct breaker *b = &lane->breaker, *s = &lane->saved;
    return now_ms - lane->saved_ms < WINDOW_LAG_MS && b->state == s->state &&
           b->generation == s->generation && b->consecutive == s->consecutive &&
           memcmp(b->probes, s->probes, sizeof b->probes) == 0;
}

/* The row of a lane, its bytes in the unit's arena. */
static struct shared_row row_of(struct engine *e, const struct lane *lane, struct buf *scratch)
{
    buf_reset(scratch);
    lane_encode(lane, scratch);
    struct str value = buf_str(scratch);
    value.ptr = arena_dup(&e->arena, value);
    return (struct shared_row){
        .kind = lane->kind,
        .tenant = str_of(lane->tenant),
        .key = str_of(lane->key),
        .value = value,
        .version = lane->version,
        .removed = lane->may_go,
    };
}

static void lane_drop(struct engine *e, struct lane *lane)
{
    struct buf name;
    if (name_of(str_of(lane->tenant), str_of(lane->key), &name) == 0 &&
        map_remove(map_of(e, lane->kind), buf_str(&name)))
        lane_free(lane);
    buf_release(&name);
}

static int put_lanes(struct engine *e, struct lane *const *lanes, const struct shared_row *rows,
                     struct move_result *results, size_t n, struct redrive_err *err)
{
    int rc = e->ops->shared_put(e->store, rows, n, results, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct lane *lane = lanes[i];
        if (results[i].code < 0)
            return err_set(err, REDRIVE_E_CANCELLED,
                           "another process has changed the same breaker or limit");
        lane->version++;
        e->puts++;
        if (lane->may_go)
            lane_drop(e, lane);
        else if (lane->kind == SHARED_BREAKER) {
            lane->saved = lane->breaker;
            lane->saved_ms = e->now_ms;
        }
    }
    e->touched |= rc == 0;
    return rc;
}

int lanes_save(struct engine *e, struct redrive_err *err)
{
    struct lanes *lanes = &e->lanes;
    const size_t n_marked = lanes->n_marked;
    size_t n = 0;
    if (n_marked == 0)
        return 0;
    struct lane **changed = arena_array(&e->arena, n_marked, sizeof(struct lane *));
    struct shared_row *rows = arena_array(&e->arena, n_marked, sizeof *rows);
    struct move_result *results = arena_array(&e->arena, n_marked, sizeof *results);
    struct buf scratch;
    buf_init(&scratch, SAVE_MAX_BYTES);
    for (size_t i = 0; i < n_marked && !e->arena.failed; i++) {
        struct lane *lane = lanes->marked[i];
        lane->marked = false;
        lane->may_go = lane->may_go && lane_is_spent(lane, e->now_ms);
        if (lane->may_go && lane->version == 0) {
            lane_drop(e, lane);
            continue;
        }
        if (!lane->may_go && may_lag(lane, e->now_ms))
            continue;
        changed[n] = lane;
        rows[n++] = row_of(e, lane, &scratch);
        event_add_breaker(e, lane);
    }
    lanes->n_marked = 0;
    bool failed = buf_failed(&scratch) || e->arena.failed;
    buf_release(&scratch);
    if (failed)
        return err_nomem(err);
    return n == 0 ? 0 : put_lanes(e, changed, rows, results, n, err);
}

static int load_row(struct engine *e, const struct shared_row *row, struct redrive_err *err)
{
    struct lane *lane = NULL;
    int rc = lane_new(e, row->kind, row->tenant, row->key, &lane, err);
    if (!lane)
        return rc;
    lane->version = row->version;
    if (!lane_decode(lane, row->value))
        return err_set(err, REDRIVE_E_CORRUPT, "the row of breaker or limit '%s' is damaged",
                       lane->key);
    if (lane->kind == SHARED_BREAKER) {
        lane->saved = lane->breaker;
        lane->saved_ms = e->now_ms;
    }
    return 0;
}

static int load_kind(struct engine *e, enum shared_kind kind, struct redrive_err *err)
{
    struct shared_page page = {0};
    int rc = e->ops->shared_list(e->store, kind, (struct str){0}, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++)
        rc = load_row(e, &page.rows[i], err);
    shared_page_release(&page);
    return rc;
}

int lanes_load(struct engine *e, struct redrive_err *err)
{
    lanes_forget(&e->lanes);
    int rc = load_kind(e, SHARED_BREAKER, err);
    return rc < 0 ? rc : load_kind(e, SHARED_BUCKET, err);
}
