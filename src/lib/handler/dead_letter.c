/* dead_letter.c - one dead letter: built once, in one block, and never changed. */
#include "lib/handler/private.h"

#include <stdalign.h>
#include <stdlib.h>

#include "base/text/str.h"
#include "core/classify/failure.h"
#include "core/classify/fingerprint.h"
#include "lib/handler/policy_copy.h"
#include "lib/pack.h"

#define MS_PER_DAY (INT64_C(24) * 3600 * 1000)

static void pack_history(struct pack *p, struct redrive_dead_letter *view)
{
    const struct redrive_attempt_info *rows = view->history;
    struct redrive_attempt_info *copy =
        pack_bytes(p, rows, view->n_history * sizeof *rows, alignof(struct redrive_attempt_info));
    for (size_t i = 0; i < view->n_history; i++) {
        const char *message = pack_str(p, rows[i].message);
        if (copy)
            copy[i].message = message;
    }
    view->history = copy;
}

/* Replaces every pointer of the view by a copy. */
static void pack_view(struct pack *p, struct redrive_dead_letter *view)
{
    pack_history(p, view);
    view->id = pack_str(p, view->id);
    view->task = pack_str(p, view->task);
    view->service = pack_str(p, view->service);
    view->queue = pack_str(p, view->queue);
    view->user = pack_str(p, view->user);
    view->project = pack_str(p, view->project);
    view->error_type = pack_str(p, view->error_type);
    view->message = pack_str(p, view->message);
    view->stacktrace = pack_str(p, view->stacktrace);
    if (view->payload)
        view->payload = pack_bytes(p, view->payload, view->payload_len, alignof(max_align_t));
}

struct dead_letter *dead_letter_new(const struct redrive_dead_letter *view,
                                    const struct redrive_policy *policy)
{
    struct redrive_dead_letter scratch = *view;
    struct pack measured = {.size = sizeof(struct dead_letter)};
    pack_view(&measured, &scratch);

    struct dead_letter *entry = malloc(measured.size);
    if (!entry)
        return NULL;
    *entry = (struct dead_letter){.refs = 1, .expires_ms = NEVER, .view = *view};
    list_init(&entry->link);
    pack_view(&(struct pack){.base = (char *)entry, .size = sizeof *entry}, &entry->view);
    if (policy) {
        entry->policy = policy_copy(policy);
        if (!entry->policy) {
            free(entry);
            return NULL;
        }
    }
    return entry;
}

void dead_letter_unref(struct dead_letter *entry)
{
    if (!entry || atomic_fetch_sub(&entry->refs, 1) > 1)
        return;
    free(entry->policy);
    free(entry);
}

/* The last rows of both histories, the earlier epochs first. */
static size_t join_histories(const struct redrive_run *run,
                             struct redrive_attempt_info rows[REDRIVE_HISTORY_MAX])
{
    size_t n_new = run->history.n;
    size_t n_old = run->redriven ? run->redriven->view.n_history : 0;
    size_t skip = n_old + n_new > REDRIVE_HISTORY_MAX ? n_old + n_new - REDRIVE_HISTORY_MAX : 0;
    size_t n = 0;
    for (size_t i = skip; i < n_old; i++)
        rows[n++] = run->redriven->view.history[i];
    for (size_t i = 0; i < n_new; i++)
        rows[n++] = run->history.rows[i];
    return n;
}

struct dead_letter *dead_letter_of_run(const struct redrive_run *run, const struct decision *d)
{
    struct redrive_attempt_info rows[REDRIVE_HISTORY_MAX];
    struct redrive_dead_letter view = {
        .id = run->job.id,
        .task = run->job.task,
        .service = run->job.service,
        .queue = run->job.queue,
        .user = run->job.user,
        .project = run->job.project,
        .priority = run->job.priority,
        .reason = d->reason,
        .class_ = run->last_class,
        .error_type = failure_type(&run->failure),
        .message = run_message(run),
        .stacktrace = run->failure.stacktrace,
        .attempts = run->attempts,
        .max_attempts = run->max_attempts,
        .epoch = run->epoch,
        .failed_at_ms = handler_wall(run->handler, run->now_ms),
        .payload = run->job.payload,
        .payload_len = run->job.payload_len,
        .history = rows,
        .n_history = join_histories(run, rows),
    };
    view.fingerprint = fingerprint(str_of(view.error_type), view.class_, str_of(view.message));

    struct dead_letter *entry = dead_letter_new(&view, run->job.policy);
    if (!entry)
        return NULL;
    entry->died_ms = run->now_ms;
    entry->deadline_ms = run->job.deadline_ms;
    if (run->policy->dlq_retention_days > 0)
        entry->expires_ms = run->now_ms + run->policy->dlq_retention_days * MS_PER_DAY;
    return entry;
}
