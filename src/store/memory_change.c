/* memory_change.c - what is done to jobs by hand or by the clock, and how they go. */
#include "store/memory_int.h"

#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"

#define IN(state) (1u << REDRIVE_STATE_##state)

#define WAITING (IN(SCHEDULED) | IN(RETRYING) | IN(QUEUED) | IN(PARKED))
#define ENDED   (IN(COMPLETED) | IN(FAILED) | IN(DEAD_LETTER) | IN(CANCELLED))

/* From which states each change can be made. */
static const uint32_t FROM[] = {
    [CHANGE_CANCEL] = WAITING | IN(RUNNING),
    [CHANGE_RUN_NOW] = IN(SCHEDULED) | IN(RETRYING),
    [CHANGE_REDRIVE] = IN(DEAD_LETTER) | IN(FAILED),
    [CHANGE_END] = WAITING,
    [CHANGE_REMOVE] = ENDED,
    [CHANGE_EDIT] = IN(DEAD_LETTER),
};

/* Takes the history of a job out. */
static void forget(struct mem_state *state, int64_t seq)
{
    for (size_t i = state->attempts.n; i-- > 0;) {
        const struct mem_attempt *row = mem_table_at(&state->attempts, i);
        if (row->seq == seq)
            mem_table_remove(&state->attempts, i);
    }
}

static int remove_at(struct memory *m, size_t i)
{
    const struct job *job = job_at(&m->unit, i);
    const struct job_spec *spec = &job->spec;
    if (spec->unique_forever && spec->unique_key.len > 0) {
        const struct mem_key key = {
            .tenant = spec->tenant,
            .key = spec->unique_key,
            .id = spec->id,
            .seq = job->status.seq,
            .state = job->status.state,
        };
        if (!memory_hold_key(&m->unit, &key))
            return REDRIVE_E_NOMEM;
    }
    forget(&m->unit, job->status.seq);
    mem_table_remove(&m->unit.jobs, i);
    return 0;
}

static bool key_is_live(const struct mem_state *state, const struct job *other)
{
    if (other->spec.unique_key.len == 0)
        return false;
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        if (!state_has_ended(job->status.state) &&
            str_eq(job->spec.unique_key, other->spec.unique_key) &&
            str_eq(job->spec.tenant, other->spec.tenant))
            return true;
    }
    return false;
}

static void redrive(struct memory *m, struct job *job, struct move_result *ret)
{
    if (key_is_live(&m->unit, job)) {
        ret->code = REDRIVE_E_EXISTS;
        return;
    }
    memory_become(m, job, REDRIVE_STATE_QUEUED, 0, ret);
    struct job_status *s = &job->status;
    s->epoch++;
    s->attempts = s->crashes = 0;
    s->reason = REDRIVE_REASON_NONE;
    s->process_after_ms = m->now_ms;
    s->first_started_ms = s->held_ms = s->finished_ms = 0;
}

/* The attempt that is running ends with its job. */
static int cancel(struct memory *m, struct job *job, struct move_result *ret)
{
    const struct job_status *s = &job->status;
    const struct mem_attempt row = {
        .seq = s->seq,
        .attempt =
            {
                .epoch = s->epoch,
                .number = s->attempts,
                .started_ms = s->started_ms,
                .ended_ms = m->now_ms,
                .worker = s->worker,
                .outcome = REDRIVE_STATE_CANCELLED,
                .why = str_of(delay_why_name(DELAY_NONE)),
            },
    };
    if (s->state == REDRIVE_STATE_RUNNING && !mem_table_add(&m->unit.attempts, &row))
        return REDRIVE_E_NOMEM;
    memory_become(m, job, REDRIVE_STATE_CANCELLED, 0, ret);
    return 0;
}

/* With an error it leaves a row that has no start. */
static int end_waiting(struct memory *m, const struct change_move *move, struct job *job,
                       struct move_result *ret)
{
    const struct job_status *s = &job->status;
    const struct mem_attempt row = {
        .seq = s->seq,
        .attempt =
            {
                .epoch = s->epoch,
                .ended_ms = m->now_ms,
                .worker = s->worker,
                .outcome = move->to,
                .error = move->error,
                .why = str_of(delay_why_name(DELAY_NONE)),
            },
    };
    if (move->error.class_ != REDRIVE_CLASS_SUCCESS && !mem_table_add(&m->unit.attempts, &row))
        return REDRIVE_E_NOMEM;
    if (!memory_set_error(job, &move->error, move->fingerprint))
        return REDRIVE_E_NOMEM;
    memory_become(m, job, move->to, 0, ret);
    job->status.reason = move->reason;
    return 0;
}

static int change_job(struct memory *m, const struct change_move *move, struct job *job,
                      struct move_result *ret)
{
    size_t i;
    switch (move->kind) {
    case CHANGE_CANCEL: return cancel(m, job, ret);
    case CHANGE_RUN_NOW:
        memory_become(m, job, REDRIVE_STATE_QUEUED, 0, ret);
        job->status.process_after_ms = m->now_ms;
        return 0;
    case CHANGE_REDRIVE: redrive(m, job, ret); return 0;
    case CHANGE_END: return end_waiting(m, move, job, ret);
    case CHANGE_EDIT:
        job->status.updated_ms = m->now_ms;
        return mem_table_set_str(&job->spec.payload, move->payload) ? 0 : REDRIVE_E_NOMEM;
    case CHANGE_REMOVE:
    default: return memory_find(&m->unit, move->seq, &i) ? remove_at(m, i) : 0;
    }
}

static int change_one(struct memory *m, const struct change_move *move, struct move_result *ret)
{
    struct job *job;
    int rc = memory_take(m, move->seq, FROM[move->kind], ret, &job);
    if (!job)
        return rc;
    if (move->kind == CHANGE_END && !(ENDED & ~IN(COMPLETED) & ~IN(CANCELLED) & 1u << move->to)) {
        ret->code = REDRIVE_E_INVALID;
        return 0;
    }
    return change_job(m, move, job, ret);
}

int memory_change(struct store *store, const struct change_move *moves, size_t n,
                  struct move_result *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_unit(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (change_one(m, &moves[i], &ret[i]) < 0)
            rc = err_nomem(err);
    return rc;
}

/* The one that ended first, of those that are to go. */
static bool next_to_sweep(const struct mem_state *state, uint32_t states,
                          int64_t finished_before_ms, size_t *ret_i)
{
    bool found = false;
    int64_t earliest_ms = 0;
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job_status *s = &job_at(state, i)->status;
        if (!(states & ENDED & 1u << s->state) || s->finished_ms >= finished_before_ms)
            continue;
        if (!found || s->finished_ms < earliest_ms) {
            found = true;
            earliest_ms = s->finished_ms;
            *ret_i = i;
        }
    }
    return found;
}

int memory_sweep(struct store *store, uint32_t states, int64_t finished_before_ms, size_t limit,
                 size_t *ret_removed, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_unit(m, err);
    if (rc < 0)
        return rc;
    size_t i, removed = 0;
    while (removed < limit && next_to_sweep(&m->unit, states, finished_before_ms, &i)) {
        if (remove_at(m, i) < 0)
            return err_nomem(err);
        removed++;
    }
    *ret_removed = removed;
    return 0;
}

/* The first one after the place that the walk has come to. */
static bool next_to_walk(const struct mem_state *state, const struct sweep_walk *walk,
                         size_t *ret_i)
{
    bool found = false;
    int64_t earliest_ms = 0;
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job_status *s = &job_at(state, i)->status;
        if (!(walk->states & ENDED & 1u << s->state) ||
            s->finished_ms >= walk->finished_before_ms || s->finished_ms < walk->at_ms ||
            (s->finished_ms == walk->at_ms && s->seq <= walk->at_seq))
            continue;
        if (!found || s->finished_ms < earliest_ms) {
            found = true;
            earliest_ms = s->finished_ms;
            *ret_i = i;
        }
    }
    return found;
}

int memory_sweep_tasks(struct store *store, struct sweep_walk *walk, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    size_t i, looked = 0;
    sweep_walk_begin(walk);
    int rc = memory_need_unit(m, err);
    for (; rc == 0 && looked < walk->limit && next_to_walk(&m->unit, walk, &i); looked++) {
        const struct job *job = job_at(&m->unit, i);
        walk->at_ms = job->status.finished_ms;
        walk->at_seq = job->status.seq;
        if (job->spec.policy.len > 0) {
            const struct sweep_own own = {walk->at_seq, walk->at_ms, job->spec.task,
                                          job->spec.policy};
            rc = sweep_walk_tell(walk, &own, err);
        } else if (sweep_walk_has(walk, job->spec.task)) {
            if (remove_at(m, i) < 0)
                return err_nomem(err);
            walk->removed++;
        }
    }
    walk->more = rc == 0 && looked == walk->limit;
    return rc;
}
