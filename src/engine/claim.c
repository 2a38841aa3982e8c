#include "engine/claim.h"

#include <stdlib.h>

#include "base/err.h"
#include "core/fingerprint.h"
#include "engine/facts.h"
#include "engine/private.h"

/* After the first look it is known that some are blocked: then they are parked by the chunk. */
#define PARK_CHUNK 64

/* A job that ticks of a timetable may not run twice at a time has a limit of its own. */
static const struct str CRON_LANE = {"limit:cron:", 11};

int engine_end_waiting(struct engine *e, const struct job *job, int ending,
                       enum redrive_state *ret_state, struct redrive_err *err)
{
    const struct outcome outcome = {.ending = (enum ending)ending};
    struct decision d = facts_decide(e, job, &outcome);
    const struct job_error error = facts_error(&outcome, &d);
    const struct change_move move = {
        .seq = job->status.seq,
        .kind = CHANGE_END,
        .to = d.state,
        .reason = d.reason,
        .error = error,
        .fingerprint = error.class_ == REDRIVE_CLASS_SUCCESS
                           ? 0
                           : fingerprint(error.type, error.class_, error.message),
    };
    struct move_result result = {0};
    int rc = e->ops->change(e->store, &move, 1, &result, err);
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

static int park(struct engine *e, const struct job *job, struct lane *lane, struct redrive_err *err)
{
    const int64_t seq = job->status.seq;
    struct move_result result = {0};
    int rc = e->ops->park(e->store, &seq, 1, lane->kind == SHARED_BUCKET, &result, err);
    if (rc < 0 || result.code < 0)
        return rc;
    lane->has_parked = true;
    lane_arrived(lane);
    const struct engine_event event = event_of(e, ENGINE_EVENT_PARKED, job);
    event_add(e, &event);
    return lane_mark(e, lane, err);
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
    if (lane->slots.max != 0 && lane->slots.used >= lane->slots.max)
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

/* ---- Starting -------------------------------------------------------------------------------- */

static uint64_t new_token(struct engine *e)
{
    uint64_t token;
    do
        token = rng_next(&e->rng) & INT64_MAX;
    while (token == 0);
    return token;
}

static bool keep(struct claim_op *op, const struct job *job)
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
    return true;
}

static void become_running(const struct engine *e, struct job *job, const struct start_move *move)
{
    struct job_status *s = &job->status;
    s->state = REDRIVE_STATE_RUNNING;
    s->attempts++;
    s->token = move->token;
    s->lease_until_ms = move->lease_until_ms;
    s->worker = move->worker;
    s->permit = move->permit;
    s->started_ms = s->updated_ms = e->now_ms;
    if (s->first_started_ms == 0)
        s->first_started_ms = e->now_ms;
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
    (void)slots_take(&limit->slots, 1);
    if (limit->rate.count)
        (void)bucket_take(&limit->bucket, &limit->rate, e->now_ms, 1);
    return lane_mark(e, limit, err);
}

static int start(struct engine *e, struct claim_op *op, struct job *job, struct lane *limit,
                 struct lane *breaker, struct breaker_permit permit, struct redrive_err *err)
{
    int64_t lease_ms = op->lease_of ? op->lease_of(job) : 0;
    if (lease_ms <= 0)
        lease_ms = op->lease_ms > 0 ? op->lease_ms : task_in_force(e, job->spec.task)->lease_ms;
    const struct start_move move = {
        .seq = job->status.seq,
        .token = new_token(e),
        .lease_until_ms = e->now_ms + lease_ms,
        .worker = op->worker,
        .permit = permit,
    };
    struct move_result result = {0};
    int rc = e->ops->start(e->store, &move, 1, &result, err);
    if (rc < 0)
        return rc;
    if (result.code < 0) {
        if (breaker)
            lane_record(breaker, permit, BREAKER_RETURNED, e->now_ms);
        return 0;
    }
    rc = take_lanes(e, limit, breaker, err);
    if (rc < 0)
        return rc;
    become_running(e, job, &move);
    engine_want(e, move.lease_until_ms);
    running_add(&e->running, job);
    const struct engine_event event = event_of(e, ENGINE_EVENT_STARTED, job);
    event_add(e, &event);
    return keep(op, job) ? 0 : err_nomem(err);
}

static int consider(struct engine *e, struct claim_op *op, struct job *job, struct redrive_err *err)
{
    struct lane *limit, *breaker;
    struct breaker_permit permit;
    bool passes;
    if (job->spec.deadline_ms != 0 && job->spec.deadline_ms <= e->now_ms)
        return engine_end_waiting(e, job, ENDING_DEADLINE, NULL, err);
    int rc = limit_of(e, job, &limit, err);
    if (rc < 0)
        return rc;
    if (limit && !has_room(e, limit))
        return park(e, job, limit, err);
    rc = meet_breaker(e, job, &breaker, &permit, &passes, err);
    if (rc < 0)
        return rc;
    if (passes)
        return start(e, op, job, limit, breaker, permit, err);
    /* It has arrived at its limit, if that had sent it ahead, and found another closed door. */
    if (limit && limit->candidates > 0) {
        lane_arrived(limit);
        rc = lane_mark(e, limit, err);
    }
    if (rc < 0)
        return rc;
    if (breaker->breaker_config.on_open == REDRIVE_ON_OPEN_DEAD_LETTER)
        return engine_end_waiting(e, job, ENDING_BREAKER_OPEN, NULL, err);
    return park(e, job, breaker, err);
}

static void clear(struct claim_op *op)
{
    op->n = 0;
    op->more = false;
    for (int i = 0; i < CLAIM_ROUNDS; i++)
        job_page_release(&op->pages[i]);
}

static int apply_claim(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct claim_op *op = (struct claim_op *)base;
    const size_t want = op->filter.limit;
    int rc = 0;
    clear(op);
    for (int round = 0; round < CLAIM_ROUNDS && op->n < want && rc == 0; round++) {
        struct claim_filter filter = op->filter;
        struct job_page *page = &op->pages[round];
        filter.limit = want - op->n;
        if (round > 0 && filter.limit < PARK_CHUNK)
            filter.limit = PARK_CHUNK;
        rc = e->ops->ready(e->store, &filter, page, err);
        op->more = page->more;
        if (rc < 0 || page->n == 0)
            break;
        size_t i = 0;
        for (; i < page->n && op->n < want && rc == 0; i++)
            rc = consider(e, op, &page->jobs[i], err);
        op->more |= i < page->n;
    }
    op->more |= e->wake_ms <= e->now_ms;
    return rc;
}

void claim_op_init(struct claim_op *op, const struct claim_filter *filter, struct str worker,
                   int64_t lease_ms)
{
    *op = (struct claim_op){
        .op = {.apply = apply_claim, .weight = filter->limit},
        .filter = *filter,
        .worker = worker,
        .lease_ms = lease_ms,
    };
}

void claim_op_release(struct claim_op *op)
{
    clear(op);
    free(op->jobs);
    op->jobs = NULL;
    op->capacity = 0;
}
