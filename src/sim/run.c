/* run.c - the loop over events, and the streams of randomness. */
#include "sim/sim.h"

#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"
#include "sim/world.h"

/* No correct run is still at work after a thousand years. */
#define LAST_MS (INT64_C(1000) * 365 * 24 * 3600 * 1000)

/* Streams of randomness; the numbers only have to differ. */
enum {
    STREAM_ARRIVALS = 1,
    STREAM_SERVICE,
    STREAM_HANDS,
    STREAM_BREAKER
};

static void plan_arrival(struct world *w)
{
    const struct sim_config *config = w->config;
    double gap_ms = 1000.0 / config->arrivals_per_s;
    if (!config->arrivals_even)
        gap_ms *= -log(1 - rng_double(&w->arrivals));
    w->next_arrival_ms += gap_ms;
    if (w->n_arrivals < config->max_jobs && w->next_arrival_ms < (double)config->arrivals_until_ms)
        world_plan(w, (int64_t)w->next_arrival_ms, HAPPEN_ARRIVAL, 0, 0);
}

static void plan_intervention(struct world *w)
{
    double gap_ms = -log(1 - rng_double(&w->hands_rng)) * 1000.0 / w->hands.breaker;
    double at_ms = (double)w->now_ms + 1 + gap_ms;
    if (at_ms < (double)w->hands.until_ms)
        world_plan(w, (int64_t)at_ms, HAPPEN_INTERVENE, 0, 0);
}

static void world_init(struct world *w, const struct sim_config *config)
{
    *w = (struct world){.config = config, .idle_workers = config->workers};
    if (config->hands)
        w->hands = *config->hands;
    heap_init(&w->agenda);
    heap_init(&w->ready);
    heap_init(&w->parked);
    heap_init(&w->held);
    if (config->budget)
        budget_init(&w->budget, config->budget, 0);
    if (config->adaptive)
        adaptive_init(&w->adaptive, config->adaptive);
    heap_init_ordered(&w->probes[0], dispatch_probe_order);
    heap_init_ordered(&w->probes[1], dispatch_newest_order);
    rng_seed(&w->arrivals, rng_mix(config->seed ^ STREAM_ARRIVALS));
    rng_seed(&w->hands_rng, rng_mix(config->seed ^ STREAM_HANDS));
    service_init(&w->service, config->service, rng_mix(config->seed ^ STREAM_SERVICE));
    breaker_init(&w->breaker, rng_mix(config->seed ^ STREAM_BREAKER));
    w->breaker_generation = w->breaker.generation;

    plan_arrival(w);
    if (config->breaker_mode == SIM_BREAKER_OBEYS && w->hands.breaker > 0) {
        plan_intervention(w);
        world_plan(w, w->hands.until_ms, HAPPEN_REST, 0, 0);
    }
}

static void world_release(struct world *w)
{
    heap_release(&w->agenda);
    heap_release(&w->ready);
    heap_release(&w->parked);
    heap_release(&w->held);
    heap_release(&w->probes[0]);
    heap_release(&w->probes[1]);
    free(w->jobs);
}

static void end_run(struct world *w, uint32_t job)
{
    const struct redrive_failure *failure = w->jobs[job].answer;
    struct outcome outcome = {.ending = ENDING_RAN};

    if (world_chance(w, w->hands.release)) {
        outcome.ending = ENDING_RELEASED;
    } else if (world_chance(w, w->hands.snooze)) {
        outcome.ending = ENDING_SNOOZED;
        outcome.snooze_ms = world_later_ms(w) - w->now_ms;
    } else if (failure) {
        outcome.failure = *failure;
    }
    world_settle(w, job, &outcome);
}

static void end_by(struct world *w, uint32_t job, enum ending ending)
{
    world_settle(w, job, &(struct outcome){.ending = ending});
}

static void intervene(struct world *w)
{
    switch (rng_below(&w->hands_rng, 4)) {
    case 0: breaker_trip(&w->breaker, w->now_ms); break;
    case 1: breaker_disable(&w->breaker); break;
    default: breaker_reset(&w->breaker); break;
    }
    dispatch_breaker_changed(w, true);
    plan_intervention(w);
}

static void rest(struct world *w)
{
    if (w->breaker.state == REDRIVE_BREAKER_FORCED_OPEN ||
        w->breaker.state == REDRIVE_BREAKER_DISABLED) {
        breaker_reset(&w->breaker);
        dispatch_breaker_changed(w, true);
    }
}

static void happen_to_job(struct world *w, enum happening what, uint32_t job)
{
    struct sim_job *j = &w->jobs[job];
    bool ended = state_has_ended(j->state);
    bool locked = j->state == REDRIVE_STATE_SCHEDULED || j->state == REDRIVE_STATE_RETRYING;

    if (what == HAPPEN_DUE && locked && j->process_after_ms <= w->now_ms) {
        world_move(w, job, SIM_DUE, REDRIVE_STATE_QUEUED);
    } else if (what == HAPPEN_RUN_NOW && locked) {
        j->process_after_ms = w->now_ms;
        world_move(w, job, SIM_RUN_NOW, REDRIVE_STATE_QUEUED);
    } else if (what == HAPPEN_DEADLINE && !ended && j->state != REDRIVE_STATE_RUNNING &&
               j->deadline_ms <= w->now_ms) {
        end_by(w, job, ENDING_DEADLINE);
    } else if (what == HAPPEN_CANCEL && !ended) {
        end_by(w, job, ENDING_CANCELLED);
    } else if (what == HAPPEN_KILL && !ended) {
        end_by(w, job, ENDING_KILLED);
    } else if (what == HAPPEN_REDRIVE &&
               (j->state == REDRIVE_STATE_DEAD_LETTER || j->state == REDRIVE_STATE_FAILED)) {
        world_redrive(w, job);
    }
}

static void happen(struct world *w, const struct heap_item *item)
{
    switch ((enum happening)item->kind) {
    case HAPPEN_ARRIVAL:
        w->n_arrivals++;
        world_submit(w);
        plan_arrival(w);
        break;
    case HAPPEN_ANSWER:
        w->idle_workers++;
        if (w->jobs[item->job].token == item->token)
            end_run(w, item->job);
        break;
    case HAPPEN_LEASE_END:
        if (w->jobs[item->job].token == item->token)
            end_by(w, item->job, ENDING_LEASE_LOST);
        break;
    case HAPPEN_WORKER_BACK: w->idle_workers++; break;
    case HAPPEN_BREAKER:
        if (item->key == w->breaker_wake_ms)
            w->breaker_wake_ms = 0;
        breaker_tick(&w->breaker, w->config->breaker, w->now_ms);
        dispatch_breaker_changed(w, false);
        break;
    case HAPPEN_RELEASE:
        if (w->releasing && item->key == w->release_wake_ms)
            dispatch_release(w);
        break;
    case HAPPEN_BUDGET: w->budget_wake_ms = 0; break; /* what follows lets them go */
    case HAPPEN_INTERVENE: intervene(w); break;
    case HAPPEN_REST: rest(w); break;
    case HAPPEN_DUE:
    case HAPPEN_DEADLINE:
    case HAPPEN_CANCEL:
    case HAPPEN_KILL:
    case HAPPEN_RUN_NOW:
    case HAPPEN_REDRIVE: happen_to_job(w, (enum happening)item->kind, item->job); break;
    }
}

int sim_run(const struct sim_config *config, struct sim_totals *ret, struct redrive_err *err)
{
    struct world w;
    struct heap_item item;

    world_init(&w, config);
    while (!w.error && heap_pop(&w.agenda, &item)) {
        bool too_many = config->max_events > 0 && w.events == config->max_events;
        if (too_many || item.key > LAST_MS) {
            w.error = REDRIVE_E_INTERNAL;
            break;
        }
        w.events++;
        w.now_ms = item.key;
        happen(&w, &item);
        dispatch(&w);
    }

    *ret = (struct sim_totals){.submitted = w.n_jobs, .events = w.events, .end_ms = w.now_ms};
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        ret->in_state[state] = w.in_state[state];
    int r = w.error;
    world_release(&w);
    if (r == REDRIVE_E_NOMEM)
        return err_nomem(err);
    if (r < 0)
        return err_set(err, r, "the simulation does not come to an end");
    return 0;
}
