/* turn.c - what a handler asks of the store: settles runs that have ended and claims jobs, in one
 * transaction. */
#include "lib/queue/private.h"

#include "base/err.h"
#include "base/os/thread.h"
#include "base/time/clock.h"
#include "engine/store_status.h"
#include "engine/verbs/claim.h"

/* ---- What there is to do (the mutex is held) ------------------------------------------------- */

/* How many jobs a claim may ask for: one for each free slot, and those that are claimed ahead. */
static size_t claim_limit(const struct queue_handler *h)
{
    const size_t ahead = h->may_claim_ahead ? claim_pace_ahead(&h->pace) : 0;
    const size_t most = h->n_slots - h->n_running + ahead;
    return most > h->n_claimed ? most - h->n_claimed : 0;
}

static bool may_claim(const struct queue_handler *h)
{
    return h->wants && !h->queue->is_stopping &&
           (h->claim_again_ms == 0 || clock_monotonic_ms() >= h->claim_again_ms);
}

bool queue_turn_is_due(const struct queue_handler *h)
{
    if (h->in_turn)
        return false;
    if (!list_empty(&h->ended))
        return h->n_doubtful > 0 || claim_pace_is_due(&h->pace, (uint32_t)h->n_claimed);
    return h->n_claimed == 0 && may_claim(h);
}

/* Takes what has ended off the list; how many runs that are. From now on a refused heartbeat of
 * them is not logged. */
static size_t take_ended(struct queue_handler *h)
{
    size_t n = 0;
    LIST_FOREACH (&h->ended, link) {
        struct redrive_task_run *run = LIST_ENTRY(link, struct redrive_task_run, link);
        list_remove(link);
        run->is_settling = true;
        h->settled[n++] = run;
    }
    return n;
}

/* Takes as many unused runs as the claim may fill; 0: there is no claim. */
static size_t make_room(struct queue_handler *h)
{
    size_t n = 0;
    if (!may_claim(h))
        return 0;
    for (const size_t limit = claim_limit(h); n < limit && !list_empty(&h->unused); n++) {
        struct list *link = h->unused.next;
        list_remove(link);
        list_insert(&h->room, link);
    }
    if (n > 0) {
        h->wants = false;
        h->claim_again_ms = 0;
    }
    return n;
}

/* ---- Trouble --------------------------------------------------------------------------------- */

static void log_trouble(struct queue_handler *h, const char *what, const struct redrive_err *err)
{
    h->pause_ms = store_wait_after_ms(h->pause_ms);
    log_event(&h->queue->log, LOG_LEVEL_ERROR, clock_wall_ms(), what, LOG_S("task", h->task),
              LOG_S("error", err->message), LOG_S("detail", err->detail),
              LOG_I("delay_ms", h->pause_ms));
}

/* Waits before another try, longer each time. */
static void pause_turn(struct queue_handler *h, const char *what, const struct redrive_err *err)
{
    struct redrive_queue *q = h->queue;
    log_trouble(h, what, err);
    const int64_t until_ms = clock_monotonic_ms() + h->pause_ms;
    HOLD(&q->mutex);
    (void)thread_cond_wait_until(&q->pause, &q->mutex, until_ms);
}

/* No claim for a while; settlements go on. */
static void claim_later(struct queue_handler *h, const char *what, const struct redrive_err *err)
{
    log_trouble(h, what, err);
    HOLD(&h->queue->mutex);
    h->claim_again_ms = clock_monotonic_ms() + h->pause_ms;
    h->wants = true;
}

/* ---- Settling -------------------------------------------------------------------------------- */

static void log_run(const struct redrive_task_run *run, enum log_level level, const char *event,
                    int code)
{
    const struct queue_handler *h = run->handler;
    log_event(&h->queue->log, level, clock_wall_ms(), event,
              LOG_S("job_id", run->id ? run->id : ""), LOG_S("task", h->task),
              LOG_I("attempt", run->attempt), LOG_S("error", redrive_err_text(code)));
}

/* Runs that are settled by one operation. */
struct batch {
    struct queue_handler *handler;
    struct redrive_task_run **runs;
    struct settlement *items; /* at the same index */
    size_t n;
    struct settle_op op;
};

static void prepare_settle(struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        const struct redrive_task_run *run = batch->runs[i];
        batch->items[i] = (struct settlement){
            .seq = run->seq,
            .token = run->token,
            .outcome = run->outcome,
            .result = {run->result, run->result_len},
            .waited_ms = run->waited_ms,
        };
    }
    settle_op_init(&batch->op, batch->items, batch->n);
}

/* Runs whose lease was lost before are not settled: they are put behind the others. */
static void prepare_batch(struct queue_handler *h, size_t n_ended, struct batch *ret)
{
    *ret = (struct batch){.handler = h, .runs = h->settled, .items = h->settlements};
    for (size_t i = 0; i < n_ended; i++) {
        struct redrive_task_run *run = h->settled[i];
        if (atomic_load(&run->is_lost))
            continue;
        h->settled[i] = h->settled[ret->n];
        h->settled[ret->n++] = run;
    }
    prepare_settle(ret);
}

static bool gives_up(const struct redrive_queue *q, int code)
{
    return !redrive_err_retryable(code) || code == REDRIVE_E_STOPPING ||
           clock_monotonic_ms() >= atomic_load(&q->give_up_at_ms);
}

static void log_settled(const struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        if (batch->op.op.code < 0)
            log_run(batch->runs[i], LOG_LEVEL_ERROR, "settlement_lost", batch->op.op.code);
        /* The lease has been lost, the job was cancelled, or an earlier try whose answer was lost
         * has reached the store after all. */
        else if (batch->items[i].ret.code < 0)
            log_run(batch->runs[i], LOG_LEVEL_WARNING, "settlement_refused",
                    batch->items[i].ret.code);
    }
}

/* A settlement has been tried, and is tried again until the store takes or refuses it. */
static void settle_until_taken(struct batch *batch)
{
    struct queue_handler *h = batch->handler;
    while (batch->op.op.code < 0 && !gives_up(h->queue, batch->op.op.code)) {
        pause_turn(h, "settlement_failed", &batch->op.op.err);
        prepare_settle(batch);
        (void)committer_run(h->queue->committer, &batch->op.op, NULL);
    }
    if (batch->op.op.code >= 0)
        h->pause_ms = 0;
}

/* What the store refuses for good may be the fault of one: each is tried by itself. */
static void settle_each(const struct batch *all)
{
    for (size_t i = 0; i < all->n; i++) {
        struct batch one = {.handler = all->handler, .runs = all->runs + i, .n = 1};
        one.items = all->items + i;
        prepare_settle(&one);
        (void)committer_run(all->handler->queue->committer, &one.op.op, NULL);
        settle_until_taken(&one);
        log_settled(&one);
    }
}

/* Whether one of them has failed and its breaker is open now. */
static bool is_shut(const struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++)
        if (batch->items[i].is_shut)
            return true;
    return false;
}

static void end_settle(struct batch *batch)
{
    settle_until_taken(batch);
    const int code = batch->op.op.code;
    if (code < 0 && batch->n > 1 && code != REDRIVE_E_STOPPING && !redrive_err_retryable(code))
        settle_each(batch);
    else
        log_settled(batch);
}

/* The jobs of these runs are no concern of this process any more. A settlement may have released
 * parked jobs: a queue that goes on is woken for them; one that ends when idle has to ask. The
 * mutex is held before and after. */
static void let_go(struct queue_handler *h, size_t n)
{
    struct redrive_queue *q = h->queue;
    for (size_t i = 0; i < n; i++) {
        struct redrive_task_run *run = h->settled[i];
        h->n_doubtful -= run->is_doubtful;
        run->is_held = run->is_settling = run->is_doubtful = false;
    }
    if (n > 0 && q->until_idle)
        queue_want_all(q);
    pthread_mutex_unlock(&q->mutex);
    for (size_t i = 0; i < n; i++)
        queue_run_release(h->settled[i]);
    pthread_mutex_lock(&q->mutex);
    for (size_t i = 0; i < n; i++)
        list_insert(&h->unused, &h->settled[i]->link);
}

/* ---- Claiming -------------------------------------------------------------------------------- */

static void prepare_claim(struct queue_handler *h, size_t limit, struct str *task,
                          struct claim_op *ret)
{
    const struct redrive_queue *q = h->queue;
    *task = str_of(h->task);
    const struct claim_filter filter = {
        .tenant = str_of(q->tenant),
        .tasks = task,
        .n_tasks = 1,
        .limit = (uint32_t)limit,
    };
    claim_op_init(ret, &filter, str_of(q->worker), h->config->lease_ms);
    ret->with_parents = true;
}

/* Copies a job into a run. One that there is no memory for is given back. */
static bool fill(struct redrive_task_run *run, const struct job *job)
{
    const bool fits = queue_run_init(run, job);
    run->seq = job->status.seq;
    run->token = job->status.token;
    run->outcome.ending = fits ? ENDING_RAN : ENDING_RELEASED;
    run->claimed_ms = clock_monotonic_ms();
    return fits;
}

/* The claimed jobs are held from now on, and slots take them. The mutex is held. */
static void hold(struct queue_handler *h, size_t n)
{
    for (; n > 0; n--) {
        struct list *link = h->room.next;
        struct redrive_task_run *run = LIST_ENTRY(link, struct redrive_task_run, link);
        const bool runs = run->outcome.ending != ENDING_RELEASED;
        run->is_held = true;
        list_remove(link);
        list_insert(runs ? &h->claimed : &h->ended, link);
        h->n_claimed += runs;
    }
    h->claimed_at_ms = clock_monotonic_ms();
    if (h->queue->is_stopping)
        queue_give_back(h);
    else if (h->n_claimed > 0)
        queue_wake_slot(h);
}

/* The thread that called work is to see that claimed jobs do not wait for long. The mutex is held.
 */
static void watch_claimed(struct queue_handler *h)
{
    struct redrive_queue *q = h->queue;
    if (h->n_claimed <= h->n_slots - h->n_running || q->is_watching)
        return;
    q->is_watching = true;
    queue_wake(q);
}

/* Takes the jobs of a claim that was answered. */
static void take_claimed(struct queue_handler *h, const struct claim_op *claim, int64_t turn_ns)
{
    struct redrive_queue *q = h->queue;
    struct redrive_err err;
    size_t n_unfit = 0;
    struct list *link = h->room.next;
    for (size_t i = 0; i < claim->n; i++, link = link->next)
        n_unfit += !fill(LIST_ENTRY(link, struct redrive_task_run, link), &claim->jobs[i]);
    pthread_mutex_lock(&q->mutex);
    hold(h, claim->n);
    if (claim->n > 0 || claim->more)
        h->wants = true;
    claim_pace_turn(&h->pace, turn_ns / 1000);
    watch_claimed(h);
    pthread_mutex_unlock(&q->mutex);
    /* Not to be taken again at once. */
    if (n_unfit > 0) {
        (void)err_nomem(&err);
        claim_later(h, "job_not_taken", &err);
    }
}

/* Whether an empty claim of a queue that ends when idle has to be repeated: a shard was too slow
 * for it. One that is away is not waited for; redrive_queue_work tells of it. */
static bool asks_shard_again(struct queue_handler *h, const struct claim_op *claim)
{
    struct redrive_queue *q = h->queue;
    pthread_mutex_lock(&q->mutex);
    const bool asks = q->until_idle && claim->missed == CLAIM_MISSED_SLOW;
    h->misses_shard = claim->missed == CLAIM_MISSED_AWAY;
    if (h->misses_shard)
        q->missed = claim->op.err;
    pthread_mutex_unlock(&q->mutex);
    if (asks)
        claim_later(h, "claim_failed", &claim->op.err);
    return asks;
}

static void end_claim(struct queue_handler *h, struct claim_op *claim, int64_t turn_ns)
{
    if (claim->op.code < 0) {
        claim_later(h, "claim_failed", &claim->op.err);
    } else if (!asks_shard_again(h, claim)) {
        h->pause_ms = 0;
        take_claimed(h, claim, turn_ns);
    }
    claim_op_release(claim);
}

/* ---- A turn ---------------------------------------------------------------------------------- */

/* Asks the store, and takes the jobs that it gives: they are held before anything else is done,
 * which may take long. */
static void ask_store(struct queue_handler *h, struct batch *batch, size_t limit)
{
    struct claim_op claim;
    struct str task;
    struct list ops;
    list_init(&ops);
    if (batch->n > 0)
        list_insert(&ops, &batch->op.op.link);
    if (limit > 0) {
        prepare_claim(h, limit, &task, &claim);
        list_insert(&ops, &claim.op.link);
    }
    const int64_t start_ns = clock_monotonic_ns();
    committer_run_all(h->queue->committer, &ops);
    if (limit > 0)
        end_claim(h, &claim, clock_monotonic_ns() - start_ns);
}

/* The mutex is held. */
static void end_turn(struct queue_handler *h, size_t n_ended)
{
    let_go(h, n_ended);
    while (!list_empty(&h->room)) {
        struct list *link = h->room.next;
        list_remove(link);
        list_insert(&h->unused, link);
    }
    h->in_turn = false;
}

static void log_dropped(const struct queue_handler *h, size_t from, size_t n)
{
    for (size_t i = from; i < n; i++)
        log_run(h->settled[i], LOG_LEVEL_WARNING, "outcome_dropped", REDRIVE_E_STATE);
}

void queue_take_turn(struct queue_handler *h)
{
    struct redrive_queue *q = h->queue;
    struct batch batch;
    h->in_turn = true;
    const size_t n_ended = take_ended(h);
    const size_t limit = make_room(h);
    if (h->n_claimed > 0)
        queue_wake_slot(h);
    pthread_mutex_unlock(&q->mutex);
    prepare_batch(h, n_ended, &batch);
    ask_store(h, &batch, limit);
    if (batch.n > 0)
        end_settle(&batch);
    log_dropped(h, batch.n, n_ended);
    const bool shut = is_shut(&batch);
    pthread_mutex_lock(&q->mutex);
    if (shut)
        queue_give_back(h);
    end_turn(h, n_ended);
}

/* The mutex is held. */
static void put_back_ended(struct queue_handler *h, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        h->settled[i]->is_settling = false;
        list_insert(&h->ended, &h->settled[i]->link);
    }
}

void queue_settle_once(struct queue_handler *h)
{
    struct redrive_queue *q = h->queue;
    struct batch batch;
    h->in_turn = true;
    size_t n_ended = take_ended(h);
    pthread_mutex_unlock(&q->mutex);
    prepare_batch(h, n_ended, &batch);
    int rc = batch.n > 0 ? committer_run(q->committer, &batch.op.op, NULL) : 0;
    if (rc == 0) {
        log_settled(&batch);
        log_dropped(h, batch.n, n_ended);
    }
    pthread_mutex_lock(&q->mutex);
    if (rc < 0) {
        put_back_ended(h, n_ended);
        n_ended = 0;
    }
    end_turn(h, n_ended);
    /* A slot that could not take a turn meanwhile sleeps. */
    queue_wake_slot(h);
}
