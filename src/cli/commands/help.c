/* help.c - `redrive help [COMMAND...]`. */
#include "cli/commands/commands.h"

#include "cli/frame/cli.h"
#include "cli/frame/complete.h"
#include "cli/frame/describe.h"
#include "cli/frame/help.h"

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

static int run_help(struct cli *cli, struct redrive_err *err)
{
    const struct invocation *inv = &cli->invocation;
    struct command_path path = {.at = {inv->path.at[0]}, .depth = 1};

    if (inv->n_args == 1 && is_source_topic(inv->source, inv->args[0]))
        return print_source(cli, err);
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
    struct words words = WORDS_INIT;

    for (size_t i = 0; i < c->n_args; i++)
        if (command_path_descend(&path, c->args[i], NULL) < 0)
            return;
    command_words(command_path_last(&path), &words);
    completion_offer_words(c, &words);
    words_release(&words);
    if (c->source && c->n_args == 0)
        completion_offer(c, HELP_SOURCE_TOPIC);
}

const struct command cmd_help = {
    .name = "help",
    .summary = "show help for a command",
    .arguments = "[COMMAND...]",
    .description =
        "Shows what --help shows for the same command; without a command, the help of the program. "
        "With --json, the same for machines: the command, its options, and all commands below it.",
    .examples =
        (const struct example[]){
            {"redrive help completion bash", "read about one command"},
            {"redrive help --json", "list all commands and options for a program to read"},
            {0},
        },
    .run = run_help,
    .complete = complete_help,
};
