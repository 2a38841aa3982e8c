/* working.c - the event loop, signals, pool and notifier of a command that runs jobs. */
#include "cli/shared/working.h"

#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

#include "base/err.h"

/* For alerts that are being sent when a signal has ended the work. */
#define STOP_GRACE_MS 5000

/* For alerts that have to be tried again when the work is done. */
#define PATIENCE_MS 10000

static const int SIGNALS[] = {SIGINT, SIGTERM};
#define N_SIGNALS (sizeof SIGNALS / sizeof SIGNALS[0])

int working_init(struct working *w, struct redrive_err *err)
{
    *w = (struct working){0};
    int rc = uv_loop_init(&w->loop);
    if (rc < 0)
        return err_set(err, REDRIVE_E_IO, "cannot start the event loop: %s", uv_strerror(rc));
    pthread_mutex_init(&w->mutex, NULL);
    return 0;
}

void working_close(struct working *w, bool is_done)
{
    working_end_alerts(w, is_done);
    working_close_signals(w);
    while (uv_run(&w->loop, UV_RUN_DEFAULT) != 0)
        ;
    pool_free(w->pool);
    (void)uv_loop_close(&w->loop);
    pthread_mutex_destroy(&w->mutex);
}

/* ---- Signals --------------------------------------------------------------------------------- */

int working_watch_signals(struct working *w, uv_signal_cb on_signal, void *ctx,
                          struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        uv_signal_init(&w->loop, &w->signals[i]);
        w->signals[i].data = ctx;
    }
    w->has_signals = true;
    for (size_t i = 0; i < N_SIGNALS && rc == 0; i++)
        rc = uv_signal_start(&w->signals[i], on_signal, SIGNALS[i]);
    return rc == 0 ? 0
                   : err_set(err, REDRIVE_E_IO, "cannot listen for signals: %s", uv_strerror(rc));
}

void working_close_signals(struct working *w)
{
    for (size_t i = 0; i < N_SIGNALS && w->has_signals; i++)
        uv_close((uv_handle_t *)&w->signals[i], NULL);
    w->has_signals = false;
}

/* ---- The pool -------------------------------------------------------------------------------- */

void working_on_ready(void *ctx)
{
    struct working *w = ctx;
    HOLD(&w->mutex);
    if (w->pool)
        pool_wake(w->pool);
}

void working_set_pool(struct working *w, struct pool *pool)
{
    HOLD(&w->mutex);
    w->pool = pool;
}

int working_judge(const struct working *w, struct redrive_err *err)
{
    const uint64_t stuck = pool_status(w->pool).left;
    int rc = pool_fault(w->pool, err);
    if (rc == 0)
        rc = pool_missed(w->pool, err);
    if (rc < 0 || stuck == 0)
        return rc;
    rc = err_set(err, REDRIVE_E_IO, "%" PRIu64 " job%s left running", stuck,
                 stuck == 1 ? " is" : "s are");
    err_detail(err, "there was no memory for %s, or the store did not take the outcome",
               stuck == 1 ? "it" : "them");
    err_hint(err, "the log has the reason; a worker runs them again when their leases end");
    return rc;
}

/* ---- Alerts ---------------------------------------------------------------------------------- */

static void set_notifier(struct working *w, struct notifier *notifier)
{
    HOLD(&w->mutex);
    w->notifier = notifier;
}

int working_start_alerts(struct working *w, const struct config *config, const struct log *log,
                         struct redrive_err *err)
{
    const struct notifier_options options = {
        .loop = &w->loop,
        .config = config,
        .log = log,
        .environ = environ,
    };
    struct notifier *notifier;
    int rc = notifier_new(&options, &notifier, err);
    if (rc == 0)
        set_notifier(w, notifier);
    return rc;
}

void working_on_alert(const struct alert_event *event, void *ctx)
{
    struct working *w = ctx;
    HOLD(&w->mutex);
    if (w->notifier)
        notifier_on_alert(event, w->notifier);
}

void working_look_at_alerts(struct working *w, struct cli *cli, struct committer *committer)
{
    struct op op;
    struct redrive_err err;
    if (!w->notifier)
        return;
    alert_op_init(&op);
    if (committer_run(committer, &op, &err) < 0)
        cli_warn(cli, &err);
}

static void on_notifier_stopped(void *ctx)
{
    struct working *w = ctx;
    struct notifier *notifier = w->notifier;
    set_notifier(w, NULL);
    notifier_free(notifier);
}

void working_end_alerts(struct working *w, bool is_done)
{
    if (!w->notifier || w->alerts_end)
        return;
    w->alerts_end = true;
    if (is_done)
        notifier_finish(w->notifier, PATIENCE_MS, on_notifier_stopped, w);
    else
        notifier_stop(w->notifier, STOP_GRACE_MS, on_notifier_stopped, w);
}
