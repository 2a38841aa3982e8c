/* show.c - prints everything about a job. */
#include "cli/jobs/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "cli/jobs/change.h"
#include "cli/output/table.h"
#include "cli/output/term.h"
#include "core/after.h"
#include "core/state.h"
#include "engine/report/edges.h"

#define INDENT     2
#define NAME_WIDTH 12

struct shower {
    const struct object *job;
    int64_t now_ms;
    const struct term *term;
    struct buf *out;
};

static bool is_in(const struct object *thing, enum redrive_state state)
{
    return str_is(object_text(thing, "state"), redrive_state_name(state));
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

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

/* The same with a text of the job. */
static void put_text(struct shower *s, const char *name, const char *member)
{
    put_fact(s, name, object_text(s->job, member));
}

static void put_time(struct shower *s, const char *name, const char *member)
{
    const int64_t at_ms = object_time(s->job, member);
    char text[CLOCK_TEXT_MAX], age[AGE_TEXT_MAX];
    if (at_ms == 0)
        return;
    put_name(s, name);
    buf_puts(s->out, clock_format(at_ms, text));
    if (at_ms > s->now_ms)
        buf_printf(s->out, "  (in %s)\n", age_text(at_ms - s->now_ms + 999, age));
    else
        buf_printf(s->out, "  (%s ago)\n", age_text(s->now_ms - at_ms, age));
}

static void put_state(struct shower *s)
{
    const struct str reason = object_text(s->job, "reason");
    const int64_t epoch = object_int(s->job, "epoch"), held = object_int(s->job, "deferrals");
    put_name(s, "State");
    job_put_state(s->out, s->term->color, object_text(s->job, "state"));
    if (reason.len > 0) {
        buf_puts(s->out, " (");
        text_add_clean(s->out, reason);
        buf_putc(s->out, ')');
    }
    if (object_bool(s->job, "queue_paused"))
        buf_puts(s->out, ", and its queue is paused: it starts after `redrive queues resume`");
    buf_putc(s->out, '\n');
    put_name(s, "Attempts");
    buf_printf(s->out, "%" PRId64 " of %" PRId64, object_int(s->job, "attempts"),
               object_int(s->job, "max_attempts"));
    if (epoch > 0)
        buf_printf(s->out, ", redriven %" PRId64 " time%s", epoch, plural(epoch));
    if (held > 0)
        buf_printf(s->out, ", held back %" PRId64 " time%s", held, plural(held));
    buf_putc(s->out, '\n');
}

/* ---- What holds it --------------------------------------------------------------------------- */

static void add_budget(struct buf *out, const struct object *budget)
{
    const double tokens = object_double(budget, "max_tokens", 0);
    const int64_t retries = object_int(budget, "retries");
    const int64_t firsts = object_int(budget, "first_attempts");
    char window[DURATION_TEXT_MAX];
    if (tokens > 0)
        buf_printf(out, " (%.1f of %g tokens)", object_double(budget, "tokens", 0), tokens);
    else
        buf_printf(out, " (%" PRId64 " %s, %" PRId64 " first attempt%s in %s)", retries,
                   retries == 1 ? "retry" : "retries", firsts, plural(firsts),
                   duration_format(object_span(budget, "window"), window));
}

void job_add_holder(struct buf *out, const struct object *gate)
{
    const struct object budget = object_object(gate, "retry_budget");
    const struct str kind = object_text(gate, "kind");
    const int64_t slots = object_int(gate, "concurrency");
    const bool is_budget = str_is(kind, "budget");
    buf_add_str(out, is_budget ? STR("retry budget") : kind);
    buf_putc(out, ' ');
    buf_add_str(out, object_text(gate, "key"));
    if (is_budget) {
        add_budget(out, &budget);
    } else if (slots > 0) {
        buf_printf(out, " (%" PRId64 " of %" PRId64 " run)", object_int(gate, "running"), slots);
    } else {
        const struct str more = object_text(gate, str_is(kind, "limit") ? "rate" : "state");
        buf_printf(out, " (%.*s)", (int)more.len, more.ptr);
    }
}

const char *job_hold_text(const struct object *gate)
{
    const int64_t may_go_ms = object_time(gate, "may_go_at"); /* 0: it is not known when */
    const struct str kind = object_text(gate, "kind"), state = object_text(gate, "state");
    if (str_is(kind, "budget"))
        return "when the retry budget has room";
    if (str_is(kind, "limit"))
        return may_go_ms == 0 ? "when a running job ends" : "when the rate allows it";
    if (str_is(state, "open"))
        return "the next probe";
    if (str_is(state, "half_open"))
        return may_go_ms == 0 ? "when the probes that are out have succeeded" : "the next probe";
    return str_is(state, "forced_open") ? "when it is reset by hand"
                                        : "parked jobs are let go one after another";
}

/* What a parked job waits for, and until when at the least. */
static void put_gate(struct shower *s)
{
    const struct object gate = object_object(s->job, "held_by");
    const int64_t may_go_ms = object_time(&gate, "may_go_at");
    if (!gate.members)
        return;
    RELEASED_BY(buf_release) struct buf name = BUF_MAX(CLI_OUTPUT_MAX);
    job_add_holder(&name, &gate);
    put_fact(s, "Held by", buf_str(&name));
    if (buf_failed(&name))
        s->out->failed = buf_failed(&name);
    put_name(s, "May go");
    if (may_go_ms > s->now_ms) {
        char text[CLOCK_TEXT_MAX], age[AGE_TEXT_MAX];
        buf_printf(s->out, "%s  (in %s), ", clock_format(may_go_ms, text),
                   age_text(may_go_ms - s->now_ms + 999, age));
    } else if (may_go_ms != 0) {
        buf_puts(s->out, "now, ");
    }
    buf_printf(s->out, "%s\n", job_hold_text(&gate));
}

/* ---- Its neighbours -------------------------------------------------------------------------- */

/* A state of a newer server is taken for one of a job that goes on. */
static bool has_ended(struct str state)
{
    const int known = vocabulary_find(VOCABULARY_STATE, state);
    return known >= 0 && state_has_ended((enum redrive_state)known);
}

/* One edge: the job at its other end, and what must become of it. */
static void put_edge(struct shower *s, const struct object *edge, bool is_parent)
{
    const struct str id = object_text(edge, "id"), state = object_text(edge, "state");
    const struct str on = object_text(edge, "on");
    const bool is_open = str_is(object_text(edge, "outcome"), after_outcome_name(AFTER_OPEN));
    text_add_clean(s->out, id.len > 0 ? id : STR("a job that was removed"));
    buf_puts(s->out, " (");
    text_add_clean(s->out, state);
    buf_puts(s->out, state.len > 0 ? ", on " : "on ");
    text_add_clean(s->out, on);
    buf_putc(s->out, ')');
    /* A dead one is waited for until a person does something. */
    if (is_parent && is_open && id.len > 0 && has_ended(state))
        buf_puts(s->out, ": goes on after `redrive dlq retry`, ends with `redrive dlq remove`");
    buf_putc(s->out, '\n');
}

/* What it waits for, or has waited for. Those that are open come first. */
static void put_parents(struct shower *s)
{
    struct object *edges = NULL;
    const bool waits = is_in(s->job, REDRIVE_STATE_WAITING);
    const size_t n = (size_t)object_int(s->job, waits ? "open_parents" : "parents");
    const size_t known = object_objects(s->job, "after", &edges);
    const size_t shown = n < known ? n : known;
    for (size_t i = 0; i < shown; i++) {
        put_name(s, i > 0 ? "" : waits ? "Waits for" : "After");
        put_edge(s, &edges[i], true);
    }
    if (n > shown) {
        put_name(s, "");
        buf_printf(s->out, "and %zu more\n", n - shown);
    }
}

static void put_children(struct shower *s)
{
    struct object *edges = NULL;
    const size_t shown = object_objects(s->job, "followers", &edges);
    const size_t n = (size_t)object_int(s->job, "children");
    for (size_t i = 0; i < shown; i++) {
        put_name(s, i > 0 ? "" : "Followed by");
        put_edge(s, &edges[i], false);
    }
    if (shown == EDGES_SHOWN && n > shown) {
        put_name(s, "");
        buf_printf(s->out, "and others, %zu in all\n", n);
    }
}

static void put_facts(struct shower *s)
{
    const int64_t priority = object_int(s->job, "priority");
    put_text(s, "Job", "id");
    put_text(s, "Task", "task");
    put_text(s, "Queue", "queue");
    put_text(s, "Tenant", "tenant");
    put_state(s);
    put_gate(s);
    put_parents(s);
    put_children(s);
    if (priority != 0) {
        put_name(s, "Priority");
        buf_printf(s->out, "%" PRId64 "\n", priority);
    }
    put_text(s, "User", "user");
    put_text(s, "Project", "project");
    put_text(s, "Service", "service");
    put_text(s, "Unique key", "unique_key");
    put_text(s, "Worker", "worker");
    put_time(s, "Created", "created_at");
    put_time(s, "Started", "started_at");
    put_time(s, "Finished", "finished_at");
    if (is_in(s->job, REDRIVE_STATE_SCHEDULED) || is_in(s->job, REDRIVE_STATE_RETRYING))
        put_time(s, "Next run", "process_after");
    put_time(s, "Deadline", "deadline");
    put_text(s, "Experiment", "experiment");
    put_fact(s, "Own retry", object_json(s->job, "retry"));
    put_text(s, "Trace", "traceparent");
    put_text(s, "Group", "group");
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

/* The last attempt that failed; false: none is known. */
static bool find_failed(struct shower *s, struct object *ret)
{
    struct object *attempts = NULL;
    bool is_there = false;
    const size_t n = object_objects(s->job, "history", &attempts);
    for (size_t i = 0; i < n; i++)
        if (object_json(&attempts[i], "error").ptr) {
            *ret = attempts[i];
            is_there = true;
        }
    return is_there;
}

/* A job that has completed keeps the error of the last attempt that failed: the heading says that
 * it is old. */
static void put_error_heading(struct shower *s)
{
    struct object failed;
    char text[128];
    if (!is_in(s->job, REDRIVE_STATE_COMPLETED))
        put_heading(s, "Last error");
    else if (!find_failed(s, &failed) || object_int(&failed, "number") == 0)
        put_heading(s, "Last error, of an earlier attempt; the job has completed since");
    else if (snprintf(text, sizeof text,
                      "Last error, of attempt %" PRId64 "%s; the job has completed since",
                      object_int(&failed, "number"),
                      object_int(&failed, "epoch") < object_int(s->job, "epoch")
                          ? " before it was redriven"
                          : "") > 0)
        put_heading(s, text);
}

static void put_error(struct shower *s)
{
    const struct object error = object_object(s->job, "last_error");
    const struct str type = object_text(&error, "type"), message = object_text(&error, "message");
    const struct str trace = object_text(&error, "stacktrace");
    const int64_t code = object_int(&error, "code");
    if (!error.members)
        return;
    put_error_heading(s);
    text_add_spaces(s->out, INDENT);
    text_add_clean(s->out, object_text(&error, "class"));
    if (type.len > 0) {
        buf_puts(s->out, ", ");
        text_add_clean(s->out, type);
    }
    if (code != 0)
        buf_printf(s->out, ", code %" PRId64, code);
    buf_putc(s->out, '\n');
    text_add_clean_lines(s->out, message, INDENT);
    if (trace.len > 0 && !str_eq(str_trim(trace), str_trim(message))) {
        put_heading(s, "Stack trace");
        text_add_clean_lines(s->out, trace, INDENT);
    }
}

/* ---- History --------------------------------------------------------------------------------- */

static void add_attempt(struct table *t, const struct object *a, bool epochs, struct buf *cell)
{
    const struct object error = object_object(a, "error");
    const int64_t number = object_int(a, "number");
    const int64_t started_ms = object_time(a, "started_at"), ended_ms = object_time(a, "ended_at");
    const bool has_run = started_ms != 0; /* else it was ended while it waited */
    char text[CLOCK_TEXT_MAX], span[DURATION_TEXT_MAX];
    if (epochs)
        table_addf(t, "%" PRId64, object_int(a, "epoch"));
    if (number == 0)
        table_add(t, "-"); /* the start was taken back */
    else
        table_addf(t, "%" PRId64, number);
    table_add(t, has_run ? clock_format(started_ms, text) : "-");
    table_add(t, has_run && ended_ms != 0 ? duration_format(ended_ms - started_ms, span) : "-");
    table_add_str(t, object_text(a, "worker"));
    job_add_state(t, object_text(a, "outcome"));
    table_add(t, object_time(a, "process_after") == 0
                     ? "-"
                     : duration_format(object_span(a, "delay"), span));
    table_add_str(t, object_text(a, "why"));
    buf_reset(cell);
    job_add_error(cell, &error);
    table_add_buf(t, cell);
}

static void put_history(struct shower *s)
{
    static const char COLUMNS[] = ">EPOCH|>ATTEMPT|STARTED|>TOOK|WORKER|OUTCOME|>DELAY|WHY|ERROR";
    struct object *attempts = NULL;
    struct table t;
    bool epochs = false;
    const size_t n = object_objects(s->job, "history", &attempts);
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        epochs = epochs || object_int(&attempts[i], "epoch") > 0;
    put_heading(s, "Attempts");
    table_init(&t, epochs ? COLUMNS : strchr(COLUMNS, '|') + 1);
    RELEASED_BY(buf_release) struct buf cell = BUF_MAX(CLI_OUTPUT_MAX);
    for (size_t i = 0; i < n; i++)
        add_attempt(&t, &attempts[i], epochs, &cell);
    table_finish(&t, s->term->width, s->term->color, s->out);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int print_text(struct cli *cli, const struct object *job, int64_t now_ms,
                      struct redrive_err *err)
{
    struct buf out;
    struct shower s = {.job = job, .now_ms = now_ms, .term = &cli->out, .out = &out};
    buf_init(&out, CLI_OUTPUT_MAX);
    put_facts(&s);
    put_value(&s, "Payload", object_value(job, "payload", "payload_bytes"));
    put_value(&s, "Result", object_value(job, "result", "result_bytes"));
    put_history(&s);
    put_error(&s);
    if (job->arena->failed)
        out.failed = REDRIVE_E_NOMEM;
    return cli_print(cli, &out, err);
}

int job_show_run(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct job_by_id *options = invocation_options(&cli->invocation);
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = job_ask(session, cli_variant(cli) ? &API_DEAD_LETTER : &API_JOB,
                     options->select.tenant, cli->invocation.args[0], &answer, err);
    if (rc < 0 || cli->globals->json)
        return rc < 0 ? rc : answer_print(cli, &answer, err);
    const struct object job = answer.object;
    return print_text(cli, &job, session_now_ms(session), err);
}
