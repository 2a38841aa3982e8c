#include "cli/batch_tally.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/json_writer.h"
#include "store/job_json.h"

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
    case ENGINE_EVENT_COUNT:
    default: break;
    }
}

uint64_t batch_tally_ended(const struct batch_tally *tally)
{
    return atomic_load(&tally->successful) + atomic_load(&tally->retried) +
           atomic_load(&tally->dead);
}

/* ---- What is left --------------------------------------------------------------------------- */

#define STATE(name) (1u << REDRIVE_STATE_##name)
#define LIVE        (STATE(SCHEDULED) | STATE(RETRYING) | STATE(QUEUED) | STATE(PARKED) | STATE(RUNNING))

struct look_op {
    struct op op;
    struct job_filter filter;
    struct queue_page queues;
    struct job_page jobs;
};

static int apply_queues(struct engine *engine, struct op *base, struct redrive_err *err)
{
    struct look_op *op = (struct look_op *)base;
    struct store *store = engine_store(engine);
    return store_ops(store)->queues(store, op->filter.tenant, &op->queues, err);
}

static int apply_list(struct engine *engine, struct op *base, struct redrive_err *err)
{
    struct look_op *op = (struct look_op *)base;
    struct store *store = engine_store(engine);
    return store_ops(store)->list(store, &op->filter, &op->jobs, err);
}

/* Whether any job of any task is alive, which the store knows without looking at jobs. */
static int is_any_alive(struct committer *committer, struct look_op *look, struct redrive_err *err)
{
    uint64_t alive = 0;
    look->op = (struct op){.apply = apply_queues};
    int rc = committer_run(committer, &look->op, err);
    for (size_t i = 0; i < look->queues.n && rc == 0; i++)
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            alive += LIVE >> state & 1 ? look->queues.queues[i].by_state[state] : 0;
    queue_page_release(&look->queues);
    return rc < 0 ? rc : alive > 0;
}

static void count_job(struct batch_left *left, const struct job_status *s)
{
    bool is_locked = s->state == REDRIVE_STATE_SCHEDULED || s->state == REDRIVE_STATE_RETRYING;
    left->waiting += is_locked || s->state == REDRIVE_STATE_QUEUED;
    left->parked += s->state == REDRIVE_STATE_PARKED;
    left->running += s->state == REDRIVE_STATE_RUNNING;
    if (is_locked && (left->next_ready_ms == 0 || s->process_after_ms < left->next_ready_ms))
        left->next_ready_ms = s->process_after_ms;
}

int batch_left(struct committer *committer, struct str task, struct batch_left *ret,
               struct redrive_err *err)
{
    struct look_op look = {.filter = {.tenant = STR(ENGINE_TENANT_DEFAULT),
                                      .task = task,
                                      .states = LIVE,
                                      .limit = STORE_PAGE_MAX}};
    *ret = (struct batch_left){0};
    int rc = is_any_alive(committer, &look, err);
    bool more = rc > 0;
    while (more) {
        look.op = (struct op){.apply = apply_list};
        rc = committer_run(committer, &look.op, err);
        for (size_t i = 0; i < look.jobs.n && rc == 0; i++)
            count_job(ret, &look.jobs.jobs[i].status);
        more = rc == 0 && look.jobs.more && look.jobs.n > 0;
        if (more)
            look.filter.after_seq = look.jobs.jobs[look.jobs.n - 1].status.seq;
    }
    job_page_release(&look.jobs);
    return rc < 0 ? rc : 0;
}

/* ---- The summary ---------------------------------------------------------------------------- */

void batch_summary_text(const struct batch_summary *s, struct buf *out)
{
    char at[CLOCK_TEXT_MAX];
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

void batch_summary_json(const struct batch_summary *s, struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_cstr(&w, "task", s->task);
    json_field_int(&w, "records", (int64_t)s->feed.read);
    json_field_int(&w, "new", (int64_t)s->feed.added);
    json_field_int(&w, "known", (int64_t)s->feed.known);
    json_field_int(&w, "invalid", (int64_t)s->feed.invalid);
    json_field_int(&w, "successful", (int64_t)s->successful);
    json_field_int(&w, "retried", (int64_t)s->retried);
    json_field_int(&w, "dead", (int64_t)s->dead);
    if (s->left) {
        json_field_int(&w, "waiting", (int64_t)s->left->waiting);
        json_field_int(&w, "parked", (int64_t)s->left->parked);
        json_field_int(&w, "running", (int64_t)s->left->running);
        job_write_time(&w, "next_ready_time", s->left->next_ready_ms);
    }
    json_field_double(&w, "seconds", (double)s->took_ms / 1000);
    json_end_object(&w);
    buf_putc(out, '\n');
}
