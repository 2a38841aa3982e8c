#include "engine/verbs/admission.h"

#include <stdlib.h>

#include "base/err.h"
#include "core/classify/fingerprint.h"
#include "engine/facts.h"
#include "engine/private.h"
#include "store/job_json.h"
#include "store/transition.h"

/* A job that ticks of cron entries may not run twice at a time has a limit of its own. */
static const struct str CRON_LANE = {"limit:cron:", 11};

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

static int limit_of(struct engine *e, const struct job *job, struct lane **ret,
                    struct redrive_err *err)
{
    const struct config_limits *limits = &task_in_force(e, job->spec.task)->limits;
    static const struct rate NO_RATE = {0};
    *ret = NULL;
    if (job->spec.limit_key.len == 0)
        return 0;
    if (str_starts_with(job->spec.limit_key, CRON_LANE))
        return lane_limit(e, job->spec.tenant, job->spec.limit_key, &NO_RATE, 1, ret, err);
    return lane_limit(e, job->spec.tenant, job->spec.limit_key, &limits->rate, limits->concurrency,
                      ret, err);
}

/* Whether the limit has room; if not, asks to be woken when it may. */
static bool has_room(struct engine *e, const struct lane *lane)
{
    if (!lane_has_slots(lane))
        return false;
    int64_t wait_ms = lane->rate.count ? bucket_wait_ms(&lane->bucket, &lane->rate, e->now_ms) : 0;
    if (wait_ms > 0)
        engine_want(e, e->now_ms + wait_ms);
    return wait_ms == 0;
}

static int meet_breaker(struct engine *e, const struct job *job, struct lane **ret_lane,
                        struct breaker_permit *ret, bool *ret_passes, struct redrive_err *err)
{
    const struct config_task *task = task_in_force(e, job->spec.task);
    *ret_lane = NULL;
    *ret_passes = true;
    *ret = (struct breaker_permit){0};
    if (job->spec.breaker_key.len == 0)
        return 0;
    int rc = lane_breaker(e, job->spec.tenant, job->spec.breaker_key, &task->breaker.config,
                          ret_lane, err);
    if (rc < 0)
        return rc;
    struct lane *lane = *ret_lane;
    uint64_t generation = lane->breaker.generation;
    *ret_passes = breaker_allow(&lane->breaker, &lane->breaker_config, e->now_ms, ret);
    if (!*ret_passes)
        engine_want(e, breaker_next_ms(&lane->breaker, &lane->breaker_config));
    bool changed = lane->breaker.generation != generation || ret->probe != 0;
    return changed ? lane_mark(e, lane, err) : 0;
}

/* ---- What is to be done ---------------------------------------------------------------------- */

int look_init(struct look *look, struct engine *e, size_t n, struct redrive_err *err)
{
    *look = (struct look){
        .e = e,
        .moves = arena_array(&e->arena, n, sizeof *look->moves),
        .starts = arena_array(&e->arena, n, sizeof *look->starts),
        .parks = {arena_array(&e->arena, n, sizeof **look->parks),
                  arena_array(&e->arena, n, sizeof **look->parks)},
        .results = arena_array(&e->arena, n, sizeof *look->results),
    };
    return e->arena.failed ? err_nomem(err) : 0;
}

static void park(struct look *look, const struct job *job, struct lane *lane)
{
    int by_limit = lane->kind == SHARED_BUCKET;
    look->parks[by_limit][look->n_parks[by_limit]++] = (struct parking){job, lane};
}

static uint64_t new_token(struct engine *e)
{
    uint64_t token;
    do
        token = rng_next(&e->rng) & INT64_MAX;
    while (token == 0);
    return token;
}

static int take_lanes(struct engine *e, struct lane *limit, struct lane *breaker,
                      struct redrive_err *err)
{
    if (breaker && breaker->candidates > 0) {
        lane_arrived(breaker);
        int rc = lane_mark(e, breaker, err);
        if (rc < 0)
            return rc;
    }
    if (!limit)
        return 0;
    lane_arrived(limit);
    lane_take_slot(limit);
    if (limit->rate.count)
        (void)bucket_take(&limit->bucket, &limit->rate, e->now_ms, 1);
    return lane_mark(e, limit, err);
}

static int start(struct look *look, struct claim_op *op, struct job *job, struct lane *limit,
                 struct lane *breaker, struct breaker_permit permit, struct redrive_err *err)
{
    struct engine *e = look->e;
    int64_t lease_ms = op->lease_of ? op->lease_of(job) : 0;
    if (lease_ms <= 0)
        lease_ms = op->lease_ms > 0 ? op->lease_ms : task_in_force(e, job->spec.task)->lease_ms;
    look->moves[look->n_starts] = (struct start_move){
        .seq = job->status.seq,
        .token = new_token(e),
        .lease_until_ms = engine_lease_until(e, lease_ms),
        .worker = op->worker,
        .permit = permit,
    };
    look->starts[look->n_starts++] = (struct starting){op, job, limit, breaker};
    return take_lanes(e, limit, breaker, err);
}

int look_at(struct look *look, struct claim_op *op, struct job *job, struct redrive_err *err)
{
    struct engine *e = look->e;
    struct lane *limit, *breaker;
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
        park(look, job, limit);
        return 0;
    }
    rc = meet_breaker(e, job, &breaker, &permit, &passes, err);
    if (rc < 0)
        return rc;
    if (passes)
        return start(look, op, job, limit, breaker, permit, err);
    /* It has arrived at its limit, if that had sent it ahead, and found another closed door. */
    if (limit && limit->candidates > 0) {
        lane_arrived(limit);
        rc = lane_mark(e, limit, err);
    }
    if (rc < 0)
        return rc;
    if (breaker->breaker_config.on_open == REDRIVE_ON_OPEN_DEAD_LETTER)
        return engine_end_waiting(e, job, ENDING_BREAKER_OPEN, NULL, err);
    park(look, job, breaker);
    return 0;
}

/* ---- Carrying it out ------------------------------------------------------------------------- */

static int park_all(struct look *look, bool by_limit, struct redrive_err *err)
{
    struct engine *e = look->e;
    const struct parking *parks = look->parks[by_limit];
    const size_t n = look->n_parks[by_limit];
    int64_t *seqs = arena_array(&e->arena, n, sizeof *seqs);
    if (n == 0)
        return 0;
    if (!seqs)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++)
        seqs[i] = parks[i].job->status.seq;
    int rc = e->ops->move(e->store, PARKS(seqs, n, by_limit), look->results, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (look->results[i].code < 0)
            continue;
        lane_parked(parks[i].lane);
        const struct engine_event event = event_of(e, ENGINE_EVENT_PARKED, parks[i].job);
        event_add(e, &event);
        rc = lane_mark(e, parks[i].lane, err);
    }
    return rc;
}

/* The store would not start it after all. */
static void give_lanes_back(struct engine *e, const struct starting *s,
                            struct breaker_permit permit)
{
    if (s->breaker)
        lane_record(s->breaker, permit, BREAKER_RETURNED, 0, e->now_ms);
    if (!s->limit)
        return;
    lane_give_slot(s->limit);
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

static int start_all(struct look *look, struct claim_page *page, struct redrive_err *err)
{
    struct engine *e = look->e;
    const size_t n = look->n_starts;
    int rc = n == 0 ? 0 : e->ops->move(e->store, STARTS(look->moves, n), look->results, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct starting *s = &look->starts[i];
        const struct start_move *move = &look->moves[i];
        if (look->results[i].code < 0) {
            give_lanes_back(e, s, move->permit);
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

int look_done(struct look *look, struct claim_page *page, struct redrive_err *err)
{
    int rc = start_all(look, page, err);
    if (rc == 0)
        rc = park_all(look, false, err);
    return rc == 0 ? park_all(look, true, err) : rc;
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
