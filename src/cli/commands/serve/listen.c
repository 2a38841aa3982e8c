/* listen.c - the servers for HTTP and Faktory: opened, drained, closed. */
#include "cli/commands/serve/private.h"

#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "cli/commands/serve/process.h"
#include "server/faktory/passwords.h"
#include "server/faktory/server.h"
#include "server/http/server.h"
#include "server/listen/endpoint.h"

int serve_load_tls(struct serve *serve, struct redrive_err *err)
{
    const struct config_tls *files = &serve->config->listen.tls;
    const int rc = files->cert ? tls_identity_load(files, &serve->tls, err) : 0;
    if (rc == 0)
        serve_log_certificate(serve);
    return rc;
}

void serve_log_certificate(const struct serve *serve)
{
    struct redrive_err why = {0};
    if (serve->tls && tls_identity_is_ending(serve->tls, clock_wall_ms(), &why))
        log_event(&serve->session.log, LOG_LEVEL_WARNING, clock_wall_ms(), "certificate_ends",
                  LOG_S("cert", serve->config->listen.tls.cert), LOG_S("error", why.message),
                  LOG_S("detail", why.detail), LOG_S("hint", why.hint));
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

/* How many clients each server may accept at one time: as many as the configuration says, and the
 * limit on open files allows. */
static uint32_t clients_allowed(const struct config *config)
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
        .store_url = session_store_url(&serve->session),
        .hub = serve->hub,
        .run_times = serve->run_times,
        .remote = serve->remote,
        .tracing = otlp_exporter_tracing(serve->exporter),
        .certificate_end_ms = serve->tls ? tls_identity_end_ms(serve->tls) : 0,
    };
    struct http_server_options options = {
        .address = config->listen.http,
        .loopback_only = config->n_tokens == 0,
        .socket_mode = SOCKET_MODES[config->listen.socket_mode],
        .tls = unix_socket_is_address(config->listen.http) ? NULL : serve->tls,
        .admit = rest_admit,
        .handler = rest_handle,
        .log = &serve->session.log,
        .max_connections = clients_allowed(config),
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

/* ---- The end of HTTP ---------------------------------------------------------------------------
 *
 * Remote workers may settle what they claimed here. This process is not notified of what they
 * settle at another server, so it asks the store now and then.
 */

/* How often a server that is about to stop looks whether its workers have settled, and how often it
 * asks the store. */
#define LOOK_MS 20
#define ASK_MS  200

static int64_t now_of_engine(const struct serve *serve)
{
    return engine_now_ms(committer_engine(serve->committer));
}

static void on_asked(struct op *op, void *ctx)
{
    struct serve *serve = ctx;
    if (op->code == 0)
        remote_jobs_answer(serve->remote, serve->drain.op.leases, serve->drain.op.n);
    arena_release(&serve->drain.arena);
    serve->drain.is_asking = false;
}

static void ask(struct serve *serve, int64_t now_ms)
{
    struct lease *leases;
    if (serve->drain.is_asking || now_ms < serve->drain.ask_ms)
        return;
    serve->drain.ask_ms = now_ms + ASK_MS;
    arena_init(&serve->drain.arena);
    const size_t n = remote_jobs_ask(serve->remote, &serve->drain.arena, &leases);
    if (n == 0) {
        arena_release(&serve->drain.arena);
        return;
    }
    leases_op_init(&serve->drain.op, leases, n);
    serve->drain.is_asking = true;
    mailbox_send(&serve->mailbox, &serve->drain.op.op, on_asked, serve);
    mailbox_flush(&serve->mailbox);
}

static void on_drain(uv_timer_t *timer)
{
    struct serve *serve = timer->data;
    const int64_t now_ms = clock_monotonic_ms();
    const bool has_held = remote_jobs_count(serve->remote, now_of_engine(serve)) > 0;
    if (now_ms < serve->drain.most_ms && (has_held || now_ms < serve->drain.least_ms)) {
        ask(serve, now_ms);
        return;
    }
    (void)uv_timer_stop(timer);
    serve->drain.is_under_way = false;
    http_server_quiesce(serve->http);
    serve_part_ended(serve);
}

void serve_drain_http(struct serve *serve, int64_t grace_ms)
{
    const bool is_first = !serve->drain.is_under_way;
    const int64_t now_ms = clock_monotonic_ms();
    if (!serve->http || (is_first && serve->drain.most_ms > 0))
        return;
    if (is_first)
        serve->drain.least_ms = now_ms + serve->config->listen.drain_ms;
    serve->drain.most_ms = now_ms + grace_ms;
    serve->drain.is_under_way = true;
    uv_timer_start(&serve->drain.timer, on_drain, 0, LOOK_MS);
}

void serve_drain_release(struct serve *serve)
{
    if (serve->drain.is_asking)
        arena_release(&serve->drain.arena);
}

/* ---- Faktory --------------------------------------------------------------------------------- */

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

/* Checks what the configuration promises to clients of a server that is about to be opened. A
 * process that was started without TLS cannot serve with it before a restart. */
static int check_faktory(const struct serve *serve, const struct config *config,
                         const struct faktory_passwords *passwords, struct redrive_err *err)
{
    if (!config->listen.tls.cert || serve->tls)
        return check_passwords(config, config->listen.faktory, passwords, err);
    err_set(err, REDRIVE_E_CONFIG,
            "the Faktory server cannot be opened with TLS by a process that was started without");
    err_hint(err, "restart the server");
    return REDRIVE_E_CONFIG;
}

static int start_faktory(struct serve *serve, const struct config *config,
                         struct faktory_passwords *passwords, struct redrive_err *err)
{
    const struct faktory_options options = {
        .loop = &serve->loop,
        .committer = serve->committer,
        .address = config->listen.faktory,
        .passwords = passwords,
        .tls = serve->tls,
        .log = &serve->session.log,
        .remote = serve->remote,
        .max_per_address = config->listen.max_per_address,
        .max_connections = clients_allowed(config),
    };
    struct faktory_server *server;
    int rc = faktory_server_start(&options, &server, err);
    if (rc < 0)
        return rc;
    serve->faktory_config = config_hold(config);
    pthread_mutex_lock(&serve->mutex);
    serve->faktory = server;
    pthread_mutex_unlock(&serve->mutex);
    session_log_listening(&serve->session, "faktory", options.address, faktory_server_port(server));
    return 0;
}

static void log_faktory_closed(const struct serve *serve, const struct redrive_err *why)
{
    log_event(&serve->session.log, LOG_LEVEL_WARNING, clock_wall_ms(), "faktory_closed",
              LOG_S("error", why->message), LOG_S("detail", why->detail), LOG_S("hint", why->hint));
}

static int open_faktory(struct serve *serve, struct redrive_err *err)
{
    const struct config *config = serve->config;
    struct faktory_passwords *passwords = NULL;
    struct redrive_err why = {0};
    if (!config->listen.faktory)
        return 0;
    int rc = load_passwords(serve, config, &passwords, err);
    bool is_open = rc == 0 && check_faktory(serve, config, passwords, &why) == 0;
    if (is_open) {
        rc = start_faktory(serve, config, passwords, err);
    } else if (rc == 0 && serve->options->faktory) {
        *err = why; /* it was asked for */
        rc = why.code;
    } else if (rc == 0) {
        log_faktory_closed(serve, &why);
    }
    faktory_passwords_free(passwords);
    return rc;
}

/* For a process that goes on, also without a Faktory server. */
static void open_faktory_again(struct serve *serve, const struct config *config,
                               struct faktory_passwords *passwords)
{
    struct redrive_err why = {0};
    if (check_faktory(serve, config, passwords, &why) < 0 ||
        start_faktory(serve, config, passwords, &why) < 0)
        log_faktory_closed(serve, &why);
}

/* A reload may have asked for a Faktory server while the former one answered its last commands. */
static void open_faktory_after_another(struct serve *serve)
{
    struct faktory_passwords *passwords = NULL;
    struct redrive_err why = {0};
    if (serve->is_stopping || !serve->config->listen.faktory)
        return;
    if (load_passwords(serve, serve->config, &passwords, &why) < 0)
        log_faktory_closed(serve, &why);
    else
        open_faktory_again(serve, serve->config, passwords);
    faktory_passwords_free(passwords);
}

static void on_faktory_stopped(void *ctx)
{
    struct serve *serve = ctx;
    struct faktory_server *server = serve->faktory;
    pthread_mutex_lock(&serve->mutex);
    serve->faktory = NULL;
    pthread_mutex_unlock(&serve->mutex);
    faktory_server_free(server);
    config_free(serve->faktory_config);
    serve->faktory_config = NULL;
    serve->is_faktory_closing = false;
    open_faktory_after_another(serve);
    serve_part_ended(serve);
}

static void on_drained(void *ctx)
{
    struct serve *serve = ctx;
    serve->is_faktory_draining = false;
    serve_part_ended(serve);
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

const char *serve_faktory_address(const struct serve *serve)
{
    return serve->faktory && !serve->is_faktory_closing ? serve->faktory_config->listen.faktory
                                                        : NULL;
}

/* A server that is open must not lose its protection, and one that the command line asks for must
 * be there; any other one stays closed, and the log says why. */
int serve_prepare_faktory(struct serve *serve, struct redrive_err *err)
{
    const struct config *config = serve->reload.config;
    const char *address = serve_faktory_address(serve);
    if (!config->listen.faktory)
        return 0;
    int rc = load_passwords(serve, config, &serve->reload.passwords, err);
    if (rc == 0 && address)
        rc = check_passwords(config, address, serve->reload.passwords, err);
    else if (rc == 0 && serve->options->faktory)
        rc = check_faktory(serve, config, serve->reload.passwords, err);
    return rc;
}

void serve_reload_faktory(struct serve *serve, const struct config *config)
{
    struct faktory_passwords *passwords = serve->reload.passwords;
    serve->reload.passwords = NULL;
    if (!config->listen.faktory)
        (void)serve_close_faktory(serve);
    else if (!serve->faktory)
        open_faktory_again(serve, config, passwords);
    else if (!serve->is_faktory_closing)
        faktory_server_set_passwords(serve->faktory, passwords);
    faktory_passwords_free(passwords);
}

/* ---- Both ------------------------------------------------------------------------------------ */

int serve_open_servers(struct serve *serve, struct redrive_err *err)
{
    int rc = open_http(serve, err);
    return rc < 0 ? rc : open_faktory(serve, err);
}

void serve_quiet_servers(struct serve *serve)
{
    if (serve->rest) {
        rest_set_ready(serve->rest, false);
        rest_quiesce(serve->rest);
    }
}
