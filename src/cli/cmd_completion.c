/* cmd_completion.c - `redrive completion bash`, and the hidden `redrive __complete` that the
 * script calls. */
#include "cli/commands.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/complete.h"

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

static int run_bash(struct cli *cli, struct redrive_err *err)
{
    struct buf text;
    buf_init(&text, sizeof BASH_SCRIPT);
    buf_puts(&text, BASH_SCRIPT);
    return cli_print(cli, &text, err);
}

static const struct command cmd_completion_bash = {
    .name = "bash",
    .summary = "print the script for bash",
    .description =
        "Prints a script to be loaded by bash. It completes commands, options and their values, "
        "and asks the program itself for them, so it need not be renewed after an upgrade.",
    .examples =
        (const struct example[]){
            {"source <(redrive completion bash)", "complete in this shell"},
            {"redrive completion bash > ~/.local/share/bash-completion/completions/redrive",
             "complete in every shell of this user"},
            {0},
        },
    .run = run_bash,
};

const struct command cmd_completion = {
    .name = "completion",
    .summary = "print a script that completes the command line in a shell",
    .commands = (const struct command *const[]){&cmd_completion_bash, NULL},
    .examples =
        (const struct example[]){
            {"source <(redrive completion bash)", "complete in this shell"},
            {0},
        },
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
};
