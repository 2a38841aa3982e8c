/* cli.c - runs a command: options, help, errors, exit code. */
#include "cli/frame/cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/os/log.h"
#include "cli/frame/command.h"
#include "cli/output/term.h"

static const char *const LOG_LEVELS[] = {
    [LOG_LEVEL_DEBUG] = "debug", [LOG_LEVEL_INFO] = "info", [LOG_LEVEL_WARNING] = "warning",
    [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_OFF] = "off",   NULL,
};
static const char *const LOG_FORMATS[] = {[LOG_TEXT] = "text", [LOG_JSON] = "json", NULL};
static const char *const COLORS[] = {
    [COLOR_AUTO] = "auto", [COLOR_ALWAYS] = "always", [COLOR_NEVER] = "never", NULL};

const struct field GLOBAL_OPTIONS[] = {
    OPTION("config", 'c', "FILE", "read the configuration from FILE",
           INTO_STRING(struct globals, config)),
    OPTION("store", 0, "URL",
           "where jobs are kept: sqlite:FILE, postgres://HOST/DATABASE, redis://HOST, or memory: "
           "for a try",
           INTO_STRING(struct globals, store)),
    OPTION("server", 0, "URL",
           "ask the `redrive serve` at this address, such as https://host:7070, in place of a "
           "store; the output is the same",
           INTO_STRING(struct globals, server)),
    OPTION("token-file", 0, "FILE", "the file with the token for the server, in one line",
           INTO_STRING(struct globals, token_file)),
    OPTION("ca-file", 0, "FILE",
           "trust the certificates in FILE (PEM), for a server whose certificate is signed by none "
           "that the system knows",
           INTO_STRING(struct globals, ca_file)),
    OPTION("json", 0, NULL, "print data, and errors too, as JSON", INTO_FLAG(struct globals, json)),
    OPTION("log-level", 0, "LEVEL", "log what is at least this severe",
           INTO_CHOICE(struct globals, log_level), .words = LOG_LEVELS),
    OPTION("log-format", 0, "FORMAT", "how the log is written",
           INTO_CHOICE(struct globals, log_format), .words = LOG_FORMATS),
    OPTION("color", 0, "WHEN", "when to use colours; auto is on a terminal",
           INTO_CHOICE(struct globals, color), .words = COLORS, .default_text = "auto"),
    OPTION("no-color", 0, NULL, "use no colours, like --color never",
           INTO_FLAG(struct globals, no_color)),
    OPTION("help", 'h', NULL, "show help for the command; with --json the same for machines",
           INTO_FLAG(struct globals, help)),
    OPTION("version", 0, NULL, "print the version", INTO_FLAG(struct globals, version)),
    {0},
};

/* ---- Output ---------------------------------------------------------------------------------- */

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

int cli_show(struct cli *cli, const void *thing, cli_json_fn json, cli_text_fn text,
             struct redrive_err *err)
{
    struct buf out;
    buf_init(&out, CLI_OUTPUT_MAX);
    if (cli->globals->json) {
        struct json_writer w;
        json_writer_init(&w, &out);
        json(&w, thing);
        buf_putc(&out, '\n');
    } else {
        text(&out, &cli->out, thing);
    }
    return cli_print(cli, &out, err);
}

static int list_as_json(struct cli *cli, const struct listing *listing, struct redrive_err *err)
{
    struct json_writer w;
    struct buf out;
    buf_init(&out, CLI_OUTPUT_MAX);
    listing_begin(&w, &out);
    for (size_t i = 0; i < listing->n; i++) {
        listing->item(&w, listing->list, i);
        if (buf_failed(&out))
            return cli_print(cli, &out, err);
        term_write(&cli->out, &out);
        buf_reset(&out);
    }
    listing_end(&w, listing->next);
    return cli_print(cli, &out, err);
}

int cli_list(struct cli *cli, const struct listing *listing, struct redrive_err *err)
{
    struct table t;
    struct buf out;
    if (cli->globals->json)
        return list_as_json(cli, listing, err);
    buf_init(&out, CLI_OUTPUT_MAX);
    table_init(&t, listing->columns);
    for (size_t i = 0; i < listing->n; i++)
        listing->row(&t, listing->list, i);
    table_finish(&t, cli->out.width, cli->out.color, &out);
    return cli_print(cli, &out, err);
}

void cli_say(struct cli *cli, const char *format, ...)
{
    va_list args;
    if (cli->globals->json)
        return;
    va_start(args, format);
    (void)vfprintf(cli->err.file, format, args);
    va_end(args);
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

static void version_as_json(struct json_writer *w, const void *version)
{
    json_begin_object(w);
    json_field_cstr(w, "version", version);
    json_end_object(w);
}

static void version_as_text(struct buf *out, const struct term *term, const void *version)
{
    (void)term;
    buf_printf(out, "redrive %s\n", (const char *)version);
}

int cli_print_version(struct cli *cli, struct redrive_err *err)
{
    return cli_show(cli, REDRIVE_VERSION, version_as_json, version_as_text, err);
}

/* ---- Errors and warnings --------------------------------------------------------------------- */

static const char *message_of(const struct redrive_err *e)
{
    return e->message[0] ? e->message : redrive_err_text(e->code);
}

void report_text(const struct redrive_err *e, enum report_kind kind, bool color, struct buf *out)
{
    if (kind == REPORT_ERROR)
        style_add(out, color, STYLE_RED, STR("redrive:"));
    else
        style_add(out, color, STYLE_YELLOW, STR("warning:"));
    buf_putc(out, ' ');
    text_add_clean(out, str_of(message_of(e)));
    buf_putc(out, '\n');
    if (e->detail[0]) {
        buf_puts(out, "  ");
        text_add_clean(out, str_of(e->detail));
        buf_putc(out, '\n');
    }
    if (e->hint[0]) {
        style_add(out, color, STYLE_YELLOW, STR("hint:"));
        buf_putc(out, ' ');
        text_add_clean(out, str_of(e->hint));
        buf_putc(out, '\n');
    }
}

void report_json(const struct redrive_err *e, enum report_kind kind, struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, kind == REPORT_ERROR ? "error" : "warning");
    json_begin_object(&w);
    json_field_cstr(&w, "code", redrive_err_name(e->code));
    json_field_cstr(&w, "message", message_of(e));
    json_field_cstr(&w, "detail", e->detail[0] ? e->detail : NULL);
    json_field_cstr(&w, "hint", e->hint[0] ? e->hint : NULL);
    json_end_object(&w);
    json_end_object(&w);
    buf_putc(out, '\n');
}

/* The message alone; in JSON that of the code, which needs no escapes. */
static void report_without_memory(const struct cli *cli, const struct redrive_err *e,
                                  enum report_kind kind)
{
    const bool is_error = kind == REPORT_ERROR;
    if (cli->globals->json)
        (void)fprintf(cli->err.file, "{\"%s\":{\"code\":\"%s\",\"message\":\"%s\"}}\n",
                      is_error ? "error" : "warning", redrive_err_name(e->code),
                      redrive_err_text(e->code));
    else
        (void)fprintf(cli->err.file, "%s: %s\n", is_error ? "redrive" : "warning", message_of(e));
}

static void report(struct cli *cli, const struct redrive_err *e, enum report_kind kind)
{
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(8192);
    if (cli->globals->json)
        report_json(e, kind, &text);
    else
        report_text(e, kind, cli->err.color, &text);
    if (buf_failed(&text))
        report_without_memory(cli, e, kind);
    else
        term_write(&cli->err, &text);
}

void cli_report(struct cli *cli, const struct redrive_err *e)
{
    report(cli, e, REPORT_ERROR);
}

void cli_warn(struct cli *cli, const struct redrive_err *warning)
{
    report(cli, warning, REPORT_WARNING);
}

/* ---- Servers --------------------------------------------------------------------------------- */

const char *cli_server(const struct cli *cli)
{
    const struct globals *g = cli->globals;
    const char *variable = getenv(CLI_SERVER_VARIABLE);
    if (g->server)
        return g->server;
    return variable && *variable && !g->store && !g->config ? variable : NULL;
}

/* A command that needs the store itself must not go to a store that was not meant. */
static int refuse_server(const struct cli *cli, struct redrive_err *err)
{
    char name[COMMAND_NAME_MAX];
    (void)err_set(err, REDRIVE_E_USAGE, "`%s` needs the store, and cannot work through a server",
                  command_path_name(&cli->invocation.path, name));
    if (cli->globals->server)
        err_hint(err, "run it where the store can be reached, without --server");
    else
        err_hint(
            err,
            "run it where the store can be reached, with --store or without " CLI_SERVER_VARIABLE);
    return REDRIVE_E_USAGE;
}

static int check_server(const struct cli *cli, const struct command *command,
                        struct redrive_err *err)
{
    const struct globals *g = cli->globals;
    if (command->commands || command->needs_no_store)
        return 0;
    if (g->server && (g->store || g->config))
        return err_set(err, REDRIVE_E_USAGE, "--server and %s exclude each other",
                       g->store ? "--store" : "--config");
    const char *server = cli_server(cli);
    if (server)
        return command->run_on_store || command->over_http ? 0 : refuse_server(cli, err);
    if (!g->token_file && !g->ca_file)
        return 0;
    (void)err_set(err, REDRIVE_E_USAGE, "%s is for a server, and none is given",
                  g->token_file ? "--token-file" : "--ca-file");
    err_hint(err, "name it with --server https://HOST:PORT");
    return REDRIVE_E_USAGE;
}

/* ---- A run ----------------------------------------------------------------------------------- */

int cli_variant(const struct cli *cli)
{
    return command_path_last(&cli->invocation.path)->variant;
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
    int rc = check_server(cli, command, err);
    if (rc == 0)
        rc = invocation_check(&cli->invocation, err);
    /* Of a server's settings the session says that they are the server's own. */
    if (rc == 0)
        rc = invocation_check_effects(&cli->invocation, command->needs_no_store || !cli_server(cli),
                                      err);
    if (rc == 0 && command->check)
        rc = command->check(cli, err);
    if (rc < 0)
        return rc;
    return command->run ? command->run(cli, err)
                        : cli->invocation.path.at[0]->with_store(cli, command->run_on_store, err);
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
