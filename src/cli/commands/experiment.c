/* experiment.c - `redrive experiment`: which policies are compared, and what is known so far. */
#include "cli/commands/commands.h"

#include <inttypes.h>

#include "base/err.h"
#include "cli/remote/remote.h"
#include "cli/shared/experiment_text.h"
#include "cli/shared/session.h"

struct experiment_options {
    const char *tenant;
};

static const struct field OPTIONS[] = {
    OPTION("tenant", 0, "NAME", "only the jobs of this tenant",
           INTO_STRING(struct experiment_options, tenant)),
    {0},
};

static int read_experiments(const struct cli *cli, const struct session *session,
                            struct experiment_page *ret, struct redrive_err *err)
{
    const struct experiment_options *options = cli->invocation.values[1];
    if (session->remote)
        return remote_experiments(session->remote, ret, err);
    return experiments_read(session->store, str_of(options->tenant), session->config, ret, err);
}

/* ---- list ------------------------------------------------------------------------------------ */

static void add_experiment_json(struct json_writer *w, const void *list, size_t i)
{
    experiment_write_json(w, &((const struct experiment_page *)list)->rows[i]);
}

static void add_experiment_row(struct table *t, const void *list, size_t i)
{
    const struct experiment_row *row = &((const struct experiment_page *)list)->rows[i];
    int64_t submitted = 0, ended = 0;
    for (size_t arm = 0; arm < row->n_arms; arm++) {
        submitted += row->arms[arm].figures.submitted;
        ended += figures_ended(&row->arms[arm].figures);
    }
    table_add_str(t, row->name);
    table_add_str(t, row->task.len > 0 ? row->task : STR("-"));
    table_add(t, row->task.len > 0 ? "running" : "stopped");
    table_addf(t, "%zu", row->n_arms);
    table_addf(t, "%" PRId64, submitted);
    table_addf(t, "%" PRId64, ended);
}

static int run_list(struct cli *cli, struct session *session, struct redrive_err *err)
{
    RELEASED_BY(experiment_page_release) struct experiment_page page = {0};
    struct listing listing = {
        .columns = "NAME|TASK|STATE|>ARMS|>JOBS|>ENDED",
        .item = add_experiment_json,
        .row = add_experiment_row,
        .list = &page,
    };
    int rc = read_experiments(cli, session, &page, err);
    listing.n = page.n;
    return rc == 0 ? cli_list(cli, &listing, err) : rc;
}

/* ---- report ---------------------------------------------------------------------------------- */

static int unknown_experiment(const struct experiment_page *page, const char *name,
                              struct redrive_err *err)
{
    struct words words = WORDS_INIT;
    int rc = err_set(err, REDRIVE_E_NOT_FOUND, "there is no experiment '%s'", name);
    for (size_t i = 0; i < page->n; i++)
        words_add(&words, "", page->rows[i].name);
    words_hint(&words, name, "see which there are: redrive experiment list", err);
    return rc;
}

static void show_as_json(struct json_writer *w, const void *thing)
{
    experiment_write_json(w, thing);
}

static void show_as_text(struct buf *out, const struct term *term, const void *thing)
{
    experiment_text(out, term, thing);
}

static int run_report(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const char *name = cli->invocation.args[0];
    RELEASED_BY(experiment_page_release) struct experiment_page page = {0};
    int rc = read_experiments(cli, session, &page, err);
    const struct experiment_row *row = rc == 0 ? experiment_find(&page, str_of(name)) : NULL;
    if (rc == 0 && !row)
        rc = unknown_experiment(&page, name, err);
    return rc == 0 ? cli_show(cli, row, show_as_json, show_as_text, err) : rc;
}

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "list the experiments, running and stopped",
    .description = "Their task and arms, and how many jobs were submitted to each and have ended.",
    .examples = EXAMPLES({"redrive experiment list", "which are there, with how many jobs?"}),
    .run_on_store = run_list,
};

static const struct command CMD_REPORT = {
    .name = "report",
    .summary = "compare the arms of an experiment",
    .arguments = "NAME",
    .description =
        "COMPLETED is the share of ended jobs that were completed, ATTEMPTS their mean for each "
        "ended job, TIME the mean from the first start to completion. In brackets are intervals "
        "of 95 %. Each arm is compared with the arm `control`, or with the first; a difference "
        "whose interval contains 0 is not significant.",
    .examples = EXAMPLES({"redrive experiment report patience", "which policy is better?"},
                         {"redrive experiment report patience --json", "the same for programs"}),
    .run_on_store = run_report,
};

const struct command cmd_experiment = {
    .name = "experiment",
    .summary = "compare retry policies on the jobs of a task",
    OPTIONS_INTO(OPTIONS, struct experiment_options),
    .examples = EXAMPLES({"redrive experiment list", "all of them"}),
    .commands = (const struct command *const[]){&CMD_LIST, &CMD_REPORT, NULL},
};
