/* command.h - the tables from which the command line is made.
 *
 * A struct command describes a command and a struct field one of its options. From these tables
 * alone come parsing (frame/options.h), help and the description for machines (frame/help.c),
 * completion, the nearest word when one is misspelt and the manual page. A new command is a table
 * and a function, and a line in each of the lists that cli/README.md names.
 *
 *     struct next_options {
 *         int64_t count;
 *     };
 *     static const struct field NEXT_OPTIONS[] = {
 *         OPTION("count", 'n', "N", "how many times to print",
 *                INTO_INT(struct next_options, count), .min = 1, .max = 1000,
 *                .default_text = "5"),
 *         {0},
 *     };
 *     const struct command cmd_cron_next = {
 *         .name = "next",
 *         .summary = "print the next times of a schedule",
 *         .arguments = "SCHEDULE",
 *         OPTIONS_INTO(NEXT_OPTIONS, struct next_options),
 *         .examples = EXAMPLES({"redrive cron next @daily", "five midnights"}),
 *         .run = run_next,
 *     };
 *
 * The options of a command hold for all commands below it, and may be before or after their names:
 * those of the root are the global options.
 */
#ifndef CLI_FRAME_COMMAND_H
#define CLI_FRAME_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "cli/output/term.h"
#include "fields/field.h"
#include "redrive.h"

struct cli;
struct completion;
struct session;

/* ---- Words -------------------------------------------------------------------------------------
 *
 * A growing list of words, for suggestions and completion.
 *
 * The list owns copies. It serves conveniences only, so running out of memory is not an error: a
 * word that there is no memory for is left out.
 */
struct words {
    char **items;
    size_t n;
    size_t capacity;
};

#define WORDS_INIT \
    {              \
        0          \
    }
void words_release(struct words *w);

/* Adds `prefix` and `word` as one word. */
void words_add(struct words *w, const char *prefix, struct str word);

/* The word of the list that suggest() finds, or NULL. The list owns it. */
const char *words_nearest(const struct words *w, struct str given);

/* Adds the hint "did you mean '…'?", or `otherwise` where no word is near ("": none), and releases
 * the list. */
void words_hint(struct words *w, const char *given, const char *otherwise, struct redrive_err *err);

/* ---- Options --------------------------------------------------------------------------------- */

struct option_strings {
    const char **items; /* each borrowed from the command line */
    size_t n;
};

/* The kinds of values that only a command line has. Texts are borrowed from it. Other options are
 * of kinds that need neither an arena nor the time: FIELD_INT, _DOUBLE, _SPAN, _WORD, _TERMS,
 * _RATE, _FINGERPRINT, _BOOL. */
extern const struct field_kind OPTION_STRING;  /* [const char *] not empty */
extern const struct field_kind OPTION_STRINGS; /* [struct option_strings] every use adds one */

/* A row: OPTION("count", 'n', "N", "how many", INTO_INT(struct S, count), .min = 1, .max = 9).
 * `letter` is 0 where there is none, `placeholder` NULL for a flag. */
#define OPTION(option_name, option_letter, value_name, text, ...)                      \
    {                                                                                  \
        .name = (option_name), .letter = (option_letter), .placeholder = (value_name), \
        .help = (text), __VA_ARGS__                                                    \
    }

/* Kind and offset of a value: INTO_INT(struct S, member). The member must be of that type. */
#define INTO_FLAG(S, member)     OPTION_INTO(FIELD_BOOL, S, member, bool)
#define INTO_STRING(S, member)   OPTION_INTO(OPTION_STRING, S, member, const char *)
#define INTO_INT(S, member)      OPTION_INTO(FIELD_INT, S, member, int64_t)
#define INTO_DOUBLE(S, member)   OPTION_INTO(FIELD_DOUBLE, S, member, double)
#define INTO_DURATION(S, member) OPTION_INTO(FIELD_SPAN, S, member, int64_t)
#define INTO_CHOICE(S, member)   OPTION_INTO(FIELD_WORD, S, member, int)
#define INTO_STRINGS(S, member)  OPTION_INTO(OPTION_STRINGS, S, member, struct option_strings)
#define OPTION_INTO(value_kind, S, member, T) \
    .kind = &(value_kind), .offset = _Generic(&((S *)0)->member, T * : offsetof(S, member))

/* The row for a name or a letter, or NULL. Tables may be NULL. */
const struct field *option_find(const struct field *table, struct str name);
const struct field *option_find_letter(const struct field *table, char letter);
/* The row that `no-…` negates, or NULL. */
const struct field *option_find_negated(const struct field *table, struct str name);

/* Every name without its dashes, negations included. */
void option_words(const struct field *table, struct words *out);

/* ---- Options that are in no table ---------------------------------------------------------
 *
 * The keys of the configuration are flags too. What holds them answers as an option_source; it is
 * asked about every long option that no table has. All of its options take a value.
 */
struct command;
struct option_source {
    void *ctx;
    bool (*known)(void *ctx, struct str name);
    /* Takes over a value. `value` is borrowed from the command line and outlives the source. The
     * error need not name the option. */
    int (*set)(void *ctx, struct str name, const char *value, struct redrive_err *err);
    /* Fills in name, placeholder, help, default_text and words (what does not apply stays NULL)
     * of the option with that number and returns true; false after the last. The strings are valid
     * as long as the source. */
    bool (*enumerate)(void *ctx, size_t index, struct field *ret);
    /* Whether the option has an effect on what the command does; NULL: all have. A line with one
     * that has none is refused. (The global options are different: they hold for every command, so
     * that an alias or a script may always give them.) */
    bool (*counts)(void *ctx, struct str name, const struct command *command);
};

/* The same for a source, which may be NULL. */
bool option_source_find(const struct option_source *source, struct str name, struct field *ret);
/* Those that have an effect on the command; on a group: all. */
void option_source_words(const struct option_source *source, const struct command *command,
                         struct words *out);

/* ---- Commands -------------------------------------------------------------------------------- */

/* How deep commands nest, the program itself included. */
#define COMMAND_DEPTH_MAX 4

struct example {
    const char *line;
    const char *meaning;
};

/* The two members of a command for its options: the table, and the struct that its rows fill in. */
#define OPTIONS_INTO(table, S) .options = (table), .options_size = sizeof(S)

/* The examples of a command: EXAMPLES({"redrive cron list", "what runs when"}, …). */
#define EXAMPLES(...)        \
    (const struct example[]) \
    {                        \
        __VA_ARGS__,         \
        {                    \
            0                \
        }                    \
    }

/* A command on a store. */
typedef int (*store_command_fn)(struct cli *cli, struct session *session, struct redrive_err *err);

struct command {
    const char *name;
    const char *summary; /* one line, lower case, no full stop */
    /* The arguments as help shows them: `TASK [FILE...]`. Their number is checked against this
     * text. NULL: none. */
    const char *arguments;
    const char *description; /* paragraphs, wrapped by help; NULL: the summary says it all */
    const struct field *options;
    size_t options_size; /* of the struct that `options` fill in; it starts zeroed */
    /* Either commands below this one, a list that ends with NULL, or a function that does it. It
     * returns 0 or a negative code that becomes the exit code of the program. */
    const struct command *const *commands;
    int (*run)(struct cli *cli, struct redrive_err *err);
    /* In place of `run`, for a command on a store that must be there, or on a server that is asked
     * in its place (cli_server, frame/cli.h): the session is opened for it and closed after it. */
    store_command_fn run_on_store;
    /* Looks at options and arguments before anything is opened; NULL: there is nothing to say. */
    int (*check)(struct cli *cli, struct redrive_err *err);
    bool over_http;      /* a `run` that can ask a server in place of the store */
    bool needs_no_store; /* neither a store nor a server has a say in what it does */
    int variant;         /* tells commands that share these functions apart */
    /* Which options of the source have an effect on it, in bits of the source; and what to write in
     * place of one that has none. NULL: the commands that it has an effect on are named. */
    uint32_t settings;
    const char *settings_hint;
    /* Of the root: opens a session, calls the function, closes the session. */
    int (*with_store)(struct cli *cli, store_command_fn fn, struct redrive_err *err);
    const struct example *examples; /* ends with an empty row */
    bool hidden;                    /* works, but is neither listed nor suggested */
    /* Offers words for the argument under the cursor; NULL: file names if it is called FILE. */
    void (*complete)(struct completion *completion);
};

/* The names of the commands below `parent` that are not hidden. */
void command_words(const struct command *parent, struct words *out);

/* From the program down to one command. */
struct command_path {
    const struct command *at[COMMAND_DEPTH_MAX];
    size_t depth;
};

/* The command that it leads to. */
const struct command *command_path_last(const struct command_path *path);

/* Steps down to `command`, which is one below. */
void command_path_push(struct command_path *path, const struct command *command);

/* Steps down to the command called `word`, or says what else it may have been. */
int command_path_descend(struct command_path *path, const char *word, struct redrive_err *err);

/* "redrive cron next" */
#define COMMAND_NAME_MAX 128
const char *command_path_name(const struct command_path *path, char out[COMMAND_NAME_MAX]);

/* "redrive cron next [OPTIONS] SCHEDULE" */
#define COMMAND_USAGE_MAX 256
const char *command_path_usage(const struct command_path *path, char out[COMMAND_USAGE_MAX]);

/* One word of `arguments`. */
struct argument {
    struct str name; /* without brackets and dots */
    bool required;
    bool repeated; /* takes all that are left */
};

/* The argument that position `index` fills; false when there is none. A repeated one fills its
 * own position and all later ones. */
bool command_argument(const struct command *command, size_t index, struct argument *ret);

/* ---- Completion of a shell's command line (frame/complete.c) -----------------------------------
 *
 * The shell's script passes the words of the line to `redrive __complete` and shows what it
 * prints: a word a line, and a line `:files` where names of files fit as well. The answer always
 * comes from the program itself, so it cannot be older than the program.
 */

/* A line that is being completed. */
struct completion {
    const struct command *root;
    const struct option_source *source; /* may be NULL */
    struct command_path path;           /* the command on the line so far */
    const char *const *args;            /* its arguments before the cursor */
    size_t n_args;
    struct str word;   /* the part before the cursor */
    struct str prefix; /* the part of the cursor's word that is not being completed: `--opt=` */
    struct buf *out;
};

/* Appends the answer for `words`, the first of which is the program; the cursor is at the end of
 * words[cursor], which may lie just behind the last word. Words may come as bash splits them:
 * `--opt`, `=`, `value`. A line that is wrong so far gives no words. */
int complete_line(const struct command *root, const struct option_source *source,
                  const char *const *words, size_t n_words, size_t cursor, struct buf *out,
                  struct redrive_err *err);

/* For the `complete` function of a command: offers a word if it begins like the cursor's. */
void completion_offer(struct completion *c, const char *word);
void completion_offer_words(struct completion *c, const struct words *words);

/* ---- Help pages, and the same as JSON for machines (frame/help.c) ---------------------------- */

/* Lines are filled to the width of the terminal, but to no more than this; without a terminal to
 * HELP_WIDTH_DEFAULT. */
#define HELP_WIDTH_MAX     100
#define HELP_WIDTH_DEFAULT 80

/* The most a page may have. */
#define HELP_MAX_BYTES (1024u * 1024)

/* Appends the whole page of a command. */
void help_page(const struct command_path *path, const struct option_source *source,
               const struct term *term, struct buf *out);

/* Appends what the program says when it is called without arguments: its commands only. */
void help_overview(const struct command_path *path, const struct term *term, struct buf *out);

/* Appends the list of the options that a source has. */
void help_source(const struct option_source *source, const struct term *term, struct buf *out);

/* The name under which `help` shows that list. */
#define HELP_SOURCE_TOPIC "config-flags"

/* Appends the help text of an option, and what else its row knows: choices, repetition, default. */
void help_option_text(const struct field *option, struct buf *out);

/* ---- The manual page (frame/manual.c) -------------------------------------------------------- */

/* Appends the sections of redrive.1 about options and commands, as mdoc. */
void manual_part(const struct command *root, struct buf *out);

/* ---- As JSON -----------------------------------------------------------------------------------
 *
 *     {"name":"redrive","usage":…,"summary":…,"options":[{"name":"config","letter":"c",
 *      "type":"string","placeholder":"FILE","help":…,"default":null,"choices":[]}, …],
 *      "commands":[…],"examples":[{"line":…,"meaning":…}]}
 *
 * Commands nest; hidden ones are left out.
 */

/* Appends the command that `path` leads to and all below it. */
void describe_command(const struct command_path *path, struct buf *out);

/* Appends the options of a source: {"options":[…]}. */
void describe_source(const struct option_source *source, struct buf *out);

#endif
