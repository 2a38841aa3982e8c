/* submit.c - new jobs, and the keys that stand in their way. */
#include "store/memory/private.h"

#include "base/err.h"
#include "core/state.h"

/* The job that stands for a submit that is refused. */
struct holder {
    struct str id;
    int64_t seq;
    enum redrive_state state;
};

static struct holder holder_of(const struct job *job)
{
    return (struct holder){job->spec.id, job->status.seq, job->status.state};
}

static bool holds_id(const struct mem_state *state, const struct job_spec *spec, struct holder *ret)
{
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        if (str_eq(job->spec.id, spec->id) && str_eq(job->spec.tenant, spec->tenant)) {
            *ret = holder_of(job);
            return true;
        }
    }
    return false;
}

/* A key that is unique for ever, of a job that is gone. */
static bool holds_key_gone(const struct mem_state *state, const struct job_spec *spec,
                           struct holder *ret)
{
    for (size_t i = 0; i < state->keys.n; i++) {
        const struct mem_key *key = mem_table_at(&state->keys, i);
        if (str_eq(key->key, spec->unique_key) && str_eq(key->tenant, spec->tenant)) {
            *ret = (struct holder){key->id, key->seq, key->state};
            return true;
        }
    }
    return false;
}

static bool holds_key(const struct mem_state *state, const struct job_spec *spec,
                      struct holder *ret)
{
    if (spec->unique_key.len == 0)
        return false;
    if (holds_key_gone(state, spec, ret))
        return true;
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        bool counts =
            spec->unique_forever || job->spec.unique_forever || !state_has_ended(job->status.state);
        if (counts && str_eq(job->spec.unique_key, spec->unique_key) &&
            str_eq(job->spec.tenant, spec->tenant)) {
            *ret = holder_of(job);
            return true;
        }
    }
    return false;
}

static bool add(struct memory *m, const struct job_spec *spec, struct holder *ret)
{
    struct job job = {
        .spec = *spec,
        .status = transition_submit(spec, m->transaction.last_seq + 1, m->now_ms),
    };
    job.spec.process_after_ms = 0;
    if (!mem_table_add(&m->transaction.jobs, &job))
        return false;
    m->transaction.last_seq++;
    *ret = holder_of(&job);
    return true;
}

int memory_submit(struct store *store, const struct job_spec *specs, size_t n,
                  struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_transaction(m, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        struct holder holder;
        int code = 0;
        if (holds_id(&m->transaction, &specs[i], &holder) ||
            holds_key(&m->transaction, &specs[i], &holder))
            code = REDRIVE_E_EXISTS;
        else if (!add(m, &specs[i], &holder))
            return err_nomem(err);
        ret[i] = (struct submit_result){
            .code = code,
            .seq = holder.seq,
            .state = holder.state,
            .id = arena_str(arena, holder.id),
        };
    }
    return arena->failed ? err_nomem(err) : 0;
}
