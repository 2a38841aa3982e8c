/* limit.c - what is special about limits: their sums are added to, and read more often. */
#include "engine/gates/gates.h"

#include <string.h>

#include "base/err.h"
#include "engine/state.h"

/* ---- Rows of limits -------------------------------------------------------------------------- */

static struct limit_row limit_row_of(const struct gate *gate)
{
    return (struct limit_row){
        .has_parked = gate->has_parked,
        .seems_empty = gate->seems_empty,
        .candidates_until_ms = gate->candidates_until_ms,
        .bucket = gate->bucket,
        .rate = gate->rate,
        .max = gate->slots.max,
        .budget = gate->budget,
        .budget_config = gate->budget_config,
        .cut_ms = gate->adaptive.cut_ms,
        .grown = gate->adaptive.grown,
        .adaptive_config = gate->adaptive_config,
    };
}

static bool same_budget(const struct limit_row *a, const struct limit_row *b)
{
    const struct budget_config *x = &a->budget_config, *y = &b->budget_config;
    if (!budget_is_set(x) && !budget_is_set(y))
        return true;
    return x->min_per_second == y->min_per_second && x->ratio == y->ratio &&
           x->window_ms == y->window_ms && x->max_tokens == y->max_tokens &&
           x->token_ratio == y->token_ratio && a->budget.tokens == b->budget.tokens &&
           a->budget.tokens_ms == b->budget.tokens_ms && a->budget.slot_ms == b->budget.slot_ms &&
           a->budget.newest == b->budget.newest &&
           memcmp(a->budget.slots, b->budget.slots, sizeof a->budget.slots) == 0;
}

static bool same_limit_row(const struct limit_row *a, const struct limit_row *b)
{
    return a->has_parked == b->has_parked && a->seems_empty == b->seems_empty &&
           a->candidates_until_ms == b->candidates_until_ms && a->bucket.parts == b->bucket.parts &&
           a->bucket.updated_ms == b->bucket.updated_ms && a->rate.count == b->rate.count &&
           a->rate.period_s == b->rate.period_s && a->rate.burst == b->rate.burst &&
           a->max == b->max && a->cut_ms == b->cut_ms &&
           a->adaptive_config.floor == b->adaptive_config.floor &&
           a->adaptive_config.ceiling == b->adaptive_config.ceiling && same_budget(a, b);
}

/* Nothing of the limit has changed but its sums. */
static bool is_delta(const struct gate *gate)
{
    if (gate->kind == SHARED_BREAKER || gate->version == 0 || gate->may_go || gate->is_urgent)
        return false;
    const struct limit_row row = limit_row_of(gate);
    return same_limit_row(&row, &gate->kept_row);
}

bool limit_says_nothing(const struct gate *gate)
{
    return is_delta(gate) && gate->add.used == 0 && gate->add.sent == 0 && !gate->parks;
}

void limit_fill_row(struct gate *gate, struct shared_row *row)
{
    row->add = gate->add;
    row->max_used = gate->starts ? gate->slots.max : 0;
    row->is_delta = is_delta(gate);
    if (row->is_delta && !gate->parks)
        row->version = 0;
    if (!row->removed)
        row->merged = &gate->merged;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static uint32_t sum_of(int64_t sum)
{
    return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

/* The sums as the store has them; what the open transaction adds is not in them. */
static void see_sums(struct gate *gate, struct gate_sums sums)
{
    const int64_t used = sums.used + gate->add.used, sent = sums.sent + gate->add.sent;
    gate->slots.used = sum_of(used > 0 ? used : 0);
    gate->candidates = sum_of(sent > 0 ? sent : 0);
}

/* A process that has freed slots, or sees that others have, lets parked jobs go. If another process
 * has put the row meanwhile it may say that there are some. */
void limit_is_saved(struct engine *e, struct gate *gate)
{
    const bool gives = gate->add.used < 0, is_known = gate->merged.version == gate->version;
    gate->kept_row = limit_row_of(gate);
    gate->add = (struct gate_sums){0};
    if (gate->merged.version > 0)
        see_sums(gate, gate->merged.sums);
    e->gates.are_unknown |= !is_known;
    const uint32_t room =
        gate->slots.max > gate->slots.used ? gate->slots.max - gate->slots.used : 0;
    const bool may_go = gate->has_parked || (gives && !is_known);
    if (may_go && gate_wants(gate, room, e->now_ms) > 0)
        engine_want(e, e->now_ms);
}

void limit_is_loaded(struct gate *gate, struct gate_sums sums)
{
    gate->adaptive.grown = gate->kept_row.grown; /* of a transaction that failed, nothing counts */
    gate->kept_row = limit_row_of(gate);
    see_sums(gate, sums);
}

void gates_see(struct engine *e, const struct limit_sums *limits, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct gate *gate = gate_find(&e->gates.limits, limits[i].tenant, limits[i].key);
        if (gate && gate->version > 0)
            see_sums(gate, limits[i].sums);
    }
}

static bool has_held_jobs(const struct map *limits)
{
    MAP_FOREACH (limits, slot) {
        const struct gate *gate = slot->value;
        if (gate->has_parked && gate->slots.max > 0)
            return true;
    }
    return false;
}

int gates_look(struct engine *e, struct redrive_err *err)
{
    struct gates *gates = &e->gates;
    struct shared_page page = {0};
    const int64_t ago_ms = e->now_ms - gates->seen_ms;
    if ((ago_ms >= 0 && ago_ms < GATE_LOOK_MS) || !has_held_jobs(&gates->limits))
        return 0;
    int rc = e->ops->shared_list(e->store, SHARED_LIMIT, (struct str){0}, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++) {
        const struct shared_row *row = &page.rows[i];
        gates_see(e, &(struct limit_sums){row->tenant, row->key, row->sums}, 1);
    }
    shared_page_release(&page);
    gates->seen_ms = e->now_ms;
    return rc;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* A limit may have no row yet: then it is not known how many may run. */
static int count_running(struct engine *e, const struct job_count *running, struct redrive_err *err)
{
    struct gate *gate = gate_find(&e->gates.limits, running->tenant, running->gate);
    int rc =
        gate ? 0 : gate_new(&e->gates, SHARED_LIMIT, running->tenant, running->gate, &gate, err);
    if (rc < 0)
        return rc;
    gate->slots.used = sum_of((int64_t)running->jobs);
    if (running->jobs == running->used)
        return 0;
    gate->add.used = (int64_t)running->jobs - (int64_t)running->used;
    gate->is_urgent = true;
    if (gate->has_parked)
        engine_want(e, e->now_ms);
    return gate_mark(&e->gates, gate, err);
}

int gates_need_slots(struct engine *e, struct redrive_err *err)
{
    struct gates *gates = &e->gates;
    if (gates->are_counted || gates->were_counted)
        return 0;
    gates->wants_count = true;
    return err_set(err, REDRIVE_E_CANCELLED, "the slots in use are to be counted first");
}

int gates_count_slots(struct engine *e, struct redrive_err *err)
{
    struct gates *gates = &e->gates;
    RELEASED_BY(count_page_release) struct count_page running = {0};
    if (!gates->wants_count || gates->are_counted)
        return 0;
    int rc = e->ops->counts(e->store, COUNT_RUNNING, (struct str){0}, &running, err);
    for (size_t i = 0; i < running.n && rc == 0; i++)
        rc = count_running(e, &running.counts[i], err);
    gates->were_counted = rc == 0;
    return rc;
}
