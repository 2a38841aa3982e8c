/* cli.h - one run of the program, from its words to its exit code.
 *
 * A command gets a struct cli: the command line as it was read, the global options, and where to
 * print. Data goes to `out`, messages to `err`; with --json every listing is JSON. A command that
 * fails returns a code and fills in the error; it does not print it.
 */
#ifndef CLI_FRAME_CLI_H
#define CLI_FRAME_CLI_H

#include "cli/frame/options.h"
#include "cli/output/term.h"

/* The options that every command has. What is not given is NULL, false or -1. */
struct globals {
    const char *config; /* path of the configuration file */
    const char *store;  /* URL */
    bool json;
    int log_level;  /* enum log_level, or -1 */
    int log_format; /* enum log_format, or -1 */
    int color;      /* enum color_when */
    bool no_color;
    bool help;
    bool version;
};

/* For the root of the commands, whose options are a struct globals. */
extern const struct option GLOBAL_OPTIONS[];

struct cli {
    struct invocation invocation;
    const struct globals *globals;
    struct term out;
    struct term err;
};

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

#endif
