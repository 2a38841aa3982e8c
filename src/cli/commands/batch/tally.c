/* tally.c - counts what a run did and what is left, and prints it. */
#include "cli/commands/batch/tally.h"

#include <inttypes.h>

#include "base/json/writer.h"
#include "base/time/clock.h"
#include "store/job_json.h"

#define LOOKED_AT_ONCE 50

void batch_tally_event(const struct engine_event *event, void *ctx)
{
    struct batch_tally *tally = ctx;
    if (!str_eq(event->task, tally->task))
        return;
    switch (event->kind) {
    case ENGINE_EVENT_COMPLETED: atomic_fetch_add(&tally->successful, 1); break;
    case ENGINE_EVENT_RETRYING: atomic_fetch_add(&tally->retried, 1); break;
    case ENGINE_EVENT_DEAD:
    case ENGINE_EVENT_FAILED: atomic_fetch_add(&tally->dead, 1); break;
    case ENGINE_EVENT_SUBMITTED:
    case ENGINE_EVENT_STARTED:
    case ENGINE_EVENT_RELEASED:
    case ENGINE_EVENT_CANCELLED:
    case ENGINE_EVENT_PARKED:
    case ENGINE_EVENT_REDRIVEN:
    case ENGINE_EVENT_BREAKER:
    case ENGINE_EVENT_COUNT:
    default: break;
    }
}

uint64_t batch_tally_ended(const struct batch_tally *tally)
{
    return atomic_load(&tally->successful) + atomic_load(&tally->retried) +
           atomic_load(&tally->dead);
}

/* ---- What is left ---------------------------------------------------------------------------- */

#define LOCKED (1u << REDRIVE_STATE_SCHEDULED | 1u << REDRIVE_STATE_RETRYING)

/* How many, which the store knows without looking at jobs; says how many wait for their time. */
static int count_left(struct store *store, const struct job_filter *filter, struct batch_left *ret,
                      uint64_t *ret_locked, struct redrive_err *err)
{
    RELEASED_BY(count_page_release) struct count_page page = {0};
    *ret_locked = 0;
    int rc = store_ops(store)->counts(store, COUNT_PARTITIONS, filter->tenant, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++) {
        const uint64_t *n = page.counts[i].by_state;
        if (!str_eq(page.counts[i].task, filter->task))
            continue;
        *ret_locked += n[REDRIVE_STATE_SCHEDULED] + n[REDRIVE_STATE_RETRYING];
        ret->waiting += n[REDRIVE_STATE_QUEUED];
        ret->parked += n[REDRIVE_STATE_PARKED];
        ret->running += n[REDRIVE_STATE_RUNNING];
    }
    ret->waiting += *ret_locked;
    return rc;
}

/* Page by page, in pages that fit into memory with payloads of the greatest size. */
static int find_next(struct store *store, struct job_filter *filter, int64_t *ret_ms,
                     struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    int rc = 0;
    bool more = true;
    while (more) {
        rc = store_ops(store)->list(store, filter, &page, err);
        for (size_t i = 0; i < page.n && rc == 0; i++) {
            int64_t due_ms = page.jobs[i].status.process_after_ms;
            if (*ret_ms == 0 || due_ms < *ret_ms)
                *ret_ms = due_ms;
        }
        more = rc == 0 && page.more && page.n > 0;
        if (more)
            filter->after_seq = page.jobs[page.n - 1].status.seq;
    }
    return rc;
}

int batch_left(struct store *store, struct str task, struct batch_left *ret,
               struct redrive_err *err)
{
    struct job_filter filter = {.skips_unreadable = true,
                                .tenant = STR(ENGINE_TENANT_DEFAULT),
                                .task = task,
                                .states = LOCKED,
                                .limit = LOOKED_AT_ONCE};
    uint64_t locked;
    *ret = (struct batch_left){0};
    int rc = count_left(store, &filter, ret, &locked, err);
    return rc == 0 && locked > 0 ? find_next(store, &filter, &ret->next_ready_ms, err) : rc;
}

/* ---- The summary ----------------------------------------------------------------------------- */

void batch_summary_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct batch_summary *s = thing;
    char at[CLOCK_TEXT_MAX];
    (void)term;
    if (s->has_input)
        buf_printf(out,
                   "records     %" PRIu64 " read: %" PRIu64 " new, %" PRIu64
                   " already known, %" PRIu64 " invalid\n",
                   s->feed.read, s->feed.added, s->feed.known, s->feed.invalid);
    buf_printf(out, "this run    %" PRIu64 " successful, %" PRIu64 " retried, %" PRIu64 " dead\n",
               s->successful, s->retried, s->dead);
    if (s->left) {
        buf_printf(out, "left        %" PRIu64 " waiting, %" PRIu64 " parked", s->left->waiting,
                   s->left->parked);
        if (s->left->running > 0)
            buf_printf(out, ", %" PRIu64 " running elsewhere", s->left->running);
        buf_putc(out, '\n');
        if (s->left->next_ready_ms != 0)
            buf_printf(out, "next ready  %s\n", clock_format(s->left->next_ready_ms, at));
    }
    buf_printf(out, "took        %.1f s\n", (double)s->took_ms / 1000);
}

void batch_summary_json(struct json_writer *w, const void *thing)
{
    const struct batch_summary *s = thing;
    json_begin_object(w);
    json_field_cstr(w, "task", s->task);
    json_field_int(w, "records", (int64_t)s->feed.read);
    json_field_int(w, "new", (int64_t)s->feed.added);
    json_field_int(w, "known", (int64_t)s->feed.known);
    json_field_int(w, "invalid", (int64_t)s->feed.invalid);
    json_field_int(w, "successful", (int64_t)s->successful);
    json_field_int(w, "retried", (int64_t)s->retried);
    json_field_int(w, "dead", (int64_t)s->dead);
    if (s->left) {
        json_field_int(w, "waiting", (int64_t)s->left->waiting);
        json_field_int(w, "parked", (int64_t)s->left->parked);
        json_field_int(w, "running", (int64_t)s->left->running);
        job_write_time(w, "next_ready_time", s->left->next_ready_ms);
    }
    json_field_double(w, "seconds", (double)s->took_ms / 1000);
    json_end_object(w);
}
