/* faktory.c - the Faktory server: its start, its passwords, its end. */
#include "cli/commands/serve/private.h"

#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "server/faktory/passwords.h"
#include "server/faktory/server.h"
#include "server/listen/endpoint.h"

/* ---- Passwords ------------------------------------------------------------------------------- */

static int load_passwords(const struct serve *serve, const struct config *config,
                          struct faktory_passwords **ret, struct redrive_err *err)
{
    return faktory_passwords_load(config, serve->options->faktory_passwords, environ, ret, err);
}

/* HTTP needs tokens; this port must not be open beside it. */
static int check_passwords(const struct config *config, const char *address,
                           const struct faktory_passwords *passwords, struct redrive_err *err)
{
    if (faktory_passwords_count(passwords) > 0 ||
        (config->n_tokens == 0 && endpoint_is_loopback(address)))
        return 0;
    if (config->n_tokens > 0)
        err_set(err, REDRIVE_E_CONFIG,
                "the Faktory server has no passwords, although there are tokens");
    else
        err_set(err, REDRIVE_E_CONFIG,
                "the Faktory server has no passwords, but is open to other machines");
    err_detail(err, "every client that reaches %s could do everything", address);
    err_hint(err, "add faktory_passwords, or say listen.faktory: off");
    return REDRIVE_E_CONFIG;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int start_faktory(struct serve *serve, struct faktory_passwords *passwords,
                         struct redrive_err *err)
{
    const struct faktory_options options = {
        .loop = &serve->loop,
        .committer = serve->committer,
        .config = serve->session.config,
        .address = serve->config->listen.faktory,
        .passwords = passwords,
        .tls = serve->tls,
        .log = &serve->session.log,
        .remote = serve->remote,
        .max_per_address = serve->config->listen.max_per_address,
        .max_connections = serve_clients_allowed(serve->config),
    };
    struct faktory_server *server;
    int rc = faktory_server_start(&options, &server, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&serve->mutex);
    serve->faktory = server;
    pthread_mutex_unlock(&serve->mutex);
    session_log_listening(&serve->session, "faktory", options.address, faktory_server_port(server));
    return 0;
}

int serve_open_faktory(struct serve *serve, struct redrive_err *err)
{
    const struct config *config = serve->config;
    struct faktory_passwords *passwords = NULL;
    struct redrive_err why = {0};
    if (!config->listen.faktory)
        return 0;
    int rc = load_passwords(serve, config, &passwords, err);
    bool is_open = rc == 0 && check_passwords(config, config->listen.faktory, passwords, &why) == 0;
    if (is_open) {
        rc = start_faktory(serve, passwords, err);
    } else if (rc == 0 && serve->options->faktory) {
        *err = why; /* it was asked for */
        rc = why.code;
    } else if (rc == 0) {
        log_event(&serve->session.log, LOG_LEVEL_WARNING, clock_wall_ms(), "faktory_closed",
                  LOG_S("error", why.message), LOG_S("hint", why.hint));
    }
    faktory_passwords_free(passwords);
    return rc;
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void on_faktory_stopped(void *ctx)
{
    struct serve *serve = ctx;
    struct faktory_server *server = serve->faktory;
    pthread_mutex_lock(&serve->mutex);
    serve->faktory = NULL;
    pthread_mutex_unlock(&serve->mutex);
    faktory_server_free(server);
    serve_advance(serve);
}

static void on_drained(void *ctx)
{
    struct serve *serve = ctx;
    serve->is_faktory_draining = false;
    serve_advance(serve);
}

void serve_drain_faktory(struct serve *serve, int64_t grace_ms)
{
    if (!serve->faktory || serve->is_faktory_closing)
        return;
    serve->is_faktory_draining = true;
    faktory_server_drain(serve->faktory, grace_ms, on_drained, serve);
}

bool serve_close_faktory(struct serve *serve)
{
    if (serve->is_faktory_draining)
        return false;
    if (serve->faktory && !serve->is_faktory_closing) {
        serve->is_faktory_closing = true;
        faktory_server_terminate(serve->faktory);
        faktory_server_stop(serve->faktory, on_faktory_stopped, serve);
    }
    return !serve->faktory;
}

/* ---- Another configuration ------------------------------------------------------------------- */

int serve_prepare_faktory(struct serve *serve, struct redrive_err *err)
{
    const struct config *config = serve->reload.config;
    if (!serve->faktory || serve->is_faktory_closing || !config->listen.faktory)
        return 0;
    int rc = load_passwords(serve, config, &serve->reload.passwords, err);
    return rc < 0 ? rc
                  : check_passwords(config, serve->session.config->listen.faktory,
                                    serve->reload.passwords, err);
}

void serve_reload_faktory(struct serve *serve, const struct config *config)
{
    struct faktory_passwords *passwords = serve->reload.passwords;
    serve->reload.passwords = NULL;
    if (serve->faktory && !config->listen.faktory)
        (void)serve_close_faktory(serve);
    else if (serve->faktory && passwords)
        faktory_server_set_passwords(serve->faktory, passwords);
    faktory_passwords_free(passwords);
}
