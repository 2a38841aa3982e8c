/* fake_main.c - the frame as a program with commands of its own, to be tested from outside: the
 * real commands have no configuration to read and no work that could die. */
#include "cli/frame/cli.h"

#include "base/err.h"
#include "cli/commands/commands.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "fake.h"
#include "waiting.h"

/* Prints a line, then fails with the error of that name. */
static int run_fail(struct cli *cli, struct redrive_err *err)
{
    struct buf text;
    buf_init(&text, 64);
    buf_puts(&text, "data\n");
    cli_print(cli, &text, err);
    for (int code = -1; code >= -100; code--)
        if (strcmp(cli->invocation.args[0], redrive_err_name(code)) == 0)
            return code;
    return err_set(err, REDRIVE_E_UNKNOWN, "no such error");
}

static const struct command FAIL = {
    .name = "fail",
    .summary = "fail",
    .arguments = "NAME",
    .run = run_fail,
};

struct work_options {
    int64_t steps;
};

static const struct field WORK_OPTIONS[] = {
    {.name = "steps",
     INTO_INT(struct work_options, steps),
     .min = 1,
     .max = 1000,
     .placeholder = "N",
     .default_text = "3",
     .help = "how many steps to take, of 10 ms each"},
    {0},
};

/* Works with a bar on standard error, then prints a table on standard output. */
static int run_work(struct cli *cli, struct redrive_err *err)
{
    const struct work_options *options = invocation_options(&cli->invocation);
    struct progress progress;
    struct table table;
    struct buf text;

    buf_init(&text, 1024u * 1024);
    table_init(&table, ">STEP|NOTE");
    progress_init(&progress, &cli->err, "work", (uint64_t)options->steps, NULL);
    for (int64_t i = 1; i <= options->steps; i++) {
        pass_ms(10);
        progress_update(&progress, (uint64_t)i);
        table_addf(&table, "%d", (int)i);
        table_add(&table, "a note that is longer than a narrow terminal is wide, in any case");
    }
    progress_clear(&progress);
    int rc = table_render(&table, cli->out.width, cli->out.color, &text);
    table_release(&table);
    if (rc < 0) {
        buf_release(&text);
        return err_set(err, rc, "cannot print the table");
    }
    return cli_print(cli, &text, err);
}

static const struct command WORK = {
    .name = "work",
    .summary = "work",
    .options = WORK_OPTIONS,
    .options_size = sizeof(struct work_options),
    .run = run_work,
};

static const struct command ROOT = {
    .name = "redrive",
    .summary = "the frame under test",
    .options = GLOBAL_OPTIONS,
    .options_size = sizeof(struct globals),
    .commands = (const struct command *const[]){&FAIL, &WORK, &cmd_help, &cmd_complete, NULL},
};

int main(int argc, char **argv)
{
    return cli_main(&ROOT, &FAKE_SOURCE, argc, argv);
}
