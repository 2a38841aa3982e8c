/* metrics_server.c - answers GET /metrics of a worker. */
#include <stdlib.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "base/time/clock.h"
#include "server/auth/auth.h"
#include "server/http/server.h"
#include "server/listen/tls.h"
#include "server/metrics/metrics.h"

#define TEXT_MAX_BYTES  (32u * 1024 * 1024)
#define MAX_CONNECTIONS 64

struct metrics_server {
    struct metrics_server_options options;
    struct http_server *http;
    int64_t certificate_end_ms; /* 0: it has none */
};

static void reply_problem(struct http_request *request, int status, const struct redrive_err *err)
{
    static const struct http_header CHALLENGE = {"WWW-Authenticate", "Bearer realm=\"redrive\""};
    static const struct http_header ALLOW = {"Allow", "GET, HEAD"};
    http_reply_problem(request, status, err, status == 405 ? &ALLOW : &CHALLENGE,
                       status == 401 || status == 405);
}

/* True: the request may be answered, with the metrics of a tenant, absent: of all; else it has been
 * refused. */
static bool may_read(const struct metrics_server *server, struct http_request *request,
                     struct str *ret_tenant)
{
    struct principal who;
    struct redrive_err err;
    const enum auth_verdict verdict = auth_check(server->options.config, request, &who);
    int status = 403;
    if (verdict == AUTH_OK && who.scopes & CONFIG_SCOPE_READ) {
        *ret_tenant = server->options.config->n_tokens > 0 ? who.tenant : (struct str){0};
        return true;
    }
    if (verdict == AUTH_OK) {
        err_set(&err, REDRIVE_E_DENIED, "the token '%s' lacks the scope read", who.name);
    } else if (verdict == AUTH_NO_TOKEN || verdict == AUTH_WRONG_TOKEN) {
        status = 401;
        err_set(&err, REDRIVE_E_DENIED, "this needs a token of the configuration");
        err_hint(&err, "send the header Authorization: Bearer TOKEN");
    } else {
        err_set(&err, REDRIVE_E_DENIED, "without tokens only programs of this machine are served");
    }
    reply_problem(request, status, &err);
    return false;
}

static void reply_metrics(struct metrics_server *server, struct http_request *request,
                          struct str tenant)
{
    struct arena *arena = http_arena(request);
    struct run_time *rows;
    struct store_status_view store_status;
    store_status_read(server->options.store_status, &store_status);
    const size_t n = run_times_read(server->options.times, tenant, arena, &rows);
    const struct metrics_process process = {
        .store_status = &store_status,
        .store_is_read = !store_status_is_away(server->options.store_status, NULL),
        .run_times = rows,
        .n_run_times = n,
        .facts = process_facts(run_times_since_ms(server->options.times)),
        .certificate_end_ms = server->certificate_end_ms,
        .spans = server->options.tracing ? server->options.tracing->counts : NULL,
    };
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(TEXT_MAX_BYTES);
    metrics_write_process(&process, &text);
    if (arena->failed || buf_failed(&text)) {
        struct redrive_err err;
        err_nomem(&err);
        reply_problem(request, 503, &err);
    } else {
        http_reply(request, 200, METRICS_CONTENT_TYPE, buf_str(&text), NULL, 0);
    }
}

static void handle(struct http_request *request, void *ctx)
{
    struct metrics_server *server = ctx;
    const struct str path = http_path(request);
    const enum http_method method = http_method(request);
    struct redrive_err err;
    struct str tenant;
    if (!may_read(server, request, &tenant))
        return;
    if (!str_is(path, "/metrics") && !str_is(path, "/v1/metrics")) {
        err_set(&err, REDRIVE_E_NOT_FOUND, "a worker has /metrics only");
        reply_problem(request, 404, &err);
    } else if (method != HTTP_GET && method != HTTP_HEAD) {
        err_set(&err, REDRIVE_E_USAGE, "expected GET");
        reply_problem(request, 405, &err);
    } else {
        reply_metrics(server, request, tenant);
    }
}

/* A worker reads its certificate once. */
static void warn_of_end(struct metrics_server *server, const struct tls_identity *tls)
{
    struct redrive_err why = {0};
    server->certificate_end_ms = tls_identity_end_ms(tls);
    if (tls_identity_is_ending(tls, clock_wall_ms(), &why))
        log_event(server->options.log, LOG_LEVEL_WARNING, clock_wall_ms(), "certificate_ends",
                  LOG_S("cert", server->options.config->listen.tls.cert),
                  LOG_S("error", why.message), LOG_S("detail", why.detail),
                  LOG_S("hint", why.hint));
}

int metrics_server_start(const struct metrics_server_options *options, struct metrics_server **ret,
                         struct redrive_err *err)
{
    const struct config *config = options->config;
    struct tls_identity *tls = NULL;
    struct metrics_server *server = calloc(1, sizeof *server);
    *ret = NULL;
    if (!server)
        return err_nomem(err);
    server->options = *options;
    int rc = config->listen.tls.cert ? tls_identity_load(&config->listen.tls, &tls, err) : 0;
    if (rc == 0 && tls)
        warn_of_end(server, tls);
    if (rc == 0)
        rc = http_server_start(
            &(struct http_server_options){
                .address = config->listen.metrics,
                .loopback_only = config->n_tokens == 0,
                .tls = tls,
                .handler = handle,
                .ctx = server,
                .log = options->log,
                .max_body_bytes = 1,
                .max_connections = MAX_CONNECTIONS,
            },
            &server->http, err);
    tls_identity_free(tls);
    if (rc < 0)
        free(server);
    else
        *ret = server;
    return rc;
}

uint16_t metrics_server_port(const struct metrics_server *server)
{
    return http_server_port(server->http);
}

void metrics_server_stop(struct metrics_server *server)
{
    if (!server)
        return;
    http_server_stop(server->http);
    free(server);
}
