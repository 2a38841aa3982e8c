/* dlq_retry.c - runs dead letters again: one, or many at a rate. */
#include "lib/handler/private.h"

#include <math.h>

#include "base/err.h"
#include "base/text/str.h"

void run_init_retry(struct redrive_run *run, struct redrive_handler *h, struct dead_letter *entry)
{
    const struct redrive_dead_letter *view = &entry->view;
    run_init(run, h,
             &(struct redrive_job){
                 .id = view->id,
                 .task = view->task,
                 .service = view->service,
                 .queue = view->queue,
                 .user = view->user,
                 .project = view->project,
                 .priority = view->priority,
                 .payload = view->payload,
                 .payload_len = view->payload_len,
                 .policy = entry->policy,
                 .deadline_ms = entry->deadline_ms,
             });
    run->redriven = entry;
    run->epoch = view->epoch + 1;
}

/* Lock held; given up before the call returns. */
static int retry_entry(struct redrive_handler *h, struct dead_letter *entry, redrive_fn fn,
                       void *arg, struct redrive_result *ret)
{
    struct redrive_run run;
    run_init_retry(&run, h, entry);
    return submit_run(&run, fn, arg, ret);
}

struct dead_letter *dlq_find_to_retry(struct redrive_handler *h, const char *id,
                                      struct redrive_err *err)
{
    dlq_expire(&h->dlq, handler_now(h));
    struct dead_letter *entry = dlq_find(&h->dlq, id);
    if (entry)
        return entry;
    int rc = dlq_why_absent(&h->dlq, id);
    err_set(err, rc,
            rc == REDRIVE_E_STATE ? "dead letter is being retried" : "no such dead letter");
    err_detail(err, "id %s", id);
    return NULL;
}

int redrive_dlq_retry(struct redrive_handler *h, const char *id, redrive_fn fn, void *arg,
                      struct redrive_result *ret)
{
    struct redrive_err err;
    if (!h || !id || !fn) {
        err_set(&err, REDRIVE_E_INVALID, "handler, id and function are required");
        return submit_refuse(ret, id, &err);
    }
    handler_lock(h);
    struct dead_letter *entry = dlq_find_to_retry(h, id, &err);
    if (entry)
        return retry_entry(h, entry, fn, arg, ret);
    handler_unlock(h);
    return submit_refuse(ret, id, &err);
}

/* However small a rate, the next start is within a year. */
#define GAP_MAX_MS (365 * 24 * 3600 * 1000.0)

/* Retries one after the other, at their pace. */
struct redrive_all {
    struct caller caller;
    const struct redrive_dlq_filter *filter;
    uint64_t after_seq;
    uint64_t last_seq; /* what dies again comes behind it */
    double gap_ms;
    double next_start_ms;
    size_t left;
};

/* The next match, or NULL. Lock held. */
static struct dead_letter *next_entry(const struct redrive_all *all)
{
    struct dlq *dlq = &all->caller.handler->dlq;
    if (all->left == 0)
        return NULL;
    struct dead_letter *entry = dlq_next(dlq, all->filter, all->after_seq, NULL);
    return entry && entry->view.seq <= all->last_seq ? entry : NULL;
}

/* Waits until the next one may start. Lock held. */
static void keep_pace(struct redrive_all *all)
{
    struct redrive_handler *h = all->caller.handler;
    int64_t now_ms;
    while ((double)(now_ms = handler_now(h)) < all->next_start_ms && !atomic_load(&h->stopping))
        caller_wait(&all->caller, (int64_t)ceil(all->next_start_ms));
    if ((double)now_ms > all->next_start_ms)
        all->next_start_ms = (double)now_ms;
    all->next_start_ms += all->gap_ms;
}

/* Lock held. */
static int retry_all(struct redrive_all *all, redrive_fn fn, void *arg, bool dry_run,
                     size_t *matched, size_t *completed)
{
    struct redrive_handler *h = all->caller.handler;
    struct dead_letter *entry;
    while ((entry = next_entry(all))) {
        if (!dry_run) {
            keep_pace(all);
            if (atomic_load(&h->stopping))
                return REDRIVE_E_STOPPING;
            entry = next_entry(all);
            if (!entry)
                break;
        }
        all->after_seq = entry->view.seq;
        all->left--;
        ++*matched;
        if (dry_run)
            continue;
        int rc = retry_entry(h, entry, fn, arg, NULL);
        handler_lock(h);
        *completed += rc == 0;
        if (rc == REDRIVE_E_STOPPING || (rc == REDRIVE_E_CANCELLED && atomic_load(&h->stopping)))
            return REDRIVE_E_STOPPING;
    }
    return 0;
}

int redrive_dlq_retry_all(struct redrive_handler *h, const struct redrive_dlq_filter *filter,
                          redrive_fn fn, void *arg, double per_second, bool dry_run,
                          size_t *ret_matched, size_t *ret_completed)
{
    size_t matched = 0;
    size_t completed = 0;
    int rc = REDRIVE_E_INVALID;
    if (h && (fn || dry_run) && per_second >= 0) {
        handler_lock(h);
        dlq_expire(&h->dlq, handler_now(h));
        struct redrive_all all = {
            .filter = filter,
            .after_seq = filter ? filter->after_seq : 0,
            .last_seq = h->dlq.last_seq,
            .gap_ms = per_second > 0 ? fmin(1000 / per_second, GAP_MAX_MS) : 0,
            .left = filter && filter->limit > 0 ? filter->limit : SIZE_MAX,
        };
        caller_enter(&all.caller, h);
        rc = retry_all(&all, fn, arg, dry_run, &matched, &completed);
        caller_leave(&all.caller);
        handler_unlock(h);
    }
    if (ret_matched)
        *ret_matched = matched;
    if (ret_completed)
        *ret_completed = completed;
    return rc;
}
