/* cli.h - one run of the program, from its words to its exit code.
 *
 * A command gets a struct cli: the command line as it was read, the global options, and where to
 * print. Data goes to `out`, messages to `err`; with --json every listing is JSON. A command that
 * fails returns a code and fills in the error; it does not print it.
 */
#ifndef CLI_FRAME_CLI_H
#define CLI_FRAME_CLI_H

#include "cli/frame/options.h"
#include "cli/output/table.h"

/* The options that every command has. What is not given is NULL, false or -1. */
struct globals {
    const char *config; /* path of the configuration file */
    const char *store;  /* URL */
    const char *server; /* URL of a server that is asked in place of the store */
    const char *token_file;
    const char *ca_file;
    bool json;
    int log_level;  /* enum log_level, or -1 */
    int log_format; /* enum log_format, or -1 */
    int color;      /* enum color_when */
    bool no_color;
    bool help;
    bool version;
};

/* For the root of the commands, whose options are a struct globals. */
extern const struct field GLOBAL_OPTIONS[];

struct cli {
    struct invocation invocation;
    const struct globals *globals;
    struct term out;
    struct term err;
};

/* The variables of the environment that stand for the options of the same names. */
#define CLI_SERVER_VARIABLE     "REDRIVE_SERVER"
#define CLI_TOKEN_FILE_VARIABLE "REDRIVE_TOKEN_FILE"
#define CLI_CA_FILE_VARIABLE    "REDRIVE_CA_FILE"

/* The URL of the server that the command asks over HTTP: --server, or else the variable, unless
 * --store or --config is given. NULL: the command opens the store itself. */
const char *cli_server(const struct cli *cli);

/* Runs the command that the words ask for and returns the exit code of the program. Reports
 * errors, lost output included. */
int cli_main(const struct command *root, const struct option_source *source, int argc, char **argv);

/* Prints the help of a command, as JSON if that is asked for. */
int cli_print_help(struct cli *cli, const struct command_path *path, struct redrive_err *err);

/* Prints name and version, as JSON if that is asked for. */
int cli_print_version(struct cli *cli, struct redrive_err *err);

/* Prints an error, or a warning, on standard error. A command calls this only when it has more than
 * one to report: the error it returns is reported by cli_main. */
void cli_report(struct cli *cli, const struct redrive_err *e);
void cli_warn(struct cli *cli, const struct redrive_err *warning);

/* Writes a finished text to standard output and releases it. Returns the failure of the buffer,
 * if there was one; then nothing is written. */
int cli_print(struct cli *cli, struct buf *text, struct redrive_err *err);

/* The most that is printed at one time. */
#define CLI_OUTPUT_MAX (256u * 1024 * 1024)

/* Prints one thing: with --json the value that `json` writes, otherwise what `text` appends. */
typedef void (*cli_json_fn)(struct json_writer *w, const void *thing);
typedef void (*cli_text_fn)(struct buf *out, const struct term *term, const void *thing);
int cli_show(struct cli *cli, const void *thing, cli_json_fn json, cli_text_fn text,
             struct redrive_err *err);

/* A list: with --json {"items":[…],"next":…} with a value for each item, otherwise a table with a
 * row for each. */
struct listing {
    const char *columns; /* as table_init takes them */
    size_t n;            /* items */
    void (*item)(struct json_writer *w, const void *list, size_t i);
    void (*row)(struct table *t, const void *list, size_t i);
    const void *list;
    const char *next; /* where the next page begins; NULL: there is none */
};
/* Prints it; as JSON item by item, so that a page of large payloads is not in memory twice. */
int cli_list(struct cli *cli, const struct listing *listing, struct redrive_err *err);

/* Says on standard error what was done; nothing with --json. */
void cli_say(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Which of the commands that share a function this is. */
int cli_variant(const struct cli *cli);

/* ---- Errors and warnings -----------------------------------------------------------------------
 *
 *     redrive: unknown option --profil
 *       in the detail's own line
 *     hint: did you mean --profile?
 *
 * or, for programs, one line: {"error":{"code":"USAGE","message":…,"detail":…,"hint":…}}, where an
 * absent part is null. A warning has `warning` instead of `redrive` and `error`.
 */
enum report_kind {
    REPORT_ERROR,
    REPORT_WARNING,
};

/* Appends the error. Control characters in it (words of the user, answers of a server) are made
 * harmless. An error without a message gets the text of its code. */
void report_text(const struct redrive_err *e, enum report_kind kind, bool color, struct buf *out);
void report_json(const struct redrive_err *e, enum report_kind kind, struct buf *out);

#endif
