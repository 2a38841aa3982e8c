#include "rest_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "store/store.h"

struct config *rest_server_config(struct rest_server *server, const char *yaml)
{
    char path[128];
    struct config *config = NULL;
    struct config_report report;
    (void)snprintf(path, sizeof path, "%s/redrive.yaml", server->dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs(yaml, f);
    (void)fclose(f);
    const struct config_sources sources = {.path = path, .path_required = true};
    if (config_load(&sources, &config, &report) < 0)
        fail_msg("%s: %s", report.errors[0].message, report.errors[0].detail);
    (void)unlink(path);
    return config;
}

static void start_committer(struct rest_server *server)
{
    const struct store_options store_options = {.create = true};
    struct engine_options options = {.config = server->config};
    struct committer_options committer_options = {0};
    assert_int_equal(store_open(server->url, &store_options, &options.store, NULL), 0);
    assert_int_equal(engine_open(&options, &committer_options.engine, NULL), 0);
    assert_int_equal(store_open(server->url, &store_options, &committer_options.watch, NULL), 0);
    assert_int_equal(committer_start(&committer_options, &server->committer, NULL), 0);
}

void rest_server_open(struct rest_server *server, const char *yaml,
                      const struct rest_route *const *tables)
{
    static unsigned number;
    const char *kind = getenv("REDRIVE_TEST_STORE");
    const char *tmp = getenv("TMPDIR");
    struct redrive_err err = {0};
    *server = (struct rest_server){0};
    (void)snprintf(server->dir, sizeof server->dir, "%.40s/server-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(server->dir));
    if (kind && strcmp(kind, "sqlite") == 0)
        (void)snprintf(server->url, sizeof server->url, "sqlite:%s/jobs.db", server->dir);
    else
        (void)snprintf(server->url, sizeof server->url, "memory:server%u", ++number);
    server->config = rest_server_config(server, yaml);
    start_committer(server);
    const struct rest_options rest_options = {
        .committer = server->committer,
        .config = server->config,
        .store_url = server->url,
        .tables = tables,
    };
    if (rest_new(&rest_options, &server->rest, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    const struct http_server_options options = {
        .address = "127.0.0.1:0",
        .loopback_only = true,
        .admit = rest_admit,
        .handler = rest_handle,
        .ctx = server->rest,
    };
    if (http_server_start(&options, &server->http, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    server->port = http_server_port(server->http);
}

void rest_server_close(struct rest_server *server)
{
    static const char *const FILES[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm"};
    char path[128];
    rest_quiesce(server->rest);
    http_server_stop(server->http);
    rest_stop(server->rest);
    committer_stop(server->committer);
    rest_free(server->rest);
    config_free(server->config);
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", server->dir, FILES[i]);
        (void)unlink(path);
    }
    (void)rmdir(server->dir);
}

int rest_server_ask(struct client *client, const char *method, const char *path, const char *token,
                    const char *body)
{
    struct buf text;
    buf_init(&text, 16u * 1024 * 1024);
    buf_printf(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, path);
    if (token)
        buf_printf(&text, "Authorization: Bearer %s\r\n", token);
    if (body)
        buf_printf(&text, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                   strlen(body));
    buf_puts(&text, "\r\n");
    if (body)
        buf_puts(&text, body);
    client_send(client, text.data, text.len);
    buf_release(&text);
    return client_read(client, strcmp(method, "HEAD") == 0);
}

atomic_uint rest_server_refused;

static int apply_refusal(struct engine *engine, struct op *op, struct redrive_err *err)
{
    (void)engine, (void)err;
    rest_server_refused++;
    op->code = err_set(&op->err, REDRIVE_E_STATE, "not now");
    return 0;
}

static void was_refused(struct rest_call *call, struct op *op)
{
    assert_true(rest_refused(call, op));
}

void rest_server_refuse(struct rest_call *call)
{
    struct op *op = arena_alloc(http_arena(call->request), sizeof *op);
    op->apply = apply_refusal;
    rest_commit(call, op, was_refused);
}
