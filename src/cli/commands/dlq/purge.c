/* purge.c - `redrive dlq purge`: removes dead letters that are old enough. */
#include "cli/commands/dlq/private.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "cli/jobs/bulk_run.h"
#include "cli/jobs/select.h"

struct purge_options {
    struct job_select select;
    bool yes;
    bool dry_run;
};

static const struct option OPTIONS[] = {
    {.name = "yes", .letter = 'y', INTO_FLAG(struct purge_options, yes), .help = "do not ask"},
    {.name = "dry-run",
     INTO_FLAG(struct purge_options, dry_run),
     .help = "say how many there are, and change nothing"},
    JOB_SELECT_ROWS(struct purge_options, select),
    {0},
};

/* A question needs a terminal for output and one for input. */
static bool is_confirmed(struct cli *cli, uint64_t n)
{
    char answer[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(fileno(cli->err.file)))
        return true;
    (void)fprintf(cli->err.file, "Remove %" PRIu64 " dead letter%s for good? [y/N] ", n,
                  n == 1 ? "" : "s");
    (void)fflush(cli->err.file);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int ask(struct cli *cli, const struct session *session, const struct bulk *bulk,
               struct redrive_err *err)
{
    uint64_t n, refused;
    int rc = bulk_count(session->store, bulk, &n, &refused, err);
    if (rc == 0 && n > 0 && !is_confirmed(cli, n))
        rc = err_set(err, REDRIVE_E_CANCELLED, "nothing was removed");
    return rc;
}

static int print_result(struct cli *cli, const struct bulk_run *run, struct redrive_err *err)
{
    struct buf out;
    buf_init(&out, 1024);
    if (cli->globals->json) {
        struct json_writer w;
        json_writer_init(&w, &out);
        json_begin_object(&w);
        json_field_bool(&w, "dry_run", run->dry_run);
        json_field_int(&w, "matched", (int64_t)run->matched);
        json_field_int(&w, "removed", run->dry_run ? 0 : (int64_t)run->changed);
        json_field_bool(&w, "interrupted", run->interrupted);
        json_end_object(&w);
        buf_putc(&out, '\n');
    } else {
        buf_printf(&out, "%" PRIu64 " dead letter%s %s\n", run->changed,
                   run->changed == 1 ? "" : "s", run->dry_run ? "would be removed" : "removed");
    }
    return cli_print(cli, &out, err);
}

static int run_purge(struct cli *cli, struct redrive_err *err)
{
    const struct purge_options *options = invocation_options(&cli->invocation);
    struct bulk_run run = {.label = "purge", .dry_run = options->dry_run};
    struct session session;
    struct job_filter filter;
    struct bulk bulk;
    if (!options->select.older_than) {
        err_set(err, REDRIVE_E_USAGE, "how old must a dead letter be to be removed?");
        err_hint(err, "--older-than 30d, or --older-than 0 for all");
        return REDRIVE_E_USAGE;
    }
    int rc = job_select_read(&options->select, &filter, err);
    if (rc < 0)
        return rc;
    filter.states = DLQ_STATES;
    rc = session_open_existing(cli, &session, err);
    if (rc == 0) {
        const int64_t now_ms = engine_now_ms(session.engine);
        job_select_date(&options->select, now_ms, &filter);
        bulk_init(&bulk, MOVE_REMOVE, &filter, now_ms);
    }
    if (rc == 0 && !options->yes && !options->dry_run)
        rc = ask(cli, &session, &bulk, err);
    if (rc == 0)
        rc = bulk_run(cli, &session, &bulk, &run, err);
    session_close(&session);
    if (rc == 0)
        rc = print_result(cli, &run, err);
    return rc == 0 && run.interrupted ? bulk_run_interrupted(&run, "removed", err) : rc;
}

const struct command dlq_purge = {
    .name = "purge",
    .summary = "remove dead letters that are old enough",
    .description = "Removes them with their history, for good. --older-than must be given; 0 means "
                   "all. Other options narrow it down. Asks first on a terminal. Retention does "
                   "the same by itself after `dlq_retention_days`.",
    .options = OPTIONS,
    .options_size = sizeof(struct purge_options),
    .examples =
        (const struct example[]){
            {"redrive dlq purge --older-than 30d", "last month's"},
            {"redrive dlq purge --older-than 24h --task thumbnail --yes", "in a script"},
            {"redrive dlq purge --older-than 0", "all of them"},
            {0},
        },
    .run = run_purge,
};
