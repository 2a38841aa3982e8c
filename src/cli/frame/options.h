/* options.h - reads a command line by the tables of frame/command.h.
 *
 * Understood: `--name value`, `--name=value`, `-n value`, `-nvalue`, flags in one word (`-ab`),
 * `--no-name` for flags that allow it; `--` ends the options, `-` alone is an argument. The options
 * of a command may be anywhere after its name, those of the root anywhere. Where an option is
 * repeated the last one counts, except in lists. Long options are not to be shortened: a script
 * that relies on it breaks when an option is added. The shortened form only gets a hint.
 *
 * Every error is REDRIVE_E_USAGE (or what an option_source answers) and names the word it is
 * about.
 */
#ifndef CLI_FRAME_OPTIONS_H
#define CLI_FRAME_OPTIONS_H

#include "cli/frame/command.h"

/* A command line that has been read. */
struct invocation {
    const struct option_source *source; /* may be NULL */
    struct command_path path;
    void *values[COMMAND_DEPTH_MAX];   /* the options of path.at[i], or NULL if it has none */
    uint64_t given[COMMAND_DEPTH_MAX]; /* a bit for each row that was used */
    const char **args;                 /* borrowed from the command line */
    size_t n_args;
    struct str *foreign; /* names of options of the source, borrowed from the command line */
    size_t n_foreign;
};

/* Reads `words`, which do not include the name of the program and must outlive the invocation. On
 * failure it holds what was read so far; release it either way. */
int invocation_parse(struct invocation *inv, const struct command *root,
                     const struct option_source *source, const char *const *words, size_t n_words,
                     struct redrive_err *err);
void invocation_release(struct invocation *inv);

/* Whether a command was named and its arguments are as many as it takes. Apart from parsing,
 * because a line that asks for help need not be complete. */
int invocation_check(const struct invocation *inv, struct redrive_err *err);

/* Whether every option of the line has an effect on its command; `with_source`: those of the source
 * too. */
int invocation_check_effects(const struct invocation *inv, bool with_source,
                             struct redrive_err *err);

/* The struct with the options of the command itself. */
const void *invocation_options(const struct invocation *inv);

/* Whether the command line has the option, which must be in a table on the path. */
bool invocation_given(const struct invocation *inv, const char *name);

/* The text that the command line has for an option, or NULL; also if the command has none such. */
const char *invocation_text(const struct invocation *inv, const char *name);

/* ---- Values ---------------------------------------------------------------------------------- */

/* Stores the value of `text` into `values` by the row. `label` is how the user wrote the option. */
int option_store(const struct field *option, void *values, const char *label, const char *text,
                 struct redrive_err *err);

#endif
