/* run.c - the job as its function sees it, and the outcome that it reports. */
#include "lib/handler/private.h"

#include <stdlib.h>

#include "base/text/str.h"
#include "core/retry/policy.h"
#include "lib/copies.h"

#define ROW_TEXT_MAX 255

void run_init(struct redrive_run *run, struct redrive_handler *h, const struct redrive_job *job)
{
    memset(run, 0, offsetof(struct redrive_run, events));
    run->events.n = 0;
    run->handler = h;
    run->job = *job;
    run->job.id = run->id;
    if (job->id)
        str_copy(run->id, sizeof run->id, str_of(job->id));
    if (!job->service)
        run->job.service = job->task;
    run->policy = job->policy ? job->policy : h->policy;
    run->max_attempts = policy_max_attempts(run->policy);
    run->state = REDRIVE_STATE_QUEUED;
    run->deadline_at_ms = NEVER;
    atomic_init(&run->cancelled, false);
}

void run_look_at_clock(struct redrive_run *run)
{
    const struct redrive_handler *h = run->handler;
    run->now_ns = handler_ns(h);
    run->now_ms = h->is_virtual ? handler_now(h) : handler_ms(run->now_ns);
}

void run_set_state(struct redrive_run *run, enum redrive_state state)
{
    run->handler->n_in_state[run->state]--;
    run->handler->n_in_state[state]++;
    run->state = state;
}

const char *redrive_run_job_id(const struct redrive_run *run)
{
    return run->job.id;
}

const char *redrive_run_task(const struct redrive_run *run)
{
    return run->job.task;
}

const void *redrive_run_payload(const struct redrive_run *run, size_t *ret_len)
{
    if (ret_len)
        *ret_len = run->job.payload_len;
    return run->job.payload;
}

uint32_t redrive_run_attempt(const struct redrive_run *run)
{
    return run->attempts;
}

uint32_t redrive_run_max_attempts(const struct redrive_run *run)
{
    return run->max_attempts;
}

int64_t run_elapsed_ms(const struct redrive_run *run, int64_t now_ms)
{
    return run->first_start_ms ? now_ms - run->first_start_ms - run->idle_ms : 0;
}

int64_t run_deadline_in_ms(const struct redrive_run *run, int64_t now_ms)
{
    return run->deadline_at_ms == NEVER ? INT64_MAX : run->deadline_at_ms - now_ms;
}

int64_t redrive_run_remaining_ms(const struct redrive_run *run)
{
    int64_t now_ms = handler_now(run->handler);
    int64_t left_ms = run_deadline_in_ms(run, now_ms);
    if (run->policy->total_timeout_ms > 0) {
        int64_t total_ms = run->policy->total_timeout_ms - run_elapsed_ms(run, now_ms);
        if (total_ms < left_ms)
            left_ms = total_ms;
    }
    return left_ms > 0 ? left_ms : 0;
}

bool redrive_run_cancelled(const struct redrive_run *run)
{
    return atomic_load_explicit(&run->cancelled, memory_order_relaxed) ||
           atomic_load_explicit(&run->handler->stopping, memory_order_relaxed);
}

int redrive_run_fail(struct redrive_run *run, const struct redrive_failure *failure)
{
    char *text = failure_keep(failure, &run->failure);
    free(run->text);
    run->text = text;
    run->has_failure = true;
    return FAILURE_RETURNED;
}

int redrive_run_result(struct redrive_run *run, const void *data, size_t len)
{
    void *copy = malloc(len > 0 ? len : 1);
    if (!copy)
        return REDRIVE_E_NOMEM;
    if (len > 0)
        memcpy(copy, data, len);
    free(run->data);
    run->data = copy;
    run->len = len;
    return 0;
}

void run_begin(struct redrive_run *run)
{
    free(run->data);
    run->data = NULL;
    run->len = 0;
    free(run->text);
    run->text = NULL;
    run->failure = (struct redrive_failure){0};
    run->has_failure = false;
    run->said[0] = '\0';
}

void run_end(struct redrive_run *run, int code)
{
    if (code == 0) {
        run->failure = (struct redrive_failure){0};
        return;
    }
    if (run->has_failure)
        return;
    failure_of_return(code, &run->failure, run->said, sizeof run->said);
}

const char *run_message(const struct redrive_run *run)
{
    if (run->failure.message)
        return run->failure.message;
    return run->said[0] ? run->said : NULL;
}

static void drop_oldest(struct history *history)
{
    free((char *)history->rows[0].message);
    history->n--;
    memmove(history->rows, history->rows + 1, history->n * sizeof *history->rows);
}

static bool make_room(struct history *history)
{
    if (history->n == REDRIVE_HISTORY_MAX)
        drop_oldest(history);
    if (history->n < history->capacity)
        return true;
    size_t capacity = history->capacity ? history->capacity * 2 : 8;
    struct redrive_attempt_info *rows = realloc(history->rows, capacity * sizeof *rows);
    if (!rows)
        return false;
    history->rows = rows;
    history->capacity = capacity;
    return true;
}

void run_remember(struct redrive_run *run, int64_t ended_ms, int64_t took_ms,
                  const struct decision *d)
{
    if (!make_room(&run->history))
        return;
    const char *message = run_message(run);
    char text[ROW_TEXT_MAX + 1];
    if (message)
        str_copy(text, sizeof text, str_of(message));
    run->history.rows[run->history.n++] = (struct redrive_attempt_info){
        .attempt = run->attempts,
        .started_ms = ended_ms - took_ms,
        .ended_ms = ended_ms,
        .class_ = d->class_,
        .delay_ms = d->delay_ms,
        .message = message ? str_dup(str_of(text)) : NULL,
    };
}

void run_release(struct redrive_run *run)
{
    for (size_t i = 0; i < run->history.n; i++)
        free((char *)run->history.rows[i].message);
    free(run->history.rows);
    free(run->text);
    free(run->data);
}
