/* private.h - the parts of a server, for the files of commands/serve/.
 *
 *     HTTP server's thread ─┐                        ┌─► event hub, run times (on_event)
 *     loop: Faktory, pool, ─┼─► committer ──► store  ├─► notifier (on_alert)
 *           signals, timers ┘                        └─► pool_wake (on_ready)
 *
 * Everything here belongs to the loop's thread, but for what the mutex guards: the committer's
 * thread finds the pools and notifiers there.
 *
 * A configuration has many users. The pool, the notifier and each request go on with the one they
 * began with to their end, so after a reload there may be several pools and notifiers. Each holds
 * it; the last one frees it.
 */
#ifndef CLI_COMMANDS_SERVE_PRIVATE_H
#define CLI_COMMANDS_SERVE_PRIVATE_H

#include <pthread.h>
#include <uv.h>

#include "base/mem/list.h"
#include "cli/shared/session.h"
#include "engine/engine.h"
#include "engine/mailbox.h"
#include "engine/report/worker_row.h"
#include "run/notify.h"
#include "run/otlp/exporter.h"
#include "run/pool/pool.h"
#include "server/events.h"
#include "server/remote_workers.h"
#include "server/http/server.h"
#include "server/listen/tls.h"
#include "server/metrics/metrics.h"
#include "server/rest/rest.h"

/* For alerts that are being sent when their notifier is stopped. */
#define SERVE_NOTIFY_GRACE_MS 5000

/* For alerts that a reload leaves to the former notifier: all tries of one that is refused at once.
 */
#define SERVE_NOTIFY_PATIENCE_MS 30000

/* For jobs of a pool that a reload has replaced: they may take their time. */
#define SERVE_RETIRED_GRACE_MS (INT64_C(24) * 60 * 60 * 1000)

struct serve_options {
    const char *listen;
    const char *faktory;
    const char *faktory_passwords; /* a file */
    bool no_work;
    struct worker_options worker;
};

/* A pool, a notifier, or what has failed to become one, with their configuration. */
struct serve_pool {
    struct list link;
    struct serve *serve;
    struct config *config;
    struct pool *pool;
};
struct serve_notifier {
    struct list link;
    struct serve *serve;
    struct config *config;
    struct notifier *notifier;
    bool is_retired; /* it ends by itself, when its alerts are delivered */
};
struct serve_kept {
    struct list link;
    struct config *config;
};

struct serve {
    const struct serve_options *options;
    struct cli *cli;
    char name[WORKER_NAME_MAX];
    struct session session;
    struct config *config; /* in force */
    int lock;
    struct committer *committer;
    struct mailbox mailbox; /* of the server's own operations; serve_part_ended wakes it */
    struct run_times *run_times;
    struct event_hub *hub;
    struct remote_workers *remote;
    struct otlp_exporter *exporter; /* NULL: without tracing */
    struct http_server *http;
    struct tls_identity *tls; /* in force; NULL: without TLS */

    uv_loop_t loop;
    uv_signal_t signals[3];
    uv_async_t async;
    uv_timer_t watchdog;
    bool has_handles; /* all of these but the loop */
    int n_signals;    /* to stop, that have come */
    bool is_stopping;
    bool is_faktory_draining;
    bool is_faktory_closing;
    struct config *faktory_config; /* with which the Faktory server was opened */
    bool is_closing;

    struct serve_pool *pool; /* at work; NULL: none */
    struct list kept;        /* struct serve_kept */

    /* commands/serve/listen.c */
    struct {
        uv_timer_t timer; /* looks whether HTTP can be closed */
        bool is_under_way;
        int64_t least_ms; /* monotonic: not before */
        int64_t most_ms;  /* not after */
        int64_t ask_ms;   /* the store, not before */
        struct leases_op op;
        struct arena arena;
        bool is_asking;
    } drain;

    /* commands/serve/workers.c */
    struct {
        uv_timer_t timer;
        struct worker_op op;
        bool is_under_way;
        bool is_leaving;
        bool has_left;

        /* The rows of remote workers. */
        struct remote_workers_op remote_op;
        struct arena remote_arena;
        bool is_remote_under_way;
    } row;

    /* commands/serve/reload.c */
    struct {
        struct reload_op op;
        struct config *config;               /* that is being put into force */
        struct tls_identity *tls;            /* of that configuration; NULL: without TLS */
        struct faktory_passwords *passwords; /* of that configuration; NULL: Faktory is off */
        bool is_under_way;
        bool again; /* asked for meanwhile */
    } reload;

    pthread_mutex_t mutex; /* guards what follows */
    struct rest *rest;
    struct faktory_server *faktory;
    struct list pools;     /* struct serve_pool */
    struct list notifiers; /* struct serve_notifier */
};

/* Something has ended: the loop goes on with stopping, if that has begun. */
static inline void serve_part_ended(struct serve *serve)
{
    mailbox_wake(&serve->mailbox, 1);
}

/* ---- Pools and notifiers (commands/serve/workers.c) ------------------------------------------ */

/* Whether this server runs any job by this configuration. */
bool serve_has_work(const struct serve *serve, const struct config *config);
/* Whether its programs are there. */
int serve_check_work(const struct serve *serve, const struct config *config,
                     struct redrive_err *err);
/* Whether both are run in the same way, so that a pool need not be replaced. */
bool serve_same_work(const struct config *a, const struct config *b);

/* Begins to work by a configuration; serve->pool is the new one. */
int serve_start_pool(struct serve *serve, struct config *config, struct redrive_err *err);
int serve_start_notifier(struct serve *serve, struct config *config, struct redrive_err *err);

/* After the loop: releases the configurations of pools that failed to start. */
void serve_release_kept(struct serve *serve);

/* Lets the present one end, if there is one. */
void serve_retire_pool(struct serve *serve);
/* All but the one of this configuration deliver the alerts that they have, and end. */
void serve_retire_notifiers(struct serve *serve, const struct config *but);
/* All of them, within SERVE_NOTIFY_GRACE_MS. */
void serve_stop_notifiers(struct serve *serve);
/* Every pool, within the grace. */
void serve_stop_pools(struct serve *serve, int64_t grace_ms);

/* Rows in the store: of a server that runs nothing itself, and of remote workers. */
void serve_row_init(struct serve *serve);
/* Removes the rows; true when they are gone, or could not be removed. To be called until then. */
bool serve_row_leave(struct serve *serve);

/* ---- HTTP (commands/serve/listen.c) ---------------------------------------------------------- */

/* Closes HTTP when `listen.drain` is over and no job that a worker with a name claimed here is
 * still held, as this process or the store knows, or when the grace is over; then serve_part_ended
 * is called. To be called again for a shorter grace. */
void serve_drain_http(struct serve *serve, int64_t grace_ms);
/* When no operation is under way any more. */
void serve_drain_release(struct serve *serve);

/* ---- Both servers (commands/serve/listen.c) -------------------------------------------------- */

int serve_open_servers(struct serve *serve, struct redrive_err *err);
/* Reads the certificate that the configuration names into serve->tls, or NULL. */
int serve_load_tls(struct serve *serve, struct redrive_err *err);
/* Warns if the certificate in force is about to end, has ended or is not valid yet. */
void serve_log_certificate(const struct serve *serve);
/* Hands out no more work, and says so to /ready and to workers. Clients can still connect. */
void serve_quiet_servers(struct serve *serve);

/* ---- The Faktory server (commands/serve/listen.c) -------------------------------------------- */

/* Asks Faktory workers to exit; they may settle until they have gone or the grace is over. */
void serve_drain_faktory(struct serve *serve, int64_t grace_ms);
/* Once it has drained, ends what Faktory clients have under way; true when it is over. To be called
 * until then. */
bool serve_close_faktory(struct serve *serve);
/* The address of a Faktory server that is open and stays so; otherwise NULL. */
const char *serve_faktory_address(const struct serve *serve);
/* Reads the passwords of the configuration that is about to come into force; fails if they would
 * leave the open port without the protection that the configuration has elsewhere. */
int serve_prepare_faktory(struct serve *serve, struct redrive_err *err);
/* The configuration is in force: so are its passwords. Closes the Faktory server if its address is
 * `off` now; opens one that was closed, or logs why it stays closed. */
void serve_reload_faktory(struct serve *serve, const struct config *config);

/* ---- Another configuration (commands/serve/reload.c) ----------------------------------------- */

void serve_reload(struct serve *serve);

#endif
