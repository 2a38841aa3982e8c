#include "house.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/store.h"

struct config *house_config(struct house *house, const char *yaml)
{
    char path[128];
    struct config *config = NULL;
    struct config_report report;
    (void)snprintf(path, sizeof path, "%s/redrive.yaml", house->dir);
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

static void start_committer(struct house *house)
{
    const struct store_options store_options = {.create = true};
    struct engine_options options = {.config = house->config};
    struct committer_options committer_options = {0};
    assert_int_equal(store_open(house->url, &store_options, &options.store, NULL), 0);
    assert_int_equal(engine_open(&options, &committer_options.engine, NULL), 0);
    assert_int_equal(store_open(house->url, &store_options, &committer_options.watch, NULL), 0);
    assert_int_equal(committer_start(&committer_options, &house->committer, NULL), 0);
}

void house_open(struct house *house, const char *yaml, const struct rest_route *const *tables)
{
    static unsigned number;
    const char *kind = getenv("REDRIVE_TEST_STORE");
    const char *tmp = getenv("TMPDIR");
    struct redrive_err err = {0};
    *house = (struct house){0};
    (void)snprintf(house->dir, sizeof house->dir, "%.40s/server-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(house->dir));
    if (kind && strcmp(kind, "sqlite") == 0)
        (void)snprintf(house->url, sizeof house->url, "sqlite:%s/jobs.db", house->dir);
    else
        (void)snprintf(house->url, sizeof house->url, "memory:house%u", ++number);
    house->config = house_config(house, yaml);
    start_committer(house);
    const struct rest_options rest_options = {
        .committer = house->committer,
        .config = house->config,
        .store_url = house->url,
        .tables = tables,
    };
    if (rest_new(&rest_options, &house->rest, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    const struct http_server_options options = {
        .address = "127.0.0.1:0",
        .loopback_only = true,
        .admit = rest_admit,
        .handler = rest_handle,
        .ctx = house->rest,
    };
    if (http_server_start(&options, &house->server, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    house->port = http_server_port(house->server);
}

void house_close(struct house *house)
{
    static const char *const FILES[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm"};
    char path[128];
    rest_quiesce(house->rest);
    http_server_stop(house->server);
    rest_stop(house->rest);
    committer_stop(house->committer);
    rest_free(house->rest);
    config_free(house->config);
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", house->dir, FILES[i]);
        (void)unlink(path);
    }
    (void)rmdir(house->dir);
}

int house_ask(struct client *client, const char *method, const char *path, const char *token,
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
