/* turn.c - what a handler asks of the store: settles runs that have ended and claims jobs, in one
 * transaction. */
#include "lib/queue/private.h"

#include <stdlib.h>

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
        return h->has_failed || claim_pace_is_due(&h->pace, (uint32_t)h->n_claimed);
    return h->n_claimed == 0 && may_claim(h) && !list_empty(&h->unused);
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

/* No claim for a while; settlements go on. */
static void claim_later(struct queue_handler *h, const char *what, const struct redrive_err *err)
{
    log_trouble(h, what, err);
    HOLD(&h->queue->mutex);
    h->claim_again_ms = clock_monotonic_ms() + h->pause_ms;
    h->wants = true;
}

/* ---- Settling: what is handed in ------------------------------------------------------------- */

static void log_run(const struct redrive_task_run *run, enum log_level level, const char *event,
                    int code)
{
    const struct queue_handler *h = run->handler;
    log_event(&h->queue->log, level, clock_wall_ms(), event,
              LOG_S("job_id", run->id ? run->id : ""), LOG_S("task", h->task),
              LOG_I("attempt", run->attempt), LOG_S("error", redrive_err_text(code)));
}

/* Runs that are settled by one operation. No thread waits for it: their shards may be late, and the
 * others need not be. */
struct batch {
    struct queue_handler *handler;
    struct list runs; /* in the order of the items */
    struct list lost; /* their leases were lost before: they are not settled */
    struct settle_op op;
    size_t n;
    struct settlement items[];
};

static void on_settled(struct op *op, void *ctx);

static struct redrive_task_run *run_of(struct list *link)
{
    return LIST_ENTRY(link, struct redrive_task_run, link);
}

static void batch_add(struct batch *batch, struct redrive_task_run *run)
{
    const bool is_lost = atomic_load(&run->is_lost);
    list_insert(is_lost ? &batch->lost : &batch->runs, &run->link);
    if (is_lost)
        return;
    batch->items[batch->n++] = (struct settlement){
        .seq = run->seq,
        .token = run->token,
        .outcome = run->outcome,
        .result = {run->result, run->result_len},
        .waited_ms = run->waited_ms,
    };
}

/* Takes the first `n` runs of a list, to be handed in. From now on a refused heartbeat of them is
 * not logged. NULL: no memory. The mutex is held. */
static struct batch *take_runs(struct queue_handler *h, struct list *from, size_t n)
{
    struct batch *batch = malloc(sizeof *batch + n * sizeof batch->items[0]);
    if (!batch)
        return NULL;
    batch->handler = h;
    batch->n = 0;
    list_init(&batch->runs);
    list_init(&batch->lost);
    for (; n > 0; n--) {
        struct redrive_task_run *run = run_of(from->next);
        list_remove(&run->link);
        run->is_settling = true;
        batch_add(batch, run);
    }
    settle_op_init(&batch->op, batch->items, batch->n);
    batch->op.op.by_item = true;
    batch->op.op.done = on_settled;
    batch->op.op.done_ctx = batch;
    h->queue->n_under_way++;
    return batch;
}

/* ---- Settling: what becomes of it ------------------------------------------------------------ */

/* The runs of a list are tried again after a while, longer each time. For how long they wait; 0:
 * with others, for which that is known. The mutex is held. */
static int64_t try_later(struct queue_handler *h, struct list *runs)
{
    const int64_t now_ms = clock_monotonic_ms();
    int64_t wait_ms = STORE_WAIT_MIN_MS;
    LIST_FOREACH (runs, link) {
        struct redrive_task_run *run = run_of(link);
        run->is_settling = false;
        run->late_ms = run->late_ms > 0 ? run->late_ms : now_ms;
        wait_ms = now_ms - run->late_ms > wait_ms ? now_ms - run->late_ms : wait_ms;
        list_remove(link);
        list_insert(&h->later, link);
    }
    if (h->later_at_ms > now_ms)
        return 0;
    wait_ms = wait_ms < QUEUE_LATER_MS ? wait_ms : QUEUE_LATER_MS;
    h->later_at_ms = now_ms + wait_ms;
    queue_wake(h->queue);
    return wait_ms;
}

/* Moves the first of the runs that have ended, and those that are settled by the same operation, to
 * a list: how many. Not those of other shards, since one of the shards may hang. A run that the
 * store did not take is alone: it may be refused again, and would have the others refused with it.
 * The mutex is held. */
static size_t take_group(struct queue_handler *h, struct list *ret)
{
    const struct redrive_task_run *first = run_of(h->ended.next);
    size_t n = 0;
    list_init(ret);
    LIST_FOREACH (&h->ended, link) {
        const struct redrive_task_run *run = run_of(link);
        if (run != first && (run->shard != first->shard || run->late_ms > 0))
            continue;
        list_remove(link);
        list_insert(ret, link);
        n++;
        if (first->late_ms > 0)
            break;
    }
    return n;
}

/* Operations for all that has ended. The mutex is held. */
static void take_ended(struct queue_handler *h, struct list *ret_ops)
{
    list_init(ret_ops);
    h->has_failed = false;
    while (!list_empty(&h->ended)) {
        struct list group;
        const size_t n = take_group(h, &group);
        struct batch *batch = take_runs(h, &group, n);
        if (batch)
            list_insert(ret_ops, &batch->op.op.link);
        else
            (void)try_later(h, &group);
    }
}

void queue_settle(struct queue_handler *h)
{
    struct redrive_queue *q = h->queue;
    struct list ops;
    take_ended(h, &ops);
    if (list_empty(&ops))
        return;
    pthread_mutex_unlock(&q->mutex);
    committer_submit_all(q->committer, &ops);
    pthread_mutex_lock(&q->mutex);
}

/* Claimed jobs go back at once, but for the first `n_left`. The mutex is held before and after. */
static void give_back_but(struct queue_handler *h, size_t n_left)
{
    queue_give_back(h, n_left);
    queue_settle(h);
}

/* What the store refuses for good may be the fault of one of them: each is tried by itself. Until
 * idle, an outcome that a shard has not taken for a lease is not waited for, when others have
 * answered: it belongs to the next worker. A store that is away as a whole is waited for. */
static bool gives_up(const struct batch *batch, const struct redrive_task_run *run, int code)
{
    const struct queue_handler *h = run->handler;
    const bool is_its_own = batch->op.op.code == 0 || batch->n == 1;
    const int64_t now_ms = clock_monotonic_ms();
    const bool is_late =
        batch->op.op.code == 0 && run->late_ms > 0 && now_ms - run->late_ms >= h->config->lease_ms;
    return (is_its_own && !redrive_err_retryable(code)) || code == REDRIVE_E_STOPPING ||
           now_ms >= atomic_load(&h->queue->give_up_at_ms) || (h->queue->until_idle && is_late);
}

/* Refused: the lease has been lost, the job was cancelled, or an earlier try whose answer was lost
 * has reached the store after all. */
static void log_settled(const struct redrive_task_run *run, int code, bool is_refused)
{
    if (code < 0 && is_refused)
        log_run(run, LOG_LEVEL_WARNING, "settlement_refused", code);
    else if (code < 0)
        log_run(run, LOG_LEVEL_ERROR, "settlement_lost", code);
}

/* Leaves the runs in the batch that are to be tried again, and moves the others. Whether a breaker
 * is open now because one of them has failed. */
static bool sort_out(struct batch *batch, struct list *ret_over)
{
    const int failed = batch->op.op.code;
    const struct settlement *item = batch->items;
    bool is_shut = false;
    LIST_FOREACH (&batch->runs, link) {
        struct redrive_task_run *run = run_of(link);
        const int code = failed < 0 ? failed : item->ret.code;
        is_shut |= code == 0 && item->is_shut;
        item++;
        if (code < 0 && !gives_up(batch, run, code))
            continue;
        log_settled(run, code, failed == 0 && !redrive_err_retryable(code));
        list_remove(link);
        list_insert(ret_over, link);
    }
    LIST_FOREACH (&batch->lost, link) {
        log_run(run_of(link), LOG_LEVEL_WARNING, "outcome_dropped", REDRIVE_E_STATE);
        list_remove(link);
        list_insert(ret_over, link);
    }
    return is_shut;
}

/* The mutex is held. */
static void clear_doubt(struct redrive_task_run *run)
{
    run->handler->n_doubtful[run->shard] -= run->is_doubtful;
    run->is_doubtful = false;
}

/* The jobs of these runs are no concern of this process any more. A settlement may have released
 * parked jobs: a queue that goes on is woken for them; one that ends when idle has to ask. The
 * mutex is held. */
static void let_go(struct queue_handler *h, struct list *runs)
{
    if (!list_empty(runs) && h->queue->until_idle)
        queue_want_all(h->queue);
    LIST_FOREACH (runs, link) {
        struct redrive_task_run *run = run_of(link);
        clear_doubt(run);
        run->is_held = run->is_settling = false;
        h->n_held--;
        list_remove(link);
        list_insert(&h->unused, link);
    }
}

/* Runs that are tried again later. What they may do to their breakers is not waited for if their
 * shard is away, or if they were late before: that may take long. The mutex is held. */
static int64_t keep(struct queue_handler *h, struct batch *batch)
{
    if (list_empty(&batch->runs))
        return 0;
    LIST_FOREACH (&batch->runs, link)
        if (batch->op.op.code == 0 || run_of(link)->late_ms > 0)
            clear_doubt(run_of(link));
    return try_later(h, &batch->runs);
}

static void end_batch(struct batch *batch)
{
    struct queue_handler *h = batch->handler;
    struct redrive_queue *q = h->queue;
    struct list over;
    list_init(&over);
    const bool is_shut = sort_out(batch, &over);
    LIST_FOREACH (&over, link)
        queue_run_release(run_of(link));
    pthread_mutex_lock(&q->mutex);
    let_go(h, &over);
    const int64_t wait_ms = keep(h, batch);
    if (is_shut)
        give_back_but(h, 0);
    if (h->n_claimed > 0 || queue_turn_is_due(h))
        queue_wake_slot(h);
    pthread_mutex_unlock(&q->mutex);
    if (wait_ms > 0)
        log_event(&q->log, LOG_LEVEL_ERROR, clock_wall_ms(), "settlement_failed",
                  LOG_S("task", h->task), LOG_S("error", batch->op.op.err.message),
                  LOG_S("detail", batch->op.op.err.detail), LOG_I("delay_ms", wait_ms));
}

/* On a thread of the committer, or on the one that has handed it in. */
static void on_settled(struct op *op, void *ctx)
{
    struct batch *batch = ctx;
    struct redrive_queue *q = batch->handler->queue;
    (void)op;
    end_batch(batch);
    free(batch);
    HOLD(&q->mutex);
    queue_answered(q);
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
    run->shard = committer_shard_of(run->handler->queue->committer, run->seq);
    run->outcome.ending = fits ? ENDING_RAN : ENDING_RELEASED;
    run->is_repeated = lease_may_have_earlier_run(job);
    run->claimed_ms = clock_monotonic_ms();
    return fits;
}

/* Whether an earlier attempt of the job still runs here: its lease was lost, and it has been told
 * to return, or will be at its next heartbeat. The mutex is held. */
static bool has_earlier_run(const struct redrive_task_run *run)
{
    const struct queue_handler *h = run->handler;
    for (size_t i = 0; i < h->n_runs && run->is_repeated; i++)
        if (h->runs[i].is_running && h->runs[i].seq == run->seq)
            return true;
    return false;
}

/* The claimed jobs, which were asked for at `sent_ms`, are held from now on, and slots take them.
 * The mutex is held. */
static void hold(struct queue_handler *h, size_t n, int64_t sent_ms)
{
    const int64_t now_ms = clock_monotonic_ms();
    for (; n > 0; n--) {
        struct list *link = h->room.next;
        struct redrive_task_run *run = run_of(link);
        if (has_earlier_run(run))
            run->outcome =
                (struct outcome){.ending = ENDING_SNOOZED, .snooze_ms = LEASE_EARLIER_RUN_MS};
        const bool runs = run->outcome.ending == ENDING_RAN;
        run->is_held = true;
        run->lease = (struct held_lease){0};
        held_lease_give(&run->lease, sent_ms, h->config->lease_ms);
        queue_watch_lease(h, &run->lease, now_ms);
        h->n_held++;
        list_remove(link);
        list_insert(runs ? &h->claimed : &h->ended, link);
        h->n_claimed += runs;
    }
    h->claimed_at_ms = now_ms;
    if (h->queue->is_stopping)
        queue_give_back(h, 0);
    else if (h->n_claimed > 0)
        queue_wake_slot(h);
}

/* Whether a job may wait here for a slot: it has no slot of a limit by a definition of another
 * process, and not a single attempt by a policy of its own. */
static bool may_wait(const struct job *job)
{
    return job->spec.limit_key.len == 0 && job_max_attempts(job) > 1;
}

/* Takes the jobs of a claim that was handed in at `sent_ns` and has been answered. */
static void take_claimed(struct queue_handler *h, const struct claim_op *claim, int64_t sent_ns)
{
    struct redrive_queue *q = h->queue;
    struct redrive_err err;
    const int64_t turn_ns = clock_monotonic_ns() - sent_ns;
    size_t n_unfit = 0;
    bool may_all_wait = true;
    struct list *link = h->room.next;
    for (size_t i = 0; i < claim->n; i++, link = link->next) {
        n_unfit += !fill(run_of(link), &claim->jobs[i]);
        may_all_wait &= may_wait(&claim->jobs[i]);
    }
    pthread_mutex_lock(&q->mutex);
    hold(h, claim->n, sent_ns / 1000000);
    h->may_claim_ahead &= may_all_wait;
    if (!may_all_wait && h->n_claimed > h->n_slots - h->n_running)
        give_back_but(h, h->n_slots - h->n_running);
    if (claim->n > 0 || claim->more)
        h->wants = true;
    claim_pace_turn(&h->pace, turn_ns / 1000);
    if (h->n_claimed > h->n_slots - h->n_running)
        queue_watch(q);
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

static void end_claim(struct queue_handler *h, struct claim_op *claim, int64_t sent_ns)
{
    if (claim->op.code < 0) {
        claim_later(h, "claim_failed", &claim->op.err);
    } else if (!asks_shard_again(h, claim)) {
        h->pause_ms = 0;
        take_claimed(h, claim, sent_ns);
    }
    claim_op_release(claim);
}

/* ---- A turn ---------------------------------------------------------------------------------- */

/* Hands in what has ended and a claim, and takes the jobs that this gives. */
static void ask_store(struct queue_handler *h, struct list *ops, size_t limit)
{
    struct claim_op claim;
    struct str task;
    if (limit == 0) {
        committer_submit_all(h->queue->committer, ops);
        return;
    }
    prepare_claim(h, limit, &task, &claim);
    const int64_t sent_ns = clock_monotonic_ns();
    committer_run_with(h->queue->committer, ops, &claim.op);
    end_claim(h, &claim, sent_ns);
}

void queue_take_turn(struct queue_handler *h)
{
    struct redrive_queue *q = h->queue;
    struct list ops;
    h->in_turn = true;
    take_ended(h, &ops);
    const size_t limit = make_room(h);
    if (h->n_claimed > 0)
        queue_wake_slot(h);
    pthread_mutex_unlock(&q->mutex);
    ask_store(h, &ops, limit);
    pthread_mutex_lock(&q->mutex);
    while (!list_empty(&h->room)) {
        struct list *link = h->room.next;
        list_remove(link);
        list_insert(&h->unused, link);
    }
    h->in_turn = false;
}
