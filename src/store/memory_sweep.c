/* memory_sweep.c - how jobs go: removed by hand, or swept. */
#include "store/memory_int.h"

#include "base/err.h"

/* Takes the history of a job out. */
static void forget(struct mem_state *state, int64_t seq)
{
    for (size_t i = state->attempts.n; i-- > 0;) {
        const struct mem_attempt *row = mem_table_at(&state->attempts, i);
        if (row->seq == seq)
            mem_table_remove(&state->attempts, i);
    }
}

int memory_remove_at(struct memory *m, size_t i)
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

/* The one that ended first, of those that are to go. */
static bool next_to_sweep(const struct memory *m, uint32_t states, int64_t finished_before_ms,
                          size_t *ret_i)
{
    const struct mem_state *state = &m->unit;
    bool found = false;
    int64_t earliest_ms = 0;
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job_status *s = &job_at(state, i)->status;
        if (!(states & transition_from(MOVE_REMOVE) & 1u << s->state) ||
            s->finished_ms >= finished_before_ms || memory_is_moved(m, job_at(state, i)))
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
    size_t i = 0, removed = 0;
    while (removed < limit && next_to_sweep(m, states, finished_before_ms, &i)) {
        if (memory_remove_at(m, i) < 0)
            return err_nomem(err);
        removed++;
    }
    *ret_removed = removed;
    return 0;
}

/* The first one after the place that the walk has come to. */
static bool next_to_walk(const struct memory *m, const struct sweep_walk *walk, size_t *ret_i)
{
    const struct mem_state *state = &m->unit;
    bool found = false;
    int64_t earliest_ms = 0;
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job_status *s = &job_at(state, i)->status;
        if (!(walk->states & transition_from(MOVE_REMOVE) & 1u << s->state) ||
            s->finished_ms >= walk->finished_before_ms || s->finished_ms < walk->at_ms ||
            (s->finished_ms == walk->at_ms && s->seq <= walk->at_seq) ||
            memory_is_moved(m, job_at(state, i)))
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
    for (; rc == 0 && looked < walk->limit && next_to_walk(m, walk, &i); looked++) {
        const struct job *job = job_at(&m->unit, i);
        walk->at_ms = job->status.finished_ms;
        walk->at_seq = job->status.seq;
        if (job->spec.policy.len > 0) {
            const struct sweep_own own = {walk->at_seq, walk->at_ms, job->spec.task,
                                          job->spec.policy};
            rc = sweep_walk_tell(walk, &own, err);
        } else if (sweep_walk_has(walk, job->spec.task)) {
            if (memory_remove_at(m, i) < 0)
                return err_nomem(err);
            walk->removed++;
        }
    }
    walk->more = rc == 0 && looked == walk->limit;
    return rc;
}
