/* show.c - prints everything about a job. */
#include "cli/jobs/list.h"

#include <stdio.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/json/writer.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "cli/jobs/change.h"
#include "cli/output/table.h"
#include "cli/output/term.h"
#include "core/classify/fingerprint.h"
#include "core/experiment/arm.h"
#include "core/state.h"
#include "engine/gates/view.h"
#include "engine/report/edges.h"
#include "store/job_json.h"

#define INDENT     2
#define NAME_WIDTH 12

/* A job with all that is read about it. */
struct shown_job {
    const struct job *job;
    int64_t now_ms;
    bool is_paused; /* the queue of a job that waits in it */
    struct gate_info gate;
    struct edge_views edges;
    struct attempt_page history;
};

struct shower {
    const struct shown_job *shown;
    const struct term *term;
    struct buf *out;
};

/* ---- Facts ----------------------------------------------------------------------------------- */

static void put_name(struct shower *s, const char *name)
{
    style_add(s->out, s->term->color, STYLE_BOLD, str_of(name));
    text_add_spaces(s->out, NAME_WIDTH - strlen(name));
}

/* A line, unless there is nothing to say. */
static void put_fact(struct shower *s, const char *name, struct str value)
{
    if (value.len == 0)
        return;
    put_name(s, name);
    text_add_clean(s->out, value);
    buf_putc(s->out, '\n');
}

static void put_time(struct shower *s, const char *name, int64_t at_ms)
{
    char text[CLOCK_TEXT_MAX], age[AGE_TEXT_MAX];
    if (at_ms == 0)
        return;
    put_name(s, name);
    buf_puts(s->out, clock_format(at_ms, text));
    if (at_ms > s->shown->now_ms)
        buf_printf(s->out, "  (in %s)\n", age_text(at_ms - s->shown->now_ms + 999, age));
    else
        buf_printf(s->out, "  (%s ago)\n", age_text(s->shown->now_ms - at_ms, age));
}

static void put_state(struct shower *s, const struct job *job)
{
    const struct job_status *status = &job->status;
    const char *state = redrive_state_name(status->state), *reason = job_reason_word(status);
    put_name(s, "State");
    style_add(s->out, s->term->color, job_state_style(status->state), str_of(state));
    if (reason)
        buf_printf(s->out, " (%s)", reason);
    if (s->shown->is_paused)
        buf_puts(s->out, ", and its queue is paused: it starts after `redrive queues resume`");
    buf_putc(s->out, '\n');
    put_name(s, "Attempts");
    buf_printf(s->out, "%u of %u", status->attempts, job_max_attempts(job));
    if (status->epoch > 0)
        buf_printf(s->out, ", redriven %u time%s", status->epoch, status->epoch == 1 ? "" : "s");
    if (status->deferrals > 0)
        buf_printf(s->out, ", held back %u time%s", status->deferrals,
                   status->deferrals == 1 ? "" : "s");
    buf_putc(s->out, '\n');
}

/* What a parked job waits for, and until when at the least. */
static void put_gate(struct shower *s)
{
    const struct gate_info *gate = &s->shown->gate;
    if (!gate->is_held)
        return;
    RELEASED_BY(buf_release) struct buf name = BUF_MAX(CLI_OUTPUT_MAX);
    gate_write_text(&name, gate);
    put_fact(s, "Held by", buf_str(&name));
    put_name(s, "May go");
    if (gate->may_go_ms > s->shown->now_ms) {
        char text[CLOCK_TEXT_MAX], age[AGE_TEXT_MAX];
        buf_printf(s->out, "%s  (in %s), ", clock_format(gate->may_go_ms, text),
                   age_text(gate->may_go_ms - s->shown->now_ms + 999, age));
    } else if (gate->may_go_ms != 0) {
        buf_puts(s->out, "now, ");
    }
    buf_printf(s->out, "%s\n", gate_wait_text(gate));
}

/* One edge: the job at its other end, and what must become of it. */
static void put_edge(struct shower *s, const struct edge_view *view, bool is_parent)
{
    if (view->id.len > 0)
        text_add_clean(s->out, view->id);
    else
        buf_puts(s->out, "a job that was removed");
    buf_printf(s->out, " (%s%son %s)", view->id.len > 0 ? redrive_state_name(view->state) : "",
               view->id.len > 0 ? ", " : "", after_on_name(view->edge.rule.on));
    /* A dead one is waited for until a person does something. */
    if (is_parent && view->edge.outcome == AFTER_OPEN && view->id.len > 0 &&
        state_has_ended(view->state))
        buf_puts(s->out, ": goes on after `redrive dlq retry`, ends with `redrive dlq remove`");
    buf_putc(s->out, '\n');
}

/* What it waits for, or has waited for. Those that are open come first. */
static void put_parents(struct shower *s, const struct job *job)
{
    const struct edge_views *edges = &s->shown->edges;
    const uint32_t n =
        job->status.state == REDRIVE_STATE_WAITING ? job->status.open_parents : job->status.parents;
    const size_t shown = n < edges->n_parents ? n : edges->n_parents;
    for (size_t i = 0; i < shown; i++) {
        put_name(s, i > 0                                        ? ""
                    : job->status.state == REDRIVE_STATE_WAITING ? "Waits for"
                                                                 : "After");
        put_edge(s, &edges->parents[i], true);
    }
    if (n > shown) {
        put_name(s, "");
        buf_printf(s->out, "and %zu more\n", n - shown);
    }
}

static void put_children(struct shower *s, const struct job *job)
{
    const struct edge_views *edges = &s->shown->edges;
    for (size_t i = 0; i < edges->n_children; i++) {
        put_name(s, i > 0 ? "" : "Followed by");
        put_edge(s, &edges->children[i], false);
    }
    if (edges->n_children == EDGES_SHOWN && job->status.children > EDGES_SHOWN) {
        put_name(s, "");
        buf_printf(s->out, "and others, %u in all\n", job->status.children);
    }
}

/* The arm of an experiment and the traceparent are kept with the policy. */
static void put_policy(struct shower *s, struct str policy)
{
    RELEASED_BY(buf_release) struct buf own = BUF_MAX(policy.len + 1);
    put_fact(s, "Experiment", arm_kept(policy));
    put_fact(s, "Own retry", arm_own_policy(policy, &own));
    put_fact(s, "Trace", trace_kept(policy));
}

static void put_facts(struct shower *s, const struct job *job)
{
    const struct job_spec *spec = &job->spec;
    const struct job_status *status = &job->status;
    char group[FINGERPRINT_TEXT_MAX];
    put_fact(s, "Job", spec->id);
    put_fact(s, "Task", spec->task);
    put_fact(s, "Queue", spec->queue);
    put_fact(s, "Tenant", spec->tenant);
    put_state(s, job);
    put_gate(s);
    put_parents(s, job);
    put_children(s, job);
    if (spec->priority != 0) {
        put_name(s, "Priority");
        buf_printf(s->out, "%d\n", spec->priority);
    }
    put_fact(s, "User", spec->user);
    put_fact(s, "Project", spec->project);
    put_fact(s, "Service", spec->service);
    put_fact(s, "Unique key", spec->unique_key);
    put_fact(s, "Worker", status->worker);
    put_time(s, "Created", status->created_ms);
    put_time(s, "Started", status->started_ms);
    put_time(s, "Finished", status->finished_ms);
    if (status->state == REDRIVE_STATE_SCHEDULED || status->state == REDRIVE_STATE_RETRYING)
        put_time(s, "Next run", status->process_after_ms);
    put_time(s, "Deadline", spec->deadline_ms);
    put_policy(s, spec->policy);
    if (status->fingerprint != 0)
        put_fact(s, "Group", str_of(fingerprint_text(status->fingerprint, group)));
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void put_heading(struct shower *s, const char *name)
{
    buf_putc(s->out, '\n');
    style_add(s->out, s->term->color, STYLE_BOLD, str_of(name));
    buf_putc(s->out, '\n');
}

/* JSON for people; anything else as it is. */
static void put_value(struct shower *s, const char *name, struct str value)
{
    if (value.len == 0)
        return;
    put_heading(s, name);
    RELEASED_BY(buf_release) struct buf pretty = BUF_MAX(CLI_OUTPUT_MAX);
    if (json_check(value, NULL, NULL) == 0)
        json_indent(value, 0, &pretty);
    else
        buf_add_str(&pretty, value);
    if (buf_failed(&pretty) == REDRIVE_E_NOMEM)
        s->out->failed = REDRIVE_E_NOMEM;
    text_add_clean_lines(s->out, buf_failed(&pretty) ? value : buf_str(&pretty), INDENT);
}

/* A job that has completed keeps the error of the last attempt that failed: the heading says that
 * it is old. */
static void put_error_heading(struct shower *s, const struct job *job,
                              const struct attempt_page *history)
{
    const struct job_attempt *failed = NULL;
    char text[128];
    if (job->status.state != REDRIVE_STATE_COMPLETED) {
        put_heading(s, "Last error");
        return;
    }
    for (size_t i = 0; i < history->n; i++)
        if (history->attempts[i].error.class_ != REDRIVE_CLASS_SUCCESS)
            failed = &history->attempts[i];
    if (!failed || failed->number == 0)
        put_heading(s, "Last error, of an earlier attempt; the job has completed since");
    else if (snprintf(text, sizeof text, "Last error, of attempt %u%s; the job has completed since",
                      failed->number,
                      failed->epoch < job->status.epoch ? " before it was redriven" : "") > 0)
        put_heading(s, text);
}

static void put_error(struct shower *s, const struct job *job, const struct attempt_page *history)
{
    const struct job_error *error = &job->status.error;
    if (error->class_ == REDRIVE_CLASS_SUCCESS)
        return;
    put_error_heading(s, job, history);
    text_add_spaces(s->out, INDENT);
    buf_puts(s->out, redrive_class_name(error->class_));
    if (error->type.len > 0) {
        buf_puts(s->out, ", ");
        text_add_clean(s->out, error->type);
    }
    if (error->code != 0)
        buf_printf(s->out, ", code %d", error->code);
    buf_putc(s->out, '\n');
    text_add_clean_lines(s->out, error->message, INDENT);
    if (error->stacktrace.len > 0 &&
        !str_eq(str_trim(error->stacktrace), str_trim(error->message))) {
        put_heading(s, "Stack trace");
        text_add_clean_lines(s->out, error->stacktrace, INDENT);
    }
}

/* ---- History --------------------------------------------------------------------------------- */

static void add_attempt(struct table *t, const struct job_attempt *a, bool epochs, struct buf *cell)
{
    char text[CLOCK_TEXT_MAX], span[DURATION_TEXT_MAX];
    if (epochs)
        table_addf(t, "%u", a->epoch);
    if (a->number == 0)
        table_add(t, "-"); /* the start was taken back */
    else
        table_addf(t, "%u", a->number);
    const bool has_run = a->started_ms != 0; /* else it was ended while it waited */
    table_add(t, has_run ? clock_format(a->started_ms, text) : "-");
    table_add(t, has_run && a->ended_ms != 0 ? duration_format(a->ended_ms - a->started_ms, span)
                                             : "-");
    table_add_str(t, a->worker);
    table_add_styled(t, job_state_style(a->outcome), redrive_state_name(a->outcome));
    table_add(t, a->next_ms == 0 ? "-" : duration_format(a->delay_ms, span));
    table_add_str(t, a->why);
    buf_reset(cell);
    job_add_error(cell, &a->error);
    table_add_buf(t, cell);
}

static void put_history(struct shower *s, const struct attempt_page *history)
{
    static const char COLUMNS[] = ">EPOCH|>ATTEMPT|STARTED|>TOOK|WORKER|OUTCOME|>DELAY|WHY|ERROR";
    struct table t;
    bool epochs = false;
    if (history->n == 0)
        return;
    for (size_t i = 0; i < history->n; i++)
        epochs = epochs || history->attempts[i].epoch > 0;
    put_heading(s, "Attempts");
    table_init(&t, epochs ? COLUMNS : strchr(COLUMNS, '|') + 1);
    RELEASED_BY(buf_release) struct buf cell = BUF_MAX(CLI_OUTPUT_MAX);
    for (size_t i = 0; i < history->n; i++)
        add_attempt(&t, &history->attempts[i], epochs, &cell);
    table_finish(&t, s->term->width, s->term->color, s->out);
}

static void show_as_json(struct json_writer *w, const void *thing)
{
    const struct shown_job *shown = thing;
    json_begin_object(w);
    job_write_members(w, shown->job, &shown->history);
    gate_write_json(w, &shown->gate);
    edge_views_write_json(w, &shown->edges);
    json_end_object(w);
}

static void show_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct shown_job *shown = thing;
    struct shower s = {.shown = shown, .term = term, .out = out};
    put_facts(&s, shown->job);
    put_value(&s, "Payload", shown->job->spec.payload);
    put_value(&s, "Result", shown->job->status.result);
    put_history(&s, &shown->history);
    put_error(&s, shown->job, &shown->history);
}

static int show_job(struct cli *cli, struct store *store, const struct job *job, int64_t now_ms,
                    struct redrive_err *err)
{
    struct shown_job shown = {.job = job, .now_ms = now_ms};
    int rc = pause_read(store, job, &shown.is_paused, err);
    if (rc == 0)
        rc = gate_read(store, job, now_ms, &shown.gate, err);
    if (rc == 0)
        rc = edge_views_read(store, job, &shown.edges, err);
    if (rc == 0)
        rc = store_ops(store)->history(store, &job->status.seq, 1, &shown.history, err);
    if (rc == 0)
        rc = cli_show(cli, &shown, show_as_json, show_as_text, err);
    edge_views_release(&shown.edges);
    attempt_page_release(&shown.history);
    return rc;
}

/* The server tells all of it at once. */
static int show_from_server(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct job_by_id *options = invocation_options(&cli->invocation);
    RELEASED_BY(remote_job_release) struct remote_job found = {0};
    int rc = job_find_at_server(session->remote, options->select.tenant, cli->invocation.args[0],
                                cli_variant(cli), &found, err);
    if (rc == 0) {
        const struct shown_job shown = {
            .job = &found.page.jobs[0],
            .now_ms = session_now_ms(session),
            .is_paused = found.is_paused,
            .gate = found.gate,
            .edges = found.edges,
            .history = found.history,
        };
        rc = cli_show(cli, &shown, show_as_json, show_as_text, err);
    }
    return rc;
}

int job_show_run(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct job_by_id *options = invocation_options(&cli->invocation);
    RELEASED_BY(job_page_release) struct job_page page = {0};
    if (session->remote)
        return show_from_server(cli, session, err);
    int rc = job_find(session, options->select.tenant, cli->invocation.args[0], cli_variant(cli),
                      &page, err);
    if (rc == 0)
        rc = show_job(cli, session->store, &page.jobs[0], session_now_ms(session), err);
    return rc;
}
