/* workflow.c - `redrive workflow`: the jobs that wait for each other, as a list or as a drawing. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/commands/commands.h"
#include "cli/jobs/change.h"
#include "cli/jobs/graph.h"
#include "cli/output/table.h"
#include "cli/output/term.h"
#include "cli/shared/session.h"
#include "engine/report/workflow.h"

/* ---- The drawing -------------------------------------------------------------------------------
 *
 * A job stands one column to the right of the last of its parents. Within a column boxes are in the
 * order of the middle of their parents, so that few lines cross.
 */

#define TOGETHER_FROM 7 /* like jobs in a column that become one box */

#define BOX_WIDTH  212
#define BOX_HEIGHT 48
#define GAP_X      84
#define GAP_Y      16
#define MARGIN     24
#define HEADING    34
#define NAME_CHARS 26

#define INK    "#1a1f23"
#define MUTED  "#566069"
#define LINE   "#8a949c"
#define MISSED "#b3261e"

/* A server may have a state that is not known here. */
#define N_STATES (REDRIVE_STATE_COUNT + 1)

/* As in the dashboard. */
static const char *const COLORS[N_STATES] = {
    [REDRIVE_STATE_COUNT] = MUTED,           [REDRIVE_STATE_SCHEDULED] = "#5a6673",
    [REDRIVE_STATE_RETRYING] = "#8d5a00",    [REDRIVE_STATE_QUEUED] = "#2c62ad",
    [REDRIVE_STATE_RUNNING] = "#0f6b7c",     [REDRIVE_STATE_PARKED] = "#7a4a9c",
    [REDRIVE_STATE_COMPLETED] = "#1d7340",   [REDRIVE_STATE_FAILED] = "#b04410",
    [REDRIVE_STATE_DEAD_LETTER] = "#b3261e", [REDRIVE_STATE_CANCELLED] = "#626b73",
    [REDRIVE_STATE_WAITING] = "#5a6673",
};

/* One job, or like ones. */
struct box {
    const struct workflow_job *job; /* the first */
    size_t n;
    size_t column;
    size_t row;
    double middle; /* of its parents, in rows, from the middle of the column */
    uint32_t by_state[N_STATES];
};

/* A line between two boxes, for all edges that lie on it. */
struct line {
    size_t n;
    struct after_rule rule; /* of the first */
    bool is_open, is_missed;
};

struct drawing {
    const struct workflow *workflow;
    struct buf *out;
    size_t *column_of; /* of each job */
    size_t *box_of;
    struct box *boxes;
    size_t n_boxes;
    struct line *lines; /* from box a to box b: [a * n_boxes + b] */
    size_t n_columns;
    size_t *heights; /* boxes in each column */
    size_t height;   /* of the highest */
};

/* ---- Boxes ----------------------------------------------------------------------------------- */

static void set_columns(struct drawing *d)
{
    const struct workflow *workflow = d->workflow;
    d->n_columns = 1;
    for (size_t i = 0; i < workflow->n_edges; i++) {
        const struct workflow_edge *edge = &workflow->edges[i];
        const size_t column = d->column_of[edge->parent] + 1;
        if (d->column_of[edge->child] < column)
            d->column_of[edge->child] = column;
        if (d->n_columns <= column)
            d->n_columns = column + 1;
    }
}

static bool are_alike(const struct drawing *d, size_t a, size_t b)
{
    return d->column_of[a] == d->column_of[b] &&
           str_eq(d->workflow->jobs[a].task, d->workflow->jobs[b].task);
}

/* A column and a task have one box for all jobs, or one for each. */
static void set_boxes(struct drawing *d)
{
    const struct workflow *workflow = d->workflow;
    for (size_t i = 0; i < workflow->n_jobs; i++) {
        size_t n_alike = 0, first = i;
        for (size_t k = 0; k < workflow->n_jobs; k++)
            if (are_alike(d, i, k)) {
                first = k < first ? k : first;
                n_alike++;
            }
        const bool joins = n_alike >= TOGETHER_FROM && first < i;
        const size_t at = joins ? d->box_of[first] : d->n_boxes++;
        struct box *box = &d->boxes[at];
        if (!joins)
            *box = (struct box){.job = &workflow->jobs[i], .column = d->column_of[i]};
        box->n++;
        box->by_state[workflow->jobs[i].state]++;
        d->box_of[i] = at;
    }
}

static void set_lines(struct drawing *d)
{
    for (size_t i = 0; i < d->workflow->n_edges; i++) {
        const struct workflow_edge *edge = &d->workflow->edges[i];
        struct line *line =
            &d->lines[d->box_of[edge->parent] * d->n_boxes + d->box_of[edge->child]];
        if (line->n++ == 0)
            line->rule = edge->rule;
        line->is_open |= edge->outcome == AFTER_OPEN;
        line->is_missed |= edge->outcome == AFTER_MISSED;
    }
}

/* ---- Places ---------------------------------------------------------------------------------- */

static double place_of(const struct drawing *d, const struct box *box)
{
    return (double)box->row - (double)(d->heights[box->column] - 1) / 2;
}

static void set_middle(struct drawing *d, size_t at)
{
    double sum = 0;
    size_t n = 0;
    for (size_t parent = 0; parent < d->n_boxes; parent++)
        if (d->lines[parent * d->n_boxes + at].n > 0) {
            sum += place_of(d, &d->boxes[parent]);
            n++;
        }
    d->boxes[at].middle = n > 0 ? sum / (double)n : 0;
}

/* The row of a box is how many of its column lie above it. */
static void set_rows(struct drawing *d, size_t column)
{
    for (size_t i = 0; i < d->n_boxes; i++)
        if (d->boxes[i].column == column) {
            set_middle(d, i);
            d->heights[column]++;
        }
    for (size_t i = 0; i < d->n_boxes; i++)
        for (size_t k = 0; d->boxes[i].column == column && k < d->n_boxes; k++) {
            const double mine = d->boxes[i].middle, other = d->boxes[k].middle;
            d->boxes[i].row +=
                d->boxes[k].column == column && (other < mine || (other == mine && k < i));
        }
    if (d->height < d->heights[column])
        d->height = d->heights[column];
}

static double left_of(const struct box *box)
{
    return MARGIN + (double)box->column * (BOX_WIDTH + GAP_X);
}

static double top_of(const struct drawing *d, const struct box *box)
{
    const double middle = MARGIN + HEADING + (double)d->height * (BOX_HEIGHT + GAP_Y) / 2;
    return middle + place_of(d, box) * (BOX_HEIGHT + GAP_Y) - BOX_HEIGHT / 2.0;
}

/* ---- SVG ------------------------------------------------------------------------------------- */

/* Text between tags, cut after some characters. */
static void put_text(struct buf *out, struct str text, size_t max_chars)
{
    size_t chars = 0;
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.ptr[i];
        const bool begins = (c & 0xC0) != 0x80;
        if (begins && chars++ == max_chars) {
            buf_puts(out, "…");
            return;
        }
        switch (c) {
        case '&': buf_puts(out, "&amp;"); break;
        case '<': buf_puts(out, "&lt;"); break;
        case '>': buf_puts(out, "&gt;"); break;
        default:
            if (c < ' ' || c == 0x7F)
                buf_putc(out, '?');
            else
                buf_putc(out, text.ptr[i]);
        }
    }
}

static void put_states(struct buf *out, const struct box *box)
{
    const char *separator = "";
    for (int s = 0; s < N_STATES; s++) {
        if (box->by_state[s] == 0)
            continue;
        buf_printf(out, "%s%u %s", separator, box->by_state[s],
                   redrive_state_name((enum redrive_state)s));
        separator = ", ";
    }
}

/* The state of a box of several jobs is that of most of those that have not completed. */
static enum redrive_state state_of(const struct box *box)
{
    int found = REDRIVE_STATE_COMPLETED;
    for (int s = 0; s < N_STATES; s++)
        if (s != REDRIVE_STATE_COMPLETED && box->by_state[s] > 0 &&
            (found == REDRIVE_STATE_COMPLETED || box->by_state[s] > box->by_state[found]))
            found = s;
    return (enum redrive_state)found;
}

static void draw_box(const struct drawing *d, const struct box *box)
{
    const double x = left_of(box), y = top_of(d, box);
    const enum redrive_state state = state_of(box);
    buf_printf(d->out,
               "<g><rect x=\"%.0f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"5\" fill=\"#fff\" "
               "stroke=\"#c9ced2\"/><rect x=\"%.0f\" y=\"%.1f\" width=\"6\" height=\"%d\" "
               "rx=\"3\" fill=\"%s\"/>",
               x, y, BOX_WIDTH, BOX_HEIGHT, x, y, BOX_HEIGHT, COLORS[state]);
    buf_printf(d->out, "<text x=\"%.0f\" y=\"%.1f\" font-weight=\"600\">", x + 16, y + 20);
    if (box->n > 1) {
        put_text(d->out, box->job->task, NAME_CHARS - 6);
        buf_printf(d->out, " × %zu", box->n);
    } else {
        put_text(d->out, box->job->id, NAME_CHARS);
    }
    buf_printf(d->out, "</text><text x=\"%.0f\" y=\"%.1f\" fill=\"%s\" font-size=\"11\">", x + 16,
               y + 37, COLORS[state]);
    if (box->n > 1) {
        put_states(d->out, box);
    } else {
        put_text(d->out, box->job->task, NAME_CHARS / 2);
        buf_printf(d->out, " · %s", redrive_state_name(state));
        if (box->job->attempts > 1)
            buf_printf(d->out, ", %u attempts", box->job->attempts);
    }
    buf_puts(d->out, "</text></g>\n");
}

static void draw_line(const struct drawing *d, const struct box *a, const struct box *b,
                      const struct line *line)
{
    const double x1 = left_of(a) + BOX_WIDTH, y1 = top_of(d, a) + BOX_HEIGHT / 2.0;
    const double x2 = left_of(b) - 7, y2 = top_of(d, b) + BOX_HEIGHT / 2.0;
    const char *color = line->is_missed ? MISSED : LINE;
    buf_printf(d->out,
               "<path d=\"M%.0f %.1fC%.0f %.1f %.0f %.1f %.0f %.1f\" fill=\"none\" stroke=\"%s\" "
               "stroke-width=\"1.5\"%s/><path d=\"M%.0f %.1fl7 4l-7 4z\" fill=\"%s\"/>",
               x1, y1, x1 + GAP_X / 2.0, y1, x2 - GAP_X / 2.0, y2, x2, y2, color,
               line->is_open ? " stroke-dasharray=\"5 4\"" : "", x2, y2 - 4, color);
    if (line->rule.on != AFTER_SUCCESS)
        buf_printf(d->out,
                   "<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\" font-size=\"10\" "
                   "text-anchor=\"end\">on %s</text>",
                   x2 - 2, y2 - 8, line->is_missed ? MISSED : MUTED, after_on_name(line->rule.on));
    buf_putc(d->out, '\n');
}

static void draw_all(const struct drawing *d)
{
    const size_t n = d->workflow->n_jobs;
    const double width = 2 * MARGIN + (double)d->n_columns * (BOX_WIDTH + GAP_X) - GAP_X,
                 height = 2 * MARGIN + HEADING + (double)d->height * (BOX_HEIGHT + GAP_Y);
    buf_printf(d->out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
               "viewBox=\"0 0 %.0f %.0f\" font-family=\"system-ui, sans-serif\" "
               "font-size=\"13\" fill=\"" INK "\" role=\"img\">\n",
               width, height, width, height);
    buf_printf(d->out,
               "<title>A workflow of %zu job%s</title>\n"
               "<rect width=\"100%%\" height=\"100%%\" fill=\"#f5f6f6\"/>\n"
               "<text x=\"%d\" y=\"%d\" font-size=\"15\" font-weight=\"600\">%zu job%s%s</text>\n",
               n, n == 1 ? "" : "s", MARGIN, MARGIN + 12, n, n == 1 ? "" : "s",
               d->workflow->more ? ", and more" : "");
    for (size_t a = 0; a < d->n_boxes; a++)
        for (size_t b = 0; b < d->n_boxes; b++)
            if (d->lines[a * d->n_boxes + b].n > 0)
                draw_line(d, &d->boxes[a], &d->boxes[b], &d->lines[a * d->n_boxes + b]);
    for (size_t i = 0; i < d->n_boxes; i++)
        draw_box(d, &d->boxes[i]);
    buf_puts(d->out, "</svg>\n");
}

/* Appends it as SVG. Jobs of one task that could run at the same time are one box when they are
 * many. 0, or REDRIVE_E_NOMEM. */
static int workflow_draw(const struct workflow *workflow, struct buf *out)
{
    const size_t n = workflow->n_jobs;
    struct drawing d = {.workflow = workflow, .out = out};
    d.column_of = calloc(n + 1, sizeof *d.column_of);
    d.box_of = calloc(n + 1, sizeof *d.box_of);
    d.boxes = calloc(n + 1, sizeof *d.boxes);
    d.heights = calloc(n + 1, sizeof *d.heights);
    bool ok = d.column_of && d.box_of && d.boxes && d.heights;
    if (ok) {
        set_columns(&d);
        set_boxes(&d);
        d.lines = calloc(d.n_boxes * d.n_boxes + 1, sizeof *d.lines);
        ok = d.lines != NULL;
    }
    if (ok) {
        set_lines(&d);
        for (size_t column = 0; column < d.n_columns; column++)
            set_rows(&d, column);
        draw_all(&d);
    }
    free(d.column_of);
    free(d.box_of);
    free(d.boxes);
    free(d.heights);
    free(d.lines);
    return ok && !buf_failed(out) ? 0 : REDRIVE_E_NOMEM;
}

/* ---- What is shown --------------------------------------------------------------------------- */

struct workflow_options {
    const char *tenant;
    const char *svg;
};

static const struct field OPTIONS[] = {
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

/* ---- The list -------------------------------------------------------------------------------- */

static void put_summary(struct buf *out, const struct workflow *workflow)
{
    const char *separator = ": ";
    buf_printf(out, "%zu job%s%s", workflow->n_jobs, workflow->n_jobs == 1 ? "" : "s",
               workflow->more ? ", the nearest of more" : "");
    for (int s = 0; s < N_STATES; s++) {
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

/* ---- The drawing ----------------------------------------------------------------------------- */

static int draw(struct cli *cli, const struct workflow *workflow, const char *path,
                struct redrive_err *err)
{
    FILE *file = NULL;
    RELEASED_BY(buf_release) struct buf svg = BUF_MAX(CLI_OUTPUT_MAX);
    int rc = workflow_draw(workflow, &svg);
    if (rc < 0)
        rc = err_set(err, rc, "cannot draw the workflow");
    else if (strcmp(path, "-") == 0)
        term_write(&cli->out, &svg);
    else if ((rc = picture_open(path, &file, err)) == 0)
        rc = picture_write(&svg, file, path, err);
    return rc;
}

static int run_show(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct workflow_options *options = invocation_options(&cli->invocation);
    const char *svg = options->svg;
    RELEASED_BY(answer_release) struct answer answer = {0};
    RELEASED_BY(workflow_release) struct workflow workflow = {0};
    int rc =
        job_ask(session, &API_WORKFLOW, options->tenant, cli->invocation.args[0], &answer, err);
    if (rc == 0)
        rc = graph_of(&answer, &workflow, err);
    if (rc == 0 && svg)
        rc = draw(cli, &workflow, svg, err);
    if (rc < 0 || (svg && strcmp(svg, "-") == 0))
        return rc;
    return cli->globals->json ? answer_print(cli, &answer, err)
                              : cli_show(cli, &workflow, NULL, show_as_text, err);
}

static const struct command CMD_SHOW = {
    .name = "show",
    .summary = "show all jobs that a job waits for, or that wait for it",
    .arguments = "ID",
    OPTIONS_INTO(OPTIONS, struct workflow_options),
    .description = "ID may be any job of the workflow: shown are also the jobs that these wait "
                   "for, and so on. Jobs are listed in an order in which they may run. Of more "
                   "than 1000 jobs, those that are fewest steps away from ID are shown. In a "
                   "drawing, seven or more jobs of one task that may run side by side are one box.",
    .examples = EXAMPLES({"redrive workflow show zip-1", "what must run before it, and after?"},
                         {"redrive workflow show zip-1 --svg flow.svg", "the same as a drawing"}),
    .check = check,
    .run_on_store = run_show,
};

const struct command cmd_workflow = {
    .name = "workflow",
    .summary = "show jobs that wait for each other",
    .examples = EXAMPLES({"redrive workflow show zip-1", "the workflow of a job"}),
    .commands = (const struct command *const[]){&CMD_SHOW, NULL},
};
