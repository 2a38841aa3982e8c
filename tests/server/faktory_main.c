/* An engine, a committer and a Faktory server on a free port, for test_faktory*.py.
 *
 *     faktory_server [--config FILE] [--password PASSWORD=TENANT[:SCOPES]]… [--OPTION N]… STORE
 *
 * SCOPES is the number of bits of enum config_scope; without it, all. Writes the port on a line of
 * its own. Lines on standard input: `quiet`, `terminate`, `drain GRACE_MS` (and then stops), `pass
 * MS` (moves the engine's clock on),
 * `passwords [PASSWORD=TENANT[:SCOPES]]…` (others from now on), `stop`; the end of input stops it
 * as well.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "engine/committer.h"
#include "server/faktory/passwords.h"
#include "server/faktory/server.h"
#include "server/listen/tls.h"
#include "store/store.h"

struct program {
    uv_loop_t loop;
    uv_pipe_t input;
    struct faktory_options options;
    const char *config_path;
    const char *store_url;
    struct config *config;
    struct committer *committer;
    _Atomic(struct faktory_server *) server;
    atomic_llong offset_ms;
    char line[256];
    size_t line_len;
};

static int64_t moved_clock(void *ctx)
{
    struct program *p = ctx;
    return clock_wall_ms() + atomic_load(&p->offset_ms);
}

static void on_ready(void *ctx)
{
    struct program *p = ctx;
    struct faktory_server *server = atomic_load(&p->server);
    if (server)
        faktory_server_wake(server);
}

static void die(const struct redrive_err *err)
{
    fprintf(stderr, "%s: %s\n", err->message, err->detail);
    exit(2);
}

static void open_all(struct program *p)
{
    struct redrive_err err = {0};
    struct store *store;
    struct engine *engine;
    const struct store_options create = {.create = true};
    if (p->config_path) {
        struct config_report report;
        const struct config_sources sources = {.path = p->config_path, .path_required = true};
        if (config_load(&sources, &p->config, &report) < 0)
            die(&report.errors[0]);
    }
    if (store_open(p->store_url, &create, &store, &err) < 0)
        die(&err);
    const struct engine_options engine_options = {
        .store = store, .config = p->config, .clock = moved_clock, .clock_ctx = p};
    if (engine_open(&engine_options, &engine, &err) < 0)
        die(&err);
    const struct committer_options committer_options = {
        .engine = engine, .on_ready = on_ready, .ready_ctx = p};
    if (committer_start(&committer_options, &p->committer, &err) < 0)
        die(&err);
}

/* ---- Standard input -------------------------------------------------------------------------- */

static void on_nudged(struct op *op, void *ctx)
{
    (void)ctx;
    free(op);
}

static int nothing(struct engine *engine, struct op *op, struct redrive_err *err)
{
    (void)engine;
    (void)op;
    (void)err;
    return 0;
}

/* The committer looks at its clock when it has something to do. */
static void pass(struct program *p, long long ms)
{
    struct op *op = calloc(1, sizeof *op);
    if (!op)
        abort();
    atomic_fetch_add(&p->offset_ms, ms);
    *op = (struct op){.apply = nothing, .weight = 1, .done = on_nudged};
    committer_submit(p->committer, op);
}

static void stop(void *ctx)
{
    struct program *p = ctx;
    struct faktory_server *server = atomic_load(&p->server);
    if (uv_is_closing((uv_handle_t *)&p->input))
        return;
    uv_close((uv_handle_t *)&p->input, NULL);
    faktory_server_stop(server, NULL, NULL);
}

static void add_password(struct faktory_passwords *set, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals)
        abort();
    *equals = '\0';
    char *colon = strchr(equals + 1, ':');
    struct faktory_password one = {
        .name = "test", .password = text, .tenant = equals + 1, .scopes = FAKTORY_SCOPES_ALL};
    if (colon) {
        *colon = '\0';
        one.scopes = (uint32_t)atoi(colon + 1);
    }
    if (faktory_passwords_add(set, &one, NULL) < 0)
        abort();
}

static void set_passwords(struct program *p, char *words)
{
    struct faktory_passwords *set = faktory_passwords_new();
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " "))
        add_password(set, word);
    faktory_server_set_passwords(p->server, set);
    faktory_passwords_free(set);
}

static void obey(struct program *p, char *line)
{
    if (strcmp(line, "quiet") == 0)
        faktory_server_quiet(p->server);
    else if (strcmp(line, "terminate") == 0)
        faktory_server_terminate(p->server);
    else if (strncmp(line, "pass ", 5) == 0)
        pass(p, atoll(line + 5));
    else if (strncmp(line, "passwords", 9) == 0)
        set_passwords(p, line + 9);
    else if (strncmp(line, "drain ", 6) == 0)
        faktory_server_drain(p->server, atoll(line + 6), stop, p);
    else if (strcmp(line, "stop") == 0)
        stop(p);
    puts("done");
    fflush(stdout);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct program *p = handle->data;
    (void)suggested;
    *ret = uv_buf_init(p->line + p->line_len, (unsigned)(sizeof p->line - 1 - p->line_len));
}

static void on_input(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct program *p = stream->data;
    char *end;
    (void)buffer;
    if (n < 0) {
        stop(p);
        return;
    }
    p->line_len += (size_t)n;
    p->line[p->line_len] = '\0';
    while ((end = strchr(p->line, '\n'))) {
        *end = '\0';
        obey(p, p->line);
        p->line_len -= (size_t)(end + 1 - p->line);
        memmove(p->line, end + 1, p->line_len + 1);
    }
}

/* ---- Arguments ------------------------------------------------------------------------------- */

/* DIRECTORY/cert.pem and key.pem. */
static struct tls_identity *load_identity(const char *directory)
{
    char cert[512], key[512];
    const struct config_tls files = {.cert = cert, .key = key};
    struct tls_identity *identity = NULL;
    struct redrive_err err = {0};
    (void)snprintf(cert, sizeof cert, "%s/cert.pem", directory);
    (void)snprintf(key, sizeof key, "%s/key.pem", directory);
    if (tls_identity_load(&files, &identity, &err) < 0)
        die(&err);
    return identity;
}

static void set_option(struct program *p, const char *name, char *value)
{
    if (strcmp(name, "--config") == 0)
        p->config_path = value;
    else if (strcmp(name, "--password") == 0)
        add_password(p->options.passwords, value);
    else if (strcmp(name, "--address") == 0)
        p->options.address = value;
    else if (strcmp(name, "--max-connections") == 0)
        p->options.max_connections = strtoul(value, NULL, 10);
    else if (strcmp(name, "--max-per-address") == 0)
        p->options.max_per_address = (unsigned)atoi(value);
    else if (strcmp(name, "--max-line") == 0)
        p->options.max_line_bytes = strtoul(value, NULL, 10);
    else if (strcmp(name, "--tls") == 0)
        p->options.tls = load_identity(value);
    else if (strcmp(name, "--max-held") == 0)
        p->options.max_held_bytes = strtoul(value, NULL, 10);
    else if (strcmp(name, "--command") == 0)
        p->options.command_timeout_ms = atoll(value);
    else if (strcmp(name, "--handshake") == 0)
        p->options.handshake_timeout_ms = atoll(value);
    else if (strcmp(name, "--beat") == 0)
        p->options.beat_timeout_ms = atoll(value);
    else if (strcmp(name, "--send") == 0)
        p->options.send_timeout_ms = atoll(value);
    else if (strcmp(name, "--idle") == 0)
        p->options.idle_timeout_ms = atoll(value);
    else
        abort();
}

int main(int argc, char **argv)
{
    static struct program p;
    struct faktory_server *server;
    struct redrive_err err = {0};
    p.options.address = "127.0.0.1:0";
    p.options.passwords = faktory_passwords_new();
    for (int i = 1; i + 1 < argc; i += 2)
        set_option(&p, argv[i], argv[i + 1]);
    p.store_url = argv[argc - 1];
    open_all(&p);
    uv_loop_init(&p.loop);
    p.options.loop = &p.loop;
    p.options.committer = p.committer;
    p.options.config = p.config;
    if (faktory_server_start(&p.options, &server, &err) < 0)
        die(&err);
    atomic_store(&p.server, server);
    uv_pipe_init(&p.loop, &p.input, 0);
    p.input.data = &p;
    uv_pipe_open(&p.input, STDIN_FILENO);
    uv_read_start((uv_stream_t *)&p.input, on_alloc, on_input);
    printf("%d\n", faktory_server_port(server));
    fflush(stdout);
    uv_run(&p.loop, UV_RUN_DEFAULT);
    committer_stop(p.committer);
    faktory_server_free(server);
    faktory_passwords_free(p.options.passwords);
    tls_identity_free(p.options.tls);
    config_free(p.config);
    return uv_loop_close(&p.loop) == 0 ? 0 : 1;
}
