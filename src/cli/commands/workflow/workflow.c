/* workflow.c - `redrive workflow`: the jobs that wait for each other, as a list or as a drawing. */
#include <string.h>

#include "base/err.h"
#include "cli/commands/commands.h"
#include "cli/commands/workflow/draw.h"
#include "cli/jobs/change.h"
#include "cli/output/picture.h"
#include "cli/output/table.h"
#include "cli/remote/remote.h"
#include "cli/shared/session.h"
#include "engine/report/workflow.h"

struct workflow_options {
    const char *tenant;
    const char *svg;
};

static const struct option OPTIONS[] = {
    OPTION("tenant", 0, "NAME", "the tenant of the job; without, it is looked for in all",
           INTO_STRING(struct workflow_options, tenant)),
    OPTION("svg", 0, "FILE", "draw it; - for standard output",
           INTO_STRING(struct workflow_options, svg)),
    {0},
};

static int check(struct cli *cli, struct redrive_err *err)
{
    const struct workflow_options *options = invocation_options(&cli->invocation);
    if (options->svg && strcmp(options->svg, "-") == 0 && cli->globals->json)
        return err_set(err, REDRIVE_E_USAGE, "--json and --svg - both want standard output");
    return 0;
}

static int read_workflow(const struct cli *cli, struct session *session, struct workflow *ret,
                         struct redrive_err *err)
{
    const struct workflow_options *options = invocation_options(&cli->invocation);
    const char *id = cli->invocation.args[0];
    struct job_page page = {0};
    if (session->remote)
        return remote_workflow(session->remote, str_of(id), ret, err);
    int rc = job_find(session, options->tenant, id, false, &page, err);
    if (rc == 0)
        rc = workflow_read(session->store, &page.jobs[0], ret, err);
    job_page_release(&page);
    return rc;
}

/* ---- The list -------------------------------------------------------------------------------- */

static void put_summary(struct buf *out, const struct workflow *workflow)
{
    const char *separator = ": ";
    buf_printf(out, "%zu job%s%s", workflow->n_jobs, workflow->n_jobs == 1 ? "" : "s",
               workflow->more ? ", the nearest of more" : "");
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++) {
        size_t n = 0;
        for (size_t i = 0; i < workflow->n_jobs; i++)
            n += workflow->jobs[i].state == (enum redrive_state)s;
        if (n > 0)
            buf_printf(out, "%s%zu %s", separator, n, redrive_state_name((enum redrive_state)s));
        separator = n > 0 ? ", " : separator;
    }
    buf_puts(out, "\n\n");
}

#define PARENTS_SHOWN 5

/* What a job waits for, those that are open first: "a, b (on end, open)". */
static void put_parents(struct buf *cell, const struct workflow *workflow, size_t from, size_t end)
{
    size_t shown = 0;
    for (int open = 1; open >= 0; open--)
        for (size_t i = from; i < end; i++) {
            const struct workflow_edge *edge = &workflow->edges[i];
            if ((edge->outcome == AFTER_OPEN) != open || shown++ >= PARENTS_SHOWN)
                continue;
            buf_puts(cell, shown > 1 ? ", " : "");
            buf_add_str(cell, workflow->jobs[edge->parent].id);
            buf_puts(cell, " (");
            if (edge->rule.on != AFTER_SUCCESS)
                buf_printf(cell, "on %s, ", after_on_name(edge->rule.on));
            buf_printf(cell, "%s)", after_outcome_name(edge->outcome));
        }
    if (shown > PARENTS_SHOWN)
        buf_printf(cell, ", and %zu more", shown - PARENTS_SHOWN);
}

static void show_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct workflow *workflow = thing;
    struct table t;
    size_t at = 0;
    put_summary(out, workflow);
    table_init(&t, "JOB|TASK|STATE|>ATTEMPTS|AFTER");
    for (size_t i = 0; i < workflow->n_jobs; i++) {
        const struct workflow_job *job = &workflow->jobs[i];
        const size_t from = at;
        struct buf cell;
        while (at < workflow->n_edges && workflow->edges[at].child == i)
            at++;
        buf_init(&cell, CLI_OUTPUT_MAX);
        put_parents(&cell, workflow, from, at);
        table_add_str(&t, job->id);
        table_add_str(&t, job->task);
        table_add(&t, redrive_state_name(job->state));
        table_addf(&t, "%u", job->attempts);
        table_add_buf(&t, &cell);
        buf_release(&cell);
    }
    table_finish(&t, term->width, term->color, out);
}

static void show_as_json(struct json_writer *w, const void *thing)
{
    workflow_write_json(w, thing);
}

/* ---- The drawing ----------------------------------------------------------------------------- */

static int draw(struct cli *cli, const struct workflow *workflow, const char *path,
                struct redrive_err *err)
{
    struct buf svg;
    FILE *file = NULL;
    buf_init(&svg, CLI_OUTPUT_MAX);
    int rc = workflow_draw(workflow, &svg);
    if (rc < 0)
        rc = err_set(err, rc, "cannot draw the workflow");
    else if (strcmp(path, "-") == 0)
        term_write(&cli->out, &svg);
    else if ((rc = picture_open(path, &file, err)) == 0)
        rc = picture_write(&svg, file, path, err);
    buf_release(&svg);
    return rc;
}

static int run_show(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct workflow_options *options = invocation_options(&cli->invocation);
    const char *svg = options->svg;
    struct workflow workflow = {0};
    int rc = read_workflow(cli, session, &workflow, err);
    if (rc == 0 && svg)
        rc = draw(cli, &workflow, svg, err);
    if (rc == 0 && !(svg && strcmp(svg, "-") == 0))
        rc = cli_show(cli, &workflow, show_as_json, show_as_text, err);
    workflow_release(&workflow);
    return rc;
}

static const struct command CMD_SHOW = {
    .name = "show",
    .summary = "show all jobs that a job waits for, or that wait for it",
    .arguments = "ID",
    OPTIONS_INTO(OPTIONS, struct workflow_options),
    .description =
        "Any job of a workflow names it. Jobs are in an order in which they may run. Of more than "
        "1000 jobs those that are fewest steps away are shown. In a drawing, jobs of one task that "
        "may run side by side are one box when they are seven or more.",
    .examples = EXAMPLES({"redrive workflow show zip-1", "what must run before it, and after?"},
                         {"redrive workflow show zip-1 --svg flow.svg", "the same as a drawing"}),
    .check = check,
    .run_on_store = run_show,
    .over_http = true,
};

const struct command cmd_workflow = {
    .name = "workflow",
    .summary = "show jobs that wait for each other",
    .examples = EXAMPLES({"redrive workflow show zip-1", "the workflow of a job"}),
    .commands = (const struct command *const[]){&CMD_SHOW, NULL},
};
