/* world.c - job rows: submit, move, settle, redrive. */
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/retry/backoff.h"
#include "core/state.h"

void world_plan(struct world *w, int64_t at_ms, enum happening what, uint32_t job, uint64_t token)
{
    struct heap_item item = {.key = at_ms, .kind = what, .job = job, .token = token};
    int r = heap_push(&w->agenda, item);
    if (r < 0)
        w->error = r;
}

bool world_chance(struct world *w, double share)
{
    return share > 0 && w->now_ms < w->hands.until_ms && rng_double(&w->hands_rng) < share;
}

int64_t world_later_ms(struct world *w)
{
    return w->now_ms + 1 + (int64_t)rng_below(&w->hands_rng, (uint64_t)w->hands.span_ms);
}

static void enter_gate(struct world *w, struct heap *gate, uint32_t job)
{
    int r = heap_push(gate, (struct heap_item){.key = job, .job = job});
    if (r < 0)
        w->error = r;
}

static struct sim_event event_of(const struct world *w, uint32_t job, enum sim_event_type type)
{
    const struct sim_job *j = &w->jobs[job];
    return (struct sim_event){
        .type = type,
        .at_ms = w->now_ms,
        .job = job,
        .epoch = j->epoch,
        .from = j->state,
        .to = j->state,
        .attempts = j->attempts,
        .process_after_ms = j->process_after_ms,
        .submitted_ms = j->submitted_ms,
        .started_ms = j->started_ms,
        .called = j->called,
        .permit = j->permit,
        .breaker = w->breaker.state,
        .generation = w->breaker.generation,
    };
}

static void tell(struct world *w, const struct sim_event *event)
{
    if (w->config->observe)
        w->config->observe(event, w->config->observe_ctx);
}

/* The bookkeeping of a state, without the event. */
static void enter_state(struct world *w, uint32_t job, enum redrive_state to)
{
    struct sim_job *j = &w->jobs[job];
    w->in_state[j->state]--;
    w->in_state[to]++;
    if (j->state == REDRIVE_STATE_PARKED && j->first_start_ms >= 0)
        j->parked_ms += w->now_ms - j->parked_at_ms;
    j->state = to;
    if (to == REDRIVE_STATE_QUEUED) {
        enter_gate(w, &w->ready, job);
        dispatch_waits(w, job);
    } else if (to == REDRIVE_STATE_PARKED) {
        j->parked_at_ms = w->now_ms;
        enter_gate(w, &w->parked, job);
        dispatch_waits(w, job);
    } else if (to == REDRIVE_STATE_SCHEDULED || to == REDRIVE_STATE_RETRYING) {
        world_plan(w, j->process_after_ms, HAPPEN_DUE, job, 0);
    }
}

void world_move(struct world *w, uint32_t job, enum sim_event_type type, enum redrive_state to)
{
    struct sim_event event = event_of(w, job, type);
    event.to = to;
    enter_state(w, job, to);
    tell(w, &event);
}

static bool reserve_job(struct world *w)
{
    if (w->n_jobs < w->capacity)
        return true;
    uint32_t capacity = w->capacity ? w->capacity * 2 : 256;
    struct sim_job *jobs = reallocarray(w->jobs, capacity, sizeof *jobs);
    if (!jobs) {
        w->error = REDRIVE_E_NOMEM;
        return false;
    }
    w->jobs = jobs;
    w->capacity = capacity;
    return true;
}

static void begin_epoch(struct world *w, uint32_t job, uint32_t epoch)
{
    struct sim_job *j = &w->jobs[job];
    char id[48];
    int len = snprintf(id, sizeof id, "%016llx-%u", (unsigned long long)w->config->seed, job);

    j->epoch = epoch;
    j->seed = backoff_seed((struct str){id, (size_t)len}, epoch);
    j->attempts = 0;
    j->crashes = 0;
    j->first_start_ms = -1;
    j->parked_ms = 0;
    j->process_after_ms = w->now_ms;
}

void world_submit(struct world *w)
{
    if (w->config->breaker_mode == SIM_BREAKER_OBEYS && !breaker_passes(&w->breaker) &&
        w->config->breaker->on_open == REDRIVE_ON_OPEN_REJECT) {
        tell(w, &(struct sim_event){.type = SIM_REJECTED,
                                    .at_ms = w->now_ms,
                                    .breaker = w->breaker.state,
                                    .generation = w->breaker.generation});
        return;
    }
    if (!reserve_job(w))
        return;

    uint32_t job = w->n_jobs++;
    struct sim_job *j = &w->jobs[job];
    *j = (struct sim_job){
        .state = REDRIVE_STATE_QUEUED, .submitted_ms = w->now_ms, .deadline_ms = INT64_MAX};
    w->in_state[j->state]++;
    begin_epoch(w, job, 1);

    enum redrive_state to = REDRIVE_STATE_QUEUED;
    if (world_chance(w, w->hands.schedule)) {
        j->process_after_ms = world_later_ms(w);
        to = REDRIVE_STATE_SCHEDULED;
    }
    if (world_chance(w, w->hands.deadline)) {
        j->deadline_ms = world_later_ms(w);
        world_plan(w, j->deadline_ms, HAPPEN_DEADLINE, job, 0);
    }
    if (world_chance(w, w->hands.cancel))
        world_plan(w, world_later_ms(w), HAPPEN_CANCEL, job, 0);
    if (world_chance(w, w->hands.kill))
        world_plan(w, world_later_ms(w), HAPPEN_KILL, job, 0);
    if (world_chance(w, w->hands.run_now))
        world_plan(w, world_later_ms(w), HAPPEN_RUN_NOW, job, 0);
    world_move(w, job, SIM_SUBMITTED, to);
}

static struct job_facts facts_of(const struct world *w, const struct sim_job *j)
{
    int64_t elapsed_ms = 0;
    if (j->first_start_ms >= 0) {
        elapsed_ms = w->now_ms - j->first_start_ms - j->parked_ms;
        if (j->state == REDRIVE_STATE_PARKED)
            elapsed_ms -= w->now_ms - j->parked_at_ms;
    }
    return (struct job_facts){
        .attempts = j->attempts,
        .crashes = j->crashes,
        .elapsed_ms = elapsed_ms,
        .deadline_in_ms = j->deadline_ms == INT64_MAX ? INT64_MAX : j->deadline_ms - w->now_ms,
        .seed = j->seed,
        .is_probe = j->state == REDRIVE_STATE_RUNNING && j->permit.probe != 0,
        .names = w->config->names,
    };
}

static void report_to_breaker(struct world *w, struct breaker_permit permit,
                              enum breaker_result result, int64_t run_ms)
{
    if (w->releasing && result == BREAKER_FAILURE)
        release_failed(&w->release, w->config->breaker, w->now_ms);
    breaker_record(&w->breaker, w->config->breaker, permit, result, run_ms, w->now_ms);
    dispatch_breaker_changed(w, false);
}

void world_settle(struct world *w, uint32_t job, const struct outcome *outcome)
{
    struct sim_job *j = &w->jobs[job];
    bool was_running = j->state == REDRIVE_STATE_RUNNING;
    struct job_facts facts = facts_of(w, j);
    struct decision decision = decide(&facts, outcome, w->config->policy, w->config->classifier);
    struct sim_event event = event_of(w, job, SIM_SETTLED);
    struct breaker_permit permit = j->permit;
    bool called = j->called;

    j->crashes = decision.crashes;
    if (was_running) {
        j->token++;
        if (!decision.uses_attempt)
            j->attempts--;
    }
    j->process_after_ms = w->now_ms + decision.delay_ms;
    enter_state(w, job, decision.state);

    event.to = decision.state;
    event.attempts = j->attempts;
    event.process_after_ms = j->process_after_ms;
    event.facts = &facts;
    event.outcome = outcome;
    event.decision = &decision;
    tell(w, &event);

    if (was_running && called && w->config->breaker_mode != SIM_BREAKER_NONE)
        report_to_breaker(w, permit, decision.breaker, w->now_ms - event.started_ms);
    if ((decision.state == REDRIVE_STATE_DEAD_LETTER || decision.state == REDRIVE_STATE_FAILED) &&
        world_chance(w, w->hands.redrive))
        world_plan(w, world_later_ms(w), HAPPEN_REDRIVE, job, 0);
}

void world_redrive(struct world *w, uint32_t job)
{
    begin_epoch(w, job, w->jobs[job].epoch + 1);
    w->jobs[job].deadline_ms = INT64_MAX;
    world_move(w, job, SIM_REDRIVEN, REDRIVE_STATE_QUEUED);
}
