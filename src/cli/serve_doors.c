/* serve_doors.c - where clients come in: HTTP and the Faktory protocol. */
#include "cli/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "doors/faktory_server.h"
#include "doors/unix_socket.h"

#define PASSWORDS_MAX       100
#define PASSWORDS_MAX_BYTES (64u * 1024)

/* With the port in it, also when the address left it open. */
static void log_listening(const struct serve *serve, const char *door, const char *address,
                          uint16_t port)
{
    char text[300];
    const char *colon = strrchr(address, ':');
    const int host = colon ? (int)(colon - address) : (int)strlen(address);
    if (unix_socket_is_address(address))
        (void)snprintf(text, sizeof text, "%s", address);
    else
        (void)snprintf(text, sizeof text, "%.*s:%u", host, address, port);
    log_event(&serve->session.log, LOG_LEVEL_INFO, clock_wall_ms(), "listening",
              LOG_S("door", door), LOG_S("address", text), LOG_I("pid", (int64_t)getpid()));
}

int serve_load_tls(struct serve *serve, struct redrive_err *err)
{
    const struct config_tls *files = &serve->config->listen.tls;
    return files->cert ? tls_identity_load(files, &serve->tls, err) : 0;
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

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
        .max_connections = config->listen.max_connections,
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
        log_listening(serve, "http", config->listen.http, http_server_port(serve->http));
    return rc;
}

/* ---- Faktory --------------------------------------------------------------------------------- */

struct passwords {
    struct buf text;
    struct faktory_password list[PASSWORDS_MAX];
    size_t n;
};

/* A line is `PASSWORD`, or `TENANT PASSWORD`. Takes the text apart in place. */
static int read_line(struct passwords *p, char *line, const char *path, struct redrive_err *err)
{
    line += strspn(line, " \t\r");
    char *end = line + strlen(line);
    while (end > line && strchr(" \t\r", end[-1]))
        *--end = '\0';
    if (*line == '\0' || *line == '#')
        return 0;
    if (p->n == PASSWORDS_MAX) {
        err_set(err, REDRIVE_E_TOO_BIG, "more than %d Faktory passwords", PASSWORDS_MAX);
        err_detail(err, "path %s", path);
        return REDRIVE_E_TOO_BIG;
    }
    char *space = line + strcspn(line, " \t");
    if (*space != '\0') {
        *space++ = '\0';
        space += strspn(space, " \t");
        p->list[p->n++] = (struct faktory_password){.password = space, .tenant = line};
    } else {
        p->list[p->n++] = (struct faktory_password){.password = line};
    }
    return 0;
}

static int read_passwords(struct passwords *p, const char *path, struct redrive_err *err)
{
    int rc = file_read(path, PASSWORDS_MAX_BYTES, &p->text, err);
    if (rc < 0 || p->text.len == 0)
        return rc;
    for (char *line = p->text.data, *next; line && rc == 0; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        rc = read_line(p, line, path, err);
    }
    return rc;
}

/* Tokens keep strangers out of HTTP; this door must not stand open beside it. */
static int check_passwords(const struct serve *serve, const struct passwords *p,
                           struct redrive_err *err)
{
    if (p->n > 0 || serve->config->n_tokens == 0)
        return 0;
    err_set(err, REDRIVE_E_CONFIG, "the Faktory door has no passwords, although there are tokens");
    err_detail(err, "whoever reaches %s could do everything", serve->config->listen.faktory);
    err_hint(err, "give --faktory-passwords FILE, or --faktory off");
    return REDRIVE_E_CONFIG;
}

static int start_faktory(struct serve *serve, const struct passwords *p, struct redrive_err *err)
{
    const struct faktory_options options = {
        .loop = &serve->loop,
        .committer = serve->committer,
        .config = serve->session.config,
        .address = serve->config->listen.faktory,
        .passwords = p->list,
        .n_passwords = p->n,
        .log = &serve->session.log,
        .remote = serve->remote,
        .max_connections = serve->config->listen.max_connections,
    };
    struct faktory_server *server;
    int rc = faktory_server_start(&options, &server, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&serve->mutex);
    serve->faktory = server;
    pthread_mutex_unlock(&serve->mutex);
    log_listening(serve, "faktory", options.address, faktory_server_port(server));
    return 0;
}

static int open_faktory(struct serve *serve, struct redrive_err *err)
{
    struct passwords p = {0};
    struct redrive_err why = {0};
    int rc = 0;
    if (!serve->config->listen.faktory)
        return 0;
    buf_init(&p.text, PASSWORDS_MAX_BYTES + 1);
    if (serve->options->faktory_passwords)
        rc = read_passwords(&p, serve->options->faktory_passwords, err);
    bool is_open = rc == 0 && check_passwords(serve, &p, &why) == 0;
    if (is_open) {
        rc = start_faktory(serve, &p, err);
    } else if (rc == 0 && serve->options->faktory) {
        *err = why; /* it was asked for */
        rc = why.code;
    } else if (rc == 0) {
        log_event(&serve->session.log, LOG_LEVEL_WARNING, clock_wall_ms(), "faktory_closed",
                  LOG_S("error", why.message), LOG_S("hint", why.hint));
    }
    buf_release(&p.text);
    return rc;
}

int serve_open_doors(struct serve *serve, struct redrive_err *err)
{
    int rc = open_http(serve, err);
    return rc < 0 ? rc : open_faktory(serve, err);
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

void serve_quiet_doors(struct serve *serve)
{
    if (serve->rest)
        rest_set_ready(serve->rest, false);
    if (serve->http)
        http_server_quiesce(serve->http);
    if (serve->rest)
        rest_quiesce(serve->rest);
    if (serve->faktory)
        faktory_server_quiet(serve->faktory);
}

bool serve_close_faktory(struct serve *serve)
{
    if (serve->faktory && !serve->is_faktory_closing) {
        serve->is_faktory_closing = true;
        faktory_server_terminate(serve->faktory);
        faktory_server_stop(serve->faktory, on_faktory_stopped, serve);
    }
    return !serve->faktory;
}
