/* dlq.c - `redrive dlq`: work with dead letters. */
#include "cli/commands/commands.h"

#include "cli/commands/dlq/private.h"
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
    JOB_SELECT_ROWS(struct list_options, select),
    JOB_LIST_ROWS(struct list_options, list, "finished"),
    {0},
};

static int run_list(struct cli *cli, struct redrive_err *err)
{
    const struct list_options *options = invocation_options(&cli->invocation);
    struct job_filter filter;
    int rc = job_select_read(&options->select, &filter, err);
    if (rc == 0)
        rc = job_list_read(&options->list, &filter, err);
    if (rc < 0)
        return rc;
    filter.states = DLQ_STATES;
    return job_list_run(cli, &options->select, &filter, err);
}

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "list dead letters, a page at a time",
    .description = "Those that died last come first. Of several options all must hold; of several "
                   "words of one option, any.",
    .options = LIST_OPTIONS,
    .options_size = sizeof(struct list_options),
    .examples =
        (const struct example[]){
            {"redrive dlq list --task enrich --class network,transient", "what the outage killed"},
            {"redrive dlq list --text 'no such bucket' --json", "by the message, for a script"},
            {0},
        },
    .run = run_list,
};

/* ---- show, remove ---------------------------------------------------------------------------- */

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
        rc = job_find_dead(session.store, options->select.tenant, cli->invocation.args[0], &page,
                           err);
    if (rc == 0)
        rc = job_show(cli, session.store, &page.jobs[0], engine_now_ms(session.engine), err);
    job_page_release(&page);
    session_close(&session);
    return rc;
}

static const struct command CMD_SHOW = {
    .name = "show",
    .summary = "show everything about a dead letter",
    .arguments = "ID",
    .description = "Why it died, its payload, every attempt and the last error with its stack "
                   "trace.",
    .options = TENANT_OPTIONS,
    .options_size = sizeof(struct tenant_options),
    .examples =
        (const struct example[]){
            {"redrive dlq show invoice-17", "why did it die?"},
            {0},
        },
    .run = run_show,
};

static int run_remove(struct cli *cli, struct redrive_err *err)
{
    const struct tenant_options *options = invocation_options(&cli->invocation);
    return job_change_args(cli, JOB_REMOVE, options->select.tenant, true, err);
}

static const struct command CMD_REMOVE = {
    .name = "remove",
    .summary = "remove dead letters for good",
    .arguments = "ID...",
    .description = "The job and its history are gone.",
    .options = TENANT_OPTIONS,
    .options_size = sizeof(struct tenant_options),
    .examples =
        (const struct example[]){
            {"redrive dlq remove invoice-17 invoice-18", "two of them"},
            {0},
        },
    .run = run_remove,
};

/* ---- export ---------------------------------------------------------------------------------- */

static const struct option EXPORT_OPTIONS[] = {
    EXPORT_ROWS,
    JOB_SELECT_ROWS(struct export_options, select),
    {0},
};

static int run_export(struct cli *cli, struct redrive_err *err)
{
    return export_run(cli, DLQ_STATES, err);
}

static const struct command CMD_EXPORT = {
    .name = "export",
    .summary = "write dead letters as JSON lines or CSV",
    .description = EXPORT_DESCRIPTION,
    .options = EXPORT_OPTIONS,
    .options_size = sizeof(struct export_options),
    .examples =
        (const struct example[]){
            {"redrive dlq export --older-than 30d -o dead.jsonl", "before they are purged"},
            {0},
        },
    .run = run_export,
};

const struct command cmd_dlq = {
    .name = "dlq",
    .summary = "work with dead letters",
    .description = "A dead letter is a job that could not be done: its attempts are used up, its "
                   "error is of a kind that is not retried, or its time is over.",
    .examples =
        (const struct example[]){
            {"redrive dlq groups", "of what do jobs die?"},
            {"redrive dlq retry --class network --rate 10/s", "after the outage"},
            {0},
        },
    .commands =
        (const struct command *const[]){&CMD_LIST, &CMD_SHOW, &dlq_groups, &dlq_stats, &dlq_retry,
                                        &dlq_edit, &CMD_REMOVE, &dlq_purge, &CMD_EXPORT, NULL},
};
