/* notify.h - sends alerts to webhooks and commands without blocking the caller.
 *
 *     struct notifier *notifier;
 *     notifier_new(&(struct notifier_options){.loop = …, .config = …}, &notifier, err);
 *     engine_options.on_alert = notifier_on_alert;
 *     engine_options.alert_ctx = notifier;
 *     …
 *     notifier_stop(notifier, grace_ms, stopped, ctx);     once the committer has been stopped
 *
 * The document of an alert (engine/clock/alert.h) is posted to its webhook by the http runner, and
 * given to its command on standard input by the exec runner; an alert may have both, or neither.
 * Each is tried NOTIFY_TRIES times, the pauses growing; what is never taken is logged
 * (alert_not_sent) and dropped. All of it happens on the loop, in runs of its own.
 */
#ifndef RUN_NOTIFY_H
#define RUN_NOTIFY_H

#include <stdint.h>
#include <uv.h>

#include "base/os/log.h"
#include "config/config.h"
#include "engine/clock/alert.h"

#define NOTIFY_TRIES      4
#define NOTIFY_PAUSE_MS   1000 /* before the second try; each further one is 4 times as long */
#define NOTIFY_TIMEOUT_MS 30000

/* All that is pointed to is borrowed and outlives the notifier. */
struct notifier_options {
    uv_loop_t *loop;
    const struct config *config; /* whose alerts they are */
    const struct log *log;
    char *const *environ; /* of commands; see exec/spawn.h */
    int64_t pause_ms;     /* 0: NOTIFY_PAUSE_MS */
};

struct notifier;

/* On the loop's thread, as all but notifier_on_alert. */
int notifier_new(const struct notifier_options *options, struct notifier **ret,
                 struct redrive_err *err);

/* An engine_alert_fn whose context is the notifier: any thread, costs a copy. After a stop has
 * begun it does nothing. */
void notifier_on_alert(const struct alert_event *event, void *ctx);

/* Tries nothing again; what is being carried has `grace_ms` to arrive. `stopped` is called once,
 * when all handles are closed, never from inside this call. After notifier_finish it ends the
 * patience. */
void notifier_stop(struct notifier *notifier, int64_t grace_ms, void (*stopped)(void *ctx),
                   void *ctx);

/* For a process that ends because its work is done, or a notifier that another one replaces: goes
 * on trying for up to `patience_ms`, and stops when nothing is left to carry, or by then. No alert
 * may come any more. */
void notifier_finish(struct notifier *notifier, int64_t patience_ms, void (*stopped)(void *ctx),
                     void *ctx);

/* After `stopped` was called, also from inside it. NULL does nothing. */
void notifier_free(struct notifier *notifier);

#endif
