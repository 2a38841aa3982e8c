/* alerting.h - sends the alerts of a command that works, also at its end.
 *
 *     alerting_init(&a);
 *     engine_options.on_alert = alerting_on_alert;         before the engine first looks
 *     engine_options.alert_ctx = &a;
 *     alerting_start(&a, &loop, config, log, err);
 *     ...
 *     alerting_look(&a, cli, committer);                   the work is done
 *     alerting_end(&a, true);                              and the loop runs until it has ended
 *     alerting_release(&a);
 */
#ifndef CLI_SHARED_ALERTING_H
#define CLI_SHARED_ALERTING_H

#include <pthread.h>
#include <uv.h>

#include "cli/frame/cli.h"
#include "engine/committer.h"
#include "run/notify.h"

struct alerting {
    pthread_mutex_t mutex; /* guards the pointer, which the committer's thread uses too */
    struct notifier *notifier;
    bool is_ending;
};

void alerting_init(struct alerting *alerting);
void alerting_release(struct alerting *alerting);

int alerting_start(struct alerting *alerting, uv_loop_t *loop, const struct config *config,
                   const struct log *log, struct redrive_err *err);

/* An engine_alert_fn whose context is the struct. */
void alerting_on_alert(const struct alert_event *event, void *ctx);

/* Looks at every rule a last time; no alert comes after that. A failure is a warning. */
void alerting_look(struct alerting *alerting, struct cli *cli, struct committer *committer);

/* Ends the sending, on the loop. With `is_done` the work is finished: alerts that could not be
 * delivered at once are tried again for some seconds. Otherwise only alerts that are being sent
 * have a moment to arrive. A second call, or one without a start, does nothing. */
void alerting_end(struct alerting *alerting, bool is_done);

#endif
