#include "checker.h"

#include <stdarg.h>
#include <stdlib.h>

void checker_init(struct checker *c)
{
    *c = (struct checker){0};
}

void checker_release(struct checker *c)
{
    free(c->jobs);
    free(c->lines);
    free(c->breaker.failures);
    checker_init(c);
}

void checker_begin(struct checker *c, const struct redrive_policy *policy,
                   const struct redrive_breaker_config *breaker)
{
    c->policy = policy;
    c->breaker_config = breaker;
    c->n_jobs = 0;
    c->n_lines = 0;
    c->now_ms = 0;
    c->violation[0] = '\0';
    checker_breaker_begin(c);
}

bool checker_violated(struct checker *c, uint32_t job, const char *format, ...)
{
    if (c->violation[0] != '\0')
        return false;
    va_list args;
    va_start(args, format);
    vsnprintf(c->violation, sizeof c->violation, format, args);
    va_end(args);
    c->violated_by = job;
    return false;
}

static bool is_ended(enum redrive_state s)
{
    return s == REDRIVE_STATE_COMPLETED || s == REDRIVE_STATE_FAILED ||
           s == REDRIVE_STATE_DEAD_LETTER || s == REDRIVE_STATE_CANCELLED;
}

bool checker_may_move(enum redrive_state from, enum redrive_state to)
{
    switch (to) {
    case REDRIVE_STATE_QUEUED:
        return from == REDRIVE_STATE_SCHEDULED || from == REDRIVE_STATE_RETRYING ||
               from == REDRIVE_STATE_PARKED || from == REDRIVE_STATE_RUNNING ||
               from == REDRIVE_STATE_DEAD_LETTER || from == REDRIVE_STATE_FAILED ||
               from == REDRIVE_STATE_WAITING;
    case REDRIVE_STATE_RUNNING:
    case REDRIVE_STATE_PARKED: return from == REDRIVE_STATE_QUEUED;
    case REDRIVE_STATE_SCHEDULED:
        return from == REDRIVE_STATE_RUNNING || from == REDRIVE_STATE_WAITING;
    case REDRIVE_STATE_RETRYING:
    case REDRIVE_STATE_COMPLETED: return from == REDRIVE_STATE_RUNNING;
    case REDRIVE_STATE_WAITING:
        return from == REDRIVE_STATE_DEAD_LETTER || from == REDRIVE_STATE_FAILED;
    case REDRIVE_STATE_FAILED:
    case REDRIVE_STATE_DEAD_LETTER:
    case REDRIVE_STATE_CANCELLED: return !is_ended(from);
    case REDRIVE_STATE_COUNT: break;
    }
    return false;
}

static bool check_started(struct checker *c, const struct sim_event *e, struct checker_job *j)
{
    j->attempts++;
    c->seen.starts++;
    c->seen.last_attempts += j->limit > 1 && j->attempts == j->limit;
    if (e->at_ms < j->process_after_ms)
        return checker_violated(c, e->job, "started at %lld ms, before process_after %lld ms",
                                (long long)e->at_ms, (long long)j->process_after_ms);
    if (j->attempts > j->limit)
        return checker_violated(c, e->job, "attempt %u of %u", j->attempts, j->limit);
    if (j->first_start_ms < 0)
        j->first_start_ms = e->at_ms;
    return checker_breaker_start(c, e);
}

static void begin_epoch(struct checker_job *j, const struct sim_event *e)
{
    *j = (struct checker_job){
        .epoch = j->epoch + 1,
        .limit = 1, /* until a failure leaves it more */
        .first_start_ms = -1,
        .process_after_ms = e->process_after_ms,
    };
}

static bool check_event(struct checker *c, const struct sim_event *e, struct checker_job *j)
{
    switch (e->type) {
    case SIM_SUBMITTED:
        if (e->to != REDRIVE_STATE_QUEUED && e->to != REDRIVE_STATE_SCHEDULED)
            return checker_violated(c, e->job, "submitted as %s", redrive_state_name(e->to));
        begin_epoch(j, e);
        return true;
    case SIM_REDRIVEN: begin_epoch(j, e); return true;
    case SIM_DUE:
        if (e->at_ms < j->process_after_ms)
            return checker_violated(c, e->job, "due at %lld ms, before process_after %lld ms",
                                    (long long)e->at_ms, (long long)j->process_after_ms);
        return true;
    case SIM_RUN_NOW: j->process_after_ms = e->at_ms; return true;
    case SIM_PARKED: j->parked_at_ms = e->at_ms; return true;
    case SIM_UNPARKED: return true;
    case SIM_STARTED: return check_started(c, e, j);
    case SIM_SETTLED: return checker_settled(c, e, j);
    case SIM_REJECTED:
    case SIM_BREAKER: break;
    }
    return checker_violated(c, e->job, "an event of no job");
}

static bool check_move(struct checker *c, const struct sim_event *e, const struct checker_job *j)
{
    if (e->type == SIM_SUBMITTED)
        return true;
    if (j->state != e->from)
        return checker_violated(c, e->job, "moved out of %s, but it was %s",
                                redrive_state_name(e->from), redrive_state_name(j->state));
    if (is_ended(j->state) && e->type != SIM_REDRIVEN)
        return checker_violated(c, e->job, "left %s, which is final", redrive_state_name(j->state));
    if (!checker_may_move(e->from, e->to))
        return checker_violated(c, e->job, "moved from %s to %s", redrive_state_name(e->from),
                                redrive_state_name(e->to));
    c->seen.moves[e->from][e->to]++;
    return true;
}

static void *grow(void *array, size_t *capacity, size_t size)
{
    *capacity = *capacity ? *capacity * 2 : 1024;
    array = reallocarray(array, *capacity, size);
    if (!array)
        abort();
    return array;
}

static void write_line(struct checker *c, const struct sim_event *e)
{
    if (c->n_lines == c->lines_capacity)
        c->lines = grow(c->lines, &c->lines_capacity, sizeof *c->lines);
    c->lines[c->n_lines++] = (struct checker_line){
        .at_ms = e->at_ms,
        .delay_ms = e->decision ? e->decision->delay_ms : 0,
        .job = e->type == SIM_BREAKER || e->type == SIM_REJECTED ? UINT32_MAX : e->job,
        .attempts = e->attempts,
        .type = (uint8_t)e->type,
        .from = (uint8_t)e->from,
        .to = (uint8_t)e->to,
        .class_ = e->decision ? (uint8_t)e->decision->class_ : 0,
        .reason = e->decision ? (uint8_t)e->decision->reason : 0,
        .breaker = (uint8_t)e->breaker,
        .is_probe = e->permit.probe != 0,
    };
}

static void observe_job(struct checker *c, const struct sim_event *e)
{
    if (e->type == SIM_SUBMITTED) {
        if (e->job != c->n_jobs) {
            checker_violated(c, e->job, "submitted twice, or out of order");
            return;
        }
        if (c->n_jobs == c->jobs_capacity) {
            size_t capacity = c->jobs_capacity;
            c->jobs = grow(c->jobs, &capacity, sizeof *c->jobs);
            c->jobs_capacity = (uint32_t)capacity;
        }
        c->jobs[c->n_jobs++] = (struct checker_job){0};
    }
    if (e->job >= c->n_jobs) {
        checker_violated(c, e->job, "nobody submitted this job");
        return;
    }
    struct checker_job *j = &c->jobs[e->job];
    if (j->state == REDRIVE_STATE_PARKED && j->first_start_ms >= 0)
        j->parked_ms += e->at_ms - j->parked_at_ms;
    if (!check_move(c, e, j) || !check_event(c, e, j))
        return;
    j->state = e->to;
    if (e->attempts != j->attempts || e->epoch != j->epoch)
        checker_violated(c, e->job, "counts %u attempts in epoch %u, which are %u in %u",
                         e->attempts, e->epoch, j->attempts, j->epoch);
}

void checker_observe(const struct sim_event *e, void *ctx)
{
    struct checker *c = ctx;
    if (c->violation[0] != '\0')
        return;
    write_line(c, e);
    if (e->at_ms < c->now_ms)
        checker_violated(c, e->job, "time ran back from %lld ms", (long long)c->now_ms);
    c->now_ms = e->at_ms;
    if (e->type == SIM_BREAKER)
        checker_breaker_changed(c, e);
    else if (e->type == SIM_REJECTED)
        c->seen.rejected++;
    else
        observe_job(c, e);
}

void checker_finish(struct checker *c, const struct sim_totals *totals)
{
    uint32_t in_state[REDRIVE_STATE_COUNT] = {0};
    uint32_t total = 0;
    for (uint32_t i = 0; i < c->n_jobs; i++)
        in_state[c->jobs[i].state]++;
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++) {
        total += totals->in_state[s];
        if (in_state[s] != totals->in_state[s])
            checker_violated(c, 0, "%u jobs are %s, by the books %u", totals->in_state[s],
                             redrive_state_name((enum redrive_state)s), in_state[s]);
    }
    if (total != totals->submitted || c->n_jobs != totals->submitted)
        checker_violated(c, 0, "%u jobs were submitted, %u are left", totals->submitted, total);
    for (uint32_t i = 0; i < c->n_jobs; i++)
        if (!is_ended(c->jobs[i].state))
            checker_violated(c, i, "still %s when all faults had stopped",
                             redrive_state_name(c->jobs[i].state));
}
