#include "engine/gates/parked.h"

#include "base/err.h"
#include "core/breaker/probe.h"
#include "engine/private.h"
#include "engine/scans.h"

/* At most so many of a lane in one unit. */
#define BATCH 256

/* Unparks up to `n`. */
static int unpark(struct engine *e, struct lane *lane, enum scan_index order, uint32_t n,
                  struct scan_outcome *ret, struct redrive_err *err)
{
    struct scan scan = {.index = order,
                        .limit = n < BATCH ? n : BATCH,
                        .tenant = str_of(lane->tenant),
                        .name = str_of(lane->key)};
    int rc = scan_and_move(e, &scan, (struct move_list){MOVE_UNPARK}, ret, err);
    if (rc == 0 && ret->moved > 0)
        engine_made_some_ready(e);
    return rc;
}

/* The breaker is closed: as many as the pace has earned. */
static int let_go(struct engine *e, struct lane *lane, struct redrive_err *err)
{
    struct scan_outcome outcome;
    const bool starts = lane->release.rate <= 0;
    if (starts)
        release_start(&lane->release, &lane->breaker_config, e->now_ms);
    struct release look = lane->release;
    uint32_t earned = release_take(&look, &lane->breaker_config, e->now_ms, BATCH);
    if (earned == 0) {
        /* To have looked is no news: others would look as well, and tell this one of it. */
        engine_want(e, release_next_ms(&look));
        return starts ? lane_mark(e, lane, err) : 0;
    }
    const bool takes_newest = probe_takes_newest(lane->breaker.consecutive);
    int rc = unpark(e, lane, takes_newest ? SCAN_PARKED_NEWEST : SCAN_PARKED_OLDEST, earned,
                    &outcome, err);
    if (rc < 0)
        return rc;
    (void)release_take(&lane->release, &lane->breaker_config, e->now_ms, (uint32_t)outcome.moved);
    lane->has_parked = outcome.more;
    if (outcome.more)
        engine_want(e, release_next_ms(&lane->release));
    else
        lane->release = (struct release){0};
    return lane_mark(e, lane, err);
}

static int send(struct engine *e, struct lane *lane, enum scan_index order, uint32_t room,
                struct redrive_err *err)
{
    struct scan_outcome outcome;
    uint32_t n = lane_wants(lane, room, e->now_ms);
    if (n == 0) {
        if (lane->candidates > 0)
            engine_want(e, lane->candidates_until_ms);
        return 0;
    }
    int rc = unpark(e, lane, order, n, &outcome, err);
    if (rc < 0)
        return rc;
    lane_looked(e, lane, outcome.more);
    if (outcome.moved > 0)
        lane_sent(lane, (uint32_t)outcome.moved, e->now_ms);
    if (outcome.more && lane->candidates > 0)
        engine_want(e, lane->candidates_until_ms);
    return lane_mark(e, lane, err);
}

static int release_breaker(struct engine *e, struct lane *lane, struct redrive_err *err)
{
    struct breaker *b = &lane->breaker;
    if (breaker_tick(b, &lane->breaker_config, e->now_ms)) {
        int rc = lane_mark(e, lane, err);
        if (rc < 0)
            return rc;
    }
    int64_t next_ms = breaker_next_ms(b, &lane->breaker_config);
    if (next_ms > e->now_ms)
        engine_want(e, next_ms);
    const enum scan_index order =
        probe_takes_newest(b->reopened) ? SCAN_PARKED_NEWEST : SCAN_PARKED_PROBES;
    switch (b->state) {
    case REDRIVE_BREAKER_CLOSED:
    case REDRIVE_BREAKER_DISABLED: return let_go(e, lane, err);
    case REDRIVE_BREAKER_OPEN:
    case REDRIVE_BREAKER_HALF_OPEN:
        return send(e, lane, order, breaker_probe_room(b, &lane->breaker_config, e->now_ms), err);
    case REDRIVE_BREAKER_FORCED_OPEN:
    case REDRIVE_BREAKER_STATE_COUNT:
    default: return 0;
    }
}

static int release_limit(struct engine *e, struct lane *lane, struct redrive_err *err)
{
    uint32_t room = BATCH;
    if (lane->slots.max != 0) /* one that has freed a slot may have died since */
        engine_want(e, e->now_ms + LANE_LOOK_MS);
    if (lane->slots.max != 0)
        room = lane->slots.max > lane->slots.used ? lane->slots.max - lane->slots.used : 0;
    if (lane->rate.count != 0 && room > 0) {
        struct bucket look = lane->bucket;
        room = bucket_take(&look, &lane->rate, e->now_ms, room);
        if (room == 0)
            engine_want(e, e->now_ms + bucket_wait_ms(&look, &lane->rate, e->now_ms));
    }
    return room > 0 ? send(e, lane, SCAN_PARKED_OLDEST, room, err) : 0;
}

int parked_release(struct engine *e, struct redrive_err *err)
{
    int rc = lanes_look(e, err);
    MAP_FOREACH (&e->lanes.breakers, slot) {
        struct lane *lane = slot->value;
        if (rc == 0 && lane->has_parked)
            rc = release_breaker(e, lane, err);
    }
    MAP_FOREACH (&e->lanes.limits, slot) {
        struct lane *lane = slot->value;
        if (rc == 0 && lane->has_parked)
            rc = release_limit(e, lane, err);
    }
    return rc;
}
