/* claim_waits.c - claims sleep, ask again and are answered when their time is over. */
#include "server/claim_waits.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"

/* Claims of a line that ask at one time. */
#define LINE_WIDTH 1

struct claim_waits {
    struct committer *committer;
    struct timers *timers;
    pthread_mutex_t mutex; /* guards what follows, and the claims' own parts */
    struct claim_lines lines;
    bool closed;
};

static struct claim_wait *wait_of(struct list *link)
{
    return LIST_ENTRY(link, struct claim_wait, turn.link);
}

static bool may_wait(const struct claim_wait *wait)
{
    return !wait->may_wait || wait->may_wait(wait);
}

static bool sleeps(const struct claim_wait *wait)
{
    return wait->turn.line && !wait->turn.asks;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* A claim that sleeps is handed in: `ctx` is a list of operations. The mutex is held. */
static bool add_to_ops(struct claim_turn *turn, void *ctx)
{
    struct claim_wait *wait = LIST_ENTRY(turn, struct claim_wait, turn);
    list_insert(ctx, &wait->claim.op.link);
    return true;
}

/* Hands in operations, which the mutex no longer guards. */
static void hand_in(struct claim_waits *all, struct list *ops)
{
    if (!list_empty(ops))
        committer_submit_all(all->committer, ops);
}

/* Nothing was there: it keeps its place in the line if it has one, else it goes to the end. */
static bool may_sleep(struct claim_waits *all, struct claim_wait *wait)
{
    if (all->closed || wait->is_late || wait->until_ms <= clock_monotonic_ms() || !may_wait(wait))
        return false;
    return wait->turn.line || claim_lines_join(&all->lines, wait->key, &wait->turn);
}

static void finish(struct claim_waits *all, struct claim_wait *wait)
{
    timer_unset(all->timers, &wait->timer);
    wait->done(wait);
}

static void on_answer(struct op *op, void *ctx)
{
    struct claim_wait *wait = ctx;
    struct claim_waits *all = wait->all;
    struct list ops;
    list_init(&ops);
    pthread_mutex_lock(&all->mutex);
    const bool is_first = !wait->turn.line; /* the first time that it asks */
    const bool goes_on = op->code == 0 && wait->claim.n == 0 && may_sleep(all, wait);
    /* A claim that got jobs, or ends, leaves the rest to the next one. */
    claim_turn_answered(&all->lines, &wait->turn, !goes_on);
    if (goes_on) {
        if (is_first)
            timer_set(all->timers, &wait->timer, wait->until_ms);
        if (wait->claim.more) /* than a claim looks at */
            claim_line_wake(wait->turn.line);
        claim_line_ask(&all->lines, wait->turn.line, &ops);
    } else {
        struct claim_line *line = claim_lines_leave(&all->lines, &wait->turn);
        if (op->code != REDRIVE_E_STOPPING)
            claim_line_ask(&all->lines, line, &ops);
    }
    pthread_mutex_unlock(&all->mutex);
    hand_in(all, &ops);
    if (!goes_on)
        finish(all, wait);
}

/* Out of its sleep for good, or else late: then its answer will end it. */
static bool end_sleep(struct claim_wait *wait)
{
    struct claim_waits *all = wait->all;
    HOLD(&all->mutex);
    const bool slept = sleeps(wait);
    wait->is_late = true;
    if (slept)
        (void)claim_lines_leave(&all->lines, &wait->turn);
    return slept;
}

static void on_timer(struct timer *timer)
{
    struct claim_wait *wait = LIST_ENTRY(timer, struct claim_wait, timer);
    if (end_sleep(wait))
        wait->done(wait);
}

void claim_waits_end(struct claim_wait *wait)
{
    if (end_sleep(wait))
        finish(wait->all, wait);
}

void claim_wait_init(struct claim_waits *all, struct claim_wait *wait)
{
    wait->all = all;
    wait->turn = (struct claim_turn){0};
    wait->is_late = false;
    timer_init(&wait->timer, on_timer);
    wait->claim.op.done = on_answer;
    wait->claim.op.done_ctx = wait;
}

void claim_waits_add(struct claim_wait *wait)
{
    committer_submit(wait->all->committer, &wait->claim.op);
}

void claim_waits_ready(struct claim_waits *all)
{
    struct list ops;
    list_init(&ops);
    pthread_mutex_lock(&all->mutex);
    claim_lines_ready(&all->lines, &ops);
    pthread_mutex_unlock(&all->mutex);
    hand_in(all, &ops);
}

/* ---- Start and end --------------------------------------------------------------------------- */

/* Answers those that sleep and may not go on; when all is closed that is every one. */
static void end_sleepers(struct claim_waits *all, bool closes)
{
    struct list over; /* by the link of the operation, which is not handed in */
    list_init(&over);
    pthread_mutex_lock(&all->mutex);
    all->closed |= closes;
    MAP_FOREACH (&all->lines.lines, slot) {
        LIST_FOREACH (&((struct claim_line *)slot->value)->waiting, link) {
            struct claim_wait *wait = wait_of(link);
            if (sleeps(wait) && (all->closed || !may_wait(wait)))
                list_insert(&over, &wait->claim.op.link);
        }
    }
    LIST_FOREACH (&over, link)
        (void)claim_lines_leave(&all->lines,
                                &LIST_ENTRY(link, struct claim_wait, claim.op.link)->turn);
    pthread_mutex_unlock(&all->mutex);
    LIST_FOREACH (&over, link) {
        list_remove(link);
        finish(all, LIST_ENTRY(link, struct claim_wait, claim.op.link));
    }
}

void claim_waits_recheck(struct claim_waits *all)
{
    end_sleepers(all, false);
}

void claim_waits_close(struct claim_waits *all)
{
    end_sleepers(all, true);
}

int claim_waits_new(struct committer *committer, struct timers *timers, struct claim_waits **ret,
                    struct redrive_err *err)
{
    struct claim_waits *all = calloc(1, sizeof *all);
    *ret = all;
    if (!all)
        return err_nomem(err);
    all->committer = committer;
    all->timers = timers;
    pthread_mutex_init(&all->mutex, NULL);
    claim_lines_init(&all->lines, LINE_WIDTH, add_to_ops, (uint64_t)clock_monotonic_ns());
    return 0;
}

void claim_waits_free(struct claim_waits *all)
{
    if (!all)
        return;
    claim_lines_release(&all->lines);
    pthread_mutex_destroy(&all->mutex);
    free(all);
}
