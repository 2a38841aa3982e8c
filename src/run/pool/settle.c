/* settle.c - settles the jobs that have ended, and tries again. */
#include "run/pool/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"

struct pool_settlement {
    struct pool_call call;
    struct settle_op op;
    struct list jobs; /* struct pool_job, in the order of the items */
    size_t n;
    struct settlement items[];
};

static void tell(const struct pool_job *job, enum log_level level, const char *event, int code)
{
    log_event(job->task->pool->options.log, level, clock_wall_ms(), event,
              LOG_S("job_id", job->request.job_id), LOG_S("task", job->request.task),
              LOG_I("attempt", job->request.attempt), LOG_S("error", redrive_err_text(code)));
}

/* Refused: the lease has been lost, the job was cancelled, or an earlier try whose answer was lost
 * has reached the store after all. */
static void on_item(struct pool_job *job, const struct settlement *item)
{
    struct pool *pool = job->task->pool;
    if (item->ret.code < 0)
        tell(job, LOG_LEVEL_WARNING, "settlement_refused", item->ret.code);
    else if (job->outcome.ending == ENDING_RAN && item->decision.state != REDRIVE_STATE_COMPLETED)
        pool->n_failed++;
    pool_job_over(job);
}

static void on_taken(struct pool_settlement *s)
{
    struct pool *pool = s->call.pool;
    const struct settlement *item = s->items;
    LIST_FOREACH (&s->jobs, link) {
        struct pool_job *job = LIST_ENTRY(link, struct pool_job, queue);
        list_remove(link);
        on_item(job, item++);
    }
    pool->pause_ms = 0;
    if (list_empty(&pool->to_settle))
        pool->settle_singly = false;
    /* The settlement may have released parked jobs. A pool that goes on is woken for them; one that
     * ends when idle has to ask. */
    if (pool->options.until_idle)
        pool_ask_again(pool);
}

static void give_up(struct pool_settlement *s, int code)
{
    LIST_FOREACH (&s->jobs, link) {
        struct pool_job *job = LIST_ENTRY(link, struct pool_job, queue);
        list_remove(link);
        tell(job, LOG_LEVEL_ERROR, "settlement_lost", code);
        s->call.pool->n_left++;
        pool_job_over(job);
    }
}

/* Back in front of what has ended since, in the same order. */
static void put_back(struct pool_settlement *s)
{
    struct list *to_settle = &s->call.pool->to_settle;
    struct list *first = to_settle->next;
    LIST_FOREACH (&s->jobs, link) {
        list_remove(link);
        list_insert(first, link);
    }
}

static void on_answered(struct pool_call *call)
{
    struct pool_settlement *s = (struct pool_settlement *)call;
    struct pool *pool = call->pool;
    const int code = s->op.op.code;
    pool->n_settling--;
    const bool for_good = !redrive_err_retryable(code) || code == REDRIVE_E_STOPPING;
    if (code == 0) {
        on_taken(s);
    } else if (pool->is_giving_up || code == REDRIVE_E_STOPPING || (for_good && s->n == 1)) {
        give_up(s, code);
    } else {
        pool->settle_singly |= for_good;
        put_back(s);
        pool_pause(pool, "settlement_failed", &s->op.op.err);
    }
    free(s);
}

static bool send_some(struct pool *pool, size_t n)
{
    struct pool_settlement *s = calloc(1, sizeof *s + n * sizeof s->items[0]);
    if (!s)
        return false;
    s->call = (struct pool_call){.pool = pool, .answered = on_answered};
    list_init(&s->jobs);
    while (s->n < n && !list_empty(&pool->to_settle)) {
        struct pool_job *job = LIST_ENTRY(pool->to_settle.next, struct pool_job, queue);
        list_remove(&job->queue);
        list_insert(&s->jobs, &job->queue);
        s->items[s->n++] = (struct settlement){
            .seq = job->seq,
            .token = job->token,
            .outcome = job->outcome,
            .result = job->result,
        };
    }
    settle_op_init(&s->op, s->items, s->n);
    pool->n_settling++;
    pool_send(&s->call, &s->op.op);
    return true;
}

void pool_settle(struct pool *pool)
{
    while (!list_empty(&pool->to_settle)) {
        if (send_some(pool, pool->settle_singly ? 1 : POOL_BATCH_MAX))
            continue;
        struct redrive_err err;
        err_nomem(&err);
        pool_pause(pool, "settlement_failed", &err);
        return;
    }
}
