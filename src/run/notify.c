/* notify.c - sends alerts with the runners of http and exec, and retries them. */
#include "run/notify.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem/list.h"
#include "base/time/clock.h"
#include "core/classify/classify.h"
#include "run/exec/exec.h"
#include "run/http/http.h"

/* Where an alert goes: one for its webhook, one for its command. */
struct target {
    const struct config_alert *alert;
    bool is_command;
    struct runner *runner; /* made by the first message */
};

/* A message on its way to a target. */
struct note {
    struct list link; /* in notifier->incoming, then, between two tries, in waiting */
    struct notifier *notifier;
    struct target *target;
    unsigned tries;
    uv_timer_t timer;
    size_t len;
    char json[];
};

struct notifier {
    struct notifier_options options;
    struct target *targets; /* two for each alert */
    uv_async_t async;
    uv_timer_t patience;
    bool is_finishing;
    size_t n_notes; /* that have been taken over and are not through */
    struct list waiting;
    size_t n_open; /* handles, runners and notes that are not closed yet */
    void (*stopped)(void *ctx);
    void *stopped_ctx;

    pthread_mutex_t mutex; /* guards what follows */
    struct list incoming;
    bool stopping;
};

static void one_is_closed(struct notifier *n)
{
    if (--n->n_open == 0 && n->stopped)
        n->stopped(n->stopped_ctx);
}

static void stop_carrying(struct notifier *n, int64_t grace_ms);

/* ---- Sending --------------------------------------------------------------------------------- */

static void on_note_closed(uv_handle_t *timer)
{
    struct note *note = timer->data;
    struct notifier *n = note->notifier;
    free(note);
    n->n_notes--;
    if (n->is_finishing && n->n_notes == 0)
        stop_carrying(n, 0);
    one_is_closed(n);
}

static void end(struct note *note)
{
    uv_close((uv_handle_t *)&note->timer, on_note_closed);
}

static void give_up(struct note *note, const char *why)
{
    const struct config_alert *alert = note->target->alert;
    char text[CONFIG_CONDITION_MAX];
    log_event(note->notifier->options.log, LOG_LEVEL_ERROR, clock_wall_ms(), "alert_not_sent",
              LOG_S("condition", config_condition_text(&alert->when, text)),
              LOG_S("target", note->target->is_command ? "command" : "webhook"),
              LOG_I("tries", note->tries), LOG_S("error", why ? why : ""));
    end(note);
}

static int runner_of(struct notifier *n, struct target *target, struct redrive_err *err)
{
    const struct notifier_options *o = &n->options;
    int rc;
    if (target->runner)
        return 0;
    if (target->is_command) {
        const struct exec_options options = {.argv = target->alert->command.items,
                                             .environ = o->environ};
        rc = exec_runner_new(o->loop, o->log, &options, &target->runner, err);
    } else {
        const struct http_options options = {.url = target->alert->webhook};
        rc = http_runner_new(o->loop, o->log, &options, &target->runner, err);
    }
    n->n_open += rc == 0;
    return rc;
}

static void start(struct note *note);

static void on_pause_over(uv_timer_t *timer)
{
    struct note *note = timer->data;
    list_remove(&note->link);
    start(note);
}

static void on_done(const struct run_outcome *outcome, void *ctx)
{
    struct note *note = ctx;
    struct notifier *n = note->notifier;
    const struct redrive_failure *failure = &outcome->outcome.failure;
    bool ran = outcome->outcome.ending == ENDING_RAN;
    if (ran && classify(NULL, failure, NULL).class_ == REDRIVE_CLASS_SUCCESS) {
        end(note);
        return;
    }
    if (!ran || n->stopping || note->tries >= NOTIFY_TRIES) {
        give_up(note, ran ? failure->message : "stopped");
        return;
    }
    uint64_t pause_ms = (uint64_t)n->options.pause_ms << (2 * (note->tries - 1));
    list_insert(&n->waiting, &note->link);
    uv_update_time(n->options.loop);
    uv_timer_start(&note->timer, on_pause_over, pause_ms, 0);
}

static void start(struct note *note)
{
    const struct config_alert *alert = note->target->alert;
    struct redrive_err err = {0};
    note->tries++;
    const struct run_request request = {
        .job_id = "alert",
        .task = alert->task ? alert->task : "alert",
        .queue = "alerts",
        .tenant = "default",
        .attempt = note->tries,
        .max_attempts = NOTIFY_TRIES,
        .payload = {note->json, note->len},
        .timeout_ms = NOTIFY_TIMEOUT_MS,
    };
    int rc = runner_of(note->notifier, note->target, &err);
    if (rc == 0)
        rc = runner_start(note->target->runner, &request, on_done, note, NULL, &err);
    if (rc < 0)
        give_up(note, err.message);
}

/* Takes over what other threads have handed in. */
static void accept_notes(struct notifier *n)
{
    struct list notes;
    list_init(&notes);
    pthread_mutex_lock(&n->mutex);
    while (!list_empty(&n->incoming)) {
        struct list *link = n->incoming.next;
        list_remove(link);
        list_insert(&notes, link);
    }
    pthread_mutex_unlock(&n->mutex);
    while (!list_empty(&notes)) {
        struct note *note = LIST_ENTRY(notes.next, struct note, link);
        list_remove(&note->link);
        uv_timer_init(n->options.loop, &note->timer);
        note->timer.data = note;
        n->n_open++;
        n->n_notes++;
        start(note);
    }
}

static void on_async(uv_async_t *async)
{
    accept_notes(async->data);
}

static void hand_in(struct notifier *n, struct target *target, struct str json)
{
    struct note *note = calloc(1, sizeof *note + json.len);
    if (!note)
        return;
    note->notifier = n;
    note->target = target;
    note->len = json.len;
    memcpy(note->json, json.ptr, json.len);
    pthread_mutex_lock(&n->mutex);
    bool refused = n->stopping;
    if (!refused) {
        list_insert(&n->incoming, &note->link);
        (void)uv_async_send(&n->async);
    }
    pthread_mutex_unlock(&n->mutex);
    if (refused)
        free(note);
}

void notifier_on_alert(const struct alert_event *event, void *ctx)
{
    struct notifier *n = ctx;
    size_t i = (size_t)(event->alert - n->options.config->alerts);
    if (event->alert->webhook)
        hand_in(n, &n->targets[2 * i], event->json);
    if (event->alert->command.n > 0)
        hand_in(n, &n->targets[2 * i + 1], event->json);
}

/* ---- Start and stop -------------------------------------------------------------------------- */

int notifier_new(const struct notifier_options *options, struct notifier **ret,
                 struct redrive_err *err)
{
    const struct config *config = options->config;
    struct notifier *n = calloc(1, sizeof *n);
    *ret = NULL;
    if (n)
        n->targets = calloc(2 * config->n_alerts + 1, sizeof *n->targets);
    if (!n || !n->targets) {
        free(n);
        return err_nomem(err);
    }
    n->options = *options;
    if (n->options.pause_ms == 0)
        n->options.pause_ms = NOTIFY_PAUSE_MS;
    for (size_t i = 0; i < 2 * config->n_alerts; i++)
        n->targets[i] = (struct target){.alert = &config->alerts[i / 2], .is_command = i % 2};
    list_init(&n->incoming);
    list_init(&n->waiting);
    if (uv_async_init(options->loop, &n->async, on_async) != 0) {
        free(n->targets);
        free(n);
        return err_set(err, REDRIVE_E_IO, "cannot wake the loop from another thread");
    }
    pthread_mutex_init(&n->mutex, NULL);
    (void)uv_timer_init(options->loop, &n->patience);
    n->async.data = n->patience.data = n;
    n->n_open = 2;
    *ret = n;
    return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    one_is_closed(handle->data);
}

static void on_runner_stopped(void *ctx)
{
    one_is_closed(ctx);
}

static void stop_carrying(struct notifier *n, int64_t grace_ms)
{
    n->is_finishing = false;
    pthread_mutex_lock(&n->mutex);
    n->stopping = true;
    pthread_mutex_unlock(&n->mutex);
    while (!list_empty(&n->waiting)) {
        struct note *note = LIST_ENTRY(n->waiting.next, struct note, link);
        list_remove(&note->link);
        give_up(note, "stopped before the next try");
    }
    uv_close((uv_handle_t *)&n->async, on_handle_closed);
    uv_close((uv_handle_t *)&n->patience, on_handle_closed);
    for (size_t i = 0; i < 2 * n->options.config->n_alerts; i++)
        if (n->targets[i].runner)
            runner_stop(n->targets[i].runner, grace_ms, on_runner_stopped, n);
}

void notifier_stop(struct notifier *n, int64_t grace_ms, void (*stopped)(void *ctx), void *ctx)
{
    n->stopped = stopped;
    n->stopped_ctx = ctx;
    if (n->stopping)
        return; /* notifier_finish had nothing left to carry */
    accept_notes(n);
    stop_carrying(n, grace_ms);
}

static void on_patience_over(uv_timer_t *timer)
{
    stop_carrying(timer->data, 0);
}

void notifier_finish(struct notifier *n, int64_t patience_ms, void (*stopped)(void *ctx), void *ctx)
{
    n->stopped = stopped;
    n->stopped_ctx = ctx;
    accept_notes(n);
    if (n->n_notes == 0) {
        stop_carrying(n, 0);
        return;
    }
    n->is_finishing = true;
    uv_update_time(n->options.loop);
    uv_timer_start(&n->patience, on_patience_over, (uint64_t)patience_ms, 0);
}

void notifier_free(struct notifier *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < 2 * n->options.config->n_alerts; i++)
        runner_free(n->targets[i].runner);
    LIST_FOREACH (&n->incoming, link)
        free(LIST_ENTRY(link, struct note, link));
    pthread_mutex_destroy(&n->mutex);
    free(n->targets);
    free(n);
}
