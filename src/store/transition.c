/* transition.c - the state machine of jobs, and whether a shared row takes a put. */
#include "store/transition.h"

#include <assert.h>

#include "core/elapsed.h"
#include "core/state.h"
#include "store/shared.h"

#define IN(state)   (1u << REDRIVE_STATE_##state)
#define TIME_LOCKED (IN(SCHEDULED) | IN(RETRYING))
#define UNSTARTED   (TIME_LOCKED | IN(QUEUED) | IN(PARKED) | IN(WAITING))
#define ENDED       (IN(COMPLETED) | IN(FAILED) | IN(DEAD_LETTER) | IN(CANCELLED))

static const uint32_t FROM[MOVE_KIND_COUNT] = {
    [MOVE_START] = IN(QUEUED),
    [MOVE_PARK] = IN(QUEUED),
    [MOVE_UNPARK] = IN(PARKED),
    [MOVE_PROMOTE] = TIME_LOCKED,
    [MOVE_SETTLE] = IN(RUNNING),
    [MOVE_EXTEND] = IN(RUNNING),
    [MOVE_CREDIT] = IN(QUEUED),
    [MOVE_CANCEL] = UNSTARTED | IN(RUNNING),
    [MOVE_RUN_NOW] = TIME_LOCKED,
    [MOVE_REDRIVE] = IN(DEAD_LETTER) | IN(FAILED),
    [MOVE_END] = UNSTARTED,
    [MOVE_REMOVE] = ENDED,
    [MOVE_EDIT] = IN(DEAD_LETTER),
    [MOVE_SKIP] = IN(WAITING),
    [MOVE_ADOPT] = UNSTARTED | IN(RUNNING) | ENDED,
    [MOVE_RELEASE] = IN(WAITING) | IN(DEAD_LETTER) | IN(FAILED),
};

/* A change has the members of these kinds only; another kind is invalid. */
static enum move_kind change_kind(const struct change_move *change)
{
    return change->kind >= MOVE_CANCEL ? change->kind : (enum move_kind)MOVE_KIND_COUNT;
}

struct move move_at(const struct move_list *list, size_t i)
{
    switch (list->kind) {
    case MOVE_START:
        return (struct move){list->starts[i].seq, MOVE_START, .start = &list->starts[i]};
    case MOVE_SETTLE:
        return (struct move){list->settles[i].seq, MOVE_SETTLE, .settle = &list->settles[i]};
    case MOVE_EXTEND:
        return (struct move){list->extends[i].seq, MOVE_EXTEND, .extend = &list->extends[i]};
    case MOVE_CANCEL:
        return (struct move){list->changes[i].seq, change_kind(&list->changes[i]),
                             .change = &list->changes[i]};
    case MOVE_CREDIT: return (struct move){list->seqs[i], MOVE_CREDIT, .pause = &list->pause};
    case MOVE_ADOPT:
    case MOVE_RELEASE:
        return (struct move){list->edges[i].seq, list->kind, .edge = &list->edges[i]};
    default: return (struct move){list->seqs[i], list->kind, .by_limit = list->by_limit};
    }
}

bool move_list_is_sweep(const struct move_list *list)
{
    bool all = list->kind == MOVE_CANCEL;
    for (size_t i = 0; all && i < list->n; i++)
        all = list->changes[i].kind == MOVE_REMOVE && list->changes[i].finished_ms != 0;
    return all;
}

uint32_t transition_from(enum move_kind kind)
{
    return FROM[kind];
}

bool transition_attempt_in_row(const struct job_status *s, struct job_attempt *ret)
{
    const bool runs = s->state == REDRIVE_STATE_RUNNING;
    if (!runs && !(s->state == REDRIVE_STATE_COMPLETED && s->attempts == 1))
        return false;
    if (ret)
        *ret = (struct job_attempt){
            .epoch = s->epoch,
            .number = s->attempts,
            .started_ms = s->started_ms,
            .ended_ms = runs ? 0 : s->finished_ms,
            .worker = s->worker,
            .outcome = s->state,
            .why = str_of(delay_why_name(DELAY_NONE)),
        };
    return true;
}

size_t imported_rows(const struct imported_job *imported)
{
    const bool tells = transition_attempt_in_row(&imported->job->status, NULL);
    return imported->n_attempts - (tells && imported->n_attempts > 0);
}

static bool is_time_locked(enum redrive_state state)
{
    return TIME_LOCKED >> state & 1;
}

/* A sum that would overflow is the largest number: a time is then the latest there is, not one in
 * the past. Numbers of a damaged row may be any. */
static int64_t sum_of(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static void leave_running(struct job_status *s)
{
    s->token = 0;
    s->lease_until_ms = 0;
    s->permit = (struct breaker_permit){0};
}

static void leave_parked(struct job_status *s, int64_t now_ms)
{
    if (s->first_started_ms != 0)
        s->paused_ms = sum_of(s->paused_ms, elapsed_since(s->paused_since_ms, now_ms));
    s->paused_since_ms = 0;
    s->parked_by_limit = false;
}

/* What every change of state does. */
static void become(struct job_status *s, enum redrive_state to, int64_t now_ms,
                   struct transition *t)
{
    assert(state_may_become(s->state, to));
    if (s->state == REDRIVE_STATE_RUNNING)
        leave_running(s);
    if (s->state == REDRIVE_STATE_PARKED)
        leave_parked(s, now_ms);
    if (state_has_ended(to)) {
        s->finished_ms = now_ms;
        t->key = KEY_IS_FREED;
    } else if (state_has_ended(s->state)) {
        s->finished_ms = 0;
        t->key = KEY_IS_TAKEN;
    }
    s->state = to;
}

static void start(struct job_status *s, const struct start_move *move, struct store_time time,
                  struct transition *t)
{
    const bool may_have_come = s->process_after_ms <= time.latest_ms;
    const int64_t now_ms =
        may_have_come && s->process_after_ms > time.now_ms ? s->process_after_ms : time.now_ms;
    become(s, REDRIVE_STATE_RUNNING, time.now_ms, t);
    s->attempts++;
    s->token = move->token;
    s->lease_until_ms = move->lease_until_ms;
    s->worker = move->worker;
    s->permit = move->permit;
    s->started_ms = now_ms;
    if (s->first_started_ms == 0)
        s->first_started_ms = now_ms;
}

static void park(struct job_status *s, bool by_limit, int64_t now_ms, struct transition *t)
{
    become(s, REDRIVE_STATE_PARKED, now_ms, t);
    s->deferrals++;
    s->parked_by_limit = by_limit;
    s->paused_since_ms = now_ms;
}

static void replace_error(struct job_status *s, const struct job_error *error, uint64_t fingerprint,
                          struct transition *t)
{
    if (error->class_ == REDRIVE_CLASS_SUCCESS)
        return;
    s->error = *error;
    s->fingerprint = fingerprint;
    t->replaces_error = true;
}

static void take_attempt_back(struct job_status *s)
{
    s->deferrals++;
    if (s->attempts > 0)
        s->attempts--;
    if (s->attempts == 0)
        s->first_started_ms = s->paused_ms = 0;
}

static void settle(struct job_status *s, const struct settle_move *move, struct store_time time,
                   struct transition *t)
{
    const struct decision *d = move->decision;
    const int64_t now_ms = time.now_ms;
    if (is_time_locked(d->state))
        s->process_after_ms = store_time_after(time, d->delay_ms);
    t->adds_attempt = d->state != REDRIVE_STATE_COMPLETED || s->attempts != 1;
    if (t->adds_attempt) {
        t->attempt = (struct job_attempt){
            .epoch = s->epoch,
            .number = d->uses_attempt ? s->attempts : 0,
            .started_ms = s->started_ms,
            .ended_ms = now_ms,
            .worker = s->worker,
            .outcome = d->state,
            .error = move->error,
            .delay_ms = d->delay_ms,
            .why = str_of(delay_why_name(d->why)),
            .next_ms = is_time_locked(d->state) ? s->process_after_ms : 0,
        };
        replace_error(s, &move->error, move->fingerprint, t);
    }
    if (move->result.ptr) {
        s->result = move->result;
        t->replaces_result = true;
    }
    s->reason = d->reason;
    s->crashes = d->crashes;
    if (!d->uses_attempt)
        take_attempt_back(s);
    become(s, d->state, now_ms, t);
}

static void credit_pause(struct job_status *s, const struct pause_time *pause)
{
    const int64_t from_ms = pause->since_ms > s->updated_ms ? pause->since_ms : s->updated_ms;
    s->paused_ms = sum_of(s->paused_ms, elapsed_since(from_ms, pause->until_ms));
}

/* The attempt that is running ends with its job. */
static void cancel(struct job_status *s, int64_t now_ms, struct transition *t)
{
    t->adds_attempt = s->state == REDRIVE_STATE_RUNNING;
    if (t->adds_attempt)
        t->attempt = (struct job_attempt){
            .epoch = s->epoch,
            .number = s->attempts,
            .started_ms = s->started_ms,
            .ended_ms = now_ms,
            .worker = s->worker,
            .outcome = REDRIVE_STATE_CANCELLED,
            .why = str_of(delay_why_name(DELAY_NONE)),
        };
    become(s, REDRIVE_STATE_CANCELLED, now_ms, t);
}

/* Ends a job that does not run. */
static void end_unstarted(struct job_status *s, const struct change_move *move,
                          enum redrive_state to, int64_t now_ms, struct transition *t)
{
    t->adds_attempt = move->error.class_ != REDRIVE_CLASS_SUCCESS;
    if (t->adds_attempt)
        t->attempt = (struct job_attempt){
            .epoch = s->epoch,
            .ended_ms = now_ms,
            .worker = s->worker,
            .outcome = to,
            .error = move->error,
            .why = str_of(delay_why_name(DELAY_NONE)),
        };
    replace_error(s, &move->error, move->fingerprint, t);
    s->reason = move->reason;
    become(s, to, now_ms, t);
}

/* Also of a job that was ended while it waited: a redrive waits for what is open then. */
static void release(struct job_status *s, uint32_t n, int64_t now_ms, struct transition *t)
{
    s->open_parents -= n < s->open_parents ? n : s->open_parents;
    if (s->state != REDRIVE_STATE_WAITING || s->open_parents > 0)
        return;
    become(s, s->process_after_ms > now_ms ? REDRIVE_STATE_SCHEDULED : REDRIVE_STATE_QUEUED, now_ms,
           t);
    s->updated_ms = now_ms;
}

static void redrive(struct job_status *s, int64_t now_ms, struct transition *t)
{
    become(s, s->open_parents > 0 ? REDRIVE_STATE_WAITING : REDRIVE_STATE_QUEUED, now_ms, t);
    s->epoch++;
    s->attempts = s->crashes = 0;
    s->reason = REDRIVE_REASON_NONE;
    s->process_after_ms = now_ms;
    s->first_started_ms = s->paused_ms = 0;
}

/* 0, or why the move cannot be made of this row. */
static int refusal(const struct job_status *s, const struct move *move, int64_t now_ms)
{
    if ((unsigned)move->kind >= MOVE_KIND_COUNT)
        return REDRIVE_E_INVALID;
    if (!(FROM[move->kind] >> s->state & 1))
        return REDRIVE_E_STATE;
    switch (move->kind) {
    case MOVE_PROMOTE: return s->process_after_ms <= now_ms ? 0 : REDRIVE_E_STATE;
    case MOVE_SETTLE:
        return s->token == move->settle->token &&
                       state_may_become(s->state, move->settle->decision->state)
                   ? 0
                   : REDRIVE_E_STATE;
    case MOVE_EXTEND: return s->token == move->extend->token ? 0 : REDRIVE_E_STATE;
    case MOVE_CREDIT:
        return s->first_started_ms != 0 && s->updated_ms < move->pause->until_ms &&
                       move->pause->since_ms < move->pause->until_ms
                   ? 0
                   : REDRIVE_E_STATE;
    case MOVE_END:
        return move->change->to == REDRIVE_STATE_DEAD_LETTER ||
                       move->change->to == REDRIVE_STATE_FAILED
                   ? 0
                   : REDRIVE_E_INVALID;
    case MOVE_REMOVE:
        if (move->change->finished_ms != 0 && s->finished_ms != move->change->finished_ms)
            return REDRIVE_E_STATE;
        return move->change->if_childless && s->children > 0 ? REDRIVE_E_EXISTS : 0;
    default: return 0;
    }
}

void transition(struct job_status *status, const struct move *move, struct store_time time,
                struct transition *ret)
{
    struct job_status *s = status;
    const int64_t now_ms = time.now_ms;
    ret->code = refusal(s, move, now_ms);
    ret->key = KEY_STAYS;
    ret->replaces_error = ret->replaces_result = ret->replaces_payload = false;
    ret->removes_job = ret->adds_attempt = false;
    if (ret->code != 0)
        return;
    switch (move->kind) {
    case MOVE_START: start(s, move->start, time, ret); break;
    case MOVE_PARK: park(s, move->by_limit, now_ms, ret); break;
    case MOVE_UNPARK:
    case MOVE_PROMOTE: become(s, REDRIVE_STATE_QUEUED, now_ms, ret); break;
    case MOVE_SETTLE: settle(s, move->settle, time, ret); break;
    case MOVE_EXTEND:
        if (move->extend->lease_until_ms > s->lease_until_ms)
            s->lease_until_ms = move->extend->lease_until_ms;
        break;
    case MOVE_CREDIT: credit_pause(s, move->pause); break;
    case MOVE_CANCEL: cancel(s, now_ms, ret); break;
    case MOVE_RUN_NOW:
        become(s, REDRIVE_STATE_QUEUED, now_ms, ret);
        s->process_after_ms = now_ms;
        break;
    case MOVE_REDRIVE: redrive(s, now_ms, ret); break;
    case MOVE_END: end_unstarted(s, move->change, move->change->to, now_ms, ret); break;
    case MOVE_SKIP: end_unstarted(s, move->change, REDRIVE_STATE_CANCELLED, now_ms, ret); break;
    case MOVE_ADOPT: s->children += move->edge->n; return;
    case MOVE_RELEASE: release(s, move->edge->n, now_ms, ret); return;
    case MOVE_REMOVE: ret->removes_job = true; return;
    case MOVE_EDIT:
        /* Later than its end, whatever the clock says: what shows errors tells an edit by that. */
        ret->replaces_payload = true;
        s->updated_ms = now_ms > s->finished_ms ? now_ms : sum_of(s->finished_ms, 1);
        return;
    }
    s->updated_ms = now_ms;
}

/* ---- Puts of shared rows --------------------------------------------------------------------- */

static int64_t at_least_0(int64_t sum)
{
    return sum > 0 ? sum : 0;
}

bool shared_put_fits(const struct shared_row *row, int64_t version, struct gate_sums *sums)
{
    const bool is_any = row->is_delta && row->version == 0;
    const bool needs_row = row->is_delta || row->removed;
    const int64_t used = sum_of(sums->used, row->add.used);
    if ((!is_any && version != row->version) || (needs_row && version == 0))
        return false;
    if (row->removed ? used > 0 : row->add.used > 0 && row->max_used > 0 && used > row->max_used)
        return false;
    *sums = (struct gate_sums){at_least_0(used), at_least_0(sum_of(sums->sent, row->add.sent))};
    return true;
}
