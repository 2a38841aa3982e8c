/* work.c - the threads that run claimed jobs; the thread that called work starts them, looks at
 * leases, writes the worker's row, and stops. */
#include "lib/queue/private.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/os/thread.h"
#include "base/time/clock.h"
#include "engine/tasks.h"

/* ---- Stopping -------------------------------------------------------------------------------- */

/* Only what a signal handler may do: the clock, atomics, a write. */
void redrive_queue_stop(struct redrive_queue *q, int64_t grace_ms)
{
    if (!q)
        return;
    /* A grace without end is a stop all the same. */
    int64_t end_ms = queue_after(clock_monotonic_ms(), grace_ms > 0 ? grace_ms : 0);
    if (end_ms == QUEUE_NEVER)
        end_ms--;
    int64_t seen_ms = atomic_load(&q->stop_at_ms);
    while (end_ms < seen_ms && !atomic_compare_exchange_weak(&q->stop_at_ms, &seen_ms, end_ms))
        ;
    queue_wake(q);
}

/* The grace is over: functions that run are to return. The mutex is held. */
static void tell_all(struct redrive_queue *q)
{
    atomic_store(&q->is_told, true);
    for (struct queue_handler *h = q->handlers; h; h = h->next)
        for (size_t i = 0; i < h->n_runs; i++)
            atomic_store(&h->runs[i].is_cancelled, true);
}

/* Begins the stop that was asked for. A slot does so as well: a stop from inside a function holds
 * for the thread of that function before the thread that called work has seen it. The mutex is
 * held. */
static void notice_stop(struct redrive_queue *q)
{
    const int64_t stop_at_ms = atomic_load(&q->stop_at_ms);
    if (stop_at_ms == QUEUE_NEVER)
        return;
    atomic_store(&q->give_up_at_ms, queue_after(stop_at_ms, QUEUE_SETTLE_MS));
    if (!q->is_stopping)
        queue_begin_stop(q);
}

/* Looks whether there is a stop, and how far it is. When it wants to look again; QUEUE_NEVER: when
 * it is woken. */
static int64_t see_to_stop(struct redrive_queue *q, int64_t now_ms)
{
    const int64_t stop_at_ms = atomic_load(&q->stop_at_ms);
    if (stop_at_ms == QUEUE_NEVER || atomic_load(&q->is_told))
        return QUEUE_NEVER;
    HOLD(&q->mutex);
    notice_stop(q);
    if (stop_at_ms <= now_ms)
        tell_all(q);
    return stop_at_ms <= now_ms ? QUEUE_NEVER : stop_at_ms;
}

/* ---- The worker's row ------------------------------------------------------------------------ */

/* The mutex is held. */
static uint32_t count_running(const struct redrive_queue *q)
{
    size_t n = 0;
    for (const struct queue_handler *h = q->handlers; h; h = h->next)
        n += h->n_running;
    return (uint32_t)n;
}

static void describe_row(struct redrive_queue *q)
{
    worker_op_init(&q->row, str_of(q->worker), str_of(q->tenant));
    q->row.running = count_running(q);
    q->row.slots = (uint32_t)q->n_slots;
}

/* A row that could not be written is no reason to stop working: the next one will do. */
static void on_row_written(struct op *op, void *ctx)
{
    struct redrive_queue *q = ctx;
    (void)op;
    HOLD(&q->mutex);
    q->is_telling = false;
    queue_answered(q);
}

/* Nothing while a write is under way. */
static void tell_row(struct redrive_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    const bool can_tell = !q->is_telling;
    if (can_tell)
        describe_row(q);
    q->is_telling = true;
    pthread_mutex_unlock(&q->mutex);
    if (can_tell)
        queue_submit(q, &q->row.op, on_row_written, q);
}

/* Nothing is under way any more. */
static void remove_row(struct redrive_queue *q)
{
    describe_row(q);
    q->row.leaving = true;
    (void)committer_run(q->committer, &q->row.op, NULL);
}

/* ---- Claimed jobs that wait ------------------------------------------------------------------ */

/* All slots are busy with runs that take longer than was expected, or a failure is not settled:
 * gives back what waits for that, and settles what has ended since the latest turn. The mutex is
 * held before and after. */
static void take_turn_for(struct queue_handler *h, int64_t now_ms)
{
    if ((h->n_claimed == 0 && list_empty(&h->ended)) ||
        now_ms - h->claimed_at_ms < QUEUE_CLAIMED_MS)
        return;
    claim_pace_run(&h->pace, QUEUE_CLAIMED_MS * 1000);
    queue_give_back(h, 0);
    queue_settle(h);
    if (queue_turn_is_due(h))
        queue_wake_slot(h);
}

/* When it wants to look again. */
static int64_t look_at_claimed(struct redrive_queue *q, int64_t now_ms)
{
    pthread_mutex_lock(&q->mutex);
    q->is_watching = false;
    for (struct queue_handler *h = q->handlers; h; h = h->next) {
        take_turn_for(h, now_ms);
        if (h->n_claimed > 0 || !list_empty(&h->ended) || claim_pace_ahead(&h->pace) > 0)
            q->is_watching = true;
    }
    const bool is_watching = q->is_watching;
    pthread_mutex_unlock(&q->mutex);
    return is_watching ? now_ms + QUEUE_CLAIMED_MS / 2 : QUEUE_NEVER;
}

/* ---- Outcomes that the store did not take ---------------------------------------------------- */

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The mutex is held. */
static void end_wait(struct queue_handler *h)
{
    LIST_FOREACH (&h->later, link) {
        list_remove(link);
        list_insert(&h->ended, link);
    }
}

/* Hands in what is due again, and what the last slot has left behind. When it wants to look again.
 */
static int64_t look_at_later(struct redrive_queue *q, int64_t now_ms)
{
    int64_t next_ms = QUEUE_NEVER;
    HOLD(&q->mutex);
    for (struct queue_handler *h = q->handlers; h; h = h->next) {
        const bool is_due = !list_empty(&h->later) && h->later_at_ms <= now_ms;
        if (is_due)
            end_wait(h);
        if (is_due || q->n_alive == 0)
            queue_settle(h);
        if (!list_empty(&h->later))
            next_ms = sooner(next_ms, h->later_at_ms);
    }
    return next_ms;
}

/* ---- The loop of the caller ------------------------------------------------------------------ */

static void sleep_until(struct redrive_queue *q, int64_t at_ms)
{
    struct pollfd woken = {.fd = q->wake_fd, .events = POLLIN};
    int64_t wait_ms = at_ms - clock_monotonic_ms();
    uint64_t n;
    if (wait_ms > WORKER_EVERY_MS)
        wait_ms = WORKER_EVERY_MS;
    if (poll(&woken, 1, wait_ms > 0 ? (int)wait_ms : 0) > 0) {
        ssize_t read_bytes = read(q->wake_fd, &n, sizeof n);
        (void)read_bytes;
    }
}

static bool is_at_work(struct redrive_queue *q)
{
    HOLD(&q->mutex);
    for (const struct queue_handler *h = q->handlers; h; h = h->next)
        if (h->n_held > 0)
            return true;
    return q->n_alive > 0 || q->n_under_way > 0;
}

static void look_after(struct redrive_queue *q)
{
    int64_t next_row_ms = clock_monotonic_ms();
    while (is_at_work(q)) {
        const int64_t now_ms = clock_monotonic_ms();
        int64_t next_ms = see_to_stop(q, now_ms);
        next_ms = sooner(next_ms, queue_look_at_leases(q, now_ms));
        next_ms = sooner(next_ms, look_at_claimed(q, now_ms));
        next_ms = sooner(next_ms, look_at_later(q, now_ms));
        if (next_row_ms <= now_ms) {
            tell_row(q);
            next_row_ms = now_ms + WORKER_EVERY_MS;
        }
        sleep_until(q, sooner(next_ms, next_row_ms));
    }
    remove_row(q);
}

/* ---- Slots: what to do next ------------------------------------------------------------------ */

enum next {
    NEXT_TURN,
    NEXT_RUN,
    NEXT_SLEEP,
    NEXT_LEAVE,
};

/* The first claimed run that may start; NULL: none. The mutex is held. */
static struct redrive_task_run *next_claimed(const struct queue_handler *h)
{
    LIST_FOREACH (&h->claimed, link) {
        struct redrive_task_run *run = LIST_ENTRY(link, struct redrive_task_run, link);
        if (h->n_doubtful[run->shard] == 0)
            return run;
    }
    return NULL;
}

/* The mutex is held. */
static enum next next_of(const struct queue_handler *h)
{
    if (queue_turn_is_due(h))
        return NEXT_TURN;
    if (next_claimed(h))
        return NEXT_RUN;
    return h->queue->is_stopping ? NEXT_LEAVE : NEXT_SLEEP;
}

/* ---- Slots: running -------------------------------------------------------------------------- */

/* The mutex is held before and after. */
static void call(struct queue_handler *h, struct redrive_task_run *run)
{
    struct redrive_queue *q = h->queue;
    h->n_running++;
    run->is_running = true;
    if (next_of(h) == NEXT_TURN || next_of(h) == NEXT_RUN)
        queue_wake_slot(h);
    pthread_mutex_unlock(&q->mutex);
    const int64_t start_ns = clock_monotonic_ns();
    run->waited_ms = start_ns / 1000000 - run->claimed_ms;
    const bool succeeded = queue_run_call(run);
    const int64_t took_us = (clock_monotonic_ns() - start_ns) / 1000;
    pthread_mutex_lock(&q->mutex);
    h->n_running--;
    run->is_running = false;
    claim_pace_run(&h->pace, took_us);
    if (succeeded)
        return;
    run->is_doubtful = h->has_failed = true;
    h->n_doubtful[run->shard]++;
}

/* A job whose lease was lost while it waited does not run, nor one whose lease is over by this
 * clock, which is given back. The mutex is held before and after. */
static void run_next(struct queue_handler *h)
{
    struct redrive_task_run *run = next_claimed(h);
    list_remove(&run->link);
    h->n_claimed--;
    if (held_lease_is_over(&run->lease, clock_monotonic_ms()))
        run->outcome.ending = ENDING_RELEASED;
    else if (!atomic_load(&run->is_lost))
        call(h, run);
    list_insert(&h->ended, &run->link);
}

/* ---- Slots: sleeping ------------------------------------------------------------------------- */

/* The mutex is held. */
static bool is_idle(const struct redrive_queue *q)
{
    for (const struct queue_handler *h = q->handlers; h; h = h->next)
        if (h->wants || h->in_turn || h->n_held > 0)
            return false;
    return q->n_busy == 0;
}

/* Sleeps until there may be something to do. The mutex is held before and after. */
static void sleep_slot(struct queue_handler *h)
{
    struct redrive_queue *q = h->queue;
    q->n_busy--;
    if (h->n_claimed > 0) /* they wait for a failure to be settled */
        queue_watch(q);
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

/* ---- Slots: the thread ----------------------------------------------------------------------- */

/* The mutex is held. */
static enum next look_for_next(struct queue_handler *h)
{
    notice_stop(h->queue);
    return next_of(h);
}

static void *slot_main(void *arg)
{
    struct queue_handler *h = ((struct queue_slot *)arg)->handler;
    struct redrive_queue *q = h->queue;
    enum next next;
    pthread_mutex_lock(&q->mutex);
    while ((next = look_for_next(h)) != NEXT_LEAVE) {
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

/* ---- Slots: start and end -------------------------------------------------------------------- */

static bool start_slot(struct redrive_queue *q, struct queue_slot *slot)
{
    pthread_mutex_lock(&q->mutex);
    q->n_alive++;
    q->n_busy++;
    pthread_mutex_unlock(&q->mutex);
    if (thread_start(&slot->thread, slot_main, slot))
        return true;
    pthread_mutex_lock(&q->mutex);
    q->n_alive--;
    q->n_busy--;
    queue_begin_stop(q);
    pthread_mutex_unlock(&q->mutex);
    return false;
}

/* How many were started; fewer than there are slots means that there are no more threads. */
static size_t start_slots(struct redrive_queue *q)
{
    size_t n = 0;
    for (struct queue_handler *h = q->handlers; h; h = h->next)
        for (size_t i = 0; i < h->n_slots; i++, n++)
            if (!start_slot(q, &h->slots[i]))
                return n;
    return n;
}

static void join_slots(struct redrive_queue *q, size_t n)
{
    for (struct queue_handler *h = q->handlers; h; h = h->next)
        for (size_t i = 0; i < h->n_slots && n > 0; i++, n--)
            pthread_join(h->slots[i].thread, NULL);
}

/* ---- Work ------------------------------------------------------------------------------------ */

static int begin(struct redrive_queue *q, unsigned flags, struct redrive_err *err)
{
    int rc = 0;
    const int64_t now_ms = clock_monotonic_ms();
    HOLD(&q->mutex);
    if (q->is_working) {
        rc = err_set(err, REDRIVE_E_STATE, "the queue is being worked");
        err_detail(err, "one thread at a time may call redrive_queue_work");
    } else if (!q->handlers) {
        rc = err_set(err, REDRIVE_E_STATE, "there is nothing to run");
        err_hint(err, "register a function with redrive_queue_handle");
    } else {
        q->is_working = true;
        q->is_stopping = atomic_load(&q->stop_at_ms) != QUEUE_NEVER;
        q->until_idle = flags & REDRIVE_WORK_UNTIL_IDLE;
        for (struct queue_handler *h = q->handlers; h; h = h->next) {
            h->wants = true;
            h->misses_shard = false;
            h->look_at_ms = now_ms + h->config->heartbeat_ms;
        }
    }
    return rc;
}

/* A shard that was away in the end may have jobs. */
static int check_missed(const struct redrive_queue *q, struct redrive_err *err)
{
    for (const struct queue_handler *h = q->handlers; h && q->until_idle; h = h->next) {
        if (!h->misses_shard)
            continue;
        err_set(err, REDRIVE_E_IO, "a shard is away: its jobs were not looked at");
        err_detail(err, "%s: %s", q->missed.detail, q->missed.message);
        return REDRIVE_E_IO;
    }
    return 0;
}

static void finish(struct redrive_queue *q)
{
    HOLD(&q->mutex);
    q->is_working = false;
    q->n_busy = 0;
}

int redrive_queue_work(struct redrive_queue *q, unsigned flags, struct redrive_err *err)
{
    if (!q)
        return queue_is_missing(err);
    int rc = begin(q, flags, err);
    if (rc < 0)
        return rc;
    struct publish_op publish;
    publish_op_init(&publish);
    rc = committer_run(q->committer, &publish.op, err);
    if (rc == 0) {
        size_t n = start_slots(q);
        if (n < q->n_slots)
            rc = err_set(err, REDRIVE_E_NOMEM, "cannot start thread %zu of %zu", n + 1, q->n_slots);
        look_after(q);
        join_slots(q, n);
    }
    if (rc == 0)
        rc = check_missed(q, err);
    finish(q);
    return rc;
}
