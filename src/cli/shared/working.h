/* working.h - what commands that run jobs and end share: an event loop, signals, a pool that the
 * committer wakes, and alerts, which are sent at the end, too.
 *
 *     working_init(&w, err);
 *     engine_options.on_alert = working_on_alert;      before the engine first looks
 *     engine_options.alert_ctx = &w;
 *     working_start_alerts(&w, config, log, err);
 *     session_committer(&session, working_on_ready, &w, &committer, err);
 *     working_watch_signals(&w, on_signal, ctx, err);
 *     pool_new(&options, &pool, err);
 *     working_set_pool(&w, pool);
 *     ...                                              w.loop runs
 *     working_look_at_alerts(&w, cli, committer);      the work is done
 *     committer_stop(committer);
 *     working_close(&w, true);
 */
#ifndef CLI_SHARED_WORKING_H
#define CLI_SHARED_WORKING_H

#include <pthread.h>
#include <uv.h>

#include "cli/frame/cli.h"
#include "engine/committer.h"
#include "run/notify.h"
#include "run/pool/pool.h"

struct working {
    uv_loop_t loop;
    uv_signal_t signals[2];
    bool has_signals;      /* they are watched */
    bool alerts_end;       /* working_end_alerts has been called */
    pthread_mutex_t mutex; /* guards the pointers, which the committer's thread uses too */
    struct pool *pool;
    struct notifier *notifier;
};

int working_init(struct working *w, struct redrive_err *err);
/* Ends alerts and signals, runs the loop until nothing is left on it, frees the pool. After the
 * committer has stopped. */
void working_close(struct working *w, bool is_done);

/* SIGINT and SIGTERM; the handles' data is `ctx`. */
int working_watch_signals(struct working *w, uv_signal_cb on_signal, void *ctx,
                          struct redrive_err *err);
void working_close_signals(struct working *w);

/* For session_committer: jobs may be ready. */
void working_on_ready(void *ctx);
void working_set_pool(struct working *w, struct pool *pool);

/* After the pool has stopped: 0, or why it has not done all that there was to do. A handler that
 * cannot run, a shard that was away, or jobs that stay running until their leases end. */
int working_judge(const struct working *w, struct redrive_err *err);

/* ---- Alerts ---------------------------------------------------------------------------------- */

int working_start_alerts(struct working *w, const struct config *config, const struct log *log,
                         struct redrive_err *err);

/* An engine_alert_fn whose context is the struct. */
void working_on_alert(const struct alert_event *event, void *ctx);

/* Looks at every rule a last time; no alert comes after that. A failure is a warning. */
void working_look_at_alerts(struct working *w, struct cli *cli, struct committer *committer);

/* Ends the sending, on the loop. With `is_done` the work is finished: alerts that could not be
 * delivered at once are tried again for some seconds. Otherwise only alerts that are being sent
 * have a moment to arrive. A second call, or one without a start, does nothing. */
void working_end_alerts(struct working *w, bool is_done);

#endif
