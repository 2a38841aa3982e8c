/* dispatch.c - starts, parks, probes and releases jobs. */
#include "sim/world.h"

#include "core/breaker/probe.h"

/* The oldest job of a gate that is still in the gate's state; taken out. */
static bool gate_pop(struct world *w, struct heap *gate, enum redrive_state state, uint32_t *ret)
{
    struct heap_item item;
    while (heap_pop(gate, &item)) {
        if (w->jobs[item.job].state == state) {
            *ret = item.job;
            return true;
        }
    }
    return false;
}

static void plan_run(struct world *w, uint32_t job, int64_t takes_ms)
{
    const struct sim_job *j = &w->jobs[job];
    int64_t lease_ms = w->config->lease_ms;

    if (world_chance(w, w->hands.crash)) {
        int64_t crash_ms = w->now_ms + (int64_t)rng_below(&w->hands_rng, (uint64_t)takes_ms);
        world_plan(w, crash_ms + lease_ms, HAPPEN_LEASE_END, job, j->token);
        world_plan(w, crash_ms + w->config->restart_ms, HAPPEN_WORKER_BACK, job, 0);
    } else if (world_chance(w, w->hands.stall)) {
        world_plan(w, w->now_ms + lease_ms, HAPPEN_LEASE_END, job, j->token);
        world_plan(w, w->now_ms + lease_ms + takes_ms, HAPPEN_ANSWER, job, j->token);
    } else {
        world_plan(w, w->now_ms + takes_ms, HAPPEN_ANSWER, job, j->token);
    }
}

static void count_start(struct world *w, uint32_t job, struct breaker_permit permit, bool called)
{
    struct sim_job *j = &w->jobs[job];
    j->attempts++;
    j->token++;
    j->started_ms = w->now_ms;
    if (j->first_start_ms < 0)
        j->first_start_ms = w->now_ms;
    j->called = called;
    j->permit = permit;
    world_move(w, job, SIM_STARTED, REDRIVE_STATE_RUNNING);
}

static void start(struct world *w, uint32_t job, struct breaker_permit permit)
{
    if (w->jobs[job].state == REDRIVE_STATE_PARKED)
        world_move(w, job, SIM_UNPARKED, REDRIVE_STATE_QUEUED);
    count_start(w, job, permit, true);
    struct service_answer answer = service_call(&w->service, w->now_ms);
    w->jobs[job].answer = answer.failure;
    w->idle_workers--;
    plan_run(w, job, answer.takes_ms);
}

/* A breaker inside the handler: the run has begun when it says no. */
static void burn(struct world *w, uint32_t job)
{
    count_start(w, job, (struct breaker_permit){0}, false);
    struct outcome outcome = {
        .ending = ENDING_RAN,
        .failure = {.status = "TRANSIENT_FAIL", .message = "circuit breaker is open"}};
    world_settle(w, job, &outcome);
}

/* The breaker said no, and all that is ready meets it. */
static void turn_away(struct world *w)
{
    uint32_t job;
    while (gate_pop(w, &w->ready, REDRIVE_STATE_QUEUED, &job)) {
        if (w->config->breaker_mode == SIM_BREAKER_BURNS)
            burn(w, job);
        else if (w->config->breaker->on_open == REDRIVE_ON_OPEN_DEAD_LETTER)
            world_settle(w, job, &(struct outcome){.ending = ENDING_BREAKER_OPEN});
        else
            world_move(w, job, SIM_PARKED, REDRIVE_STATE_PARKED);
    }
}

static struct probe_candidate candidate_of(const struct heap_item *item, bool takes_newest)
{
    return (struct probe_candidate){
        .attempts = (uint32_t)item->key,
        .max_attempts = (uint32_t)item->token,
        .age_order = probe_age(item->job, takes_newest),
    };
}

bool dispatch_probe_order(const struct heap_item *a, const struct heap_item *b)
{
    return probe_precedes(candidate_of(a, false), candidate_of(b, false));
}

bool dispatch_newest_order(const struct heap_item *a, const struct heap_item *b)
{
    return probe_precedes(candidate_of(a, true), candidate_of(b, true));
}

void dispatch_waits(struct world *w, uint32_t job)
{
    if (!w->probing)
        return;
    struct heap_item item = {
        .key = w->jobs[job].attempts,
        .job = job,
        .token = (uint64_t)w->config->policy->max_retries + 1,
    };
    for (int i = 0; i < 2; i++) {
        int r = heap_push(&w->probes[i], item);
        if (r < 0)
            w->error = r;
    }
}

static void gather_probes(struct world *w, const struct heap *gate, enum redrive_state state)
{
    for (size_t i = 0; i < gate->count; i++)
        if (w->jobs[gate->items[i].job].state == state)
            dispatch_waits(w, gate->items[i].job);
}

/* While the breaker is closed no probes are needed, and keeping them would cost memory. */
static void keep_probes(struct world *w, bool probing)
{
    if (w->probing == probing)
        return;
    w->probing = probing;
    heap_clear(&w->probes[0]);
    heap_clear(&w->probes[1]);
    if (!probing)
        return;
    gather_probes(w, &w->ready, REDRIVE_STATE_QUEUED);
    gather_probes(w, &w->parked, REDRIVE_STATE_PARKED);
}

static bool pop_probe(struct world *w, uint32_t *ret)
{
    struct heap *probes = &w->probes[probe_takes_newest(w->breaker.reopened)];
    struct heap_item item;
    while (heap_pop(probes, &item)) {
        const struct sim_job *j = &w->jobs[item.job];
        bool waits = j->state == REDRIVE_STATE_QUEUED || j->state == REDRIVE_STATE_PARKED;
        if (waits && j->attempts == (uint32_t)item.key) {
            *ret = item.job;
            return true;
        }
    }
    return false;
}

/* The job that goes next: the oldest, or while the breaker is unsure, the best probe. The entry of
 * a probe in its gate stays and is stale from now on. */
static bool choose(struct world *w, uint32_t *ret)
{
    bool probing = w->config->breaker_mode == SIM_BREAKER_OBEYS && !breaker_passes(&w->breaker);
    keep_probes(w, probing);
    return probing ? pop_probe(w, ret) : gate_pop(w, &w->ready, REDRIVE_STATE_QUEUED, ret);
}

static bool may_go(struct world *w, struct breaker_permit *permit)
{
    if (w->config->breaker_mode == SIM_BREAKER_NONE)
        return true;
    /* A lapsed probe is an event of its own, before the answer that it leads to. */
    if (breaker_tick(&w->breaker, w->config->breaker, w->now_ms))
        dispatch_breaker_changed(w, false);
    bool may = breaker_allow(&w->breaker, w->config->breaker, w->now_ms, permit);
    dispatch_breaker_changed(w, false);
    return may;
}

void dispatch(struct world *w)
{
    while (w->idle_workers > 0 && !w->error) {
        uint32_t waiting = w->in_state[REDRIVE_STATE_QUEUED];
        if (!breaker_passes(&w->breaker))
            waiting += w->in_state[REDRIVE_STATE_PARKED];
        if (waiting == 0)
            break;

        struct breaker_permit permit = {0};
        uint32_t job;
        if (!may_go(w, &permit)) {
            turn_away(w);
            break;
        }
        if (!choose(w, &job))
            break;
        start(w, job, permit);
    }
}

static void plan_release(struct world *w)
{
    int64_t at_ms = release_next_ms(&w->release);
    if (at_ms <= w->now_ms)
        at_ms = w->now_ms + 1;
    w->release_wake_ms = at_ms;
    world_plan(w, at_ms, HAPPEN_RELEASE, 0, 0);
}

void dispatch_release(struct world *w)
{
    uint32_t waiting = w->in_state[REDRIVE_STATE_PARKED];
    uint32_t n = release_take(&w->release, w->config->breaker, w->now_ms, waiting);
    uint32_t job;
    while (n-- > 0 && gate_pop(w, &w->parked, REDRIVE_STATE_PARKED, &job))
        world_move(w, job, SIM_UNPARKED, REDRIVE_STATE_QUEUED);
    w->releasing = w->in_state[REDRIVE_STATE_PARKED] > 0;
    if (w->releasing)
        plan_release(w);
}

void dispatch_breaker_changed(struct world *w, bool by_hand)
{
    if (w->breaker.generation != w->breaker_generation) {
        w->breaker_generation = w->breaker.generation;
        if (w->config->observe)
            w->config->observe(&(struct sim_event){.type = SIM_BREAKER,
                                                   .at_ms = w->now_ms,
                                                   .breaker = w->breaker.state,
                                                   .generation = w->breaker.generation,
                                                   .by_hand = by_hand},
                               w->config->observe_ctx);
        bool may_release = breaker_passes(&w->breaker) && w->in_state[REDRIVE_STATE_PARKED] > 0;
        if (may_release && !w->releasing) {
            release_start(&w->release, w->config->breaker, w->now_ms);
            plan_release(w);
        }
        w->releasing = may_release;
    }
    int64_t next_ms = breaker_next_ms(&w->breaker, w->config->breaker);
    if (next_ms > w->now_ms && next_ms != w->breaker_wake_ms) {
        w->breaker_wake_ms = next_ms;
        world_plan(w, next_ms, HAPPEN_BREAKER, 0, 0);
    }
}
