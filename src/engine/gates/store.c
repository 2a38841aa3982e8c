/* store.c - how breakers and limits are read from the store, and written once a unit. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/os/log.h"
#include "base/text/buf.h"
#include "engine/private.h"

#define SUCCESS_LAG_MS 1000
#define FAILURE_LAG_MS 100
#define SAVE_MAX_BYTES (64u * 1024 * 1024)

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

/* ---- Writing --------------------------------------------------------------------------------- */

static bool has_failures(const struct breaker_counts *counts)
{
    return counts->failures > 0 || counts->slow > 0;
}

/* Half of what would open it, or more. */
static bool is_near(const struct lane *lane)
{
    const struct redrive_breaker_config *config = &lane->breaker_config;
    const struct breaker_counts sum = breaker_window_sum(&lane->breaker.window, config);
    return (config->failure_rate > 0 && 2 * sum.failures >= config->failure_rate * sum.calls) ||
           (config->slow_rate > 0 && 2 * sum.slow >= config->slow_rate * sum.calls &&
            config->slow_call_ms > 0);
}

/* How long the calls of the unit, and those before it that are not written, may wait. */
static int64_t lag_ms(const struct lane *lane)
{
    const struct breaker_counts unsaved = breaker_window_sum(&lane->unsaved, &lane->breaker_config);
    if (!has_failures(&lane->unit) && !has_failures(&unsaved))
        return SUCCESS_LAG_MS;
    return lane->breaker_config.window_calls > 0 || is_near(lane) ? 0 : FAILURE_LAG_MS;
}

static bool holds_jobs(const struct lane *lane)
{
    return lane->has_parked || lane->candidates > 0 || lane->release.rate > 0;
}

/* Nothing has changed but the window: what others would do about it they do when they put the row
 * themselves, and are refused. */
static bool is_quiet(const struct lane *lane)
{
    const struct breaker *b = &lane->breaker, *s = &lane->saved;
    return lane->kind == SHARED_BREAKER && lane->version > 0 && !lane->may_go &&
           !holds_jobs(lane) && !lane->saved_holds && b->state == s->state &&
           b->generation == s->generation && b->consecutive == s->consecutive &&
           memcmp(b->probes, s->probes, sizeof b->probes) == 0;
}

/* That is so, and the row was written not long ago. */
static bool may_lag(const struct lane *lane, int64_t now_ms)
{
    return is_quiet(lane) && !lane->is_urgent && now_ms >= lane->saved_ms &&
           now_ms - lane->saved_ms < lag_ms(lane);
}

/* Marks what has waited long enough to be written, and with it all that waits. */
static int mark_unsaved(struct engine *e, struct redrive_err *err)
{
    int rc = 0;
    if (e->now_ms < e->lanes.flush_ms)
        return 0;
    MAP_FOREACH (&e->lanes.breakers, slot) {
        struct lane *lane = slot->value;
        if (rc < 0 || !lane->has_unsaved)
            continue;
        lane->is_urgent = true;
        rc = lane_mark(e, lane, err);
    }
    return rc;
}

/* The row of a lane, its bytes in the unit's arena. */
static struct shared_row row_of(struct engine *e, struct lane *lane, struct buf *scratch)
{
    struct shared_row row = {
        .kind = lane->kind,
        .tenant = str_of(lane->tenant),
        .key = str_of(lane->key),
        .version = lane->version,
        .removed = lane->may_go,
        .is_quiet = is_quiet(lane),
    };
    if (lane->kind == SHARED_BUCKET)
        limit_fill_row(lane, &row);
    if (row.is_delta)
        return row;
    buf_reset(scratch);
    lane_encode(lane, scratch);
    row.value = arena_str(&e->arena, buf_str(scratch));
    return row;
}

static int put_lanes(struct engine *e, struct lane *const *lanes, const struct shared_row *rows,
                     struct move_result *results, size_t n, struct redrive_err *err)
{
    int rc = e->ops->shared_put(e->store, rows, n, results, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (results[i].code < 0)
            return err_set(err, REDRIVE_E_CANCELLED,
                           "another process has changed the same breaker or limit");
        lanes[i]->version += !rows[i].is_delta;
        lanes[i]->is_written = true;
        e->puts += shared_put_is_news(&rows[i]);
    }
    e->touched |= rc == 0;
    return rc;
}

int lanes_save(struct engine *e, struct redrive_err *err)
{
    struct lanes *lanes = &e->lanes;
    size_t n = 0;
    int rc = mark_unsaved(e, err);
    const size_t n_marked = lanes->n_marked;
    if (rc < 0 || n_marked == 0)
        return rc;
    struct lane **changed = arena_array(&e->arena, n_marked, sizeof(struct lane *));
    struct shared_row *rows = arena_array(&e->arena, n_marked, sizeof *rows);
    struct move_result *results = arena_array(&e->arena, n_marked, sizeof *results);
    struct buf scratch;
    buf_init(&scratch, SAVE_MAX_BYTES);
    for (size_t i = 0; i < n_marked && !e->arena.failed; i++) {
        struct lane *lane = lanes->marked[i];
        lane->may_go = lane->may_go && lane_is_spent(lane, e->now_ms);
        const bool is_new = lane->version == 0;
        if (lane->may_go ? is_new : may_lag(lane, e->now_ms) || limit_says_nothing(lane))
            continue;
        changed[n] = lane;
        rows[n++] = row_of(e, lane, &scratch);
        event_add_breaker(e, lane);
    }
    bool failed = buf_failed(&scratch) || e->arena.failed;
    buf_release(&scratch);
    if (failed)
        return err_nomem(err);
    return n == 0 ? 0 : put_lanes(e, changed, rows, results, n, err);
}

/* The store has the lane as it is here. */
static void is_saved(struct lane *lane, int64_t now_ms)
{
    lane->saved = lane->breaker;
    lane->saved_holds = holds_jobs(lane);
    lane->saved_ms = now_ms;
    lane->has_unsaved = false;
    lane->unsaved = (struct breaker_window){0};
}

/* The calls of the unit are to be written later. */
static void keep_unsaved(struct engine *e, struct lane *lane)
{
    const int64_t until_ms = lane->saved_ms + lag_ms(lane);
    breaker_window_add_counts(&lane->unsaved, &lane->breaker_config, lane->unit, e->now_ms);
    lane->unsaved_generation = lane->breaker.generation;
    lane->has_unsaved = true;
    if (until_ms < e->lanes.flush_ms)
        e->lanes.flush_ms = until_ms;
}

static void start_clean(struct lane *lane)
{
    lane->marked = lane->is_urgent = lane->is_written = lane->may_go = false;
    if (lane->kind == SHARED_BREAKER) {
        lane->unit = (struct breaker_counts){0};
    } else {
        lane->add = (struct gate_sums){0};
        lane->parks = lane->starts = false;
    }
}

void lanes_commit(struct engine *e)
{
    struct lanes *lanes = &e->lanes;
    if (e->now_ms >= lanes->flush_ms)
        lanes->flush_ms = INT64_MAX;
    for (size_t i = 0; i < lanes->n_marked; i++) {
        struct lane *lane = lanes->marked[i];
        if (lane->may_go) {
            lane_drop(e, lane);
            continue;
        }
        if (lane->kind == SHARED_BREAKER) {
            if (lane->is_written)
                is_saved(lane, e->now_ms);
            else if (lane->unit.calls > 0)
                keep_unsaved(e, lane);
        } else if (lane->is_written) {
            limit_is_saved(e, lane);
        }
        start_clean(lane);
    }
    lanes->n_marked = 0;
    lanes->are_fresh = false;
    lanes->are_counted |= lanes->were_counted;
    lanes->were_counted = false;
}

void lanes_rollback(struct lanes *lanes)
{
    lanes->n_marked = 0;
    lanes->are_fresh = lanes->were_counted = false;
}

void lanes_distrust(struct lanes *lanes)
{
    lanes->are_counted = false;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Of a generation that is over nothing counts any more. */
static void add_unsaved(struct lane *lane)
{
    struct breaker *b = &lane->breaker;
    if (!lane->has_unsaved)
        return;
    if (b->state == REDRIVE_BREAKER_CLOSED && b->generation == lane->unsaved_generation) {
        breaker_window_merge(&b->window, &lane->breaker_config, &lane->unsaved);
        return;
    }
    lane->has_unsaved = false;
    lane->unsaved = (struct breaker_window){0};
}

/* A row that cannot be read says nothing, and must not stop all others: the breaker or limit begins
 * anew, lets go what may be parked in it, and is written. */
static int begin_anew(struct engine *e, struct lane *lane, struct redrive_err *err)
{
    log_event(e->options.log, LOG_LEVEL_ERROR, engine_now_ms(e), "gate_damaged",
              LOG_S("gate", lane->key), LOG_S("tenant", lane->tenant));
    lane->has_parked = true;
    lane->candidates = 0;
    lane->candidates_until_ms = 0;
    if (lane->kind == SHARED_BREAKER) {
        const uint64_t seed = rng_hash(lane->tenant, strlen(lane->tenant), 0);
        breaker_init(&lane->breaker, rng_hash(lane->key, strlen(lane->key), seed));
        redrive_breaker_config_init(&lane->breaker_config);
        lane->release = (struct release){0};
        lane->is_urgent = true;
    } else {
        lane->bucket = (struct bucket){0};
        lane->rate = (struct rate){0};
        lane->slots = (struct slots){0};
        lane->seems_empty = false;
        lane->is_urgent = true;
        lanes_distrust(&e->lanes);
    }
    engine_want(e, e->now_ms);
    return lane_mark(e, lane, err);
}

static int load_row(struct engine *e, const struct shared_row *row, struct redrive_err *err)
{
    const struct map *map = row->kind == SHARED_BREAKER ? &e->lanes.breakers : &e->lanes.limits;
    struct lane *lane = lane_find(map, row->tenant, row->key);
    const bool is_new = !lane;
    int rc = is_new ? lane_new(e, row->kind, row->tenant, row->key, &lane, err) : 0;
    if (rc < 0 || !lane)
        return rc;
    start_clean(lane);
    lane->load = e->lanes.loads;
    lane->version = row->version;
    if (!lane_decode(lane, row->value) && (rc = begin_anew(e, lane, err)) < 0)
        return rc;
    if (lane->kind == SHARED_BREAKER) {
        lane->saved = lane->breaker;
        lane->saved_holds = holds_jobs(lane);
        if (is_new)
            lane->saved_ms = e->now_ms;
        add_unsaved(lane);
    } else {
        limit_is_loaded(lane, row->sums);
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

/* Those that the store does not have go: another process has taken them away, or the unit that has
 * made them has failed. */
static int drop_unknown(struct engine *e, const struct map *map, struct redrive_err *err)
{
    size_t n = 0;
    if (map->count == 0)
        return 0;
    struct lane **gone = arena_array(&e->arena, map->count, sizeof(struct lane *));
    if (!gone)
        return err_nomem(err);
    MAP_FOREACH (map, slot) {
        struct lane *lane = slot->value;
        if (lane->load != e->lanes.loads)
            gone[n++] = lane;
    }
    for (size_t i = 0; i < n; i++)
        lane_drop(e, gone[i]);
    return 0;
}

int lanes_load(struct engine *e, struct redrive_err *err)
{
    e->lanes.n_marked = 0;
    e->lanes.seen_ms = e->now_ms;
    e->lanes.are_unknown = false;
    e->lanes.are_fresh = true;
    e->lanes.loads++;
    int rc = load_kind(e, SHARED_BREAKER, err);
    if (rc == 0)
        rc = load_kind(e, SHARED_BUCKET, err);
    if (rc == 0)
        rc = drop_unknown(e, &e->lanes.breakers, err);
    return rc < 0 ? rc : drop_unknown(e, &e->lanes.limits, err);
}
