/* tally.c - counts what a worker did and what is left, and prints it. */
#include "cli/commands/work/tally.h"

#include <inttypes.h>

#include "base/time/clock.h"
#include "base/time/duration.h"
#include "store/job_json.h"

/* ---- What was done --------------------------------------------------------------------------- */

void work_tally_init(struct work_tally *tally, struct str worker)
{
    *tally = (struct work_tally){.worker = worker};
    pthread_mutex_init(&tally->mutex, NULL);
}

void work_tally_release(struct work_tally *tally)
{
    pthread_mutex_destroy(&tally->mutex);
}

static void count(struct work_counts *counts, const struct engine_event *event, bool is_own)
{
    counts->ran += is_own && event->ran && event->kind != ENGINE_EVENT_RELEASED;
    counts->completed += event->kind == ENGINE_EVENT_COMPLETED;
    counts->retried += event->kind == ENGINE_EVENT_RETRYING;
    counts->dead += event->kind == ENGINE_EVENT_DEAD;
    counts->failed += event->kind == ENGINE_EVENT_FAILED;
    counts->released += event->kind == ENGINE_EVENT_RELEASED;
}

/* A run that another worker has lost counts as retried or dead, but not as one of ours. */
void work_tally_event(const struct engine_event *event, void *ctx)
{
    struct work_tally *tally = ctx;
    pthread_mutex_lock(&tally->mutex);
    count(&tally->counts, event, str_eq(event->worker, tally->worker));
    pthread_mutex_unlock(&tally->mutex);
}

struct work_counts work_tally_counts(struct work_tally *tally)
{
    pthread_mutex_lock(&tally->mutex);
    struct work_counts counts = tally->counts;
    pthread_mutex_unlock(&tally->mutex);
    return counts;
}

/* ---- What is left ---------------------------------------------------------------------------- */

static bool is_meant(const struct job_count *queue, const struct str *queues, size_t n_queues)
{
    for (size_t i = 0; i < n_queues; i++)
        if (str_eq(queue->queue, queues[i]))
            return true;
    return n_queues == 0;
}

int work_left(struct store *store, struct str tenant, const struct str *queues, size_t n_queues,
              struct work_left *ret, struct redrive_err *err)
{
    struct count_page page = {0};
    *ret = (struct work_left){0};
    int rc = store_ops(store)->counts(store, COUNT_QUEUES, tenant, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++) {
        const struct job_count *queue = &page.counts[i];
        if (!is_meant(queue, queues, n_queues))
            continue;
        ret->waiting += queue->by_state[REDRIVE_STATE_SCHEDULED];
        ret->waiting += queue->by_state[REDRIVE_STATE_RETRYING];
        ret->parked += queue->by_state[REDRIVE_STATE_PARKED];
        ret->ready += queue->by_state[REDRIVE_STATE_QUEUED];
        if (queue->next_due_ms != 0 &&
            (ret->next_ready_ms == 0 || queue->next_due_ms < ret->next_ready_ms))
            ret->next_ready_ms = queue->next_due_ms;
    }
    count_page_release(&page);
    return rc;
}

/* ---- The summary ----------------------------------------------------------------------------- */

void work_summary_text(const struct work_counts *c, const struct work_left *left, int64_t took_ms,
                       struct buf *out)
{
    char took[DURATION_TEXT_MAX], at[CLOCK_TEXT_MAX];
    buf_printf(out,
               "ran %" PRIu64 " in %s: %" PRIu64 " completed, %" PRIu64 " retried, %" PRIu64
               " dead, %" PRIu64 " failed, %" PRIu64 " released\n",
               c->ran, duration_format(took_ms, took), c->completed, c->retried, c->dead, c->failed,
               c->released);
    if (!left)
        return;
    buf_printf(out, "left: %" PRIu64 " waiting for their time, %" PRIu64 " parked", left->waiting,
               left->parked);
    if (left->ready > 0)
        buf_printf(out, ", %" PRIu64 " ready that nothing here takes", left->ready);
    buf_putc(out, '\n');
    if (left->next_ready_ms != 0)
        buf_printf(out, "the next one is ready at %s\n", clock_format(left->next_ready_ms, at));
}

void work_summary_json(const struct work_counts *c, const struct work_left *left, int64_t took_ms,
                       struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_int(&w, "ran", (int64_t)c->ran);
    json_field_int(&w, "completed", (int64_t)c->completed);
    json_field_int(&w, "retried", (int64_t)c->retried);
    json_field_int(&w, "dead", (int64_t)c->dead);
    json_field_int(&w, "failed", (int64_t)c->failed);
    json_field_int(&w, "released", (int64_t)c->released);
    if (left) {
        json_field_int(&w, "waiting", (int64_t)left->waiting);
        json_field_int(&w, "parked", (int64_t)left->parked);
        json_field_int(&w, "ready", (int64_t)left->ready);
        job_write_time(&w, "next_ready_time", left->next_ready_ms);
    }
    json_field_double(&w, "seconds", (double)took_ms / 1000);
    json_end_object(&w);
    buf_putc(out, '\n');
}
