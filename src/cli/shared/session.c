/* session.c - opens configuration, store and engine for a command. */
#include "cli/shared/session.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/time/clock.h"
#include "cli/remote/remote.h"
#include "cli/shared/load_config.h"
#include "config/config.h"
#include "engine/tasks.h"
#include "server/listen/endpoint.h"

static int open_store(const struct session *session, const char *url, bool create,
                      struct store **ret, struct redrive_err *err)
{
    const struct store_options options = {.create = create, .origin = session->origin};
    return store_open(url, &options, ret, err);
}

int session_load(struct cli *cli, struct session *ret, struct redrive_err *err)
{
    *ret = (struct session){.origin = rng_system_seed()};
    const bool has_server = cli_server(cli) != NULL;
    int rc = has_server ? load_defaults(&ret->config, err) : load_config(cli, &ret->config, err);
    if (rc == 0 && has_server)
        rc = remote_open(cli, &ret->remote, err);
    if (rc < 0)
        return rc;
    ret->log = (struct log){
        .level = ret->config->log.level,
        .format = ret->config->log.format,
        .sink = log_to_stderr,
    };
    return 0;
}

void session_log_exposed(const struct session *session, const struct config *config,
                         const char *password_file)
{
    struct exposed files[EXPOSED_MAX];
    const size_t n = exposed_find(config, password_file, files);
    for (size_t i = 0; i < n; i++) {
        struct redrive_err warning = {0};
        exposed_warning(&files[i], &warning);
        log_event(&session->log, LOG_LEVEL_WARNING, clock_wall_ms(), "secrets_exposed",
                  LOG_S("path", files[i].path), LOG_S("error", warning.message),
                  LOG_S("detail", warning.detail), LOG_S("hint", warning.hint));
    }
}

static int connect_to(struct session *session, const char *url, bool create,
                      const struct engine_options *options, struct redrive_err *err)
{
    struct engine_options all = *options;
    all.config = session->config;
    all.log = &session->log;
    int rc = open_store(session, url, create, &all.store, err);
    if (rc == 0)
        rc = engine_open(&all, &session->engine, err);
    if (rc == 0)
        session->store = engine_store(session->engine);
    return rc;
}

int session_connect(struct session *session, const struct engine_options *options,
                    struct redrive_err *err)
{
    if (session->remote)
        return 0;
    return connect_to(session, session->config->store, true, options, err);
}

void session_hush(struct cli *cli, struct session *session)
{
    if (cli->globals->log_level < 0 && session->log.level < LOG_LEVEL_WARNING)
        session->log.level = LOG_LEVEL_WARNING;
}

int session_open_existing(struct cli *cli, struct session *ret, struct redrive_err *err)
{
    const struct engine_options options = {0};
    int rc = session_load(cli, ret, err);
    if (rc < 0)
        return rc;
    session_hush(cli, ret);
    return ret->remote ? 0 : connect_to(ret, ret->config->store, false, &options, err);
}

int64_t session_now_ms(const struct session *session)
{
    return session->remote ? remote_now_ms(session->remote) : engine_now_ms(session->engine);
}

int session_run(struct cli *cli, store_command_fn fn, struct redrive_err *err)
{
    struct session session;
    int rc = session_open_existing(cli, &session, err);
    if (rc == 0)
        rc = fn(cli, &session, err);
    session_close(&session);
    return rc;
}

int session_go_without(struct session *session, struct redrive_err *err)
{
    const struct engine_options options = {0};
    return connect_to(session, "memory:", true, &options, err);
}

void session_close(struct session *session)
{
    engine_close(session->engine);
    remote_close(session->remote);
    config_free(session->config);
    *session = (struct session){0};
}

int session_another_store(const struct session *session, struct store **ret,
                          struct redrive_err *err)
{
    return open_store(session, session->config->store, true, ret, err);
}

int session_committer(struct session *session, void (*on_ready)(void *ctx), void *ready_ctx,
                      struct committer **ret, struct redrive_err *err)
{
    struct committer_options options = {.on_ready = on_ready, .ready_ctx = ready_ctx};
    *ret = NULL;
    int rc = session_another_store(session, &options.watch, err);
    if (rc < 0)
        return rc;
    struct publish_op publish;
    publish_op_init(&publish);
    rc = engine_apply_one(session->engine, &publish.op, err);
    if (rc < 0) {
        store_close(options.watch);
        return rc;
    }
    options.engine = session->engine;
    session->engine = NULL;
    session->store = NULL;
    return committer_start(&options, ret, err);
}

void session_log_listening(const struct session *session, const char *interface,
                           const char *address, uint16_t port)
{
    char text[300];
    const char *colon = strrchr(address, ':');
    const int host = colon ? (int)(colon - address) : (int)strlen(address);
    if (unix_socket_is_address(address))
        (void)snprintf(text, sizeof text, "%s", address);
    else
        (void)snprintf(text, sizeof text, "%.*s:%u", host, address, port);
    log_event(&session->log, LOG_LEVEL_INFO, clock_wall_ms(), "listening",
              LOG_S("interface", interface), LOG_S("address", text),
              LOG_I("pid", (int64_t)getpid()));
}

/* ---- Workers --------------------------------------------------------------------------------- */

void worker_name(const char *given, char out[WORKER_NAME_MAX])
{
    char host[256] = "";
    if (given) {
        (void)str_copy(out, WORKER_NAME_MAX, str_of(given));
        return;
    }
    bool is_known = gethostname(host, sizeof host - 1) == 0 && *host != '\0';
    (void)snprintf(out, WORKER_NAME_MAX, "%s:%ld", is_known ? host : "localhost", (long)getpid());
}
