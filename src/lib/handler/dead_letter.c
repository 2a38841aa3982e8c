/* dead_letter.c - copies in one block of memory: of a policy, and of a job that died. A dead letter
 * is built once and never changed. */
#include "lib/handler/private.h"

#include <stdalign.h>
#include <stdlib.h>

#include "base/text/str.h"
#include "core/classify/classify.h"
#include "core/classify/fingerprint.h"
#include "lib/copies.h"

#define MS_PER_DAY (INT64_C(24) * 3600 * 1000)

/* ---- Policies -------------------------------------------------------------------------------- */

static void pack_match(struct pack *p, struct redrive_match *match)
{
    const char *const *types = match->types;
    size_t n = match->n_types;
    const char **copy = pack_bytes(p, types, n * sizeof *types, alignof(const char *));
    for (size_t i = 0; i < n; i++) {
        const char *type = pack_str(p, types[i]);
        if (copy)
            copy[i] = type;
    }
    match->types = copy;
}

static void pack_delays(struct pack *p, struct redrive_backoff *backoff)
{
    backoff->delays_ms =
        pack_bytes(p, backoff->delays_ms, backoff->n_delays * sizeof(int64_t), alignof(int64_t));
}

static void pack_rule(struct pack *p, const struct redrive_class_rule **rule)
{
    struct redrive_class_rule scratch = **rule;
    struct redrive_class_rule *copy = pack_bytes(p, *rule, sizeof **rule, alignof(max_align_t));
    pack_delays(p, copy ? &copy->backoff : &scratch.backoff);
    *rule = copy;
}

/* The policy comes first in its block. */
static void pack_policy(struct pack *p, const struct redrive_policy *policy)
{
    struct redrive_policy scratch = *policy;
    struct redrive_policy *copy = pack_bytes(p, policy, sizeof *policy, alignof(max_align_t));
    if (!copy)
        copy = &scratch;
    for (int c = 0; c < REDRIVE_CLASS_COUNT; c++)
        if (policy->on[c])
            pack_rule(p, &copy->on[c]);
    pack_delays(p, &copy->backoff);
    pack_match(p, &copy->retry_on);
    pack_match(p, &copy->give_up_on);
}

struct redrive_policy *policy_copy(const struct redrive_policy *policy)
{
    struct pack measured = {0};
    pack_policy(&measured, policy);
    struct redrive_policy *copy = malloc(measured.size);
    if (copy)
        pack_policy(&(struct pack){.base = (char *)copy}, policy);
    return copy;
}

/* ---- Dead letters ---------------------------------------------------------------------------- */

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
