/* lease.c - the leases of claimed jobs: the thread that called work has them extended, and tells
 * runs whose leases are lost or, by this worker's clock, over. */
#include "lib/queue/private.h"

#include "base/err.h"
#include "base/os/thread.h"
#include "base/time/clock.h"

static void log_lost(const struct queue_handler *h, size_t n, const char *why)
{
    if (n > 0)
        log_event(&h->queue->log, LOG_LEVEL_WARNING, clock_wall_ms(), "lease_lost",
                  LOG_S("task", h->task), LOG_I("jobs", (int64_t)n), LOG_S("error", why));
}

/* The mutex is held. */
static bool is_watched(const struct redrive_task_run *run)
{
    return run->is_held && !atomic_load(&run->is_lost);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* What the answer says about one lease. A run whose token is another by now has been settled
 * meanwhile. Whether its lease is lost. The mutex is held. */
static bool take_answer(const struct queue_handler *h, size_t i, enum renewal_fate fate)
{
    struct redrive_task_run *run = h->extended[i];
    const struct extension *item = &h->extensions[i];
    if (!run->is_held || run->token != item->token)
        return false;
    if (fate == RENEWAL_KEPT)
        held_lease_give(&run->lease, h->renewal.sent_ms, item->lease_ms);
    if (fate != RENEWAL_LOST || run->is_settling)
        return false;
    atomic_store(&run->is_lost, true);
    atomic_store(&run->is_cancelled, true);
    return true;
}

/* How many leases are lost. A heartbeat that the store could not take says nothing about the
 * leases. The mutex is held. */
static size_t take_answers(struct queue_handler *h)
{
    bool has_failed = h->beat.op.code < 0;
    size_t n_lost = 0;
    for (size_t i = 0; i < h->beat.n; i++) {
        const enum renewal_fate fate = renewal_fate(h->beat.op.code, h->extensions[i].ret.code);
        has_failed |= fate == RENEWAL_UNKNOWN;
        n_lost += take_answer(h, i, fate);
    }
    renewal_answered(&h->renewal, has_failed, clock_monotonic_ms());
    h->look_at_ms = 0;
    return n_lost;
}

/* On a thread of the committer, or on the one that has handed it in. */
static void on_extended(struct op *op, void *ctx)
{
    struct queue_handler *h = ctx;
    struct redrive_queue *q = h->queue;
    if (op->code < 0)
        log_event(&q->log, LOG_LEVEL_WARNING, clock_wall_ms(), "heartbeat_failed",
                  LOG_S("task", h->task), LOG_S("error", op->err.message),
                  LOG_S("detail", op->err.detail));
    pthread_mutex_lock(&q->mutex);
    const size_t n_lost = take_answers(h);
    pthread_mutex_unlock(&q->mutex);
    log_lost(h, n_lost, "another process has taken the jobs back");
    HOLD(&q->mutex);
    queue_answered(q);
    queue_wake(q);
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* Fills the heartbeat: how many leases it extends; 0: none is due. What waits to start or to be
 * settled needs its lease as well. The mutex is held. */
static size_t gather(struct queue_handler *h, int64_t now_ms)
{
    bool is_due = false;
    size_t n = 0;
    for (size_t i = 0; i < h->n_runs; i++) {
        struct redrive_task_run *run = &h->runs[i];
        if (!is_watched(run) || h->renewal.is_under_way ||
            !renewal_takes(&h->renewal, &run->lease, now_ms))
            continue;
        is_due |= renewal_is_due(&h->renewal, &run->lease, now_ms);
        h->extended[n] = run;
        h->extensions[n++] = (struct extension){
            .seq = run->seq,
            .token = run->token,
            .lease_ms = h->config->lease_ms,
        };
    }
    return is_due ? n : 0;
}

/* How many functions are told to return. Their leases are still extended if the store can be asked
 * before they do: until then no other worker starts their jobs. The mutex is held. */
static size_t tell_late(struct queue_handler *h, int64_t now_ms)
{
    size_t n = 0;
    for (size_t i = 0; i < h->n_runs; i++) {
        struct redrive_task_run *run = &h->runs[i];
        if (!is_watched(run) || !run->is_running || atomic_load(&run->is_late) ||
            !held_lease_is_over(&run->lease, now_ms))
            continue;
        atomic_store(&run->is_late, true);
        atomic_store(&run->is_cancelled, true);
        n++;
    }
    return n;
}

/* At the latest after a heartbeat, so that a claim need not wake this thread. The mutex is held. */
static int64_t next_look_ms(const struct queue_handler *h, int64_t now_ms)
{
    int64_t next_ms = now_ms + h->config->heartbeat_ms;
    for (size_t i = 0; i < h->n_runs; i++) {
        const struct redrive_task_run *run = &h->runs[i];
        const int64_t at_ms =
            is_watched(run) ? renewal_next_ms(&h->renewal, &run->lease, now_ms) : RENEWAL_NEVER;
        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    return next_ms;
}

static int64_t look_at_handler(struct queue_handler *h, int64_t now_ms)
{
    struct redrive_queue *q = h->queue;
    size_t n = 0, n_late = 0;
    pthread_mutex_lock(&q->mutex);
    if (h->look_at_ms <= now_ms) {
        n_late = tell_late(h, now_ms);
        n = gather(h, now_ms);
        if (n > 0)
            renewal_sent(&h->renewal, now_ms);
        h->look_at_ms = next_look_ms(h, now_ms);
    }
    int64_t next_ms = h->look_at_ms;
    pthread_mutex_unlock(&q->mutex);
    log_lost(h, n_late, "the store could not be asked to extend it in time");
    if (n == 0)
        return next_ms;
    extend_op_init(&h->beat, h->extensions, n);
    h->beat.op.by_item = h->beat.op.goes_alone = true;
    queue_submit(q, &h->beat.op, on_extended, h);
    return next_ms;
}

int64_t queue_look_at_leases(struct redrive_queue *q, int64_t now_ms)
{
    int64_t next_ms = QUEUE_NEVER;
    for (struct queue_handler *h = q->handlers; h; h = h->next) {
        const int64_t at_ms = look_at_handler(h, now_ms);
        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    return next_ms;
}

void queue_watch_lease(struct queue_handler *h, const struct held_lease *lease, int64_t now_ms)
{
    const int64_t at_ms = renewal_next_ms(&h->renewal, lease, now_ms);
    if (at_ms >= h->look_at_ms)
        return;
    h->look_at_ms = at_ms;
    queue_wake(h->queue);
}
