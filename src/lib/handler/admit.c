/* admit.c - what a run waits for before its next attempt: its time, a slot, its breaker.
 *
 * Nothing here blocks: where a run has to wait, the function says until when, and its phase says
 * what it has passed. Lock held throughout, but for the monitor.
 */
#include "lib/handler/private.h"

/* Whether there is nothing left to wait for, and why. */
static bool is_over(const struct redrive_run *run, enum ending *ret)
{
    if (redrive_run_cancelled(run))
        *ret = ENDING_CANCELLED;
    else if (run->now_ms >= run->deadline_at_ms)
        *ret = ENDING_DEADLINE;
    else
        return false;
    return true;
}

/* Time that total_timeout does not count. */
static void add_idle(struct redrive_run *run, int64_t since_ms)
{
    if (run->first_start_ms != 0)
        run->idle_ms += run->now_ms - since_ms;
}

static void stand_in_queue(struct redrive_run *run)
{
    struct list *queue = &run->handler->queue;
    struct list *before = queue;
    while (before->prev != queue) {
        const struct redrive_run *other = LIST_ENTRY(before->prev, struct redrive_run, link);
        if (other->job.priority > run->job.priority ||
            (other->job.priority == run->job.priority && other->age < run->age))
            break;
        before = before->prev;
    }
    list_insert(before, &run->link);
}

/* The next in the queue gets it directly: no other run can take it in between. */
void slot_give_back(struct redrive_run *run)
{
    struct redrive_handler *h = run->handler;
    if (!run->caller.has_slot)
        return;
    run->caller.has_slot = false;
    if (list_empty(&h->queue)) {
        h->slots_taken--;
        return;
    }
    struct redrive_run *next = LIST_ENTRY(h->queue.next, struct redrive_run, link);
    list_remove(&next->link);
    next->caller.has_slot = true;
    caller_wake(&next->caller);
}

/* ---- The phases, in their order -------------------------------------------------------------- */

/* No retry is due after the deadline: decide() has seen to that. */
static enum admission pass_due(struct redrive_run *run, int64_t *ret_wake_ms, enum ending *ret)
{
    if (run->now_ms >= run->due_ms) {
        run_set_state(run, REDRIVE_STATE_QUEUED);
        run->phase = PHASE_TURN;
        return ADMITTED;
    }
    if (is_over(run, ret))
        return ADMISSION_OVER;
    *ret_wake_ms = run->due_ms;
    return ADMISSION_WAITS;
}

static void take_turn(struct redrive_run *run)
{
    struct redrive_handler *h = run->handler;
    bool needs_none = h->concurrency == 0 || caller_has_slot(&run->caller);
    if (needs_none || h->slots_taken < h->concurrency) {
        h->slots_taken += !needs_none;
        run->caller.has_slot |= !needs_none;
        run->phase = PHASE_PERMIT;
    } else {
        run->since_ms = run->now_ms;
        stand_in_queue(run);
        run->phase = PHASE_IN_QUEUE;
    }
}

static enum admission pass_queue(struct redrive_run *run, int64_t *ret_wake_ms, enum ending *ret)
{
    if (run->caller.has_slot) {
        add_idle(run, run->since_ms);
        run->phase = PHASE_PERMIT;
        return ADMITTED;
    }
    if (is_over(run, ret)) {
        list_remove(&run->link);
        return ADMISSION_OVER;
    }
    *ret_wake_ms = run->deadline_at_ms;
    return ADMISSION_WAITS;
}

static void park(struct redrive_run *run)
{
    run->since_ms = run->now_ms;
    run->phase = PHASE_PARKED;
    service_park(run, run->now_ms);
    if (run->state == REDRIVE_STATE_PARKED) {
        run->handler->counts.jobs_parked++;
        run_add_event(run, REDRIVE_EVENT_PARKED, NULL);
    }
    run_tell(run);
}

static enum admission pass_breaker(struct redrive_run *run, enum ending *ret)
{
    if (is_over(run, ret))
        return ADMISSION_OVER;
    bool permitted = service_permit(run, run->now_ms);
    service_drop_candidate(run, run->now_ms);
    if (permitted) {
        run->phase = PHASE_ADMITTED;
        return ADMITTED;
    }
    slot_give_back(run);
    if (run->service->config.on_open == REDRIVE_ON_OPEN_DEAD_LETTER) {
        *ret = ENDING_BREAKER_OPEN;
        return ADMISSION_OVER;
    }
    park(run);
    return ADMITTED;
}

/* The time that it was parked is over. */
static void count_parked(struct redrive_run *run)
{
    add_idle(run, run->since_ms);
    run->parked_ms += run->now_ms - run->since_ms;
}

static enum admission pass_parked(struct redrive_run *run, int64_t *ret_wake_ms, enum ending *ret)
{
    struct service *s = run->service;
    while (run->state == REDRIVE_STATE_PARKED) {
        bool is_first = s->parked.next == &run->link;
        if (is_over(run, ret)) {
            service_unpark(run);
            count_parked(run);
            return ADMISSION_OVER;
        }
        if (!is_first || run->now_ms < s->next_ms) {
            bool pump_is_first = is_first && s->next_ms < run->deadline_at_ms;
            *ret_wake_ms = pump_is_first ? s->next_ms : run->deadline_at_ms;
            return ADMISSION_WAITS;
        }
        service_pump(run->handler, s, run->now_ms, &run->events);
        run_tell(run);
    }
    count_parked(run);
    run->phase = PHASE_TURN;
    return ADMITTED;
}

/* Brings the run through its phase, or says why not. */
static enum admission pass_phase(struct redrive_run *run, int64_t *ret_wake_ms, enum ending *ret)
{
    switch (run->phase) {
    case PHASE_DUE: return pass_due(run, ret_wake_ms, ret);
    case PHASE_TURN: take_turn(run); return ADMITTED;
    case PHASE_IN_QUEUE: return pass_queue(run, ret_wake_ms, ret);
    case PHASE_PERMIT: return pass_breaker(run, ret);
    case PHASE_PARKED: return pass_parked(run, ret_wake_ms, ret);
    case PHASE_ADMITTED:
    default: return ADMITTED;
    }
}

enum admission admit(struct redrive_run *run, int64_t *ret_wake_ms, enum ending *ret_ending)
{
    enum admission admission = ADMITTED;
    while (run->phase != PHASE_ADMITTED && admission == ADMITTED)
        admission = pass_phase(run, ret_wake_ms, ret_ending);
    if (admission == ADMISSION_OVER) {
        slot_give_back(run);
        service_drop_candidate(run, run->now_ms);
    }
    return admission;
}
