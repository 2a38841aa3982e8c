/* admission.c - which of a page of ready jobs may start, and what becomes of the others. */
#include "engine/verbs/admission.h"

#include "base/err.h"
#include "engine/gates/gates.h"
#include "engine/state.h"
#include "engine/tasks.h"
#include "engine/verbs/ending.h"
#include "store/job_json.h"
#include "store/transition.h"

/* ---- May it run? ----------------------------------------------------------------------------- */

static int limit_of(struct engine *e, const struct job *job, struct gate **ret,
                    struct redrive_err *err)
{
    *ret = NULL;
    return job->spec.limit_key.len > 0 ? gate_limit(e, job, ret, err) : 0;
}

/* Whether the limit has room; if not, asks to be woken when it may. */
static bool has_room(struct engine *e, const struct gate *gate, const struct job *job)
{
    if (!gate_has_slots(gate))
        return false;
    const int64_t wait_ms = gate_wait_ms(gate, job->status.attempts > 0, e->now_ms);
    if (wait_ms > 0)
        engine_want(e, e->now_ms + wait_ms);
    return wait_ms == 0;
}

static int meet_breaker(struct engine *e, const struct job *job, struct gate **ret_gate,
                        struct breaker_permit *ret, bool *ret_passes, struct redrive_err *err)
{
    const struct config_task *task = task_in_force(e, job->spec.task);
    *ret_gate = NULL;
    *ret_passes = true;
    *ret = (struct breaker_permit){0};
    if (job->spec.breaker_key.len == 0)
        return 0;
    int rc = gate_breaker(e, job->spec.tenant, job->spec.breaker_key, &task->breaker.config,
                          ret_gate, err);
    if (rc < 0)
        return rc;
    struct gate *gate = *ret_gate;
    uint64_t generation = gate->breaker.generation;
    *ret_passes = breaker_allow(&gate->breaker, &gate->breaker_config, e->now_ms, ret);
    if (!*ret_passes)
        engine_want(e, breaker_next_ms(&gate->breaker, &gate->breaker_config));
    bool changed = gate->breaker.generation != generation || ret->probe != 0;
    return changed ? gate_mark(&e->gates, gate, err) : 0;
}

/* ---- What is to be done ---------------------------------------------------------------------- */

int admission_init(struct admission *a, struct engine *e, size_t n, struct redrive_err *err)
{
    *a = (struct admission){
        .e = e,
        .moves = arena_array(&e->arena, n, sizeof *a->moves),
        .starts = arena_array(&e->arena, n, sizeof *a->starts),
        .parks = {arena_array(&e->arena, n, sizeof **a->parks),
                  arena_array(&e->arena, n, sizeof **a->parks)},
        .results = arena_array(&e->arena, n, sizeof *a->results),
    };
    return e->arena.failed ? err_nomem(err) : 0;
}

static void park(struct admission *a, const struct job *job, struct gate *gate)
{
    int by_limit = gate->kind == SHARED_LIMIT;
    a->parks[by_limit][a->n_parks[by_limit]++] = (struct parking){job, gate};
}

static uint64_t new_token(struct engine *e)
{
    uint64_t token;
    do
        token = rng_next(&e->rng) & INT64_MAX;
    while (token == 0);
    return token;
}

/* Parked retries go when there is room for the next one. */
static void take_budget(struct engine *e, struct gate *limit, bool is_retry)
{
    budget_start(&limit->budget, &limit->budget_config, is_retry, e->now_ms);
    if (limit->has_parked)
        engine_want(e,
                    e->now_ms + budget_wait_ms(&limit->budget, &limit->budget_config, e->now_ms));
}

static int take_gates(struct engine *e, const struct job *job, struct gate *limit,
                      struct gate *breaker, struct redrive_err *err)
{
    if (breaker && breaker->candidates > 0) {
        gate_arrived(breaker);
        int rc = gate_mark(&e->gates, breaker, err);
        if (rc < 0)
            return rc;
    }
    if (!limit)
        return 0;
    gate_arrived(limit);
    gate_take_slot(limit);
    if (limit->rate.count)
        (void)bucket_take(&limit->bucket, &limit->rate, e->now_ms, 1);
    if (budget_is_set(&limit->budget_config))
        take_budget(e, limit, job->status.attempts > 0);
    return gate_mark(&e->gates, limit, err);
}

/* How long the job's lease lasts: as the job itself, the worker or the task says, in this order. */
static int64_t lease_ms_of(const struct engine *e, const struct admission_request *request,
                           const struct job *job)
{
    const int64_t own_ms = request->lease_of ? request->lease_of(job) : 0;
    if (own_ms > 0)
        return own_ms;
    return request->lease_ms > 0 ? request->lease_ms : task_in_force(e, job->spec.task)->lease_ms;
}

static int start(struct admission *a, const struct admission_request *request, struct job *job,
                 struct gate *limit, struct gate *breaker, struct breaker_permit permit,
                 struct redrive_err *err)
{
    struct engine *e = a->e;
    a->moves[a->n_starts] = (struct start_move){
        .seq = job->status.seq,
        .token = new_token(e),
        .lease_until_ms = engine_lease_until(e, lease_ms_of(e, request, job)),
        .worker = request->worker,
        .permit = permit,
    };
    a->starts[a->n_starts++] =
        (struct admitted){.owner = request->owner, .job = job, .limit = limit, .breaker = breaker};
    return take_gates(e, job, limit, breaker, err);
}

int admission_consider(struct admission *a, const struct admission_request *request,
                       struct job *job, struct redrive_err *err)
{
    struct engine *e = a->e;
    struct gate *limit, *breaker;
    struct breaker_permit permit;
    bool passes;
    if (job_is_damaged(job))
        return end_waiting(e, job, ENDING_DAMAGED, NULL, err);
    if (job->spec.deadline_ms != 0 && job->spec.deadline_ms <= e->now_ms)
        return end_waiting(e, job, ENDING_DEADLINE, NULL, err);
    int rc = limit_of(e, job, &limit, err);
    if (rc < 0)
        return rc;
    if (limit && !has_room(e, limit, job)) {
        park(a, job, limit);
        return 0;
    }
    rc = meet_breaker(e, job, &breaker, &permit, &passes, err);
    if (rc < 0)
        return rc;
    if (passes)
        return start(a, request, job, limit, breaker, permit, err);
    /* It has arrived at its limit, if that had sent it ahead, and is held by its breaker. */
    if (limit && limit->candidates > 0) {
        gate_arrived(limit);
        rc = gate_mark(&e->gates, limit, err);
    }
    if (rc < 0)
        return rc;
    if (breaker->breaker_config.on_open == REDRIVE_ON_OPEN_DEAD_LETTER)
        return end_waiting(e, job, ENDING_BREAKER_OPEN, NULL, err);
    park(a, job, breaker);
    return 0;
}

/* ---- Carrying it out ------------------------------------------------------------------------- */

static int park_all(struct admission *a, bool by_limit, struct redrive_err *err)
{
    struct engine *e = a->e;
    const struct parking *parks = a->parks[by_limit];
    const size_t n = a->n_parks[by_limit];
    int64_t *seqs = arena_array(&e->arena, n, sizeof *seqs);
    if (n == 0)
        return 0;
    if (!seqs)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++)
        seqs[i] = parks[i].job->status.seq;
    int rc = e->ops->move(e->store, PARKS(seqs, n, by_limit), a->results, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (a->results[i].code < 0)
            continue;
        gate_parked(parks[i].gate);
        const struct engine_event event = event_of(e, ENGINE_EVENT_PARKED, parks[i].job);
        event_add(e, &event);
        rc = gate_mark(&e->gates, parks[i].gate, err);
    }
    return rc;
}

/* The store would not start it after all. */
static void give_gates_back(struct engine *e, const struct admitted *s,
                            struct breaker_permit permit)
{
    if (s->breaker)
        gate_record(s->breaker, permit, BREAKER_RETURNED, 0, e->now_ms);
    if (!s->limit)
        return;
    gate_give_slot(s->limit);
    if (s->limit->rate.count)
        bucket_give(&s->limit->bucket, &s->limit->rate, 1);
    if (budget_is_set(&s->limit->budget_config))
        budget_take_back(&s->limit->budget, &s->limit->budget_config, s->job->status.attempts > 0,
                         e->now_ms);
}

/* The job as the store has it now. */
static void become_running(const struct engine *e, struct job *job, const struct start_move *start)
{
    const struct move move = {start->seq, MOVE_START, .start = start};
    struct transition ignored;
    transition(&job->status, &move, engine_time(e), &ignored);
}

static void add_start(struct engine *e, const struct job *job)
{
    const struct job_status *s = &job->status;
    struct engine_event event = event_of(e, ENGINE_EVENT_STARTED, job);
    const int64_t due_ms =
        s->process_after_ms > s->created_ms ? s->process_after_ms : s->created_ms;
    event.wait_ms = e->now_ms > due_ms ? e->now_ms - due_ms : 0;
    event_add(e, &event);
}

static int start_all(struct admission *a, struct redrive_err *err)
{
    struct engine *e = a->e;
    const size_t n = a->n_starts;
    int rc = n == 0 ? 0 : e->ops->move(e->store, STARTS(a->moves, n), a->results, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct admitted *s = &a->starts[i];
        const struct start_move *move = &a->moves[i];
        if (a->results[i].code < 0) {
            give_gates_back(e, s, move->permit);
            continue;
        }
        e->touched = true;
        become_running(e, s->job, move);
        engine_want(e, move->lease_until_ms);
        running_add(&e->running, s->job);
        add_start(e, s->job);
        s->has_started = true;
    }
    return rc;
}

int admission_finish(struct admission *a, struct redrive_err *err)
{
    int rc = start_all(a, err);
    if (rc == 0)
        rc = park_all(a, false, err);
    return rc == 0 ? park_all(a, true, err) : rc;
}
