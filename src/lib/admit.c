/* How a run comes to its next attempt: it waits until it is due, for its turn, for its breaker.
 *
 * Lock held throughout, but for the waiting itself and the monitor.
 */
#include "lib/handler_int.h"

static void wait_until(struct redrive_run *run, int64_t wake_ms)
{
    caller_wait(&run->caller, wake_ms);
    run_look_at_clock(run);
}

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

/* No retry is due after the deadline: decide() has seen to that. */
bool wait_until_due(struct redrive_run *run, enum ending *ret)
{
    while (run->now_ms < run->due_ms) {
        if (is_over(run, ret))
            return false;
        wait_until(run, run->due_ms);
    }
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

static bool wait_for_slot(struct redrive_run *run, enum ending *ret)
{
    struct redrive_handler *h = run->handler;
    if (h->concurrency == 0 || caller_has_slot(&run->caller))
        return true;
    if (h->slots_taken < h->concurrency) {
        h->slots_taken++;
        run->caller.has_slot = true;
        return true;
    }
    int64_t since_ms = run->now_ms;
    stand_in_queue(run);
    while (!run->caller.has_slot) {
        if (is_over(run, ret)) {
            list_remove(&run->link);
            return false;
        }
        wait_until(run, run->deadline_at_ms);
    }
    add_idle(run, since_ms);
    return true;
}

/* The next in the queue gets it directly: nobody can slip in between. */
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

static bool wait_parked(struct redrive_run *run, enum ending *ret)
{
    struct redrive_handler *h = run->handler;
    struct service *s = run->service;
    int64_t since_ms = run->now_ms;
    bool over = false;

    service_park(run, since_ms);
    if (run->state == REDRIVE_STATE_PARKED) {
        h->counts.jobs_parked++;
        run_add_event(run, REDRIVE_EVENT_PARKED, NULL);
    }
    run_tell(run);
    while (run->state == REDRIVE_STATE_PARKED) {
        bool keeps_time = s->parked.next == &run->link;
        if ((over = is_over(run, ret))) {
            service_unpark(run);
            break;
        }
        if (keeps_time && run->now_ms >= s->next_ms) {
            service_pump(h, s, run->now_ms, &run->events);
            run_tell(run);
            continue;
        }
        bool pump_is_first = keeps_time && s->next_ms < run->deadline_at_ms;
        wait_until(run, pump_is_first ? s->next_ms : run->deadline_at_ms);
    }
    add_idle(run, since_ms);
    run->parked_ms += run->now_ms - since_ms;
    return !over;
}

bool admit(struct redrive_run *run, enum ending *ret)
{
    run_set_state(run, REDRIVE_STATE_QUEUED);
    while (wait_for_slot(run, ret)) {
        if (is_over(run, ret))
            break;
        bool permitted = service_permit(run, run->now_ms);
        service_drop_candidate(run, run->now_ms);
        if (permitted)
            return true;
        slot_give_back(run);
        if (run->service->config.on_open == REDRIVE_ON_OPEN_DEAD_LETTER) {
            *ret = ENDING_BREAKER_OPEN;
            break;
        }
        if (!wait_parked(run, ret))
            break;
    }
    slot_give_back(run);
    service_drop_candidate(run, run->now_ms);
    return false;
}
