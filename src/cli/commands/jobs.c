/* jobs.c - `redrive jobs`: look at jobs, cancel them, run them now, take them elsewhere. */
#include "cli/commands/commands.h"

#include "cli/jobs/change.h"
#include "cli/jobs/export_jobs.h"
#include "cli/jobs/find.h"
#include "cli/jobs/list.h"
#include "cli/jobs/show.h"
#include "cli/shared/session.h"

/* ---- list ------------------------------------------------------------------------------------ */

struct list_options {
    struct job_select select;
    struct job_list list;
};

static const struct option LIST_OPTIONS[] = {
    JOB_SELECT_STATE_ROW(struct list_options, select),
    JOB_SELECT_ROWS(struct list_options, select),
    JOB_LIST_ROWS(struct list_options, list, "newest"),
    {0},
};

static int run_list(struct cli *cli, struct redrive_err *err)
{
    const struct list_options *options = invocation_options(&cli->invocation);
    struct job_filter filter;
    int rc = job_select_read(&options->select, &filter, err);
    if (rc == 0)
        rc = job_list_read(&options->list, &filter, err);
    return rc < 0 ? rc : job_list_run(cli, &options->select, &filter, err);
}

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "list jobs, a page at a time",
    .description = "Without options, the newest jobs of all tenants. NEXT says what a job waits "
                   "for: a time, a breaker, a limit; or why it ended. Of several options all must "
                   "hold; of several words of one option, any.",
    .options = LIST_OPTIONS,
    .options_size = sizeof(struct list_options),
    .examples =
        (const struct example[]){
            {"redrive jobs list --state retrying,parked", "what waits, and for what"},
            {"redrive jobs list --task enrich --json --limit 1000", "a page for a script"},
            {"redrive jobs list --state failed --newer-than 24h", "what failed since yesterday"},
            {0},
        },
    .run = run_list,
};

/* ---- show ------------------------------------------------------------------------------------ */

struct tenant_options {
    struct job_select select;
};

static const struct option TENANT_OPTIONS[] = {
    JOB_SELECT_TENANT_ROW(struct tenant_options, select),
    {0},
};

static int run_show(struct cli *cli, struct redrive_err *err)
{
    const struct tenant_options *options = invocation_options(&cli->invocation);
    struct session session;
    struct job_page page = {0};
    int rc = session_open_existing(cli, &session, err);
    if (rc == 0)
        rc = job_find(session.store, options->select.tenant, cli->invocation.args[0], &page, err);
    if (rc == 0)
        rc = job_show(cli, session.store, &page.jobs[0], engine_now_ms(session.engine), err);
    job_page_release(&page);
    session_close(&session);
    return rc;
}

static const struct command CMD_SHOW = {
    .name = "show",
    .summary = "show everything about a job",
    .arguments = "ID",
    .description = "Its facts, payload and result, every attempt with the delay that followed and "
                   "why, and the last error with its stack trace.",
    .options = TENANT_OPTIONS,
    .options_size = sizeof(struct tenant_options),
    .examples =
        (const struct example[]){
            {"redrive jobs show 0197f3c2-5f0e-7b1a-9c55-0d6f2a3b4c5d", "what became of it?"},
            {"redrive jobs show invoice-17 --tenant acme --json", "the same for a script"},
            {0},
        },
    .run = run_show,
};

/* ---- cancel, retry --------------------------------------------------------------------------- */

static int run_cancel(struct cli *cli, struct redrive_err *err)
{
    const struct tenant_options *options = invocation_options(&cli->invocation);
    return job_change_args(cli, JOB_CANCEL, options->select.tenant, false, err);
}

static const struct command CMD_CANCEL = {
    .name = "cancel",
    .summary = "cancel jobs that have not ended",
    .arguments = "ID...",
    .description = "The worker of a running job notices it at its next heartbeat and ends the "
                   "run; what it reports does not count.",
    .options = TENANT_OPTIONS,
    .options_size = sizeof(struct tenant_options),
    .examples =
        (const struct example[]){
            {"redrive jobs cancel invoice-17 invoice-18", "two jobs"},
            {0},
        },
    .run = run_cancel,
};

static int run_retry(struct cli *cli, struct redrive_err *err)
{
    const struct tenant_options *options = invocation_options(&cli->invocation);
    return job_change_args(cli, JOB_RETRY, options->select.tenant, false, err);
}

static const struct command CMD_RETRY = {
    .name = "retry",
    .summary = "run jobs now, or once more",
    .arguments = "ID...",
    .description = "A job that waits for its time (scheduled, retrying) is queued at once. One "
                   "that is dead or failed is redriven, with fresh attempts; its history stays. "
                   "Any other is refused.",
    .options = TENANT_OPTIONS,
    .options_size = sizeof(struct tenant_options),
    .examples =
        (const struct example[]){
            {"redrive jobs retry invoice-17", "do not wait any longer"},
            {0},
        },
    .run = run_retry,
};

/* ---- export ---------------------------------------------------------------------------------- */

static const struct option EXPORT_OPTIONS[] = {
    EXPORT_ROWS,
    JOB_SELECT_STATE_ROW(struct export_options, select),
    JOB_SELECT_ROWS(struct export_options, select),
    {0},
};

static int run_export(struct cli *cli, struct redrive_err *err)
{
    return export_run(cli, 0, err);
}

static const struct command CMD_EXPORT = {
    .name = "export",
    .summary = "write jobs as JSON lines or CSV",
    .description = EXPORT_DESCRIPTION,
    .options = EXPORT_OPTIONS,
    .options_size = sizeof(struct export_options),
    .examples =
        (const struct example[]){
            {"redrive jobs export --state completed -o results.csv", "results as a table"},
            {"redrive jobs export --task enrich | wc -l", "through a pipe"},
            {0},
        },
    .run = run_export,
};

const struct command cmd_jobs = {
    .name = "jobs",
    .summary = "look at jobs and change them",
    .examples =
        (const struct example[]){
            {"redrive jobs list --state running", "what runs now?"},
            {"redrive jobs show invoice-17", "what became of it?"},
            {0},
        },
    .commands = (const struct command *const[]){&CMD_LIST, &CMD_SHOW, &CMD_CANCEL, &CMD_RETRY,
                                                &CMD_EXPORT, NULL},
};
