/* serve.c - `redrive serve`: the queue as a server; its start, its loop, its end. */
#include "cli/commands/commands.h"

#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "cli/commands/serve/private.h"
#include "cli/commands/serve/process.h"
#include "cli/shared/session.h"
#include "engine/report/spans.h"
#include "server/faktory/server.h"
#include "store/shards/shards.h"

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
#define N_SIGNALS (sizeof SIGNALS / sizeof SIGNALS[0])

/* ---- Notifications --------------------------------------------------------------------------- */

/* The job was cancelled in this process: its run need not wait for a heartbeat. */
static void end_runs(struct serve *serve, int64_t seq)
{
    HOLD(&serve->mutex);
    LIST_FOREACH (&serve->pools, link)
        pool_cancelled(LIST_ENTRY(link, struct serve_pool, link)->pool, seq);
}

static void tell_rest(struct serve *serve, const struct engine_event *event)
{
    HOLD(&serve->mutex);
    if (serve->rest)
        rest_event(serve->rest, event);
}

static void on_event(const struct engine_event *event, void *ctx)
{
    struct serve *serve = ctx;
    run_times_event(serve->run_times, event);
    event_hub_event(event, serve->hub);
    remote_workers_event(event, serve->remote);
    spans_event(otlp_exporter_tracing(serve->exporter), event);
    if (event->kind == ENGINE_EVENT_CANCELLED && !event->ran)
        end_runs(serve, event->seq);
    if (event->kind == ENGINE_EVENT_BREAKER)
        tell_rest(serve, event);
}

static bool is_alert_of(const struct config *config, const struct config_alert *alert)
{
    return alert >= config->alerts && alert < config->alerts + config->n_alerts;
}

/* During a reload the engine may be a step ahead of the notifiers, or behind. */
static void on_alert(const struct alert_event *event, void *ctx)
{
    struct serve *serve = ctx;
    HOLD(&serve->mutex);
    LIST_FOREACH (&serve->notifiers, link) {
        struct serve_notifier *one = LIST_ENTRY(link, struct serve_notifier, link);
        if (is_alert_of(one->config, event->alert))
            notifier_on_alert(event, one->notifier);
    }
}

static void on_ready(void *ctx)
{
    struct serve *serve = ctx;
    HOLD(&serve->mutex);
    LIST_FOREACH (&serve->pools, link)
        pool_wake(LIST_ENTRY(link, struct serve_pool, link)->pool);
    if (serve->rest)
        rest_jobs_ready(serve->rest);
    if (serve->faktory)
        faktory_server_wake(serve->faktory);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

/* Goes on with stopping, if that has begun. Jobs end first, then what clients have asked for. */
static void advance(struct serve *serve)
{
    if (!serve->is_stopping || serve->is_closing || serve->reload.is_under_way)
        return;
    if (!list_empty(&serve->pools) || serve->drain.is_under_way || !serve_close_faktory(serve) ||
        !serve_row_leave(serve))
        return;
    serve->is_closing = true;
    uv_stop(&serve->loop);
}

static void on_async(uv_async_t *async)
{
    struct serve *serve = async->data;
    (void)mailbox_deliver(&serve->mailbox);
    advance(serve);
}

static void wake_loop(void *async)
{
    (void)uv_async_send(async);
}

static void close_handles(struct serve *serve)
{
    for (size_t i = 0; i < N_SIGNALS; i++)
        uv_close((uv_handle_t *)&serve->signals[i], NULL);
    uv_close((uv_handle_t *)&serve->row.timer, NULL);
    uv_close((uv_handle_t *)&serve->drain.timer, NULL);
    uv_close((uv_handle_t *)&serve->watchdog, NULL);
    uv_close((uv_handle_t *)&serve->async, NULL);
}

/* First the parts that hand operations in, then the committer, which carries them out. Notifiers
 * stop last, because the others may still send alerts. */
static void close_all(struct serve *serve)
{
    http_server_stop(serve->http);
    rest_stop(serve->rest);
    committer_stop(serve->committer);
    serve_stop_notifiers(serve);
    if (serve->has_handles)
        close_handles(serve);
    while (uv_run(&serve->loop, UV_RUN_DEFAULT) != 0)
        ;
    (void)uv_loop_close(&serve->loop);
}

static void stop(struct serve *serve, int64_t grace_ms)
{
    const bool is_first = !serve->is_stopping;
    serve->is_stopping = true;
    if (is_first) {
        supervisor_stopping();
        serve_quiet_servers(serve);
    }
    serve_drain_http(serve, grace_ms);
    serve_drain_faktory(serve, grace_ms);
    serve_stop_pools(serve, grace_ms);
    advance(serve);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct serve *serve = handle->data;
    if (number == SIGHUP) {
        serve_reload(serve);
        return;
    }
    int64_t grace_ms = serve->n_signals++ == 0 ? serve->options->worker.grace_ms : 0;
    size_t running = serve->pool ? pool_status(serve->pool->pool).running : 0;
    log_event(&serve->session.log, LOG_LEVEL_INFO, clock_wall_ms(), "stopping",
              LOG_S("signal", number == SIGINT ? "SIGINT" : "SIGTERM"),
              LOG_I("running", (int64_t)running), LOG_I("grace_ms", grace_ms));
    stop(serve, grace_ms);
}

/* ---- Starting -------------------------------------------------------------------------------- */

static void on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    supervisor_alive();
}

static int open_loop(struct serve *serve, struct redrive_err *err)
{
    const int64_t alive_ms = supervisor_watchdog_ms();
    int rc = 0;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        uv_signal_init(&serve->loop, &serve->signals[i]);
        serve->signals[i].data = serve;
        if (uv_signal_start(&serve->signals[i], on_signal, SIGNALS[i]) < 0)
            rc = err_set(err, REDRIVE_E_IO, "cannot listen for signals");
    }
    uv_timer_init(&serve->loop, &serve->drain.timer);
    serve->drain.timer.data = serve;
    uv_timer_init(&serve->loop, &serve->watchdog);
    if (alive_ms > 0)
        uv_timer_start(&serve->watchdog, on_watchdog, 0, (uint64_t)alive_ms);
    serve_row_init(serve);
    serve->has_handles = true;
    return rc;
}

static int start(struct serve *serve, struct redrive_err *err)
{
    int rc = open_loop(serve, err);
    if (rc == 0 && serve_has_work(serve, serve->config))
        rc = serve_start_pool(serve, serve->config, err);
    return rc == 0 ? serve_open_servers(serve, err) : rc;
}

/* Warns at the start if the store can lose jobs. */
static void warn_of_loss(const struct session *session)
{
    struct store_facts facts = {0};
    const enum store_durability durability = store_base(session->store)->durability;
    if (store_ops(session->store)->facts(session->store, &facts, NULL) < 0 ||
        (!facts.loss && durability != STORE_FORGETS))
        return;
    log_event(&session->log, LOG_LEVEL_WARNING, clock_wall_ms(), "jobs_can_be_lost",
              LOG_S("store", session->config->store_shown),
              LOG_S("loses", facts.loss ? facts.loss : store_loss_text(durability)),
              LOG_S("hint", facts.loss_hint ? facts.loss_hint : "redrive doctor says more"));
}

/* Of shards the first one's. */
static int take_lock(struct serve *serve, struct redrive_err *err)
{
    struct shard_urls urls;
    int rc = shard_urls_init(&urls, serve->session.config->store, err);
    if (rc == 0)
        rc = serve_lock_take(urls.urls[0], &serve->lock, err);
    shard_urls_release(&urls);
    return rc;
}

static int open_store(struct serve *serve, struct redrive_err *err)
{
    const struct engine_options engine = {
        .on_event = on_event,
        .event_ctx = serve,
        .on_alert = on_alert,
        .alert_ctx = serve,
    };
    const struct event_hub_options hub = {.now_ms = clock_wall_ms()};
    int rc = session_connect(&serve->session, &engine, err);
    if (rc == 0)
        warn_of_loss(&serve->session);
    if (rc == 0)
        rc = take_lock(serve, err);
    if (rc == 0)
        rc = event_hub_new(&hub, &serve->hub, err);
    if (rc == 0 &&
        (!(serve->run_times = run_times_new()) || !(serve->remote = remote_workers_new())))
        rc = err_nomem(err);
    /* Before the engine first looks: an alert is sent once. */
    if (rc == 0)
        rc = serve_start_notifier(serve, serve->config, err);
    if (rc == 0)
        rc = session_committer(&serve->session, on_ready, serve, &serve->committer, err);
    return rc;
}

static int serve_on(struct serve *serve, struct redrive_err *err)
{
    int rc = uv_async_init(&serve->loop, &serve->async, on_async);
    if (rc < 0)
        return err_set(err, REDRIVE_E_IO, "cannot start serving: %s", uv_strerror(rc));
    serve->async.data = serve;
    serve->mailbox.committer = serve->committer;
    /* From here on there are handles, so that a failure has to be stopped like a success. */
    rc = start(serve, err);
    if (rc == 0) {
        supervisor_ready();
        log_event(&serve->session.log, LOG_LEVEL_INFO, clock_wall_ms(), "serving",
                  LOG_S("store", serve->config->store_shown), LOG_I("pid", (int64_t)getpid()));
    } else {
        stop(serve, 0);
    }
    while (!serve->is_closing)
        (void)uv_run(&serve->loop, UV_RUN_DEFAULT);
    log_event(&serve->session.log, LOG_LEVEL_INFO, clock_wall_ms(), "stopped",
              LOG_I("pid", (int64_t)getpid()));
    return rc;
}

/* ---- The command ----------------------------------------------------------------------------- */

static int load(struct cli *cli, struct serve *serve, struct redrive_err *err)
{
    int rc = 0;
    if (serve->options->listen)
        rc = load_config_flag("listen-http", serve->options->listen, err);
    if (rc == 0 && serve->options->faktory)
        rc = load_config_flag("listen-faktory", serve->options->faktory, err);
    if (serve->options->faktory_passwords)
        load_config_faktory_passwords();
    if (rc == 0)
        rc = session_load(cli, &serve->session, err);
    if (rc == 0)
        rc = serve_check_work(serve, serve->session.config, err);
    if (rc == 0)
        session_log_config(&serve->session);
    if (rc == 0)
        rc = session_start_tracing(&serve->session, &serve->exporter, err);
    if (rc < 0)
        return rc;
    serve->config = config_hold(serve->session.config);
    session_log_exposed(&serve->session, serve->config, serve->options->faktory_passwords);
    return serve_load_tls(serve, err);
}

/* The exporter ends after all that makes spans, and before the log. */
static void release(struct serve *serve)
{
    otlp_exporter_stop(serve->exporter, SESSION_TRACING_GRACE_MS);
    event_hub_free(serve->hub);
    rest_free(serve->rest);
    session_close(&serve->session);
    run_times_free(serve->run_times);
    serve_drain_release(serve);
    remote_workers_free(serve->remote);
    tls_identity_free(serve->tls);
    tls_identity_free(serve->reload.tls);
    config_free(serve->faktory_config);
    config_free(serve->config);
    serve_release_kept(serve);
    serve_lock_release(serve->lock);
    mailbox_release(&serve->mailbox);
    pthread_mutex_destroy(&serve->mutex);
}

static int run_serve(struct cli *cli, struct redrive_err *err)
{
    struct serve serve = {.options = invocation_options(&cli->invocation), .cli = cli, .lock = -1};
    /* A closed pipe of the log must not end the server. */
    signal(SIGPIPE, SIG_IGN);
    open_files_raise();
    pthread_mutex_init(&serve.mutex, NULL);
    list_init(&serve.kept);
    list_init(&serve.pools);
    list_init(&serve.notifiers);
    mailbox_init(&serve.mailbox, NULL, wake_loop, &serve.async); /* serve_on has the committer */
    worker_name(serve.options->worker.name, serve.name);
    int rc = load(cli, &serve, err);
    int failed = rc == 0 ? uv_loop_init(&serve.loop) : 0;
    if (failed < 0) {
        rc = err_set(err, REDRIVE_E_IO, "cannot start the event loop: %s", uv_strerror(failed));
    } else if (rc == 0) {
        rc = open_store(&serve, err);
        if (rc == 0)
            rc = serve_on(&serve, err);
        close_all(&serve);
    }
    release(&serve);
    return rc;
}

static const struct field OPTIONS[] = {
    OPTION("listen", 'l', "ADDR",
           "where the HTTP API answers: HOST:PORT, unix:PATH or off; as listen.http",
           INTO_STRING(struct serve_options, listen)),
    OPTION("faktory", 0, "ADDR",
           "where Faktory clients connect: HOST:PORT, or off; as listen.faktory",
           INTO_STRING(struct serve_options, faktory)),
    OPTION(
        "faktory-passwords", 0, "FILE",
        "passwords of Faktory clients, with every scope: a line each, PASSWORD or TENANT PASSWORD",
        INTO_STRING(struct serve_options, faktory_passwords)),
    OPTION("no-work", 0, NULL, "run no jobs in this process, whatever the tasks say",
           INTO_FLAG(struct serve_options, no_work)),
    WORKER_ROWS(struct serve_options, worker),
    {0},
};

const struct command cmd_serve = {
    .name = "serve",
    .summary = "serve a store over HTTP and Faktory, and run its jobs",
    .description =
        "Opens the store to other processes: the HTTP API with metrics and a stream of events, and "
        "the Faktory protocol for its clients and workers. Jobs of tasks whose configuration says "
        "how they are run are run here as well; all others wait for remote workers.\n"
        "\n"
        "Without tokens in the configuration only loopback addresses are served, and other "
        "addresses need listen.tls (a certificate and its key) or listen.insecure. A second server "
        "on the same SQLite file is refused; workers and commands may share the file.\n"
        "\n"
        "SIGHUP reads the configuration again: policies, classification, limits, breakers, "
        "periodic tasks, tokens, Faktory passwords, the certificate, alerts, and how tasks are "
        "run. A file with errors is refused, and the log says why. The store, the addresses and "
        "the log need a restart.\n"
        "\n"
        "The file of --faktory-passwords is read again on SIGHUP; passwords of the configuration's "
        "`faktory_passwords` have scopes. Without passwords, and with tokens in the configuration, "
        "Faktory clients are not served.\n"
        "\n"
        "With OTEL_EXPORTER_OTLP_ENDPOINT in the environment each attempt is a span that is sent "
        "to that collector, as the OTEL_ variables say (docs/tracing.md).\n"
        "\n"
        "SIGINT or SIGTERM hands out no more work and lets running jobs end, those of remote "
        "workers too, for as long as --grace says; /ready answers 503 meanwhile, for listen.drain "
        "at least. The second one stops them at once. A job that was stopped is released, and has "
        "not used an attempt.",
    OPTIONS_INTO(OPTIONS, struct serve_options),
    .examples = EXAMPLES(
        {"redrive serve -c redrive.yaml", "serve until a signal comes"},
        {"redrive serve --listen 127.0.0.1:8080 --faktory off", "HTTP only, on another port"},
        {"redrive serve --no-work", "remote workers run the jobs"}),
    .run = run_serve,
    .settings = SETTINGS_RUN | SETTINGS_HEALTH | SETTINGS_LISTEN,
};
