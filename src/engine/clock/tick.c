#include "engine/clock/tick.h"

#include "base/err.h"
#include "engine/clock/alert.h"
#include "engine/clock/cron.h"
#include "engine/clock/retention.h"
#include "engine/gates/parked.h"
#include "engine/private.h"
#include "engine/scans.h"
#include "engine/verbs/cancels.h"
#include "engine/verbs/settle.h"

#define DUE_BATCH     1000
#define RESCUE_BATCH  200
#define OVERDUE_BATCH 200

/* After a failure, or when nothing can be done. */
#define AGAIN_MS 1000

static int apply_due(struct engine *e, struct op *op, struct redrive_err *err)
{
    struct scan due = {.index = SCAN_DUE, .limit = DUE_BATCH};
    struct scan_outcome outcome;
    (void)op;
    int rc = scan_and_move(e, &due, (struct move_list){MOVE_PROMOTE}, &outcome, err);
    if (rc == 0 && outcome.moved > 0)
        engine_made_some_ready(e);
    /* Jobs that cannot be moved (their rows are damaged) are not looked at again and again. */
    const bool is_stuck = outcome.more && outcome.moved == 0;
    engine_want(e, is_stuck ? e->now_ms + AGAIN_MS : due.next_ms);
    return rc;
}

static int rescue(struct engine *e, const struct job_page *page, struct settlement *lost,
                  struct redrive_err *err)
{
    struct settle_batch batch;
    batch.n = 0;
    int rc = 0;
    for (size_t i = 0; i < page->n && rc == 0; i++) {
        lost[i] = (struct settlement){
            .token = page->jobs[i].status.token,
            .outcome = {.ending = ENDING_LEASE_LOST},
        };
        running_drop(&e->running, page->jobs[i].status.seq);
        rc = settle_batch_add(e, &batch, &page->jobs[i], &lost[i], err);
    }
    return rc == 0 ? settle_batch_flush(e, &batch, err) : rc;
}

static int apply_cancels(struct engine *e, struct op *op, struct redrive_err *err)
{
    (void)op;
    return cancels_carry_out(e, err);
}

static int apply_rescue(struct engine *e, struct op *op, struct redrive_err *err)
{
    struct scan ended = {.index = SCAN_LEASES, .limit = RESCUE_BATCH};
    struct job_page page = {0};
    (void)op;
    int rc = e->ops->scan(e->store, &ended, &page, err);
    struct settlement *lost = arena_array(&e->arena, page.n, sizeof *lost);
    if (rc == 0 && page.n > 0)
        rc = lost ? rescue(e, &page, lost, err) : err_nomem(err);
    engine_want(e, ended.next_ms);
    job_page_release(&page);
    return rc;
}

/* Jobs that wait where no claim would find them in time: locked, parked, in a paused queue. */
static int apply_overdue(struct engine *e, struct op *op, struct redrive_err *err)
{
    struct scan overdue = {.index = SCAN_DEADLINES, .limit = OVERDUE_BATCH};
    struct job_page page = {0};
    (void)op;
    int rc = e->ops->scan(e->store, &overdue, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++)
        rc = engine_end_waiting(e, &page.jobs[i], ENDING_DEADLINE, NULL, err);
    e->touched |= page.n > 0 || (overdue.next_ms != 0 && overdue.next_ms <= e->now_ms);
    engine_want(e, overdue.next_ms);
    job_page_release(&page);
    return rc;
}

static int apply_parked(struct engine *e, struct op *op, struct redrive_err *err)
{
    (void)op;
    return parked_release(e, err);
}

static int apply_cron(struct engine *e, struct op *op, struct redrive_err *err)
{
    (void)op;
    return cron_ticks(e, err);
}

static int apply_retention(struct engine *e, struct op *op, struct redrive_err *err)
{
    (void)op;
    return retention_sweep(e, err);
}

static int apply_alerts(struct engine *e, struct op *op, struct redrive_err *err)
{
    (void)op;
    return alerts_look(e, err);
}

/* Cancels and rescue come first: what they give back may be let go at once. What is overdue is not
 * let go. */
int engine_tick(struct engine *e, int64_t *ret_next_ms, struct redrive_err *err)
{
    struct op parts[] = {{.apply = apply_cancels},   {.apply = apply_rescue},
                         {.apply = apply_overdue},   {.apply = apply_due},
                         {.apply = apply_parked},    {.apply = apply_cron},
                         {.apply = apply_retention}, {.apply = apply_alerts}};
    enum {
        N = sizeof parts / sizeof parts[0]
    };
    struct op *ops[N];
    int rc = 0;
    for (int i = 0; i < N; i++)
        ops[i] = &parts[i];
    e->wake_ms = e->own_ms = INT64_MAX;
    engine_apply(e, ops, N);
    if (!e->is_leader)
        e->wake_ms = INT64_MAX;
    for (int i = 0; i < N && rc == 0; i++) {
        rc = parts[i].code;
        if (rc == 0)
            continue;
        if (err)
            *err = parts[i].err;
    }
    if (rc < 0)
        e->wake_ms = engine_now_ms(e) + AGAIN_MS; /* the log has been told (store_status.h) */
    *ret_next_ms = engine_next_ms(e);
    return rc;
}

void engine_flush(struct engine *e)
{
    if (e->gates.flush_ms == INT64_MAX)
        return;
    e->gates.flush_ms = 0;
    engine_apply(e, NULL, 0);
    if (e->gates.flush_ms == 0) /* it has failed, and the log has been told (store_status.h) */
        e->gates.flush_ms = engine_now_ms(e) + AGAIN_MS;
}

int64_t engine_flush_ms(const struct engine *e)
{
    return e->gates.flush_ms;
}

void engine_set_leader(struct engine *e, bool keeps)
{
    if (keeps && !e->is_leader)
        e->wake_ms = 0;
    e->is_leader = keeps;
}
