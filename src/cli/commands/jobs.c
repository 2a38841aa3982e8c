/* jobs.c - `redrive jobs`: look at jobs, cancel them, run them now, take them elsewhere. */
#include "cli/commands/commands.h"

#include "cli/jobs/change.h"
#include "cli/jobs/export.h"
#include "cli/jobs/list.h"

static const struct field LIST_OPTIONS[] = {
    JOB_SELECT_STATE_ROW(struct job_list_options, select),
    JOB_SELECT_ROWS(struct job_list_options, select),
    JOB_LIST_ROWS("newest"),
    {0},
};

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "list jobs, a page at a time",
    .description =
        "Without options, the newest jobs of all tenants. NEXT says what a job waits for: a time, "
        "a breaker, a limit; or why it ended. A job is listed if it matches every option that is "
        "given, and of several words of an option at least one. With --json, "
        "`{\"items\":[...],\"next\":CURSOR}`, where `next` is null on the last page.",
    OPTIONS_INTO(LIST_OPTIONS, struct job_list_options),
    .examples = EXAMPLES(
        {"redrive jobs list --state retrying,parked", "what waits, and for what"},
        {"redrive jobs list --task enrich --json --limit 1000", "a page for a script"},
        {"redrive jobs list --state failed --newer-than 24h", "what failed since yesterday"}),
    .check = job_list_check,
    .run_on_store = job_list_run,
};

static const struct command CMD_SHOW = {
    .name = "show",
    .summary = "show everything about a job",
    .arguments = "ID",
    .description =
        "Its facts, payload and result, every attempt with the delay that followed and why, and "
        "the last error with its stack trace. Of a parked job, also the breaker, limit or retry "
        "budget that holds it, and when it may go. With --json, the job with its `history`. Where "
        "several tenants have a job of that id, --tenant says whose it is.",
    OPTIONS_INTO(JOB_BY_ID_OPTIONS, struct job_by_id),
    .examples =
        EXAMPLES({"redrive jobs show 0197f3c2-5f0e-7b1a-9c55-0d6f2a3b4c5d", "what became of it?"},
                 {"redrive jobs show invoice-17 --tenant acme --json", "the same for a script"}),
    .run_on_store = job_show_run,
};

static const struct command CMD_CANCEL = {
    .name = "cancel",
    .summary = "cancel jobs that have not ended",
    .arguments = "ID...",
    .description = "The worker of a running job notices it at its next heartbeat and ends the run; "
                   "what it reports does not count. Each ID is tried; the exit code is that of the "
                   "first that was refused.",
    OPTIONS_INTO(JOB_BY_ID_OPTIONS, struct job_by_id),
    .examples = EXAMPLES({"redrive jobs cancel invoice-17 invoice-18", "two jobs"}),
    .run_on_store = job_change_run,
    .variant = JOB_CANCEL,
};

static const struct command CMD_RETRY = {
    .name = "retry",
    .summary = "run jobs now, or once more",
    .arguments = "ID...",
    .description = "A job that waits for its time (scheduled, retrying) is queued at once. One "
                   "that is dead or failed is redriven, with fresh attempts; its history stays. "
                   "Any other is refused.",
    OPTIONS_INTO(JOB_BY_ID_OPTIONS, struct job_by_id),
    .examples = EXAMPLES({"redrive jobs retry invoice-17", "do not wait any longer"}),
    .run_on_store = job_change_run,
    .variant = JOB_RETRY,
};

static const struct field EXPORT_OPTIONS[] = {
    EXPORT_ROWS,
    JOB_SELECT_STATE_ROW(struct export_options, select),
    JOB_SELECT_ROWS(struct export_options, select),
    {0},
};

static const struct command CMD_EXPORT = {
    .name = "export",
    .summary = "write jobs as JSON lines or CSV",
    .description = EXPORT_DESCRIPTION,
    OPTIONS_INTO(EXPORT_OPTIONS, struct export_options),
    .examples =
        EXAMPLES({"redrive jobs export --state completed -o results.csv", "results as a table"},
                 {"redrive jobs export --task enrich | wc -l", "through a pipe"}),
    .check = job_select_check,
    .run_on_store = export_run,
};

const struct command cmd_jobs = {
    .name = "jobs",
    .summary = "look at jobs and change them",
    .examples = EXAMPLES({"redrive jobs list --state running", "what runs now?"},
                         {"redrive jobs show invoice-17", "what became of it?"}),
    .commands = (const struct command *const[]){&CMD_LIST, &CMD_SHOW, &CMD_CANCEL, &CMD_RETRY,
                                                &CMD_EXPORT, NULL},
};
