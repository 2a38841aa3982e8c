#include "ledger.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/rng.h"
#include "check.h"
#include "core/state.h"

void ledger_violated(struct ledger *l, int invariant, const char *format, ...)
{
    l->violation.all |= 1u << invariant;
    if (l->violation.invariant != 0)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(l->violation.text, sizeof l->violation.text, format, args);
    va_end(args);
    l->violation.invariant = invariant;
}

static struct ledger_job *find(struct ledger *l, int64_t seq)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->jobs[i].seq == seq)
            return &l->jobs[i];
    return NULL;
}

const struct ledger_job *ledger_find(const struct ledger *l, int64_t seq)
{
    return find((struct ledger *)l, seq);
}

/* The job of an answer that says yes; there must be one. */
static struct ledger_job *moved(struct ledger *l, int64_t seq, const struct move_result *r)
{
    if (r->code != 0)
        return NULL;
    struct ledger_job *job = find(l, seq);
    if (!job || job->gone)
        ledger_violated(l, 2, "job %lld was moved, but is not there", (long long)seq);
    return job && !job->gone ? job : NULL;
}

void ledger_submit(struct ledger *l, const struct job_spec *spec, const struct submit_result *r)
{
    if (r->code != 0)
        return;
    for (size_t i = 0; i < l->n; i++) {
        const struct ledger_job *job = &l->jobs[i];
        bool live = !job->gone && !state_has_ended(job->state);
        if (live && spec->unique_key.len > 0 && str_is(spec->unique_key, job->key) &&
            str_is(spec->tenant, job->tenant))
            ledger_violated(l, 4, "%s holds the key %s, and a second job got it", job->id,
                            job->key);
    }
    assert_true(l->n < LEDGER_MAX);
    struct ledger_job *job = &l->jobs[l->n++];
    *job = (struct ledger_job){
        .seq = r->seq,
        .payload_hash = rng_hash(spec->payload.ptr, spec->payload.len, 0),
        .max_attempts = spec->max_attempts,
        .state = REDRIVE_STATE_QUEUED,
    };
    assert_true(str_copy(job->tenant, sizeof job->tenant, spec->tenant));
    assert_true(str_copy(job->id, sizeof job->id, spec->id));
    assert_true(str_copy(job->key, sizeof job->key, spec->unique_key));
}

static void started(struct ledger *l, struct ledger_job *job, const struct start_move *move)
{
    if (job->token != 0)
        ledger_violated(l, 7, "%s was started, but is leased", job->id);
    if (state_has_ended(job->state))
        ledger_violated(l, 3, "%s was started after its end", job->id);
    job->attempts++;
    if (job->attempts > (uint32_t)job->max_attempts)
        ledger_violated(l, 5, "%s was started %u times of %d", job->id, job->attempts,
                        job->max_attempts);
    job->token = move->token;
    job->state = REDRIVE_STATE_RUNNING;
}

static enum redrive_state coarse(enum redrive_state state)
{
    return state == REDRIVE_STATE_SCHEDULED || state == REDRIVE_STATE_RETRYING
               ? REDRIVE_STATE_QUEUED
               : state;
}

static void settled(struct ledger *l, struct ledger_job *job, const struct settle_move *move)
{
    if (job->token != move->token)
        ledger_violated(l, 8, "%s was settled with a stale token", job->id);
    job->token = 0;
    job->state = coarse(move->decision->state);
    if (!move->decision->uses_attempt)
        job->attempts--;
}

static void extended(struct ledger *l, const struct ledger_job *job, const struct extend_move *move)
{
    if (job->token != move->token)
        ledger_violated(l, 8, "the lease of %s was extended with a stale token", job->id);
}

static void parked(struct ledger *l, struct ledger_job *job, bool parked)
{
    if (state_has_ended(job->state))
        ledger_violated(l, 3, "%s was parked or let go after its end", job->id);
    job->state = parked ? REDRIVE_STATE_PARKED : REDRIVE_STATE_QUEUED;
}

static void redriven(struct ledger *l, struct ledger_job *job)
{
    if (job->state != REDRIVE_STATE_DEAD_LETTER && job->state != REDRIVE_STATE_FAILED)
        ledger_violated(l, 3, "%s was redriven, but is %s", job->id,
                        redrive_state_name(job->state));
    job->state = REDRIVE_STATE_QUEUED;
    job->epoch++;
    job->attempts = 0;
}

static void cancelled(struct ledger *l, struct ledger_job *job)
{
    if (state_has_ended(job->state))
        ledger_violated(l, 3, "%s was cancelled after its end", job->id);
    job->state = REDRIVE_STATE_CANCELLED;
    job->token = 0;
}

static void ended(struct ledger *l, struct ledger_job *job, enum redrive_state state)
{
    if (state_has_ended(job->state))
        ledger_violated(l, 3, "%s ended twice", job->id);
    job->state = state;
}

void ledger_move(struct ledger *l, const struct move *move, const struct move_result *r)
{
    struct ledger_job *job = moved(l, move->seq, r);
    if (!job)
        return;
    switch (move->kind) {
    case MOVE_START: started(l, job, move->start); break;
    case MOVE_SETTLE: settled(l, job, move->settle); break;
    case MOVE_EXTEND: extended(l, job, move->extend); break;
    case MOVE_PARK: parked(l, job, true); break;
    case MOVE_UNPARK: parked(l, job, false); break;
    case MOVE_SKIP:
    case MOVE_CANCEL: cancelled(l, job); break;
    case MOVE_REDRIVE: redriven(l, job); break;
    case MOVE_END: ended(l, job, move->change->to); break;
    case MOVE_REMOVE: job->gone = true; break;
    case MOVE_EDIT:
        job->payload_hash = rng_hash(move->change->payload.ptr, move->change->payload.len, 0);
        break;
    case MOVE_PROMOTE:
    case MOVE_CREDIT:
    case MOVE_ADOPT:
    case MOVE_RELEASE:
    case MOVE_RUN_NOW: break;
    }
}
