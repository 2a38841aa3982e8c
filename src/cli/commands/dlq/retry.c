/* retry.c - `redrive dlq retry`: by id, or all that match, at a rate. */
#include "cli/commands/dlq/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "cli/jobs/bulk_run.h"
#include "cli/jobs/change.h"
#include "cli/jobs/select.h"

struct retry_options {
    struct job_select select;
    bool all;
    bool dry_run;
    const char *rate;
};

static const struct option OPTIONS[] = {
    {.name = "all", INTO_FLAG(struct retry_options, all), .help = "every dead letter there is"},
    {.name = "dry-run",
     INTO_FLAG(struct retry_options, dry_run),
     .help = "say how many there are, and change nothing"},
    {.name = "rate",
     INTO_STRING(struct retry_options, rate),
     .placeholder = "N/s",
     .help = "at most so many: 20 is twenty a second, 90/min and 500/h work too"},
    JOB_SELECT_ROWS(struct retry_options, select),
    {0},
};

static int read_rate(const char *text, struct rate *ret, struct redrive_err *err)
{
    struct redrive_err wrong = {0};
    char per_second[32];
    *ret = (struct rate){0};
    if (!text)
        return 0;
    /* A number alone means jobs a second. */
    bool alone = strspn(text, "0123456789") == strlen(text);
    if (alone && snprintf(per_second, sizeof per_second, "%s/s", text) < (int)sizeof per_second)
        text = per_second;
    if (rate_parse(str_of(text), ret, &wrong) == 0)
        return 0;
    err_set(err, REDRIVE_E_USAGE, "--rate: %s", wrong.message);
    err_detail(err, "%s", wrong.detail);
    err_hint(err, "%s", wrong.hint);
    return REDRIVE_E_USAGE;
}

static int print_json(struct cli *cli, const struct bulk_run *run, struct redrive_err *err)
{
    struct json_writer w;
    struct buf out;
    buf_init(&out, 1024);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_field_bool(&w, "dry_run", run->dry_run);
    json_field_int(&w, "matched", (int64_t)run->matched);
    json_field_int(&w, "redriven", run->dry_run ? 0 : (int64_t)run->changed);
    json_field_int(&w, "refused", (int64_t)run->refused);
    json_field_bool(&w, "interrupted", run->interrupted);
    json_end_object(&w);
    buf_putc(&out, '\n');
    return cli_print(cli, &out, err);
}

static int print_text(struct cli *cli, const struct bulk_run *run, struct redrive_err *err)
{
    struct buf out;
    buf_init(&out, 1024);
    if (run->matched == 0)
        buf_puts(&out, "no dead letter matches\n");
    else if (run->dry_run)
        buf_printf(&out, "%" PRIu64 " of %" PRIu64 " would be redriven\n", run->changed,
                   run->matched);
    else
        buf_printf(&out, "%" PRIu64 " of %" PRIu64 " redriven\n", run->changed, run->matched);
    if (run->refused > 0)
        buf_printf(&out, "%" PRIu64 " refused: a live job has %s unique key\n", run->refused,
                   run->refused == 1 ? "its" : "their");
    return cli_print(cli, &out, err);
}

static int retry_all(struct cli *cli, const struct job_select *select, struct job_filter *filter,
                     struct bulk_run *run, struct redrive_err *err)
{
    struct session session;
    struct bulk bulk;
    int rc = session_open_existing(cli, &session, err);
    if (rc == 0) {
        const int64_t now_ms = engine_now_ms(session.engine);
        job_select_date(select, now_ms, filter);
        bulk_init(&bulk, MOVE_REDRIVE, filter, now_ms);
        rc = bulk_run(cli, &session, &bulk, run, err);
    }
    session_close(&session);
    if (rc < 0)
        return rc;
    rc = cli->globals->json ? print_json(cli, run, err) : print_text(cli, run, err);
    return rc == 0 && run->interrupted ? bulk_run_interrupted(run, "redriven", err) : rc;
}

static int run_retry(struct cli *cli, struct redrive_err *err)
{
    const struct retry_options *options = invocation_options(&cli->invocation);
    const char *tenant = options->select.tenant;
    struct job_select others = options->select;
    struct bulk_run run = {.label = "redrive", .dry_run = options->dry_run};
    struct job_filter filter;

    others.tenant = NULL;
    if (cli->invocation.n_args > 0) {
        if (options->all || options->dry_run || options->rate || !job_select_is_empty(&others))
            return err_set(err, REDRIVE_E_USAGE, "ids and options that select exclude each other");
        return job_change_args(cli, JOB_RETRY, tenant, true, err);
    }
    if (!options->all && job_select_is_empty(&options->select)) {
        err_set(err, REDRIVE_E_USAGE, "which dead letters?");
        err_hint(err, "give ids, options that select such as --task, or --all");
        return REDRIVE_E_USAGE;
    }
    int rc = read_rate(options->rate, &run.rate, err);
    if (rc == 0)
        rc = job_select_read(&options->select, &filter, err);
    if (rc < 0)
        return rc;
    filter.states = DLQ_STATES;
    return retry_all(cli, &options->select, &filter, &run, err);
}

const struct command dlq_retry = {
    .name = "retry",
    .summary = "redrive dead letters: by id, or all that match",
    .arguments = "[ID...]",
    .description =
        "A redriven job goes back to its queue with fresh attempts; its history stays. One whose "
        "unique key a live job now holds is refused.\n"
        "\n"
        "By options, those that have died before the command began are redriven, the oldest "
        "first, each once: a job that dies again meanwhile stays dead. Ctrl-C stops between two "
        "jobs and says how far it came.",
    .options = OPTIONS,
    .options_size = sizeof(struct retry_options),
    .examples =
        (const struct example[]){
            {"redrive dlq retry invoice-17 invoice-18", "two jobs"},
            {"redrive dlq retry --class network --dry-run", "how many would it be?"},
            {"redrive dlq retry --group 9f86d081884c7d65 --rate 10/s",
             "all that died of the same, gently"},
            {"redrive dlq retry --all", "everything at once"},
            {0},
        },
    .run = run_retry,
};
