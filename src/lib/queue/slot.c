/* slot.c - a slot: claims a job, calls its function, settles it, and claims the next in the same
 * transaction. */
#include "lib/queue/private.h"

#include <time.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/store_status.h"
#include "engine/verbs/claim.h"

/* ---- Handing in ------------------------------------------------------------------------------ */

/* Answers to operations that were handed in together. */
struct answers {
    pthread_mutex_t mutex;
    pthread_cond_t all_there;
    size_t n_missing;
};

static void on_answer(struct op *op, void *ctx)
{
    struct answers *answers = ctx;
    (void)op;
    pthread_mutex_lock(&answers->mutex);
    if (--answers->n_missing == 0)
        pthread_cond_signal(&answers->all_there);
    pthread_mutex_unlock(&answers->mutex);
}

static void add(struct list *ops, struct answers *answers, struct op *op)
{
    op->done = on_answer;
    op->done_ctx = answers;
    list_insert(ops, &op->link);
    answers->n_missing++;
}

static void hand_in(struct redrive_queue *q, struct list *ops, struct answers *answers)
{
    committer_submit_all(q->committer, ops);
    pthread_mutex_lock(&answers->mutex);
    while (answers->n_missing > 0)
        pthread_cond_wait(&answers->all_there, &answers->mutex);
    pthread_mutex_unlock(&answers->mutex);
    pthread_cond_destroy(&answers->all_there);
    pthread_mutex_destroy(&answers->mutex);
}

/* ---- Trouble --------------------------------------------------------------------------------- */

/* Waits before another try, longer each time. */
static void pause_slot(struct queue_slot *slot, const char *what, const struct redrive_err *err)
{
    struct redrive_queue *q = slot->handler->queue;
    struct timespec until;
    slot->pause_ms = store_wait_after_ms(slot->pause_ms);
    log_event(&q->log, LOG_LEVEL_ERROR, clock_wall_ms(), what, LOG_S("task", slot->handler->task),
              LOG_S("error", err->message), LOG_S("detail", err->detail),
              LOG_I("delay_ms", slot->pause_ms));
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += slot->pause_ms / 1000;
    until.tv_nsec += (long)(slot->pause_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&q->mutex);
    (void)pthread_cond_timedwait(&q->pause, &q->mutex, &until);
    pthread_mutex_unlock(&q->mutex);
}

/* ---- Settling -------------------------------------------------------------------------------- */

static struct settlement settlement_of(const struct redrive_task_run *run)
{
    return (struct settlement){
        .seq = run->seq,
        .token = run->token,
        .outcome = run->outcome,
        .result = {run->result, run->result_len},
    };
}

static void log_run(const struct redrive_task_run *run, enum log_level level, const char *event,
                    int code)
{
    const struct queue_handler *h = run->slot->handler;
    log_event(&h->queue->log, level, clock_wall_ms(), event,
              LOG_S("job_id", run->id ? run->id : ""), LOG_S("task", h->task),
              LOG_I("attempt", run->attempt), LOG_S("error", redrive_err_text(code)));
}

static bool gives_up(const struct redrive_queue *q, int code)
{
    return !redrive_err_retryable(code) || code == REDRIVE_E_STOPPING ||
           clock_monotonic_ms() >= atomic_load(&q->give_up_at_ms);
}

/* A settlement has been tried, and is tried again until the store takes or refuses it. */
static void settle_until_taken(struct redrive_task_run *run, struct settlement *item,
                               struct settle_op *op)
{
    struct queue_slot *slot = run->slot;
    struct redrive_queue *q = slot->handler->queue;
    while (op->op.code < 0) {
        const int code = op->op.code;
        if (gives_up(q, code)) {
            log_run(run, LOG_LEVEL_ERROR, "settlement_lost", code);
            return;
        }
        pause_slot(slot, "settlement_failed", &op->op.err);
        *item = settlement_of(run);
        settle_op_init(op, item, 1);
        (void)committer_run(q->committer, &op->op, NULL);
    }
    slot->pause_ms = 0;
    /* The lease has been lost, the job was cancelled, or an earlier try whose answer was lost has
     * reached the store after all. */
    if (item->ret.code < 0)
        log_run(run, LOG_LEVEL_WARNING, "settlement_refused", item->ret.code);
}

/* The settlement may have released parked jobs. A queue that goes on is woken for them; one that
 * ends when idle has to ask. */
static void let_go(struct redrive_task_run *run)
{
    struct redrive_queue *q = run->slot->handler->queue;
    pthread_mutex_lock(&q->mutex);
    run->is_held = run->is_settling = false;
    if (q->until_idle)
        queue_want_all(q);
    pthread_mutex_unlock(&q->mutex);
    queue_run_release(run);
}

/* ---- Claiming -------------------------------------------------------------------------------- */

static void prepare_claim(struct queue_handler *h, struct str *task, struct claim_op *ret)
{
    const struct redrive_queue *q = h->queue;
    *task = str_of(h->task);
    const struct claim_filter filter = {
        .tenant = str_of(q->tenant),
        .tasks = task,
        .n_tasks = 1,
        .limit = 1,
    };
    claim_op_init(ret, &filter, str_of(q->worker), h->config->lease_ms);
}

/* Takes the job of a claim that was answered; NULL: there was none. */
static struct redrive_task_run *take(struct queue_slot *slot, struct redrive_task_run *run,
                                     struct claim_op *claim)
{
    struct queue_handler *h = slot->handler;
    struct redrive_queue *q = h->queue;
    const bool has_job = claim->op.code == 0 && claim->n > 0;
    const bool fits = !has_job || queue_run_init(run, slot, &claim->jobs[0]);
    pthread_mutex_lock(&q->mutex);
    if (has_job || (claim->op.code == 0 && claim->more))
        queue_want(h);
    if (has_job) {
        run->seq = claim->jobs[0].status.seq;
        run->token = claim->jobs[0].status.token;
        run->is_held = true;
        if (q->is_stopping || !fits)
            run->outcome.ending = ENDING_RELEASED;
    }
    pthread_mutex_unlock(&q->mutex);
    return has_job ? run : NULL;
}

static void try_again_later(struct queue_slot *slot, const struct redrive_err *err)
{
    struct redrive_queue *q = slot->handler->queue;
    pause_slot(slot, "claim_failed", err);
    pthread_mutex_lock(&q->mutex);
    queue_want(slot->handler);
    pthread_mutex_unlock(&q->mutex);
}

/* ---- A turn ---------------------------------------------------------------------------------- */

/* From now on a refused heartbeat of `done` is not logged. Whether there may be a claim as well. */
static bool begin_turn(struct queue_handler *h, struct redrive_task_run *done)
{
    struct redrive_queue *q = h->queue;
    pthread_mutex_lock(&q->mutex);
    const bool may_claim = !q->is_stopping;
    if (may_claim)
        h->wants = false;
    if (done)
        done->is_settling = true;
    pthread_mutex_unlock(&q->mutex);
    return may_claim;
}

/* What a turn asks of the store: to settle a run, a job to run next, or both in one transaction. */
struct turn {
    struct redrive_task_run *settles; /* NULL: nothing */
    bool claims;
    struct settlement item;
    struct settle_op settle;
    struct claim_op claim;
    struct str task; /* of the claim */
};

static void ask_store(struct queue_handler *h, struct turn *turn)
{
    struct answers answers = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    struct list ops;
    list_init(&ops);
    if (turn->settles) {
        turn->item = settlement_of(turn->settles);
        settle_op_init(&turn->settle, &turn->item, 1);
        add(&ops, &answers, &turn->settle.op);
    }
    if (turn->claims) {
        prepare_claim(h, &turn->task, &turn->claim);
        add(&ops, &answers, &turn->claim.op);
    }
    hand_in(h->queue, &ops, &answers);
}

/* A run has ended, and its settlement, unless its lease was lost before, has been tried. */
static void end_run(struct redrive_task_run *done, struct turn *turn)
{
    if (turn->settles)
        settle_until_taken(done, &turn->item, &turn->settle);
    else
        log_run(done, LOG_LEVEL_WARNING, "outcome_dropped", REDRIVE_E_STATE);
    let_go(done);
}

static void end_claim(struct queue_slot *slot, struct claim_op *claim)
{
    if (claim->op.code < 0)
        try_again_later(slot, &claim->op.err);
    else
        slot->pause_ms = 0;
    claim_op_release(claim);
}

/* Settles `done`, if there is one, and claims into `next`, unless the queue is stopping. */
static struct redrive_task_run *take_turn(struct queue_slot *slot, struct redrive_task_run *done,
                                          struct redrive_task_run *next)
{
    const bool claims = begin_turn(slot->handler, done);
    const bool settles = done && !atomic_load(&done->is_lost);
    struct turn turn = {.claims = claims, .settles = settles ? done : NULL};
    ask_store(slot->handler, &turn);
    /* A job that was claimed is held before anything else: the rest may take long. */
    struct redrive_task_run *taken = turn.claims ? take(slot, next, &turn.claim) : NULL;
    if (done)
        end_run(done, &turn);
    if (turn.claims)
        end_claim(slot, &turn.claim);
    return taken;
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* The mutex is held. */
static bool is_idle(const struct redrive_queue *q)
{
    for (const struct queue_handler *h = q->handlers; h; h = h->next)
        if (h->wants)
            return false;
    return q->n_busy == 0;
}

/* Sleeps until there may be a job. False: the queue is stopping. */
static bool wait_for_work(struct queue_slot *slot)
{
    struct queue_handler *h = slot->handler;
    struct redrive_queue *q = h->queue;
    pthread_mutex_lock(&q->mutex);
    q->n_busy--;
    if (q->until_idle && !q->is_stopping && is_idle(q))
        queue_begin_stop(q);
    while (!h->wants && !q->is_stopping)
        pthread_cond_wait(&h->wake, &q->mutex);
    q->n_busy++;
    const bool goes_on = !q->is_stopping;
    pthread_mutex_unlock(&q->mutex);
    return goes_on;
}

static void leave(struct redrive_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    q->n_alive--;
    pthread_mutex_unlock(&q->mutex);
    queue_wake(q);
}

/* A job that there was no memory for is given back, but not to be taken again at once. */
static void wait_for_memory(struct queue_slot *slot)
{
    struct redrive_err err;
    (void)err_nomem(&err);
    pause_slot(slot, "job_not_taken", &err);
}

void *queue_slot_main(void *arg)
{
    struct queue_slot *slot = arg;
    struct redrive_task_run *done = NULL, *next = &slot->runs[0];
    while (done || wait_for_work(slot)) {
        struct redrive_task_run *run = take_turn(slot, done, next);
        done = run;
        if (!run)
            continue;
        if (!run->text)
            wait_for_memory(slot);
        if (run->outcome.ending != ENDING_RELEASED)
            queue_run_call(run);
        next = run == &slot->runs[0] ? &slot->runs[1] : &slot->runs[0];
    }
    leave(slot->handler->queue);
    return NULL;
}
