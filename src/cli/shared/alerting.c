/* alerting.c - starts and ends the notifier of a command. */
#include "cli/shared/alerting.h"

#include <unistd.h>

/* For alerts that are being sent when a signal has ended the work. */
#define STOP_GRACE_MS 5000

/* For alerts that have to be tried again when the work is done. */
#define PATIENCE_MS 10000

void alerting_init(struct alerting *a)
{
    *a = (struct alerting){0};
    pthread_mutex_init(&a->mutex, NULL);
}

void alerting_release(struct alerting *a)
{
    pthread_mutex_destroy(&a->mutex);
}

static void set_notifier(struct alerting *a, struct notifier *notifier)
{
    pthread_mutex_lock(&a->mutex);
    a->notifier = notifier;
    pthread_mutex_unlock(&a->mutex);
}

int alerting_start(struct alerting *a, uv_loop_t *loop, const struct config *config,
                   const struct log *log, struct redrive_err *err)
{
    const struct notifier_options options = {
        .loop = loop,
        .config = config,
        .log = log,
        .environ = environ,
    };
    struct notifier *notifier;
    int rc = notifier_new(&options, &notifier, err);
    if (rc == 0)
        set_notifier(a, notifier);
    return rc;
}

void alerting_on_alert(const struct alert_event *event, void *ctx)
{
    struct alerting *a = ctx;
    pthread_mutex_lock(&a->mutex);
    if (a->notifier)
        notifier_on_alert(event, a->notifier);
    pthread_mutex_unlock(&a->mutex);
}

void alerting_look(struct alerting *a, struct cli *cli, struct committer *committer)
{
    struct op op;
    struct redrive_err err;
    if (!a->notifier)
        return;
    alert_op_init(&op);
    if (committer_run(committer, &op, &err) < 0)
        cli_warn(cli, &err);
}

static void on_stopped(void *ctx)
{
    struct alerting *a = ctx;
    struct notifier *notifier = a->notifier;
    set_notifier(a, NULL);
    notifier_free(notifier);
}

void alerting_end(struct alerting *a, bool is_done)
{
    if (!a->notifier || a->is_ending)
        return;
    a->is_ending = true;
    if (is_done)
        notifier_finish(a->notifier, PATIENCE_MS, on_stopped, a);
    else
        notifier_stop(a->notifier, STOP_GRACE_MS, on_stopped, a);
}
