#include "engine/verbs/admission.h"

#include <stdlib.h>

#include "base/err.h"
#include "core/classify/fingerprint.h"
#include "engine/facts.h"
#include "engine/private.h"
#include "store/job_json.h"
#include "store/transition.h"

/* A job that ticks of cron entries may not run twice at a time has a limit of its own. */
static const struct str CRON_GATE = {"limit:cron:", 11};

int engine_end_waiting(struct engine *e, const struct job *job, int ending,
                       enum redrive_state *ret_state, struct redrive_err *err)
{
    const struct outcome outcome = {.ending = (enum ending)ending};
    struct decision d = facts_decide(e, job, &outcome);
    const struct job_error error = facts_error(&outcome, &d);
    const struct change_move move = {
        .seq = job->status.seq,
        .kind = MOVE_END,
        .to = d.state,
        .reason = d.reason,
        .error = error,
        .fingerprint = error.class_ == REDRIVE_CLASS_SUCCESS
                           ? 0
                           : fingerprint(error.type, error.class_, error.message),
    };
    struct move_result result = {0};
    int rc = e->ops->move(e->store, CHANGES(&move, 1), &result, err);
    if (rc < 0 || result.code < 0)
        return rc;
    if (ret_state)
        *ret_state = result.state;
    struct engine_event event =
        event_of(e, d.state == REDRIVE_STATE_FAILED ? ENGINE_EVENT_FAILED : ENGINE_EVENT_DEAD, job);
    event.reason = d.reason;
    event.class_ = d.class_;
    event.severity = d.severity;
    event.message = error.message;
    event_add(e, &event);
    return 0;
}

/* ---- May it run? ----------------------------------------------------------------------------- */

static int limit_of(struct engine *e, const struct job *job, struct gate **ret,
                    struct redrive_err *err)
{
    const struct config_limits *limits = &task_in_force(e, job->spec.task)->limits;
    static const struct rate NO_RATE = {0};
    *ret = NULL;
    if (job->spec.limit_key.len == 0)
        return 0;
    if (str_starts_with(job->spec.limit_key, CRON_GATE))
        return gate_limit(e, job->spec.tenant, job->spec.limit_key, &NO_RATE, 1, ret, err);
    return gate_limit(e, job->spec.tenant, job->spec.limit_key, &limits->rate, limits->concurrency,
                      ret, err);
}

/* Whether the limit has room; if not, asks to be woken when it may. */
static bool has_room(struct engine *e, const struct gate *gate)
{
    if (!gate_has_slots(gate))
        return false;
    int64_t wait_ms = gate->rate.count ? bucket_wait_ms(&gate->bucket, &gate->rate, e->now_ms) : 0;
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
    return changed ? gate_mark(e, gate, err) : 0;
}

/* ---- What is to be done ---------------------------------------------------------------------- */

int admission_init(struct admission *admission, struct engine *e, size_t n, struct redrive_err *err)
{
    *admission = (struct admission){
        .e = e,
        .moves = arena_array(&e->arena, n, sizeof *admission->moves),
        .starts = arena_array(&e->arena, n, sizeof *admission->starts),
        .parks = {arena_array(&e->arena, n, sizeof **admission->parks),
                  arena_array(&e->arena, n, sizeof **admission->parks)},
        .results = arena_array(&e->arena, n, sizeof *admission->results),
    };
    return e->arena.failed ? err_nomem(err) : 0;
}

static void park(struct admission *admission, const struct job *job, struct gate *gate)
{
    int by_limit = gate->kind == SHARED_BUCKET;
    admission->parks[by_limit][admission->n_parks[by_limit]++] = (struct parking){job, gate};
}

static uint64_t new_token(struct engine *e)
{
    uint64_t token;
    do
        token = rng_next(&e->rng) & INT64_MAX;
    while (token == 0);
    return token;
}

static int take_gates(struct engine *e, struct gate *limit, struct gate *breaker,
                      struct redrive_err *err)
{
    if (breaker && breaker->candidates > 0) {
        gate_arrived(breaker);
        int rc = gate_mark(e, breaker, err);
        if (rc < 0)
            return rc;
    }
    if (!limit)
        return 0;
    gate_arrived(limit);
    gate_take_slot(limit);
    if (limit->rate.count)
        (void)bucket_take(&limit->bucket, &limit->rate, e->now_ms, 1);
    return gate_mark(e, limit, err);
}

static int start(struct admission *admission, struct claim_op *op, struct job *job,
                 struct gate *limit, struct gate *breaker, struct breaker_permit permit,
                 struct redrive_err *err)
{
    struct engine *e = admission->e;
    int64_t lease_ms = op->lease_of ? op->lease_of(job) : 0;
    if (lease_ms <= 0)
        lease_ms = op->lease_ms > 0 ? op->lease_ms : task_in_force(e, job->spec.task)->lease_ms;
    admission->moves[admission->n_starts] = (struct start_move){
        .seq = job->status.seq,
        .token = new_token(e),
        .lease_until_ms = engine_lease_until(e, lease_ms),
        .worker = op->worker,
        .permit = permit,
    };
    admission->starts[admission->n_starts++] = (struct starting){op, job, limit, breaker};
    return take_gates(e, limit, breaker, err);
}

int admission_consider(struct admission *admission, struct claim_op *op, struct job *job,
                       struct redrive_err *err)
{
    struct engine *e = admission->e;
    struct gate *limit, *breaker;
    struct breaker_permit permit;
    bool passes;
    if (job_is_damaged(job))
        return engine_end_waiting(e, job, ENDING_DAMAGED, NULL, err);
    if (job->spec.deadline_ms != 0 && job->spec.deadline_ms <= e->now_ms)
        return engine_end_waiting(e, job, ENDING_DEADLINE, NULL, err);
    int rc = limit_of(e, job, &limit, err);
    if (rc < 0)
        return rc;
    if (limit && !has_room(e, limit)) {
        park(admission, job, limit);
        return 0;
    }
    rc = meet_breaker(e, job, &breaker, &permit, &passes, err);
    if (rc < 0)
        return rc;
    if (passes)
        return start(admission, op, job, limit, breaker, permit, err);
    /* It has arrived at its limit, if that had sent it ahead, and found another closed door. */
    if (limit && limit->candidates > 0) {
        gate_arrived(limit);
        rc = gate_mark(e, limit, err);
    }
    if (rc < 0)
        return rc;
    if (breaker->breaker_config.on_open == REDRIVE_ON_OPEN_DEAD_LETTER)
        return engine_end_waiting(e, job, ENDING_BREAKER_OPEN, NULL, err);
    park(admission, job, breaker);
    return 0;
}

/* ---- Carrying it out ------------------------------------------------------------------------- */

static int park_all(struct admission *admission, bool by_limit, struct redrive_err *err)
{
    struct engine *e = admission->e;
    const struct parking *parks = admission->parks[by_limit];
    const size_t n = admission->n_parks[by_limit];
    int64_t *seqs = arena_array(&e->arena, n, sizeof *seqs);
    if (n == 0)
        return 0;
    if (!seqs)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++)
        seqs[i] = parks[i].job->status.seq;
    int rc = e->ops->move(e->store, PARKS(seqs, n, by_limit), admission->results, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (admission->results[i].code < 0)
            continue;
        gate_parked(parks[i].gate);
        const struct engine_event event = event_of(e, ENGINE_EVENT_PARKED, parks[i].job);
        event_add(e, &event);
        rc = gate_mark(e, parks[i].gate, err);
    }
    return rc;
}

/* The store would not start it after all. */
static void give_gates_back(struct engine *e, const struct starting *s,
                            struct breaker_permit permit)
{
    if (s->breaker)
        gate_record(s->breaker, permit, BREAKER_RETURNED, 0, e->now_ms);
    if (!s->limit)
        return;
    gate_give_slot(s->limit);
    if (s->limit->rate.count)
        bucket_give(&s->limit->bucket, &s->limit->rate, 1);
}

/* The job as the store has it now. */
static void become_running(const struct engine *e, struct job *job, const struct start_move *start)
{
    const struct move move = {start->seq, MOVE_START, .start = start};
    struct transition ignored;
    transition(&job->status, &move, e->now_ms, &ignored);
}

static bool keep(struct claim_op *op, const struct job *job, struct claim_page *page)
{
    if (op->n == op->capacity) {
        size_t capacity = op->capacity ? op->capacity * 2 : 16;
        struct job *grown = realloc(op->jobs, capacity * sizeof *grown);
        if (!grown)
            return false;
        op->jobs = grown;
        op->capacity = capacity;
    }
    op->jobs[op->n++] = *job;
    if (op->n_pages == 0 || op->pages[op->n_pages - 1] != page) {
        atomic_fetch_add(&page->holders, 1);
        op->pages[op->n_pages++] = page;
    }
    return true;
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

static int start_all(struct admission *admission, struct claim_page *page, struct redrive_err *err)
{
    struct engine *e = admission->e;
    const size_t n = admission->n_starts;
    int rc =
        n == 0 ? 0 : e->ops->move(e->store, STARTS(admission->moves, n), admission->results, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct starting *s = &admission->starts[i];
        const struct start_move *move = &admission->moves[i];
        if (admission->results[i].code < 0) {
            give_gates_back(e, s, move->permit);
            continue;
        }
        e->touched = true;
        become_running(e, s->job, move);
        engine_want(e, move->lease_until_ms);
        running_add(&e->running, s->job);
        add_start(e, s->job);
        rc = keep(s->op, s->job, page) ? 0 : err_nomem(err);
    }
    return rc;
}

int admission_finish(struct admission *admission, struct claim_page *page, struct redrive_err *err)
{
    int rc = start_all(admission, page, err);
    if (rc == 0)
        rc = park_all(admission, false, err);
    return rc == 0 ? park_all(admission, true, err) : rc;
}

/* ---- Pages ----------------------------------------------------------------------------------- */

struct claim_page *claim_page_new(void)
{
    struct claim_page *page = calloc(1, sizeof *page);
    if (page)
        atomic_init(&page->holders, 1);
    return page;
}

void claim_page_drop(struct claim_page *page)
{
    if (atomic_fetch_sub(&page->holders, 1) > 1)
        return;
    job_page_release(&page->page);
    free(page);
}
