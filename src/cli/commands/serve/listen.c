/* listen.c - opens and closes the HTTP server, and all servers together. */
#include "cli/commands/serve/private.h"

#include "cli/shared/open_files.h"
#include "server/listen/unix_socket.h"

int serve_load_tls(struct serve *serve, struct redrive_err *err)
{
    const struct config_tls *files = &serve->config->listen.tls;
    return files->cert ? tls_identity_load(files, &serve->tls, err) : 0;
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

uint32_t serve_clients_allowed(const struct config *config)
{
    return open_files_clients(config->listen.max_connections,
                              (config->listen.http != NULL) + (config->listen.faktory != NULL));
}

/* By enum config_socket_mode. */
static const mode_t SOCKET_MODES[] = {0600, 0660, 0666};

static int open_http(struct serve *serve, struct redrive_err *err)
{
    const struct config *config = serve->config;
    const struct rest_options rest = {
        .committer = serve->committer,
        .config = config,
        .log = &serve->session.log,
        .store_url = config->store,
        .hub = serve->hub,
        .run_times = serve->run_times,
        .held = serve->held,
        .remote = serve->remote,
    };
    struct http_server_options options = {
        .address = config->listen.http,
        .loopback_only = config->n_tokens == 0,
        .socket_mode = SOCKET_MODES[config->listen.socket_mode],
        .tls = unix_socket_is_address(config->listen.http) ? NULL : serve->tls,
        .admit = rest_admit,
        .handler = rest_handle,
        .log = &serve->session.log,
        .max_connections = serve_clients_allowed(config),
        .max_per_address = config->listen.max_per_address,
    };
    struct rest *resources;
    if (!config->listen.http)
        return 0;
    int rc = rest_new(&rest, &resources, err);
    if (rc == 0) {
        options.ctx = resources;
        pthread_mutex_lock(&serve->mutex);
        serve->rest = resources;
        pthread_mutex_unlock(&serve->mutex);
    }
    if (rc == 0)
        rc = http_server_start(&options, &serve->http, err);
    if (rc == 0)
        session_log_listening(&serve->session, "http", config->listen.http,
                              http_server_port(serve->http));
    return rc;
}

int serve_open_servers(struct serve *serve, struct redrive_err *err)
{
    int rc = open_http(serve, err);
    return rc < 0 ? rc : serve_open_faktory(serve, err);
}

/* ---- Closing --------------------------------------------------------------------------------- */

void serve_quiet_servers(struct serve *serve)
{
    if (serve->rest) {
        rest_set_ready(serve->rest, false);
        rest_quiesce(serve->rest);
    }
}
