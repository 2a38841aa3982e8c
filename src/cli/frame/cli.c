/* cli.c - runs a command: options, help, errors, exit code. */
#include "cli/frame/cli.h"

#include <string.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/os/log.h"
#include "cli/frame/describe.h"
#include "cli/frame/help.h"
#include "cli/frame/report.h"

static const char *const LOG_LEVELS[] = {
    [LOG_LEVEL_DEBUG] = "debug", [LOG_LEVEL_INFO] = "info", [LOG_LEVEL_WARNING] = "warning",
    [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_OFF] = "off",   NULL,
};
static const char *const LOG_FORMATS[] = {[LOG_TEXT] = "text", [LOG_JSON] = "json", NULL};
static const char *const COLORS[] = {
    [COLOR_AUTO] = "auto", [COLOR_ALWAYS] = "always", [COLOR_NEVER] = "never", NULL};

const struct option GLOBAL_OPTIONS[] = {
    {.name = "config",
     .letter = 'c',
     INTO_STRING(struct globals, config),
     .placeholder = "FILE",
     .help = "read the configuration from FILE"},
    {.name = "store",
     INTO_STRING(struct globals, store),
     .placeholder = "URL",
     .help = "where jobs are kept: sqlite:FILE, or a postgres:// or redis:// URL"},
    {.name = "json",
     INTO_FLAG(struct globals, json),
     .help = "print data, and errors too, as JSON"},
    {.name = "log-level",
     INTO_CHOICE(struct globals, log_level),
     .choices = LOG_LEVELS,
     .placeholder = "LEVEL",
     .help = "log what is at least this severe"},
    {.name = "log-format",
     INTO_CHOICE(struct globals, log_format),
     .choices = LOG_FORMATS,
     .placeholder = "FORMAT",
     .help = "how the log is written"},
    {.name = "color",
     INTO_CHOICE(struct globals, color),
     .choices = COLORS,
     .placeholder = "WHEN",
     .default_text = "auto",
     .help = "use colours"},
    {.name = "no-color",
     INTO_FLAG(struct globals, no_color),
     .help = "use no colours, like --color never"},
    {.name = "help",
     .letter = 'h',
     INTO_FLAG(struct globals, help),
     .help = "show help for the command"},
    {.name = "version", INTO_FLAG(struct globals, version), .help = "print the version"},
    {0},
};

int cli_print(struct cli *cli, struct buf *text, struct redrive_err *err)
{
    int rc = buf_failed(text);
    if (rc < 0)
        err_set(err, rc, "cannot print the answer: %s", redrive_err_text(rc));
    else
        term_write(&cli->out, text);
    buf_release(text);
    return rc;
}

int cli_print_help(struct cli *cli, const struct command_path *path, struct redrive_err *err)
{
    struct buf page;
    buf_init(&page, HELP_MAX_BYTES);
    if (cli->globals->json)
        describe_command(path, &page);
    else
        help_page(path, cli->invocation.source, &cli->out, &page);
    return cli_print(cli, &page, err);
}

int cli_print_version(struct cli *cli, struct redrive_err *err)
{
    struct buf text;
    buf_init(&text, 256);
    if (cli->globals->json) {
        struct json_writer w;
        json_writer_init(&w, &text);
        json_begin_object(&w);
        json_field_cstr(&w, "version", REDRIVE_VERSION);
        json_end_object(&w);
        buf_putc(&text, '\n');
    } else {
        buf_puts(&text, "redrive " REDRIVE_VERSION "\n");
    }
    return cli_print(cli, &text, err);
}

/* Called without a command: lists the commands. */
static int print_overview(struct cli *cli, struct redrive_err *err)
{
    struct buf text;
    buf_init(&text, HELP_MAX_BYTES);
    help_overview(&cli->invocation.path, &cli->out, &text);
    return cli_print(cli, &text, err);
}

static int run(struct cli *cli, size_t n_words, struct redrive_err *err)
{
    const struct command *command = command_path_last(&cli->invocation.path);

    if (cli->globals->help)
        return cli_print_help(cli, &cli->invocation.path, err);
    if (cli->globals->version)
        return cli_print_version(cli, err);
    if (n_words == 0)
        return print_overview(cli, err);
    int rc = invocation_check(&cli->invocation, err);
    return rc < 0 ? rc : command->run(cli, err);
}

/* After an error the rest of the line has not been read, but how to report the error may be
 * written there. */
static void peek_at_rest(struct globals *g, const char *const *words, size_t n_words)
{
    for (size_t i = 0; i < n_words && strcmp(words[i], "--") != 0; i++) {
        g->json = g->json || strcmp(words[i], "--json") == 0;
        g->no_color = g->no_color || strcmp(words[i], "--no-color") == 0;
    }
}

static void report(struct cli *cli, const struct redrive_err *e, enum report_kind kind)
{
    struct buf text;
    buf_init(&text, 8192);
    if (cli->globals->json)
        report_json(e, kind, &text);
    else
        report_text(e, kind, cli->err.color, &text);
    term_write(&cli->err, &text);
    buf_release(&text);
}

void cli_report(struct cli *cli, const struct redrive_err *e)
{
    report(cli, e, REPORT_ERROR);
}

void cli_warn(struct cli *cli, const struct redrive_err *warning)
{
    report(cli, warning, REPORT_WARNING);
}

int cli_main(const struct command *root, const struct option_source *source, int argc, char **argv)
{
    const char *const *words = (const char *const *)argv + (argc > 0);
    const size_t n_words = argc > 0 ? (size_t)argc - 1 : 0;
    struct redrive_err err = {0}, lost = {0};
    struct globals globals = {0};
    struct cli cli = {.globals = &globals};

    term_sanitize();
    int rc = invocation_parse(&cli.invocation, root, source, words, n_words, &err);
    if (cli.invocation.values[0])
        globals = *(const struct globals *)cli.invocation.values[0];
    if (rc < 0)
        peek_at_rest(&globals, words, n_words);
    enum color_when color = globals.no_color ? COLOR_NEVER : (enum color_when)globals.color;
    term_init(&cli.out, stdout, color);
    term_init(&cli.err, stderr, color);

    if (rc == 0)
        rc = run(&cli, n_words, &err);
    if (rc < 0) {
        err.code = rc;
        cli_report(&cli, &err);
    }
    int lost_rc = term_close(&cli.out, &lost);
    if (lost_rc < 0)
        cli_report(&cli, &lost);
    invocation_release(&cli.invocation);
    return redrive_err_exit_code(rc < 0 ? rc : lost_rc);
}
