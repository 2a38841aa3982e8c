/* serve_main.c - the resources on a free port of loopback, for test_rest*.py: prints the port, and
 * serves until its standard input is closed.
 *
 *     serve_rest CONFIG.yaml
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/rest/rest.h"
#include "store/store.h"

static struct rest *_Atomic resources;

static void on_ready(void *ctx)
{
    struct rest *rest = resources;
    (void)ctx;
    if (rest)
        rest_jobs_ready(rest);
}

static void need(int rc, const struct redrive_err *err)
{
    if (rc == 0)
        return;
    (void)fprintf(stderr, "serve_rest: %s: %s\n", err->message, err->detail);
    exit(1);
}

static struct committer *start_committer(const struct config *config)
{
    const struct store_options store_options = {.create = true};
    struct engine_options engine = {.config = config};
    struct committer_options options = {.on_ready = on_ready};
    struct committer *committer;
    struct redrive_err err = {0};
    need(store_open(config->store, &store_options, &engine.store, &err), &err);
    need(engine_open(&engine, &options.engine, &err), &err);
    need(store_open(config->store, &store_options, &options.watch, &err), &err);
    need(committer_start(&options, &committer, &err), &err);
    return committer;
}

int main(int argc, char **argv)
{
    struct config_sources sources = {.path = argc > 1 ? argv[1] : NULL, .path_required = true};
    struct config_report report;
    struct redrive_err err = {0};
    struct config *config;
    struct http_server *server;
    struct rest *rest;
    char byte;
    (void)signal(SIGPIPE, SIG_IGN);
    if (config_load(&sources, &config, &report) < 0)
        need(-1, &report.errors[0]);
    struct committer *committer = start_committer(config);
    const struct rest_options options = {.committer = committer, .config = config};
    need(rest_new(&options, &rest, &err), &err);
    resources = rest;
    const struct http_server_options http = {
        .address = "127.0.0.1:0", .admit = rest_admit, .handler = rest_handle, .ctx = rest};
    need(http_server_start(&http, &server, &err), &err);
    (void)printf("%u\n", http_server_port(server));
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    http_server_quiesce(server);
    rest_quiesce(rest);
    http_server_stop(server);
    rest_stop(rest);
    committer_stop(committer);
    rest_free(rest);
    config_free(config);
    return 0;
}
