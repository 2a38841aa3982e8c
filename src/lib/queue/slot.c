/* slot.c - the thread of a slot: runs claimed jobs, takes turns, and sleeps when there is nothing.
 */
#include "lib/queue/private.h"

#include "base/os/thread.h"
#include "base/time/clock.h"

enum next {
    NEXT_TURN,
    NEXT_RUN,
    NEXT_SLEEP,
    NEXT_LEAVE,
};

/* The mutex is held. */
static enum next next_of(const struct queue_handler *h)
{
    if (queue_turn_is_due(h))
        return NEXT_TURN;
    if (h->n_claimed > 0 && h->n_doubtful == 0)
        return NEXT_RUN;
    return h->queue->is_stopping ? NEXT_LEAVE : NEXT_SLEEP;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* The mutex is held before and after. */
static void call(struct queue_handler *h, struct redrive_task_run *run)
{
    struct redrive_queue *q = h->queue;
    h->n_running++;
    if (next_of(h) == NEXT_TURN || next_of(h) == NEXT_RUN)
        queue_wake_slot(h);
    pthread_mutex_unlock(&q->mutex);
    const int64_t start_ns = clock_monotonic_ns();
    run->waited_ms = start_ns / 1000000 - run->claimed_ms;
    const bool succeeded = queue_run_call(run);
    const int64_t took_us = (clock_monotonic_ns() - start_ns) / 1000;
    pthread_mutex_lock(&q->mutex);
    h->n_running--;
    claim_pace_run(&h->pace, took_us);
    run->is_doubtful = !succeeded;
    h->n_doubtful += !succeeded;
}

/* A job whose lease was lost while it waited does not run. The mutex is held before and after. */
static void run_next(struct queue_handler *h)
{
    struct redrive_task_run *run = LIST_ENTRY(h->claimed.next, struct redrive_task_run, link);
    list_remove(&run->link);
    h->n_claimed--;
    if (!atomic_load(&run->is_lost))
        call(h, run);
    list_insert(&h->ended, &run->link);
}

/* ---- Sleeping -------------------------------------------------------------------------------- */

/* The mutex is held. */
static bool is_idle(const struct redrive_queue *q)
{
    for (const struct queue_handler *h = q->handlers; h; h = h->next)
        if (h->wants || h->in_turn || h->n_claimed > 0 || !list_empty(&h->ended))
            return false;
    return q->n_busy == 0;
}

/* Sleeps until there may be something to do. The mutex is held before and after. */
static void sleep_slot(struct queue_handler *h)
{
    struct redrive_queue *q = h->queue;
    q->n_busy--;
    if (q->until_idle && is_idle(q))
        queue_begin_stop(q);
    if (!q->is_stopping) {
        h->n_asleep++;
        /* While there is a turn, the thread that takes it looks again afterwards. */
        if (h->wants && h->claim_again_ms > 0 && !h->in_turn)
            (void)thread_cond_wait_until(&h->wake, &q->mutex, h->claim_again_ms);
        else
            (void)pthread_cond_wait(&h->wake, &q->mutex);
        h->n_asleep--;
        h->is_waking = false;
    }
    q->n_busy++;
}

/* ---- The thread ------------------------------------------------------------------------------ */

void *queue_slot_main(void *arg)
{
    struct queue_handler *h = ((struct queue_slot *)arg)->handler;
    struct redrive_queue *q = h->queue;
    enum next next;
    pthread_mutex_lock(&q->mutex);
    while ((next = next_of(h)) != NEXT_LEAVE) {
        if (next == NEXT_TURN)
            queue_take_turn(h);
        else if (next == NEXT_RUN)
            run_next(h);
        else
            sleep_slot(h);
    }
    q->n_alive--;
    pthread_mutex_unlock(&q->mutex);
    queue_wake(q);
    return NULL;
}
