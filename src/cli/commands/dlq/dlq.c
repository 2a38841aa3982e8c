/* dlq.c - `redrive dlq`: work with dead letters. */
#include "cli/commands/commands.h"

#include "cli/jobs/change.h"
#include "cli/jobs/export.h"
#include "cli/jobs/list.h"

static const struct option LIST_OPTIONS[] = {
    JOB_SELECT_ROWS(struct job_list_options, select),
    JOB_LIST_ROWS("finished"),
    {0},
};

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "list dead letters, a page at a time",
    .description = "Those that died last come first. Of several options all must hold; of several "
                   "words of one option, any.",
    .options = LIST_OPTIONS,
    .options_size = sizeof(struct job_list_options),
    .examples =
        (const struct example[]){
            {"redrive dlq list --task enrich --class network,transient", "what the outage killed"},
            {"redrive dlq list --text 'no such bucket' --json", "by the message, for a script"},
            {0},
        },
    .check = job_list_check,
    .run_on_store = job_list_run,
    .over_http = true,
    .variant = DLQ_STATES,
};

static const struct command CMD_SHOW = {
    .name = "show",
    .summary = "show everything about a dead letter",
    .arguments = "ID",
    .description = "Why it died, its payload, every attempt and the last error with its stack "
                   "trace.",
    .options = JOB_BY_ID_OPTIONS,
    .options_size = sizeof(struct job_by_id),
    .examples =
        (const struct example[]){
            {"redrive dlq show invoice-17", "why did it die?"},
            {0},
        },
    .run_on_store = job_show_run,
    .over_http = true,
    .variant = true,
};

static const struct command CMD_REMOVE = {
    .name = "remove",
    .summary = "remove dead letters for good",
    .arguments = "ID...",
    .description = "The job and its history are gone.",
    .options = JOB_BY_ID_OPTIONS,
    .options_size = sizeof(struct job_by_id),
    .examples =
        (const struct example[]){
            {"redrive dlq remove invoice-17 invoice-18", "two of them"},
            {0},
        },
    .run_on_store = job_change_run,
    .over_http = true,
    .variant = JOB_REMOVE,
};

static const struct option EXPORT_OPTIONS[] = {
    EXPORT_ROWS,
    JOB_SELECT_ROWS(struct export_options, select),
    {0},
};

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
    .check = job_select_check,
    .run_on_store = export_run,
    .over_http = true,
    .variant = DLQ_STATES,
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
    .commands = (const struct command *const[]){&CMD_LIST, &CMD_SHOW, &cmd_dlq_groups,
                                                &cmd_dlq_stats, &cmd_dlq_retry, &cmd_dlq_edit,
                                                &CMD_REMOVE, &cmd_dlq_purge, &CMD_EXPORT, NULL},
};
