/* experiment.c - `redrive experiment`: which policies are compared, and what is known so far. */
#include "cli/commands/commands.h"

#include <inttypes.h>

#include "base/err.h"
#include "cli/shared/experiment_text.h"

struct experiment_options {
    const char *tenant;
};

static const struct field OPTIONS[] = {
    OPTION("tenant", 0, "NAME", "only the jobs of this tenant",
           INTO_STRING(struct experiment_options, tenant)),
    {0},
};

static struct str tenant_of(const struct cli *cli)
{
    return str_of(((const struct experiment_options *)cli->invocation.values[1])->tenant);
}

static void add_experiment(struct table *t, const struct object *experiment, const void *ctx)
{
    const struct str task = object_text(experiment, "task");
    struct object *arms = NULL;
    const size_t n = object_objects(experiment, "arms", &arms);
    int64_t submitted = 0, ended = 0;
    (void)ctx;
    for (size_t i = 0; i < n; i++) {
        submitted += object_int(&arms[i], "submitted");
        ended += object_int(&arms[i], "ended");
    }
    table_add_str(t, object_text(experiment, "name"));
    table_add_str(t, task.len > 0 ? task : STR("-"));
    table_add(t, task.len > 0 ? "running" : "stopped");
    table_addf(t, "%zu", n);
    table_addf(t, "%" PRId64, submitted);
    table_addf(t, "%" PRId64, ended);
}

static int run_list(struct cli *cli, struct session *session, struct redrive_err *err)
{
    static const struct answer_table EXPERIMENTS = {.columns = "NAME|TASK|STATE|>ARMS|>JOBS|>ENDED",
                                                    .row = add_experiment};
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = answer_read(session, &API_EXPERIMENTS, tenant_of(cli), &answer, err);
    return rc == 0 ? answer_print_list(cli, &answer, &EXPERIMENTS, err) : rc;
}

static void report_as_text(struct buf *out, const struct term *term, const void *thing)
{
    experiment_text(out, term, thing);
}

static int run_report(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const char *name = cli->invocation.args[0];
    const struct ask ask = {
        .operation = &API_EXPERIMENT, .tenant = tenant_of(cli), .name = str_of(name)};
    RELEASED_BY(answer_release) struct answer answer = {0};
    if (!*name)
        return err_set(err, REDRIVE_E_USAGE, "the name of the experiment is empty");
    int rc = answer_ask(session, &ask, &answer, err);
    if (rc == REDRIVE_E_NOT_FOUND && err && !err->hint[0])
        err_hint(err, "see which there are: redrive experiment list");
    return rc == 0 ? answer_show(cli, &answer, report_as_text, err) : rc;
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
