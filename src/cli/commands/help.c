/* help.c - `redrive help`, `version` and `completion`, with the hidden `__complete` that the
 * scripts of the shells call. */
#include "cli/commands/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/frame/cli.h"
#include "cli/frame/command.h"
#include "config/config.h"
#include "server/rest/rest.h"

static bool is_source_topic(const struct option_source *source, const char *word)
{
    return source && strcmp(word, HELP_SOURCE_TOPIC) == 0;
}

static int print_source(struct cli *cli, struct redrive_err *err)
{
    const struct option_source *source = cli->invocation.source;
    struct buf page;
    buf_init(&page, HELP_MAX_BYTES);
    if (cli->globals->json)
        describe_source(source, &page);
    else
        help_source(source, &cli->out, &page);
    return cli_print(cli, &page, err);
}

#define MANUAL_TOPIC "manual"
#define KEYS_TOPIC   "config-keys"
#define ROUTES_TOPIC "http-routes"

static int print_manual(struct cli *cli, struct redrive_err *err)
{
    struct buf part;
    buf_init(&part, HELP_MAX_BYTES);
    manual_part(cli->invocation.path.at[0], &part);
    return cli_print(cli, &part, err);
}

static void section_words(struct words *out)
{
    for (size_t i = 0; config_section(i); i++)
        words_add(out, "", str_of(config_section(i)));
}

static int refuse_unknown_section(const char *section, struct redrive_err *err)
{
    struct words words = WORDS_INIT;
    section_words(&words);
    (void)err_set(err, REDRIVE_E_USAGE, "the configuration has no section '%s'", section);
    words_hint(&words, section, "run 'redrive help " KEYS_TOPIC "' to see all", err);
    return REDRIVE_E_USAGE;
}

/* The keys of a section, or all if it is NULL. */
static int print_keys(struct cli *cli, const char *section, struct redrive_err *err)
{
    size_t i = 0;
    while (section && config_section(i) && strcmp(config_section(i), section) != 0)
        i++;
    if (!config_section(i))
        return refuse_unknown_section(section, err);

    struct json_writer w;
    struct buf page;
    buf_init(&page, HELP_MAX_BYTES);
    if (cli->globals->json) {
        json_writer_init(&w, &page);
        config_reference_json(section, &w);
        buf_putc(&page, '\n');
    } else {
        config_reference(section, &page);
    }
    return cli_print(cli, &page, err);
}

static int print_routes(struct cli *cli, struct redrive_err *err)
{
    struct json_writer w;
    struct buf page;
    buf_init(&page, HELP_MAX_BYTES);
    if (cli->globals->json) {
        json_writer_init(&w, &page);
        rest_reference_json(&w);
        buf_putc(&page, '\n');
    } else {
        rest_reference(&page);
    }
    return cli_print(cli, &page, err);
}

static int run_help(struct cli *cli, struct redrive_err *err)
{
    const struct invocation *inv = &cli->invocation;
    struct command_path path = {.at = {inv->path.at[0]}, .depth = 1};

    if (inv->n_args == 1 && is_source_topic(inv->source, inv->args[0]))
        return print_source(cli, err);
    if (inv->n_args == 1 && strcmp(inv->args[0], MANUAL_TOPIC) == 0)
        return print_manual(cli, err);
    if (inv->n_args == 1 && strcmp(inv->args[0], ROUTES_TOPIC) == 0)
        return print_routes(cli, err);
    if (inv->n_args > 0 && inv->n_args <= 2 && strcmp(inv->args[0], KEYS_TOPIC) == 0)
        return print_keys(cli, inv->n_args == 2 ? inv->args[1] : NULL, err);
    for (size_t i = 0; i < inv->n_args; i++) {
        int rc = command_path_descend(&path, inv->args[i], err);
        if (rc < 0)
            return rc;
    }
    return cli_print_help(cli, &path, err);
}

static void complete_help(struct completion *c)
{
    struct command_path path = {.at = {c->root}, .depth = 1};
    RELEASED_BY(words_release) struct words words = WORDS_INIT;

    if (c->n_args == 1 && strcmp(c->args[0], KEYS_TOPIC) == 0) {
        section_words(&words);
        completion_offer_words(c, &words);
        return;
    }
    for (size_t i = 0; i < c->n_args; i++)
        if (command_path_descend(&path, c->args[i], NULL) < 0)
            return;
    command_words(command_path_last(&path), &words);
    completion_offer_words(c, &words);
    if (c->n_args > 0)
        return;
    if (c->source)
        completion_offer(c, HELP_SOURCE_TOPIC);
    completion_offer(c, KEYS_TOPIC);
    completion_offer(c, ROUTES_TOPIC);
    completion_offer(c, MANUAL_TOPIC);
}

const struct command cmd_help = {
    .name = "help",
    .summary = "show help for a command",
    .arguments = "[COMMAND...]",
    .description =
        "Shows what --help shows for the same command; without a command, the help of the program. "
        "With --json, the same for machines: the command, its options, and all commands below it.\n"
        "\n"
        "`redrive help config-flags` lists the keys of the configuration that can be given as "
        "options. `redrive help config-keys` has all keys, as the tables of "
        "docs/configuration.md; with the name of a section, its keys. `redrive help http-routes` "
        "lists the paths that a server has, with the scope that each needs; with --json, their "
        "parameters as well. `redrive help manual` prints the sections of redrive.1 about options "
        "and commands, as mdoc.",
    .examples =
        EXAMPLES({"redrive help completion bash", "read about one command"},
                 {"redrive help config-keys retry", "read about the keys of a section"},
                 {"redrive help --json", "list all commands and options for a program to read"}),
    .run = run_help,
    .needs_no_store = true,
    .complete = complete_help,
};

/* ---- Version --------------------------------------------------------------------------------- */

const struct command cmd_version = {
    .name = "version",
    .summary = "print the version",
    .description = "The same as --version.",
    .examples = EXAMPLES({"redrive version --json", "read the version in a script"}),
    .run = cli_print_version,
    .needs_no_store = true,
};

/* ---- Completion ------------------------------------------------------------------------------ */

/* The words come from the program that is being completed, so that `./build/redrive` completes its
 * own commands. compopt fails outside of a completion, where the script is only being tested. */
static const char BASH_SCRIPT[] =
    "# Completion of redrive for bash. Load it with: source <(redrive completion bash)\n"
    "_redrive()\n"
    "{\n"
    "    local line\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        if [[ $line == :files ]]; then\n"
    "            compopt -o default 2>/dev/null\n"
    "        else\n"
    "            COMPREPLY+=(\"$line\")\n"
    "        fi\n"
    "    done < <(\"${COMP_WORDS[0]/#\\~/$HOME}\" __complete -- \"$COMP_CWORD\" \\\n"
    "        \"${COMP_WORDS[@]}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _redrive redrive\n";

/* The file may be sourced, or found by compinit under the name _redrive and autoloaded. */
static const char ZSH_SCRIPT[] =
    "#compdef redrive\n"
    "# Completion of redrive for zsh. Load it with: source <(redrive completion zsh)\n"
    "_redrive()\n"
    "{\n"
    "    local line has_files\n"
    "    local -a offered\n"
    "    while IFS= read -r line; do\n"
    "        if [[ $line == :files ]]; then\n"
    "            has_files=1\n"
    "        else\n"
    "            offered+=(\"$line\")\n"
    "        fi\n"
    "    done < <(\"${words[1]/#\\~/$HOME}\" __complete -- $((CURRENT - 1)) \"${(@)words}\" \\\n"
    "        2>/dev/null)\n"
    "    (( ${#offered} )) && compadd -- \"${offered[@]}\"\n"
    "    [[ -z $has_files ]] || _files\n"
    "}\n"
    "if [[ $funcstack[1] == _redrive ]]; then\n"
    "    _redrive \"$@\"\n"
    "else\n"
    "    compdef _redrive redrive\n"
    "fi\n";

static const char FISH_SCRIPT[] =
    "# Completion of redrive for fish. Load it with: redrive completion fish | source\n"
    "function __redrive_complete\n"
    "    set -l before (commandline -opc)\n"
    "    set -l current (commandline -ct)\n"
    "    for line in ($before[1] __complete -- (count $before) $before \"$current\" 2>/dev/null)\n"
    "        if test \"$line\" = :files\n"
    "            __fish_complete_path \"$current\"\n"
    "        else\n"
    "            echo -- $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c redrive -f -a '(__redrive_complete)'\n";

static const char *const SCRIPTS[] = {BASH_SCRIPT, ZSH_SCRIPT, FISH_SCRIPT};

/* Prints the script of the variant. */
static int print_script(struct cli *cli, struct redrive_err *err)
{
    const char *script = SCRIPTS[cli_variant(cli)];
    struct buf text;
    buf_init(&text, strlen(script) + 1);
    buf_puts(&text, script);
    return cli_print(cli, &text, err);
}

#define WHAT_IT_DOES                                                                           \
    " It completes commands, options and their values, and asks the program itself for them, " \
    "so it need not be renewed after an upgrade."

static const struct command cmd_completion_bash = {
    .name = "bash",
    .summary = "print the script for bash",
    .description = "Prints a script to be loaded by bash." WHAT_IT_DOES,
    .examples =
        EXAMPLES({"source <(redrive completion bash)", "complete in this shell"},
                 {"redrive completion bash > ~/.local/share/bash-completion/completions/redrive",
                  "complete in every shell of this user"}),
    .run = print_script,
    .needs_no_store = true,
    .variant = 0,
};

static const struct command cmd_completion_zsh = {
    .name = "zsh",
    .summary = "print the script for zsh",
    .description = "Prints a script to be loaded by zsh, after compinit." WHAT_IT_DOES,
    .examples = EXAMPLES({"source <(redrive completion zsh)", "complete in this shell"},
                         {"redrive completion zsh > ~/.zfunc/_redrive",
                          "complete in every shell, with ~/.zfunc in fpath before compinit"}),
    .run = print_script,
    .needs_no_store = true,
    .variant = 1,
};

static const struct command cmd_completion_fish = {
    .name = "fish",
    .summary = "print the script for fish",
    .description = "Prints a script to be loaded by fish." WHAT_IT_DOES,
    .examples = EXAMPLES({"redrive completion fish | source", "complete in this shell"},
                         {"redrive completion fish > ~/.config/fish/completions/redrive.fish",
                          "complete in every shell of this user"}),
    .run = print_script,
    .needs_no_store = true,
    .variant = 2,
};

const struct command cmd_completion = {
    .name = "completion",
    .summary = "print a script that completes the command line in a shell",
    .commands = (const struct command *const[]){&cmd_completion_bash, &cmd_completion_zsh,
                                                &cmd_completion_fish, NULL},
    .examples = EXAMPLES({"source <(redrive completion bash)", "complete in this shell"},
                         {"redrive completion fish | source", "the same in fish"}),
};

static int run_complete(struct cli *cli, struct redrive_err *err)
{
    const struct invocation *inv = &cli->invocation;
    struct buf text;
    char *end;

    errno = 0;
    unsigned long cursor = strtoul(inv->args[0], &end, 10);
    if (errno || *end || end == inv->args[0])
        return err_set(err, REDRIVE_E_USAGE, "'%s' is not the number of a word", inv->args[0]);
    buf_init(&text, 1024u * 1024);
    int rc = complete_line(inv->path.at[0], inv->source, inv->args + 1, inv->n_args - 1, cursor,
                           &text, err);
    if (rc < 0) {
        buf_release(&text);
        return rc;
    }
    return cli_print(cli, &text, err);
}

const struct command cmd_complete = {
    .name = "__complete",
    .summary = "print what may stand at a word of a command line",
    .arguments = "CURSOR WORD...",
    .hidden = true,
    .run = run_complete,
    .needs_no_store = true,
};
