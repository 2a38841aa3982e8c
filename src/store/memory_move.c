/* memory_move.c - the moves of jobs that are at work: start, park, settle, extend. */
#include "store/memory_int.h"

#include "base/err.h"
#include "core/state.h"

#define IN(state) (1u << REDRIVE_STATE_##state)

static int start_one(struct memory *m, const struct start_move *move, struct move_result *ret)
{
    struct job *job;
    int rc = memory_take(m, move->seq, IN(QUEUED), ret, &job);
    if (!job)
        return rc;
    if (!mem_table_set_str(&job->status.worker, move->worker))
        return REDRIVE_E_NOMEM;
    memory_become(m, job, REDRIVE_STATE_RUNNING, 0, ret);
    struct job_status *s = &job->status;
    s->attempts++;
    s->token = move->token;
    s->lease_until_ms = move->lease_until_ms;
    s->permit = move->permit;
    s->started_ms = m->now_ms;
    if (s->first_started_ms == 0)
        s->first_started_ms = m->now_ms;
    return 0;
}

int memory_start(struct store *store, const struct start_move *moves, size_t n,
                 struct move_result *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_unit(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (start_one(m, &moves[i], &ret[i]) < 0)
            rc = err_nomem(err);
    return rc;
}

int memory_park(struct store *store, const int64_t *seqs, size_t n, bool by_limit,
                struct move_result *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_unit(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct job *job;
        if (memory_take(m, seqs[i], IN(QUEUED), &ret[i], &job) < 0)
            return err_nomem(err);
        if (!job)
            continue;
        memory_become(m, job, REDRIVE_STATE_PARKED, 0, &ret[i]);
        job->status.deferrals++;
        job->status.parked_by_limit = by_limit;
        job->status.held_since_ms = m->now_ms;
    }
    return rc;
}

int memory_unpark(struct store *store, const int64_t *seqs, size_t n, struct move_result *ret,
                  struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_unit(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct job *job;
        if (memory_take(m, seqs[i], IN(PARKED), &ret[i], &job) < 0)
            return err_nomem(err);
        if (job)
            memory_become(m, job, REDRIVE_STATE_QUEUED, 0, &ret[i]);
    }
    return rc;
}

/* The row of a running job, by the token of its lease. */
static int take_by_token(struct memory *m, int64_t seq, uint64_t token, struct move_result *ret,
                         struct job **ret_job)
{
    int rc = memory_take(m, seq, IN(RUNNING), ret, ret_job);
    if (*ret_job && (*ret_job)->status.token != token) {
        ret->code = REDRIVE_E_STATE;
        *ret_job = NULL;
    }
    return rc;
}

static int64_t time_after(int64_t now_ms, int64_t delay_ms)
{
    int64_t at;
    return __builtin_add_overflow(now_ms, delay_ms, &at) ? INT64_MAX : at;
}

static bool is_time_locked(enum redrive_state state)
{
    return state == REDRIVE_STATE_RETRYING || state == REDRIVE_STATE_SCHEDULED;
}

/* The job is as it ran, but for its next time. */
static bool remember(struct memory *m, const struct job *job, const struct settle_move *move)
{
    const struct decision *d = move->decision;
    const struct job_status *s = &job->status;
    if (d->state == REDRIVE_STATE_COMPLETED && s->attempts == 1)
        return true;
    const struct mem_attempt row = {
        .seq = s->seq,
        .attempt =
            {
                .epoch = s->epoch,
                .number = d->uses_attempt ? s->attempts : 0,
                .started_ms = s->started_ms,
                .ended_ms = move->ended_ms != 0 ? move->ended_ms : m->now_ms,
                .worker = s->worker,
                .outcome = d->state,
                .error = move->error,
                .delay_ms = d->delay_ms,
                .why = str_of(delay_why_name(d->why)),
                .next_ms = is_time_locked(d->state) ? s->process_after_ms : 0,
            },
    };
    return mem_table_add(&m->unit.attempts, &row);
}

static void take_attempt_back(struct job_status *s)
{
    s->attempts--;
    s->deferrals++;
    if (s->attempts == 0) {
        s->first_started_ms = 0;
        s->held_ms = 0;
    }
}

static int settle_one(struct memory *m, const struct settle_move *move, struct move_result *ret)
{
    const struct decision *d = move->decision;
    struct job *job;
    int rc = take_by_token(m, move->seq, move->token, ret, &job);
    if (!job)
        return rc;
    if (!state_may_become(REDRIVE_STATE_RUNNING, d->state)) {
        ret->code = REDRIVE_E_STATE;
        return 0;
    }
    struct job_status *s = &job->status;
    if (is_time_locked(d->state))
        s->process_after_ms = time_after(m->now_ms, d->delay_ms);
    if (!remember(m, job, move) || !memory_set_error(job, &move->error, move->fingerprint))
        return REDRIVE_E_NOMEM;
    if (move->result.ptr && !mem_table_set_str(&s->result, move->result))
        return REDRIVE_E_NOMEM;
    s->reason = d->reason;
    s->crashes = d->crashes;
    if (!d->uses_attempt)
        take_attempt_back(s);
    memory_become(m, job, d->state, move->ended_ms, ret);
    return 0;
}

int memory_settle(struct store *store, const struct settle_move *moves, size_t n,
                  struct move_result *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_unit(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (settle_one(m, &moves[i], &ret[i]) < 0)
            rc = err_nomem(err);
    return rc;
}

int memory_extend(struct store *store, const struct extend_move *moves, size_t n,
                  struct move_result *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_unit(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct job *job;
        if (take_by_token(m, moves[i].seq, moves[i].token, &ret[i], &job) < 0)
            return err_nomem(err);
        if (!job)
            continue;
        if (moves[i].lease_until_ms > job->status.lease_until_ms)
            job->status.lease_until_ms = moves[i].lease_until_ms;
        job->status.updated_ms = m->now_ms;
    }
    return rc;
}
