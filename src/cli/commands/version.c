/* version.c - `redrive version`. */
#include "cli/commands/commands.h"

#include "cli/frame/cli.h"

const struct command cmd_version = {
    .name = "version",
    .summary = "print the version",
    .description = "Prints the version, as --version does.",
    .examples =
        (const struct example[]){
            {"redrive version --json", "read the version in a script"},
            {0},
        },
    .run = cli_print_version,
};
