/* lease.c - heartbeats: the thread that called work extends the leases of all claimed jobs. */
#include "lib/queue/private.h"

#include <stdlib.h>

#include "base/time/clock.h"

/* The extensions of a handler and, at the same index, the runs they are for. */
struct beat {
    struct extension *items;
    struct redrive_task_run **runs;
    size_t n;
};

/* What only waits to be settled needs its lease as well. The mutex is held. */
static void gather(const struct queue_handler *h, struct beat *beat)
{
    beat->n = 0;
    for (size_t i = 0; i < h->n_slots; i++) {
        for (int k = 0; k < 2; k++) {
            struct redrive_task_run *run = &h->slots[i].runs[k];
            if (!run->is_held || atomic_load(&run->is_lost))
                continue;
            beat->runs[beat->n] = run;
            beat->items[beat->n++] = (struct extension){
                .seq = run->seq,
                .token = run->token,
                .lease_ms = h->config->lease_ms,
            };
        }
    }
}

/* A run whose token is another by now has been settled meanwhile. The mutex is held. */
static size_t lose(const struct beat *beat)
{
    size_t n = 0;
    for (size_t i = 0; i < beat->n; i++) {
        struct redrive_task_run *run = beat->runs[i];
        const struct extension *item = &beat->items[i];
        if (item->ret.code == 0 || !run->is_held || run->is_settling || run->token != item->token)
            continue;
        atomic_store(&run->is_lost, true);
        atomic_store(&run->is_cancelled, true);
        n++;
    }
    return n;
}

/* A heartbeat that the store could not take says nothing about the leases: the next one is tried in
 * its turn. */
static void extend(struct queue_handler *h, struct beat *beat)
{
    struct redrive_queue *q = h->queue;
    struct redrive_err err;
    struct extend_op op;
    size_t n_lost = 0;
    extend_op_init(&op, beat->items, beat->n);
    int rc = committer_run(q->committer, &op.op, &err);
    if (rc < 0) {
        log_event(&q->log, LOG_LEVEL_WARNING, clock_wall_ms(), "heartbeat_failed",
                  LOG_S("task", h->task), LOG_S("error", err.message), LOG_S("detail", err.detail));
        return;
    }
    pthread_mutex_lock(&q->mutex);
    n_lost = lose(beat);
    pthread_mutex_unlock(&q->mutex);
    if (n_lost > 0)
        log_event(&q->log, LOG_LEVEL_WARNING, clock_wall_ms(), "lease_lost", LOG_S("task", h->task),
                  LOG_I("jobs", (int64_t)n_lost));
}

static void beat_handler(struct queue_handler *h)
{
    struct redrive_queue *q = h->queue;
    struct beat beat = {
        .items = calloc(h->n_slots * 2, sizeof *beat.items),
        .runs = calloc(h->n_slots * 2, sizeof(struct redrive_task_run *)),
    };
    if (beat.items && beat.runs) {
        pthread_mutex_lock(&q->mutex);
        gather(h, &beat);
        pthread_mutex_unlock(&q->mutex);
        if (beat.n > 0)
            extend(h, &beat);
    }
    free(beat.items);
    free(beat.runs);
}

int64_t queue_beat(struct redrive_queue *q, int64_t now_ms)
{
    int64_t next_ms = QUEUE_NEVER;
    for (struct queue_handler *h = q->handlers; h; h = h->next) {
        if (h->next_beat_ms <= now_ms) {
            beat_handler(h);
            h->next_beat_ms = now_ms + h->config->heartbeat_ms;
        }
        if (h->next_beat_ms < next_ms)
            next_ms = h->next_beat_ms;
    }
    return next_ms;
}
