/* limit.c - what is special about limits: their sums are added to, and read more often. */
#include "base/err.h"
#include "engine/private.h"

/* ---- Rows of limits -------------------------------------------------------------------------- */

static struct limit_row limit_row_of(const struct lane *lane)
{
    return (struct limit_row){
        .has_parked = lane->has_parked,
        .seems_empty = lane->seems_empty,
        .candidates_until_ms = lane->candidates_until_ms,
        .bucket = lane->bucket,
        .rate = lane->rate,
        .max = lane->slots.max,
    };
}

static bool same_limit_row(const struct limit_row *a, const struct limit_row *b)
{
    return a->has_parked == b->has_parked && a->seems_empty == b->seems_empty &&
           a->candidates_until_ms == b->candidates_until_ms && a->bucket.parts == b->bucket.parts &&
           a->bucket.updated_ms == b->bucket.updated_ms && a->rate.count == b->rate.count &&
           a->rate.period_s == b->rate.period_s && a->rate.burst == b->rate.burst &&
           a->max == b->max;
}

/* Nothing of the limit has changed but its sums. */
static bool is_delta(const struct lane *lane)
{
    if (lane->kind == SHARED_BREAKER || lane->version == 0 || lane->may_go || lane->is_urgent)
        return false;
    const struct limit_row row = limit_row_of(lane);
    return same_limit_row(&row, &lane->kept_row);
}

bool limit_says_nothing(const struct lane *lane)
{
    return is_delta(lane) && lane->add.used == 0 && lane->add.sent == 0 && !lane->parks;
}

void limit_fill_row(struct lane *lane, struct shared_row *row)
{
    row->add = lane->add;
    row->max_used = lane->starts ? lane->slots.max : 0;
    row->is_delta = is_delta(lane);
    if (row->is_delta && !lane->parks)
        row->version = 0;
    if (!row->removed)
        row->merged = &lane->merged;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static uint32_t sum_of(int64_t sum)
{
    return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

/* The sums as the store has them; what the open unit adds is not in them. */
static void see_sums(struct lane *lane, struct gate_sums sums)
{
    const int64_t used = sums.used + lane->add.used, sent = sums.sent + lane->add.sent;
    lane->slots.used = sum_of(used > 0 ? used : 0);
    lane->candidates = sum_of(sent > 0 ? sent : 0);
}

/* Whoever has freed slots, or sees that others have, lets parked jobs go. Where others have put the
 * row meanwhile it may say that there are some. */
void limit_is_saved(struct engine *e, struct lane *lane)
{
    const bool gives = lane->add.used < 0, is_known = lane->merged.version == lane->version;
    lane->kept_row = limit_row_of(lane);
    lane->add = (struct gate_sums){0};
    if (lane->merged.version > 0)
        see_sums(lane, lane->merged.sums);
    e->lanes.are_unknown |= !is_known;
    const uint32_t room =
        lane->slots.max > lane->slots.used ? lane->slots.max - lane->slots.used : 0;
    const bool may_go = lane->has_parked || (gives && !is_known);
    if (may_go && lane_wants(lane, room, e->now_ms) > 0)
        engine_want(e, e->now_ms);
}

void limit_is_loaded(struct lane *lane, struct gate_sums sums)
{
    lane->kept_row = limit_row_of(lane);
    see_sums(lane, sums);
}

void lanes_see(struct engine *e, const struct limit_sums *limits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct lane *lane = lane_find(&e->lanes.limits, limits[i].tenant, limits[i].key);
        if (lane && lane->version > 0)
            see_sums(lane, limits[i].sums);
    }
}

static bool has_held_jobs(const struct map *limits)
{
    MAP_FOREACH (limits, slot) {
        const struct lane *lane = slot->value;
        if (lane->has_parked && lane->slots.max > 0)
            return true;
    }
    return false;
}

int lanes_look(struct engine *e, struct redrive_err *err)
{
    struct lanes *lanes = &e->lanes;
    struct shared_page page = {0};
    const int64_t ago_ms = e->now_ms - lanes->seen_ms;
    if ((ago_ms >= 0 && ago_ms < LANE_LOOK_MS) || !has_held_jobs(&lanes->limits))
        return 0;
    int rc = e->ops->shared_list(e->store, SHARED_BUCKET, (struct str){0}, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++) {
        const struct shared_row *row = &page.rows[i];
        lanes_see(e, &(struct limit_sums){row->tenant, row->key, row->sums}, 1);
    }
    shared_page_release(&page);
    lanes->seen_ms = e->now_ms;
    return rc;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* Of a limit that has no row it is not known yet how many may run. */
static int count_running(struct engine *e, const struct job_count *running, struct redrive_err *err)
{
    struct lane *lane = lane_find(&e->lanes.limits, running->tenant, running->lane);
    int rc = lane ? 0 : lane_new(e, SHARED_BUCKET, running->tenant, running->lane, &lane, err);
    if (rc < 0)
        return rc;
    lane->slots.used = sum_of((int64_t)running->jobs);
    if (running->jobs == running->used)
        return 0;
    lane->add.used = (int64_t)running->jobs - (int64_t)running->used;
    lane->is_urgent = true;
    if (lane->has_parked)
        engine_want(e, e->now_ms);
    return lane_mark(e, lane, err);
}

int lanes_need_slots(struct engine *e, struct redrive_err *err)
{
    struct lanes *lanes = &e->lanes;
    if (lanes->are_counted || lanes->were_counted)
        return 0;
    lanes->wants_count = true;
    return err_set(err, REDRIVE_E_CANCELLED, "the slots in use are to be counted first");
}

int lanes_count_slots(struct engine *e, struct redrive_err *err)
{
    struct lanes *lanes = &e->lanes;
    struct count_page running = {0};
    if (!lanes->wants_count || lanes->are_counted)
        return 0;
    int rc = e->ops->counts(e->store, COUNT_RUNNING, (struct str){0}, &running, err);
    for (size_t i = 0; i < running.n && rc == 0; i++)
        rc = count_running(e, &running.counts[i], err);
    lanes->were_counted = rc == 0;
    count_page_release(&running);
    return rc;
}
