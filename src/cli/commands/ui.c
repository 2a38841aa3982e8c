/* ui.c - `redrive ui`: the dashboard for a store of this machine, to look at and nothing else. */
#include "cli/commands/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "cli/shared/session.h"
#include "server/events.h"
#include "server/http/server.h"
#include "server/rest/rest.h"

#define ADDRESS_MAX 64

struct ui_options {
    int64_t port;
    bool open;
};

static const struct field OPTIONS[] = {
    OPTION("port", 'p', "N", "the port of 127.0.0.1; 0 is one that is free",
           INTO_INT(struct ui_options, port), .min = 0, .max = 65535, .default_text = "0"),
    OPTION("open", 0, NULL, "show it in the browser of the desktop (xdg-open)",
           INTO_FLAG(struct ui_options, open)),
    {0},
};

/* The server, which reads the store and never ticks: what happens in time is the business of the
 * processes that work. */
struct ui {
    struct cli *cli;
    struct session session;
    struct event_hub *hub;
    struct committer *committer;
    struct rest *rest;
    struct http_server *http;
    char url[ADDRESS_MAX];
};

/* ---- Starting and stopping ------------------------------------------------------------------- */

static int start_http(struct ui *ui, struct redrive_err *err)
{
    const struct ui_options *options = invocation_options(&ui->cli->invocation);
    const struct rest_options rest = {
        .committer = ui->committer,
        .config = ui->session.config,
        .log = &ui->session.log,
        .hub = ui->hub,
        .read_only = true,
    };
    char address[ADDRESS_MAX];
    int rc = rest_new(&rest, &ui->rest, err);
    if (rc < 0)
        return rc;
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", (int)options->port);
    const struct http_server_options http = {
        .address = address,
        .loopback_only = true,
        .admit = rest_admit,
        .handler = rest_handle,
        .ctx = ui->rest,
        .log = &ui->session.log,
    };
    rc = http_server_start(&http, &ui->http, err);
    if (rc == 0)
        (void)snprintf(ui->url, sizeof ui->url, "http://127.0.0.1:%u/ui/",
                       http_server_port(ui->http));
    return rc;
}

static int start(struct ui *ui, struct redrive_err *err)
{
    const struct event_hub_options hub = {.now_ms = clock_wall_ms()};
    int rc = session_open_existing(ui->cli, &ui->session, err);
    if (rc < 0)
        return rc;
    rc = event_hub_new(&hub, &ui->hub, err);
    if (rc == 0)
        rc = session_quiet_committer(&ui->session, &ui->committer, err);
    return rc < 0 ? rc : start_http(ui, err);
}

/* In the order of `redrive serve`: requests, readers, the committer, what they used. */
static void stop(struct ui *ui)
{
    if (ui->rest)
        rest_quiesce(ui->rest);
    http_server_stop(ui->http);
    rest_stop(ui->rest);
    committer_stop(ui->committer);
    event_hub_free(ui->hub);
    rest_free(ui->rest);
    session_close(&ui->session);
}

/* ---- The address ----------------------------------------------------------------------------- */

static void url_as_json(struct json_writer *w, const void *thing)
{
    const struct ui *ui = thing;
    json_begin_object(w);
    json_field_cstr(w, "url", ui->url);
    json_field_cstr(w, "store", ui->session.config->store_shown);
    json_field_bool(w, "needs_token", ui->session.config->n_tokens > 0);
    json_end_object(w);
}

static void url_as_text(struct buf *out, const struct term *term, const void *thing)
{
    (void)term;
    buf_printf(out, "%s\n", ((const struct ui *)thing)->url);
}

/* The browser is started without the signals that are held back or ignored here, and away from this
 * terminal. */
static int start_browser(const char *url, pid_t *ret)
{
    const char *const words[] = {"xdg-open", url, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, ignored;
    (void)sigemptyset(&none);
    (void)sigemptyset(&ignored);
    (void)sigaddset(&ignored, SIGPIPE);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &ignored);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawn_file_actions_init(&files);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        (void)posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    int error = posix_spawnp(ret, words[0], &files, &attributes, (char *const *)words, environ);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attributes);
    return error;
}

static pid_t open_browser(const struct ui *ui)
{
    struct redrive_err warning;
    pid_t browser = 0;
    int error = start_browser(ui->url, &browser);
    if (error == 0)
        return browser;
    (void)err_set(&warning, REDRIVE_E_IO, "cannot open a browser: xdg-open: %s", strerror(error));
    err_hint(&warning, "open the address by hand");
    cli_warn(ui->cli, &warning);
    return 0;
}

/* ---- The command ----------------------------------------------------------------------------- */

static int show_until(struct ui *ui, const sigset_t *ends, struct redrive_err *err)
{
    const struct ui_options *options = invocation_options(&ui->cli->invocation);
    int number;
    int rc = cli_show(ui->cli, ui, url_as_json, url_as_text, err);
    (void)fflush(ui->cli->out.file);
    if (rc < 0)
        return rc;
    cli_say(ui->cli, "the dashboard of %s, to look at; Ctrl-C ends it\n",
            ui->session.config->store_shown);
    if (ui->session.config->n_tokens > 0)
        cli_say(ui->cli, "it asks for a token of the configuration that has the scope read\n");
    const pid_t browser = options->open ? open_browser(ui) : 0;
    while (sigwait(ends, &number) != 0)
        continue;
    if (browser > 0)
        (void)waitpid(browser, NULL, WNOHANG);
    return 0;
}

static int run_ui(struct cli *cli, struct redrive_err *err)
{
    struct ui ui = {.cli = cli};
    sigset_t ends, before;
    signal(SIGPIPE, SIG_IGN);
    /* Before there are threads, which take over what is held back. */
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &ends, &before);
    int rc = start(&ui, err);
    if (rc == 0)
        rc = show_until(&ui, &ends, err);
    stop(&ui);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

const struct command cmd_ui = {
    .name = "ui",
    .summary = "show the dashboard for a store, to look at",
    .description = "Serves the dashboard on a free port of 127.0.0.1 until Ctrl-C or SIGTERM, and "
                   "prints its address. The server is read-only: it refuses every request that "
                   "would change something, runs no jobs and makes no ticks. It works beside "
                   "`redrive serve` and workers on the same store, which has to be there.\n"
                   "\n"
                   "Without tokens in the configuration every user of this machine can look; with "
                   "tokens it asks for one that has the scope read. With --json the line has url, "
                   "store and needs_token.",
    OPTIONS_INTO(OPTIONS, struct ui_options),
    .examples =
        EXAMPLES({"redrive ui", "print the address, and serve"},
                 {"redrive ui --open --store sqlite:jobs.db", "in the browser, for this file"}),
    .run = run_ui,
    .settings = SETTINGS_STORE | SETTINGS_HEALTH | SETTINGS_POLICY | SETTINGS_BREAKER,
};
