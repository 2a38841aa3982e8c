/* reload.c - SIGHUP: another configuration, without losing a job or a connection.
 *
 * The file is read and checked; a bad one is refused, and nothing changes. A good one is put into
 * force in the engine, as an operation, and then given to the servers, the notifier and the pool. A
 * pool is replaced only if the way in which tasks are run has changed: the new one takes jobs at
 * once, the former one lets its jobs end.
 */
#include "cli/commands/serve/private.h"

#include "base/err.h"
#include "base/time/clock.h"
#include "cli/shared/session.h"
#include "cli/commands/serve/process.h"
#include "server/faktory/passwords.h"
#include "server/faktory/server.h"
#include "server/listen/endpoint.h"

/* ---- Refusing -------------------------------------------------------------------------------- */

static void log_refusal(const struct serve *serve, const struct redrive_err *err)
{
    log_event(&serve->session.log, LOG_LEVEL_ERROR, clock_wall_ms(), "reload_refused",
              LOG_S("error", err->message), LOG_S("detail", err->detail), LOG_S("hint", err->hint));
}

static void log_report(const struct serve *serve, const struct config_report *report)
{
    for (size_t i = 0; i < report->n_errors; i++)
        log_refusal(serve, &report->errors[i]);
}

/* A port that is open stays open, whatever the file says now. */
static int check_servers(const struct serve *serve, const struct config *config,
                         struct redrive_err *err)
{
    const char *http = serve->session.config->listen.http;
    if (config->n_tokens > 0 || !serve->http || endpoint_is_loopback(http))
        return 0;
    err_set(err, REDRIVE_E_CONFIG,
            "there are no tokens any more, but the server is open to others");
    err_detail(err, "it listens on %s", http);
    err_hint(err, "restart the server to have it listen on 127.0.0.1");
    return REDRIVE_E_CONFIG;
}

/* What a running process cannot change. */
static void log_restart_needed(const struct serve *serve, const struct config *config)
{
    const struct config *first = serve->session.config;
    const char *faktory = serve_faktory_address(serve);
    const struct {
        const char *key;
        bool changed;
    } keys[] = {
        {"store", !str_eq(str_of(first->store), str_of(config->store))},
        {"listen.http", !str_eq(str_of(first->listen.http), str_of(config->listen.http))},
        {"listen.faktory", config->listen.faktory && faktory &&
                               !str_eq(str_of(faktory), str_of(config->listen.faktory))},
        {"listen.max_per_address", first->listen.max_per_address != config->listen.max_per_address},
        {"listen.socket_mode", first->listen.socket_mode != config->listen.socket_mode},
        {"listen.tls", !first->listen.tls.cert != !config->listen.tls.cert},
        {"listen.max_connections", first->listen.max_connections != config->listen.max_connections},
        {"log", first->log.level != config->log.level || first->log.format != config->log.format},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i].changed)
            log_event(&serve->session.log, LOG_LEVEL_WARNING, clock_wall_ms(), "needs_a_restart",
                      LOG_S("key", keys[i].key));
}

/* ---- Taking over ----------------------------------------------------------------------------- */

static void replace_pool(struct serve *serve, struct config *config)
{
    struct redrive_err err = {0};
    const bool has_work = serve_has_work(serve, config);
    if (serve->pool && has_work && serve_same_work(serve->pool->config, config))
        return;
    serve_retire_pool(serve);
    if (has_work && serve_start_pool(serve, config, &err) < 0)
        log_event(&serve->session.log, LOG_LEVEL_ERROR, clock_wall_ms(), "worker_not_started",
                  LOG_S("error", err.message), LOG_S("detail", err.detail));
}

/* Connections that are there keep the certificate that they were shown. */
static void replace_tls(struct serve *serve, const struct config *config)
{
    struct tls_identity *tls = serve->reload.tls;
    serve->reload.tls = NULL;
    if (!tls || !serve->tls || tls_identity_same(serve->tls, tls)) {
        tls_identity_free(tls);
        return;
    }
    if (serve->http)
        http_server_set_tls(serve->http, tls);
    if (serve->faktory)
        faktory_server_set_tls(serve->faktory, tls);
    tls_identity_free(serve->tls);
    serve->tls = tls;
    if (serve->rest)
        rest_set_certificate(serve->rest, tls_identity_end_ms(tls));
    log_event(&serve->session.log, LOG_LEVEL_INFO, clock_wall_ms(), "certificate_replaced",
              LOG_S("cert", config->listen.tls.cert));
}

static void take_over(struct serve *serve, struct config *config)
{
    serve_retire_notifiers(serve, config);
    replace_pool(serve, config);
    replace_tls(serve, config);
    serve_reload_faktory(serve, config);
    if (serve->rest)
        rest_reload(serve->rest, config);
    config_free(serve->config);
    serve->config = config;
    log_restart_needed(serve, config);
    serve_log_certificate(serve);
    session_log_exposed(&serve->session, config, serve->options->faktory_passwords);
    log_event(
        &serve->session.log, LOG_LEVEL_INFO, clock_wall_ms(), "reloaded",
        LOG_S("config", config->path ? config->path : ""), LOG_I("tasks", (int64_t)config->n_tasks),
        LOG_I("cron_entries", (int64_t)config->n_cron), LOG_I("tokens", (int64_t)config->n_tokens));
}

static void drop_reload(struct serve *serve, struct config *config)
{
    tls_identity_free(serve->reload.tls);
    faktory_passwords_free(serve->reload.passwords);
    serve->reload.tls = NULL;
    serve->reload.passwords = NULL;
    config_free(config);
}

/* One that came into force while the server began to stop stays so: its notifier is needed. */
static void give_up(struct serve *serve, struct config *config)
{
    if (!serve->is_stopping)
        serve_retire_notifiers(serve, serve->config);
    drop_reload(serve, config);
}

static void on_reloaded(struct op *op, void *ctx)
{
    struct serve *serve = ctx;
    struct config *config = serve->reload.config;
    const bool in_force = serve->reload.op.in_force;
    if (op->code < 0)
        log_refusal(serve, &op->err);
    reload_op_release(&serve->reload.op);
    serve->reload.config = NULL;
    serve->reload.is_under_way = false;
    if (in_force && !serve->is_stopping)
        take_over(serve, config);
    else
        give_up(serve, config);
    if (serve->is_stopping)
        return;
    supervisor_ready();
    if (serve->reload.again) {
        serve->reload.again = false;
        serve_reload(serve);
    }
}

static int prepare(struct serve *serve, struct redrive_err *err)
{
    struct config *config = serve->reload.config;
    int rc = check_servers(serve, config, err);
    if (rc == 0)
        rc = serve_check_work(serve, config, err);
    if (rc == 0 && config->listen.tls.cert)
        rc = tls_identity_load(&config->listen.tls, &serve->reload.tls, err);
    if (rc == 0)
        rc = serve_prepare_faktory(serve, err);
    if (rc == 0)
        rc = reload_op_init(&serve->reload.op, config, err);
    if (rc < 0)
        return rc;
    /* Before the engine looks at its alerts: each is sent once. */
    rc = serve_start_notifier(serve, config, err);
    if (rc < 0)
        reload_op_release(&serve->reload.op);
    return rc;
}

void serve_reload(struct serve *serve)
{
    struct config_report report;
    struct redrive_err err = {0};
    if (serve->reload.is_under_way || serve->is_stopping) {
        serve->reload.again = true;
        return;
    }
    supervisor_reloading();
    if (load_config_again(serve->cli, &serve->reload.config, &report) < 0) {
        log_report(serve, &report);
    } else if (prepare(serve, &err) < 0) {
        log_refusal(serve, &err);
        drop_reload(serve, serve->reload.config);
        serve->reload.config = NULL;
    } else {
        serve->reload.is_under_way = true;
        mailbox_send(&serve->mailbox, &serve->reload.op.op, on_reloaded, serve);
        mailbox_flush(&serve->mailbox);
        return;
    }
    supervisor_ready();
}
