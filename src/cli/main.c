/* main.c - the list of commands. */
#include "base/os/memory.h"
#include "cli/commands/commands.h"
#include "cli/frame/cli.h"
#include "cli/shared/session.h"
#include "store/store.h"

/* Listed in the order of help. */
static const struct command *const COMMANDS[] = {
    &cmd_enqueue, &cmd_work,       &cmd_workflow, &cmd_serve,   &cmd_batch,    &cmd_jobs,
    &cmd_dlq,     &cmd_breakers,   &cmd_limits,   &cmd_queues,  &cmd_cron,     &cmd_stats,
    &cmd_health,  &cmd_top,        &cmd_ui,       &cmd_policy,  &cmd_simulate, &cmd_experiment,
    &cmd_config,  &cmd_doctor,     &cmd_migrate,  &cmd_move,    &cmd_backup,   &cmd_export,
    &cmd_import,  &cmd_completion, &cmd_help,     &cmd_version, &cmd_complete, NULL,
};

static const struct command ROOT = {
    .name = "redrive",
    .summary = "a job queue that treats failure as the normal case",
    .description =
        "Redrive retries work by a policy one can reason about, classifies errors by a table, "
        "holds work back while a service is down, and keeps what could not be done as dead "
        "letters.\n"
        "\n"
        "Data goes to standard output, everything else to standard error. The exit code is 0 on "
        "success, 1 on failure, 2 for wrong usage or configuration, 3 when the work itself died.",
    .commands = COMMANDS,
    .with_store = session_run,
    OPTIONS_INTO(GLOBAL_OPTIONS, struct globals),
    .examples = EXAMPLES(
        {"redrive enqueue resize '{\"width\":320}'", "submit a job"},
        {"redrive work", "run jobs until told to stop"},
        {"redrive serve", "the same, and an HTTP API"}, {"redrive top", "watch what happens"},
        {"redrive dlq groups", "what has died, and of what?"},
        {"redrive policy explain --profile records", "when would a failing job be retried?"},
        {"redrive simulate --outage 15m", "what do retries do to a service that is down?"},
        {"redrive config check", "is the configuration right?"},
        {"source <(redrive completion bash)", "complete commands and options in this shell"}),
};

int main(int argc, char **argv)
{
    memory_give_back_large();
    store_own_process();
    return cli_main(&ROOT, &CONFIG_FLAGS, argc, argv);
}
