/* move.c - the moves of jobs: the transition computes, this writes down. */
#include "store/memory/private.h"

#include "base/err.h"
#include "core/state.h"

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

/* Puts what has become of a job in the place of its row. */
static int write_down(struct memory *m, size_t i, const struct job *job, const struct transition *t)
{
    const struct mem_attempt row = {.seq = job->status.seq, .attempt = t->attempt};
    if (t->adds_attempt && !mem_table_add(&m->transaction.attempts, &row))
        return REDRIVE_E_NOMEM;
    return mem_table_put(&m->transaction.jobs, i, job) ? 0 : REDRIVE_E_NOMEM;
}

/* Takes the history of a job out. */
static void forget(struct mem_state *state, int64_t seq)
{
    for (size_t i = state->attempts.n; i-- > 0;) {
        const struct mem_attempt *row = mem_table_at(&state->attempts, i);
        if (row->seq == seq)
            mem_table_remove(&state->attempts, i);
    }
}

/* Takes a job out with its history. Fails with REDRIVE_E_NOMEM only. */
static int remove_at(struct memory *m, size_t i)
{
    const struct job *job = job_at(&m->transaction, i);
    const struct job_spec *spec = &job->spec;
    if (spec->unique_forever && spec->unique_key.len > 0) {
        const struct mem_key key = {
            .tenant = spec->tenant,
            .key = spec->unique_key,
            .id = spec->id,
            .seq = job->status.seq,
            .state = job->status.state,
        };
        if (!memory_hold_key(&m->transaction, &key))
            return REDRIVE_E_NOMEM;
    }
    forget(&m->transaction, job->status.seq);
    mem_table_remove(&m->transaction.jobs, i);
    return 0;
}

/* Makes the move, or refuses it, as *ret says. Fails with REDRIVE_E_NOMEM only. */
static int move_one(struct memory *m, const struct move *move, struct move_result *ret)
{
    struct transition t;
    size_t i;
    if (!memory_find(&m->transaction, move->seq, &i)) {
        *ret = (struct move_result){.code = REDRIVE_E_NOT_FOUND};
        return 0;
    }
    const struct job *old = job_at(&m->transaction, i);
    struct job job = *old;
    transition(&job.status, move, m->now_ms, &t);
    *ret = (struct move_result){.code = t.code, .state = job.status.state};
    if (t.key == KEY_IS_TAKEN && key_is_live(&m->transaction, old))
        *ret = (struct move_result){.code = REDRIVE_E_EXISTS, .state = old->status.state};
    if (ret->code != 0)
        return 0;
    if (t.removes_job)
        return remove_at(m, i);
    if (t.replaces_payload)
        job.spec.payload = move->change->payload;
    return write_down(m, i, &job, &t);
}

int memory_move(struct store *store, const struct move_list *list, struct move_result *ret,
                struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_transaction(m, err);
    for (size_t i = 0; rc == 0 && i < list->n; i++) {
        const struct move move = move_at(list, i);
        if (move_one(m, &move, &ret[i]) < 0)
            rc = err_nomem(err);
    }
    return rc;
}
