/* tick.c - everything that is due now, and when to look again. */
#include "engine/engine.h"

#include "base/err.h"
#include "engine/clock/alert.h"
#include "engine/clock/cron.h"
#include "engine/clock/retention.h"
#include "engine/gates/gates.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "engine/verbs/change.h"
#include "engine/verbs/ending.h"
#include "engine/verbs/settle.h"

#define DUE_BATCH     1000
#define RESCUE_BATCH  200
#define OVERDUE_BATCH 200

/* After a failure, or when nothing can be done. */
#define AGAIN_MS 1000

static const struct scan ENDED = {.index = SCAN_LEASES, .limit = RESCUE_BATCH};
static const struct scan OVERDUE = {.index = SCAN_DEADLINES, .limit = OVERDUE_BATCH};
static const struct scan DUE = {.index = SCAN_DUE, .limit = DUE_BATCH};

/* What the parts that follow read: a tick that finds nothing asks a server once. */
static int read_ahead(struct engine *e, struct redrive_err *err)
{
    const struct scan scans[] = {ENDED, OVERDUE, DUE};
    if (!e->ops->scan_ahead)
        return 0;
    return e->ops->scan_ahead(e->store, scans, sizeof scans / sizeof scans[0], cancels_are_due(e),
                              err);
}

static int promote_due(struct engine *e, struct redrive_err *err)
{
    struct scan due = DUE;
    struct scan_outcome outcome;
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
        running_drop(&e->running, page->jobs[i].status.token);
        rc = settle_batch_add(e, &batch, &page->jobs[i], &lost[i], err);
    }
    return rc == 0 ? settle_batch_flush(e, &batch, err) : rc;
}

static int rescue_lost(struct engine *e, struct redrive_err *err)
{
    struct scan ended = ENDED;
    struct job_page page = {0};
    int rc = engine_scan(e, &ended, &page, err);
    struct settlement *lost = arena_array(&e->arena, page.n, sizeof *lost);
    if (rc == 0 && page.n > 0)
        rc = lost ? rescue(e, &page, lost, err) : err_nomem(err);
    engine_want(e, ended.next_ms);
    job_page_release(&page);
    return rc;
}

/* Jobs that wait where no claim would find them in time: locked, parked, in a paused queue. */
static int end_overdue(struct engine *e, struct redrive_err *err)
{
    struct scan overdue = OVERDUE;
    struct job_page page = {0};
    int rc = engine_scan(e, &overdue, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++)
        rc = end_waiting(e, &page.jobs[i], ENDING_DEADLINE, NULL, err);
    e->touched |= page.n > 0 || (overdue.next_ms != 0 && overdue.next_ms <= e->now_ms);
    engine_want(e, overdue.next_ms);
    job_page_release(&page);
    return rc;
}

/* Each is an operation of its own, so that one that fails does not stop the others. Cancels and
 * rescue come first: what they give back may be let go at once. What is overdue is not let go. */
static int (*const PARTS[])(struct engine *e, struct redrive_err *err) = {
    read_ahead,     cancels_carry_out, rescue_lost,     end_overdue, promote_due,
    parked_release, cron_ticks,        retention_sweep, alerts_look,
};
#define N_PARTS (sizeof PARTS / sizeof PARTS[0])

struct tick_op {
    struct op op;
    size_t part;
};

static int apply_part(struct engine *e, struct op *op, struct redrive_err *err)
{
    return PARTS[((const struct tick_op *)op)->part](e, err);
}

int engine_tick(struct engine *e, int64_t *ret_next_ms, struct redrive_err *err)
{
    struct tick_op parts[N_PARTS];
    struct op *ops[N_PARTS];
    int rc = 0;
    for (size_t i = 0; i < N_PARTS; i++) {
        parts[i] = (struct tick_op){.op = {.apply = apply_part}, .part = i};
        ops[i] = &parts[i].op;
    }
    e->wake_ms = e->own_ms = INT64_MAX;
    engine_apply(e, ops, N_PARTS);
    if (!e->is_leader)
        e->wake_ms = INT64_MAX;
    for (size_t i = 0; i < N_PARTS && rc == 0; i++) {
        rc = ops[i]->code;
        if (rc < 0 && err)
            *err = ops[i]->err;
    }
    if (rc < 0)
        e->wake_ms = engine_now_ms(e) + AGAIN_MS; /* store_status has logged it */
    running_turn(&e->running, engine_now_ms(e));
    *ret_next_ms = engine_next_ms(e);
    return rc;
}

void engine_flush(struct engine *e)
{
    if (e->gates.flush_ms == INT64_MAX)
        return;
    e->gates.flush_ms = 0;
    engine_apply(e, NULL, 0);
    if (e->gates.flush_ms == 0) /* it has failed; store_status has logged it */
        e->gates.flush_ms = engine_now_ms(e) + AGAIN_MS;
}
