/* parked.c - how parked jobs come back to the queue. */
#include "engine/gates/gates.h"

#include "core/breaker/breaker.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "engine/tasks.h"

/* At most so many of a gate in one transaction. */
#define BATCH 256

/* A change of the tasks reaches at most so many limits in one transaction. */
#define RENEW_BATCH 256

/* Which of the parked jobs go. */
struct choice {
    enum scan_index order;
    bool (*goes)(const struct job *job); /* NULL: all of them */
};

static bool is_first(const struct job *job)
{
    return job->status.attempts == 0;
}

static bool is_retry(const struct job *job)
{
    return job->status.attempts > 0;
}

static struct scan scan_of(const struct gate *gate, enum scan_index order, uint32_t n)
{
    return (struct scan){.index = order,
                         .limit = n < BATCH ? n : BATCH,
                         .tenant = str_of(gate->tenant),
                         .name = str_of(gate->key)};
}

/* Unparks up to `n`. Those that do not go may stand before those that do. */
static int unpark(struct engine *e, struct gate *gate, struct choice choice, uint32_t n,
                  struct scan_outcome *ret, struct redrive_err *err)
{
    struct scan scan = scan_of(gate, choice.order, choice.goes ? BATCH : n);
    int rc =
        scan_and_move_some(e, &scan, (struct move_list){MOVE_UNPARK}, n, choice.goes, ret, err);
    if (rc == 0 && ret->moved > 0)
        engine_made_some_ready(e);
    return rc;
}

/* The breaker is closed: as many as the pace has earned. */
static int let_go(struct engine *e, struct gate *gate, struct redrive_err *err)
{
    struct scan_outcome outcome;
    const bool starts = gate->release.rate <= 0;
    if (starts)
        release_start(&gate->release, &gate->breaker_config, e->now_ms);
    struct release look = gate->release;
    uint32_t earned = release_take(&look, &gate->breaker_config, e->now_ms, BATCH);
    if (earned == 0) {
        /* A look alone is not written: other processes would then look as well, and notify this
         * one. */
        engine_want(e, release_next_ms(&look));
        return starts ? gate_mark(&e->gates, gate, err) : 0;
    }
    const bool takes_newest = probe_takes_newest(gate->breaker.consecutive);
    const struct choice choice = {takes_newest ? SCAN_PARKED_NEWEST : SCAN_PARKED_OLDEST, NULL};
    int rc = unpark(e, gate, choice, earned, &outcome, err);
    if (rc < 0)
        return rc;
    (void)release_take(&gate->release, &gate->breaker_config, e->now_ms, (uint32_t)outcome.moved);
    gate->has_parked = outcome.more;
    if (outcome.more)
        engine_want(e, release_next_ms(&gate->release));
    else
        gate->release = (struct release){0};
    return gate_mark(&e->gates, gate, err);
}

/* Parked jobs were looked for, and some are left or none. */
static void note_left(struct engine *e, struct gate *gate, bool some_left)
{
    const bool is_limit = gate->kind == SHARED_LIMIT;
    const bool seems_empty = is_limit && !some_left && !gate->seems_empty;
    gate->has_parked = some_left || seems_empty;
    if (is_limit)
        gate->seems_empty = seems_empty;
    if (seems_empty)
        engine_want(e, e->now_ms);
}

static int send(struct engine *e, struct gate *gate, struct choice choice, uint32_t room,
                struct redrive_err *err)
{
    struct scan_outcome outcome;
    uint32_t n = gate_wants(gate, room, e->now_ms);
    if (n == 0) {
        if (gate->candidates > 0)
            engine_want(e, gate->candidates_until_ms);
        return 0;
    }
    int rc = unpark(e, gate, choice, n, &outcome, err);
    if (rc < 0)
        return rc;
    note_left(e, gate, outcome.more);
    if (outcome.moved > 0)
        gate_sent(gate, (uint32_t)outcome.moved, e->now_ms);
    if (outcome.more && gate->candidates > 0)
        engine_want(e, gate->candidates_until_ms);
    return gate_mark(&e->gates, gate, err);
}

static int release_breaker(struct engine *e, struct gate *gate, struct redrive_err *err)
{
    struct breaker *b = &gate->breaker;
    if (breaker_tick(b, &gate->breaker_config, e->now_ms)) {
        int rc = gate_mark(&e->gates, gate, err);
        if (rc < 0)
            return rc;
    }
    int64_t next_ms = breaker_next_ms(b, &gate->breaker_config);
    if (next_ms > e->now_ms)
        engine_want(e, next_ms);
    const struct choice choice = {
        probe_takes_newest(b->reopened) ? SCAN_PARKED_NEWEST : SCAN_PARKED_PROBES, NULL};
    switch (b->state) {
    case REDRIVE_BREAKER_CLOSED:
    case REDRIVE_BREAKER_DISABLED: return let_go(e, gate, err);
    case REDRIVE_BREAKER_OPEN:
    case REDRIVE_BREAKER_HALF_OPEN:
        return send(e, gate, choice, breaker_probe_room(b, &gate->breaker_config, e->now_ms), err);
    case REDRIVE_BREAKER_FORCED_OPEN:
    case REDRIVE_BREAKER_STATE_COUNT:
    default: return 0;
    }
}

/* Of a task that this process does not know, the limit stays as it is. */
static int renew_by_oldest(struct engine *e, struct gate *gate, struct redrive_err *err)
{
    struct scan scan = scan_of(gate, SCAN_PARKED_OLDEST, 1);
    RELEASED_BY(job_page_release) struct job_page page = {0};
    gate->renews = e->task_changes;
    int rc = gate_mark(&e->gates, gate, err);
    if (rc == 0)
        rc = engine_scan(e, &scan, &page, err);
    if (rc < 0 || page.n == 0)
        return rc;
    const struct str task = page.jobs[0].spec.task;
    return *task_in_force(e, task)->name ? limit_renew(e, gate, task, err) : 0;
}

static int renew_all(struct engine *e, struct redrive_err *err)
{
    int rc = 0;
    unsigned n = 0;
    MAP_FOREACH (&e->gates.limits, slot) {
        struct gate *gate = slot->value;
        if (rc < 0 || !gate->has_parked || gate->renews == e->task_changes)
            continue;
        if (n++ < RENEW_BATCH)
            rc = renew_by_oldest(e, gate, err);
        else
            engine_want(e, e->now_ms);
    }
    return rc;
}

/* The budget has less room than the limit: retries go as it allows, the oldest first, and first
 * attempts go past those that it holds. */
static int release_under_budget(struct engine *e, struct gate *gate, uint32_t room,
                                uint32_t retries, struct redrive_err *err)
{
    static const struct choice RETRIES = {SCAN_PARKED_OLDEST, is_retry};
    static const struct choice FIRSTS = {SCAN_PARKED_PROBES, is_first};
    const int64_t wait_ms = budget_wait_ms(&gate->budget, &gate->budget_config, e->now_ms);
    engine_want(e, e->now_ms + (0 < wait_ms && wait_ms < GATE_LOOK_MS ? wait_ms : GATE_LOOK_MS));
    int rc = retries > 0 ? send(e, gate, RETRIES, retries, err) : 0;
    const bool holds_firsts = gate->slots.max > 0 || gate->rate.count > 0;
    return rc == 0 && holds_firsts && gate->has_parked ? send(e, gate, FIRSTS, room, err) : rc;
}

static int release_limit(struct engine *e, struct gate *gate, struct redrive_err *err)
{
    static const struct choice ANY = {SCAN_PARKED_OLDEST, NULL};
    uint32_t room = BATCH;
    if (gate->slots.max != 0) /* one that has freed a slot may have died since */
        engine_want(e, e->now_ms + GATE_LOOK_MS);
    if (gate->slots.max != 0)
        room = gate->slots.max > gate->slots.used ? gate->slots.max - gate->slots.used : 0;
    if (gate->rate.count != 0 && room > 0) {
        struct bucket look = gate->bucket;
        room = bucket_take(&look, &gate->rate, e->now_ms, room);
        if (room == 0)
            engine_want(e, e->now_ms + bucket_wait_ms(&look, &gate->rate, e->now_ms));
    }
    if (room == 0)
        return 0;
    if (!budget_is_set(&gate->budget_config))
        return send(e, gate, ANY, room, err);
    const uint32_t retries = budget_room(&gate->budget, &gate->budget_config, e->now_ms);
    return retries < room ? release_under_budget(e, gate, room, retries, err)
                          : send(e, gate, ANY, room, err);
}

int parked_release(struct engine *e, struct redrive_err *err)
{
    int rc = gates_look(e, err);
    MAP_FOREACH (&e->gates.breakers, slot) {
        struct gate *gate = slot->value;
        if (rc == 0)
            rc = gate_to_now(e, gate, err);
        if (rc == 0 && gate->has_parked)
            rc = release_breaker(e, gate, err);
    }
    if (rc == 0)
        rc = renew_all(e, err);
    MAP_FOREACH (&e->gates.limits, slot) {
        struct gate *gate = slot->value;
        if (rc == 0)
            rc = gate_to_now(e, gate, err);
        if (rc == 0 && gate->has_parked)
            rc = release_limit(e, gate, err);
    }
    return rc;
}
