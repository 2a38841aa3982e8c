/* world.c - the rows of jobs (submit, move, settle, redrive), and the breaker that they meet. */
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/breaker/breaker.h"
#include "core/retry/backoff.h"
#include "core/retry/policy.h"
#include "core/state.h"

/* Whether the breaker lets everything through. */
static bool breaker_passes(const struct breaker *b)
{
    return b->state == REDRIVE_BREAKER_CLOSED || b->state == REDRIVE_BREAKER_DISABLED;
}

static void push(struct world *w, struct heap *heap, struct heap_item item)
{
    int r = heap_push(heap, item);
    if (r < 0)
        w->error = r;
}

static void push_job(struct world *w, struct heap *heap, uint32_t job)
{
    push(w, heap, (struct heap_item){.key = job, .job = job});
}

void world_plan(struct world *w, int64_t at_ms, enum happening what, uint32_t job, uint64_t token)
{
    push(w, &w->agenda, (struct heap_item){.key = at_ms, .kind = what, .job = job, .token = token});
}

bool world_chance(struct world *w, double share)
{
    return share > 0 && w->now_ms < w->hands.until_ms && rng_double(&w->hands_rng) < share;
}

int64_t world_later_ms(struct world *w)
{
    return w->now_ms + 1 + (int64_t)rng_below(&w->hands_rng, (uint64_t)w->hands.span_ms);
}

static struct sim_event event_of(const struct world *w, uint32_t job, enum sim_event_type type)
{
    const struct sim_job *j = &w->jobs[job];
    return (struct sim_event){
        .type = type,
        .at_ms = w->now_ms,
        .job = job,
        .epoch = j->epoch,
        .arm = j->arm,
        .from = j->state,
        .to = j->state,
        .attempts = j->attempts,
        .process_after_ms = j->process_after_ms,
        .submitted_ms = j->submitted_ms,
        .first_start_ms = j->first_start_ms,
        .started_ms = j->started_ms,
        .called = j->called,
        .by_budget = j->by_budget,
        .permit = j->permit,
        .breaker = w->breaker.state,
        .generation = w->breaker.generation,
    };
}

static void call_observer(struct world *w, const struct sim_event *event)
{
    if (w->config->observe)
        w->config->observe(event, w->config->observe_ctx);
}

/* A job waits, as queued or parked: it may be a probe. */
static void add_probe(struct world *w, uint32_t job)
{
    if (!w->probing)
        return;
    struct heap_item item = {
        .key = w->jobs[job].attempts,
        .job = job,
        .token = policy_max_attempts(w->jobs[job].policy),
    };
    push(w, &w->probes[0], item);
    push(w, &w->probes[1], item);
}

/* The bookkeeping of a state, without the event. */
static void enter_state(struct world *w, uint32_t job, enum redrive_state to)
{
    struct sim_job *j = &w->jobs[job];
    w->in_state[j->state]--;
    w->in_state[to]++;
    if (j->state == REDRIVE_STATE_PARKED && j->first_start_ms >= 0)
        j->parked_ms += w->now_ms - j->parked_at_ms;
    if (j->state == REDRIVE_STATE_PARKED && j->by_budget) {
        w->n_held--;
        j->by_budget = false;
    }
    j->state = to;
    if (to == REDRIVE_STATE_QUEUED) {
        push_job(w, &w->ready, job);
        add_probe(w, job);
    } else if (to == REDRIVE_STATE_PARKED) {
        j->parked_at_ms = w->now_ms;
        push_job(w, j->by_budget ? &w->held : &w->parked, job);
        if (j->by_budget)
            w->n_held++;
        else
            add_probe(w, job);
    } else if (to == REDRIVE_STATE_SCHEDULED || to == REDRIVE_STATE_RETRYING) {
        world_plan(w, j->process_after_ms, HAPPEN_DUE, job, 0);
    }
}

void world_move(struct world *w, uint32_t job, enum sim_event_type type, enum redrive_state to)
{
    struct sim_event event = event_of(w, job, type);
    event.to = to;
    enter_state(w, job, to);
    call_observer(w, &event);
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

#define ID_SIZE 48
static struct str id_of(const struct world *w, uint32_t job, char out[ID_SIZE])
{
    const unsigned long long seed = (unsigned long long)w->config->seed;
    return (struct str){out, (size_t)snprintf(out, ID_SIZE, "%016llx-%u", seed, job)};
}

/* As a submit does it. */
static void choose_policy(const struct world *w, uint32_t job)
{
    const struct experiment *experiment = w->config->experiment;
    struct sim_job *j = &w->jobs[job];
    char id[ID_SIZE];
    j->policy = w->config->policy;
    if (!experiment)
        return;
    const struct arm *arm = experiment_choose(experiment, id_of(w, job, id));
    j->arm = (uint32_t)(arm - experiment->arms);
    j->policy = &arm->policy;
}

static void begin_epoch(struct world *w, uint32_t job, uint32_t epoch)
{
    struct sim_job *j = &w->jobs[job];
    char id[ID_SIZE];

    j->epoch = epoch;
    j->seed = backoff_seed(id_of(w, job, id), epoch);
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
        call_observer(w, &(struct sim_event){.type = SIM_REJECTED,
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
    choose_policy(w, job);
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

static void report_to_budget(struct world *w, enum redrive_state state)
{
    const bool has_failed = state == REDRIVE_STATE_RETRYING;
    if (w->config->budget && (has_failed || state == REDRIVE_STATE_COMPLETED))
        budget_settle(&w->budget, w->config->budget, has_failed, w->now_ms);
}

/* `running` counts the call that has ended. */
static void report_to_adaptive(struct world *w, const struct decision *d, int64_t started_ms,
                               uint32_t running)
{
    if (d->state == REDRIVE_STATE_COMPLETED)
        adaptive_succeeded(&w->adaptive, w->config->adaptive, running);
    else if (d->is_overload)
        adaptive_overloaded(&w->adaptive, w->config->adaptive, started_ms, w->now_ms);
}

void world_settle(struct world *w, uint32_t job, const struct outcome *outcome)
{
    struct sim_job *j = &w->jobs[job];
    bool was_running = j->state == REDRIVE_STATE_RUNNING;
    struct job_facts facts = facts_of(w, j);
    struct decision decision = decide(&facts, outcome, j->policy, w->config->classifier);
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
    call_observer(w, &event);

    if (was_running && called)
        report_to_budget(w, decision.state);
    if (was_running && called && w->config->adaptive)
        report_to_adaptive(w, &decision, event.started_ms, w->in_state[REDRIVE_STATE_RUNNING] + 1);
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

/* ---- What meets the breaker: start, park, probe, release ------------------------------------- */

/* Takes the oldest job of a heap that is still in the state which the heap is for. */
static bool pop_job(struct world *w, struct heap *heap, enum redrive_state state, uint32_t *ret)
{
    struct heap_item item;
    while (heap_pop(heap, &item)) {
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
    if (w->config->budget)
        budget_start(&w->budget, w->config->budget, w->jobs[job].attempts > 0, w->now_ms);
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

/* ---- What meets the retry budget ------------------------------------------------------------- */

/* Whether the job is a retry that has to wait; if so, it is parked. */
static bool hold(struct world *w, uint32_t job)
{
    struct sim_job *j = &w->jobs[job];
    if (!w->config->budget || j->attempts == 0 ||
        budget_room(&w->budget, w->config->budget, w->now_ms) > 0)
        return false;
    if (j->state == REDRIVE_STATE_PARKED) /* by the breaker, which lets it go as a probe */
        world_move(w, job, SIM_UNPARKED, REDRIVE_STATE_QUEUED);
    j->by_budget = true;
    world_move(w, job, SIM_PARKED, REDRIVE_STATE_PARKED);
    return true;
}

/* Lets as many go as have room and a worker each. */
static void let_held_go(struct world *w)
{
    uint32_t room = budget_room(&w->budget, w->config->budget, w->now_ms);
    uint32_t job;
    if (room > w->idle_workers)
        room = w->idle_workers;
    while (room > 0 && pop_job(w, &w->held, REDRIVE_STATE_PARKED, &job)) {
        if (!w->jobs[job].by_budget)
            continue; /* by the breaker, since */
        world_move(w, job, SIM_UNPARKED, REDRIVE_STATE_QUEUED);
        room--;
    }
}

/* Workers that become free look for themselves; for room that time gives, they are woken. */
static void plan_budget(struct world *w)
{
    const int64_t wait_ms = budget_wait_ms(&w->budget, w->config->budget, w->now_ms);
    if (w->budget_wake_ms != 0 || w->n_held == 0 || wait_ms == 0)
        return;
    w->budget_wake_ms = w->now_ms + wait_ms;
    world_plan(w, w->budget_wake_ms, HAPPEN_BUDGET, 0, 0);
}

/* The breaker said no, and all that is ready meets it. */
static void turn_away(struct world *w)
{
    uint32_t job;
    while (pop_job(w, &w->ready, REDRIVE_STATE_QUEUED, &job)) {
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

static void gather_probes(struct world *w, const struct heap *heap, enum redrive_state state)
{
    for (size_t i = 0; i < heap->count; i++)
        if (w->jobs[heap->items[i].job].state == state)
            add_probe(w, heap->items[i].job);
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
        bool waits =
            j->state == REDRIVE_STATE_QUEUED || (j->state == REDRIVE_STATE_PARKED && !j->by_budget);
        if (waits && j->attempts == (uint32_t)item.key) {
            *ret = item.job;
            return true;
        }
    }
    return false;
}

/* The job that goes next: the oldest, or while the breaker is unsure, the best probe. The entry of
 * a probe in `ready` or `parked` stays and is stale from now on. */
static bool choose(struct world *w, uint32_t *ret)
{
    bool probing = w->config->breaker_mode == SIM_BREAKER_OBEYS && !breaker_passes(&w->breaker);
    keep_probes(w, probing);
    while (probing ? pop_probe(w, ret) : pop_job(w, &w->ready, REDRIVE_STATE_QUEUED, ret))
        if (!hold(w, *ret))
            return true;
    return false;
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

static bool has_slot(const struct world *w)
{
    return w->idle_workers > 0 &&
           (!w->config->adaptive ||
            w->in_state[REDRIVE_STATE_RUNNING] < adaptive_limit(&w->adaptive, w->config->adaptive));
}

static void start_some(struct world *w)
{
    while (has_slot(w) && !w->error) {
        uint32_t waiting = w->in_state[REDRIVE_STATE_QUEUED];
        if (!breaker_passes(&w->breaker))
            waiting += w->in_state[REDRIVE_STATE_PARKED] - w->n_held;
        if (waiting == 0)
            break;

        struct breaker_permit permit = {0};
        uint32_t job = 0;
        if (!may_go(w, &permit)) {
            turn_away(w);
            break;
        }
        if (!choose(w, &job)) {
            if (permit.probe != 0)
                report_to_breaker(w, permit, BREAKER_RETURNED, 0);
            break;
        }
        start(w, job, permit);
    }
}

void dispatch(struct world *w)
{
    if (w->n_held > 0)
        let_held_go(w);
    start_some(w);
    if (w->config->budget)
        plan_budget(w);
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
    uint32_t waiting = w->in_state[REDRIVE_STATE_PARKED] - w->n_held;
    uint32_t n = release_take(&w->release, w->config->breaker, w->now_ms, waiting);
    uint32_t job;
    while (n-- > 0 && pop_job(w, &w->parked, REDRIVE_STATE_PARKED, &job))
        world_move(w, job, SIM_UNPARKED, REDRIVE_STATE_QUEUED);
    w->releasing = w->in_state[REDRIVE_STATE_PARKED] > w->n_held;
    if (w->releasing)
        plan_release(w);
}

void dispatch_breaker_changed(struct world *w, bool by_hand)
{
    if (w->breaker.generation != w->breaker_generation) {
        w->breaker_generation = w->breaker.generation;
        call_observer(w, &(struct sim_event){.type = SIM_BREAKER,
                                             .at_ms = w->now_ms,
                                             .breaker = w->breaker.state,
                                             .generation = w->breaker.generation,
                                             .by_hand = by_hand});
        bool may_release =
            breaker_passes(&w->breaker) && w->in_state[REDRIVE_STATE_PARKED] > w->n_held;
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
