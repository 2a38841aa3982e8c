/* dlq.c - `redrive dlq`: lists, shows, exports and removes dead letters; redrives and purges those
 * that match. */
#include "cli/commands/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/jobs/bulk.h"
#include "cli/jobs/change.h"
#include "cli/jobs/export.h"
#include "cli/jobs/list.h"

static const struct field LIST_OPTIONS[] = {
    JOB_SELECT_ROWS(struct job_list_options, select),
    JOB_LIST_ROWS("finished"),
    {0},
};

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "list dead letters, a page at a time",
    .description = "Those that died last come first. A job is listed if it matches every option "
                   "that is given, and of several words of an option at least one.",
    OPTIONS_INTO(LIST_OPTIONS, struct job_list_options),
    .examples = EXAMPLES(
        {"redrive dlq list --task enrich --class network,transient", "what the outage killed"},
        {"redrive dlq list --text 'no such bucket' --json", "by the message, for a script"}),
    .check = job_list_check,
    .run_on_store = job_list_run,
    .variant = DLQ_STATES,
};

static const struct command CMD_SHOW = {
    .name = "show",
    .summary = "show everything about a dead letter",
    .arguments = "ID",
    .description = "Why it died, its payload, every attempt and the last error with its stack "
                   "trace.",
    OPTIONS_INTO(JOB_BY_ID_OPTIONS, struct job_by_id),
    .examples = EXAMPLES({"redrive dlq show invoice-17", "why did it die?"}),
    .run_on_store = job_show_run,
    .variant = true,
};

static const struct command CMD_REMOVE = {
    .name = "remove",
    .summary = "remove dead letters for good",
    .arguments = "ID...",
    .description = "The job and its history are gone.",
    OPTIONS_INTO(JOB_BY_ID_OPTIONS, struct job_by_id),
    .examples = EXAMPLES({"redrive dlq remove invoice-17 invoice-18", "two of them"}),
    .run_on_store = job_change_run,
    .variant = LETTER_REMOVE,
};

static const struct field EXPORT_OPTIONS[] = {
    EXPORT_ROWS,
    JOB_SELECT_ROWS(struct export_options, select),
    {0},
};

static const struct command CMD_EXPORT = {
    .name = "export",
    .summary = "write dead letters as JSON lines or CSV",
    .description = EXPORT_DESCRIPTION,
    OPTIONS_INTO(EXPORT_OPTIONS, struct export_options),
    .examples =
        EXAMPLES({"redrive dlq export --older-than 30d -o dead.jsonl", "before they are purged"}),
    .check = job_select_check,
    .run_on_store = export_run,
    .variant = DLQ_STATES,
};

/* ---- Many at once ---------------------------------------------------------------------------- */

/* The row is the same in both. */
#define DRY_RUN_ROW(S) \
    OPTION("dry-run", 0, NULL, "say how many there are, and change nothing", INTO_FLAG(S, dry_run))

/* ---- retry ----------------------------------------------------------------------------------- */

struct retry_options {
    struct job_select select;
    bool all;
    bool dry_run;
    struct rate rate;
};

static const struct field RETRY_OPTIONS[] = {
    OPTION("all", 0, NULL, "every dead letter there is", INTO_FLAG(struct retry_options, all)),
    DRY_RUN_ROW(struct retry_options),
    OPTION("rate", 0, "N/s", "at most so many: 20 is twenty a second, 90/min and 500/h work too",
           OPTION_INTO(FIELD_RATE, struct retry_options, rate, struct rate)),
    JOB_SELECT_ROWS(struct retry_options, select),
    {0},
};

/* A server counts up to a number. */
static const char *at_least(const struct bulk_run *run)
{
    return run->is_at_least ? "at least " : "";
}

static void retry_as_json(struct json_writer *w, const void *thing)
{
    const struct bulk_run *run = thing;
    json_begin_object(w);
    json_field_bool(w, "dry_run", run->dry_run);
    json_field_int(w, "matched", (int64_t)run->matched);
    json_field_bool(w, "at_least", run->is_at_least);
    json_field_int(w, "redriven", run->dry_run ? 0 : (int64_t)run->changed);
    json_field_int(w, "refused", (int64_t)run->refused);
    json_field_bool(w, "finished", !run->interrupted);
    json_end_object(w);
}

static void retry_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct bulk_run *run = thing;
    (void)term;
    if (run->matched == 0)
        buf_puts(out, "no dead letter matches\n");
    else if (run->dry_run)
        buf_printf(out, "%" PRIu64 " of %s%" PRIu64 " would be redriven\n", run->changed,
                   at_least(run), run->matched);
    else
        buf_printf(out, "%" PRIu64 " of %s%" PRIu64 " redriven\n", run->changed, at_least(run),
                   run->matched);
    if (run->refused > 0)
        buf_printf(
            out, "%" PRIu64 " refused: a live job has %s unique key, or %s deadline has passed\n",
            run->refused, run->refused == 1 ? "its" : "their", run->refused == 1 ? "its" : "their");
}

static int check_retry(struct cli *cli, struct redrive_err *err)
{
    const struct retry_options *options = invocation_options(&cli->invocation);
    struct job_select others = options->select;
    others.tenant = NULL;
    if (cli->invocation.n_args > 0) {
        if (options->all || options->dry_run || options->rate.count > 0 ||
            !job_select_is_empty(&others))
            return err_set(err, REDRIVE_E_USAGE, "ids and options that select exclude each other");
        return 0;
    }
    if (!options->all && job_select_is_empty(&options->select)) {
        err_set(err, REDRIVE_E_USAGE, "which dead letters?");
        err_hint(err, "give ids, options that select such as --task, or --all");
        return REDRIVE_E_USAGE;
    }
    return job_select_check(cli, err);
}

static int run_retry(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct retry_options *options = invocation_options(&cli->invocation);
    struct bulk_run run = {.label = "redrive",
                           .verb = BULK_RETRY,
                           .select = &options->select,
                           .states = DLQ_STATES,
                           .rate = options->rate,
                           .dry_run = options->dry_run};
    if (cli->invocation.n_args > 0)
        return job_change_args(cli, session, LETTER_RETRY, options->select.tenant, err);
    int rc = bulk_run(cli, session, &run, err);
    if (rc == 0)
        rc = cli_show(cli, &run, retry_as_json, retry_as_text, err);
    return rc == 0 && run.interrupted ? bulk_run_interrupted(&run, "redriven", err) : rc;
}

static const struct command CMD_RETRY = {
    .name = "retry",
    .summary = "redrive dead letters: by id, or all that match",
    .arguments = "[ID...]",
    .description = "A redriven job goes back to its queue with fresh attempts; its history stays. "
                   "One whose unique key a live job now holds, or whose deadline has passed, is "
                   "refused and counted; --dry-run says how many would be.\n"
                   "\n"
                   "By options, those that have died before the command began are redriven, the "
                   "oldest first, each once: a job that dies again meanwhile stays dead. Ctrl-C "
                   "stops between two jobs, says how far it came, and makes the exit code 1. At "
                   "least one option that selects jobs, or --all, must be given.",
    OPTIONS_INTO(RETRY_OPTIONS, struct retry_options),
    .examples = EXAMPLES({"redrive dlq retry invoice-17 invoice-18", "two jobs"},
                         {"redrive dlq retry --class network --dry-run", "how many would it be?"},
                         {"redrive dlq retry --group 9f86d081884c7d65 --rate 10/s",
                          "all that died of the same, gently"},
                         {"redrive dlq retry --all", "everything at once"}),
    .check = check_retry,
    .run_on_store = run_retry,
    .variant = DLQ_STATES,
};

/* ---- purge ----------------------------------------------------------------------------------- */

struct purge_options {
    struct job_select select;
    bool yes;
    bool dry_run;
};

static const struct field PURGE_OPTIONS[] = {
    OPTION("yes", 'y', NULL, "do not ask", INTO_FLAG(struct purge_options, yes)),
    DRY_RUN_ROW(struct purge_options),
    JOB_SELECT_ROWS(struct purge_options, select),
    {0},
};

/* A question needs a terminal for output and one for input. */
static bool is_confirmed(struct cli *cli, const struct bulk_run *look)
{
    char answer[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(fileno(cli->err.file)))
        return true;
    (void)fprintf(cli->err.file, "Remove %s%" PRIu64 " dead letter%s for good? [y/N] ",
                  at_least(look), look->changed, look->changed == 1 ? "" : "s");
    (void)fflush(cli->err.file);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int ask(struct cli *cli, struct session *session, const struct bulk_run *run,
               struct redrive_err *err)
{
    struct bulk_run look = *run;
    look.dry_run = true;
    int rc = bulk_run(cli, session, &look, err);
    if (rc == 0 && look.changed > 0 && !is_confirmed(cli, &look))
        rc = err_set(err, REDRIVE_E_CANCELLED, "nothing was removed");
    return rc;
}

static void purge_as_json(struct json_writer *w, const void *thing)
{
    const struct bulk_run *run = thing;
    json_begin_object(w);
    json_field_bool(w, "dry_run", run->dry_run);
    json_field_int(w, "matched", (int64_t)run->matched);
    json_field_bool(w, "at_least", run->is_at_least);
    json_field_int(w, "removed", run->dry_run ? 0 : (int64_t)run->changed);
    json_field_bool(w, "finished", !run->interrupted);
    json_end_object(w);
}

static void purge_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct bulk_run *run = thing;
    (void)term;
    buf_printf(out, "%s%" PRIu64 " dead letter%s %s\n", at_least(run), run->changed,
               run->changed == 1 ? "" : "s", run->dry_run ? "would be removed" : "removed");
}

static int check_purge(struct cli *cli, struct redrive_err *err)
{
    const struct purge_options *options = invocation_options(&cli->invocation);
    if (options->select.older_than)
        return job_select_check(cli, err);
    err_set(err, REDRIVE_E_USAGE, "how old must a dead letter be to be removed?");
    err_hint(err, "--older-than 30d, or --older-than 0 for all");
    return REDRIVE_E_USAGE;
}

static int run_purge(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct purge_options *options = invocation_options(&cli->invocation);
    struct bulk_run run = {.label = "purge",
                           .verb = BULK_REMOVE,
                           .select = &options->select,
                           .states = DLQ_STATES,
                           .dry_run = options->dry_run};
    int rc = 0;
    if (!options->yes && !options->dry_run)
        rc = ask(cli, session, &run, err);
    if (rc == 0)
        rc = bulk_run(cli, session, &run, err);
    if (rc == 0)
        rc = cli_show(cli, &run, purge_as_json, purge_as_text, err);
    return rc == 0 && run.interrupted ? bulk_run_interrupted(&run, "removed", err) : rc;
}

static const struct command CMD_PURGE = {
    .name = "purge",
    .summary = "remove dead letters that are old enough",
    .description = "Removes them with their history, for good. --older-than must be given; 0 means "
                   "all. Other options narrow it down. Asks first on a terminal. Retention does "
                   "the same by itself after `dlq_retention_days`.",
    OPTIONS_INTO(PURGE_OPTIONS, struct purge_options),
    .examples =
        EXAMPLES({"redrive dlq purge --older-than 30d", "last month's"},
                 {"redrive dlq purge --older-than 24h --task thumbnail --yes", "in a script"},
                 {"redrive dlq purge --older-than 0", "all of them"}),
    .check = check_purge,
    .run_on_store = run_purge,
    .variant = DLQ_STATES,
};

/* ---- The group ------------------------------------------------------------------------------- */

const struct command cmd_dlq = {
    .name = "dlq",
    .summary = "work with dead letters",
    .description = "A dead letter is a job that could not be done: its attempts are used up, its "
                   "error is of a kind that is not retried, or its time is over.",
    .examples = EXAMPLES({"redrive dlq groups", "of what do jobs die?"},
                         {"redrive dlq retry --class network --rate 10/s", "after the outage"}),
    .commands =
        (const struct command *const[]){&CMD_LIST, &CMD_SHOW, &cmd_dlq_groups, &cmd_dlq_stats,
                                        &CMD_RETRY, &cmd_dlq_edit, &CMD_REMOVE, &CMD_PURGE,
                                        &CMD_EXPORT, &cmd_dlq_add, NULL},
};
