/* enqueue.c - `redrive enqueue`: new jobs from the command line. */
#include "cli/commands/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/new_job.h"
#include "base/err.h"
#include "base/os/file.h"
#include "base/time/clock.h"
#include "cli/commands/enqueue/private.h"
#include "cli/output/figures.h"
#include "cli/shared/remote.h"
#include "core/after.h"
#include "core/trace/context.h"
#include "fields/query.h"
#include "store/job_json.h"

/* Above the limit of a payload, so that one that is too big is measured and not cut. */
#define INPUT_MAX_BYTES (64u * 1024 * 1024)

struct enqueue_options {
    const char *from;
    bool lines;
    const char *id;
    const char *queue;
    const char *priority;
    const char *delay;
    const char *at;
    const char *deadline;
    const char *unique;
    bool unique_forever;
    const char *user;
    const char *project;
    const char *service;
    const char *tenant;
    const char *retry;
    const char *max_attempts;
    struct option_strings after;
    int on;
    int on_dead;
    int64_t wait_ms;
};

#define TEXT_OPTION(option, what, text) \
    OPTION(#option, 0, what, text, INTO_STRING(struct enqueue_options, option))
/* An option that sets a field of the job. */
#define JOB_OPTION(name, letter, option, row, what, text)                         \
    OPTION(name, letter, what, text, INTO_STRING(struct enqueue_options, option), \
           .sets = &NEW_JOB_FIELDS[row])

static const struct field OPTIONS[] = {
    OPTION("from", 'f', "FILE", "read the payload from this file; - is standard input",
           INTO_STRING(struct enqueue_options, from)),
    OPTION("lines", 0, NULL, "each line of the file, or of standard input, is the payload of a job",
           INTO_FLAG(struct enqueue_options, lines)),
    JOB_OPTION("id", 0, id, NEW_JOB_ID, "ID",
               "the job's id, unique within the tenant, in place of a new one; submitting it again "
               "does nothing"),
    JOB_OPTION("queue", 0, queue, NEW_JOB_QUEUE, "QUEUE", "another queue than the task's"),
    OPTION("priority", 'p', "N", "from -100 to 100; higher ones start first",
           INTO_STRING(struct enqueue_options, priority), .sets = &NEW_JOB_FIELDS[NEW_JOB_PRIORITY],
           .default_text = "0"),
    JOB_OPTION("delay", 0, delay, NEW_JOB_DELAY, "DURATION",
               "do not start before this time has passed"),
    TEXT_OPTION(at, "TIME", "do not start before 2026-03-28T12:00Z, or a local time"),
    TEXT_OPTION(deadline, "DURATION|TIME",
                "no attempt starts after this time: a job that waits then becomes a dead letter"),
    JOB_OPTION("unique", 0, unique, NEW_JOB_UNIQUE_KEY, "KEY",
               "one live job at most has this key; a second one is not made"),
    OPTION("unique-forever", 0, NULL,
           "with --unique: one job ever has the key, even after it has been removed",
           INTO_FLAG(struct enqueue_options, unique_forever), .needs = "unique"),
    JOB_OPTION("user", 0, user, NEW_JOB_USER, "NAME",
               "the user of the job, for limits and breakers"),
    JOB_OPTION("project", 0, project, NEW_JOB_PROJECT, "NAME",
               "the project of the job, for limits"),
    JOB_OPTION("service", 0, service, NEW_JOB_SERVICE, "NAME",
               "which service it calls, for breakers"),
    TEXT_OPTION(tenant, "TENANT", "whose job it is (default: default)"),
    JOB_OPTION("retry", 0, retry, NEW_JOB_RETRY, "JSON",
               "this job's own policy, with the keys of a `retry` section, on top of its task's"),
    JOB_OPTION("max-attempts", 0, max_attempts, NEW_JOB_MAX_ATTEMPTS, "N",
               "how often the job is run at most"),
    OPTION("after", 0, "ID", "start after this job has ended",
           INTO_STRINGS(struct enqueue_options, after), .sets = &NEW_JOB_FIELDS[NEW_JOB_ID]),
    OPTION("on", 0, "END", "with --after: how that job must end",
           INTO_CHOICE(struct enqueue_options, on), .words = AFTER_ON_WORDS,
           .default_text = "success", .needs = "after"),
    OPTION("on-dead", 0, "WHAT", "with --after: what this job does if that one dies",
           INTO_CHOICE(struct enqueue_options, on_dead), .words = AFTER_DEAD_WORDS,
           .default_text = "wait", .needs = "after"),
    OPTION("wait", 'w', "DURATION", "wait up to this long for its end; print its state and result",
           INTO_DURATION(struct enqueue_options, wait_ms)),
    {0},
};

/* ---- What is asked for ----------------------------------------------------------------------- */

static int conflict(struct redrive_err *err, const char *what, const char *hint)
{
    (void)err_set(err, REDRIVE_E_USAGE, "%s", what);
    err_hint(err, "%s", hint);
    return REDRIVE_E_USAGE;
}

static int check_options(const struct enqueue_options *o, const char *argument,
                         struct redrive_err *err)
{
    if (argument && !*argument)
        return conflict(err, "the PAYLOAD is empty", "leave it away for a job without one");
    if (argument && o->from)
        return conflict(err, "a PAYLOAD and --from exclude each other", "give one of them");
    if (argument && o->lines && strcmp(argument, "-") != 0)
        return conflict(err, "--lines takes no PAYLOAD",
                        "name a file with --from, or write to standard input");
    if (o->lines && (o->id || o->unique))
        return conflict(err, "with --lines there is no --id and no --unique",
                        "every line would be the same job");
    if (o->lines && o->wait_ms > 0)
        return conflict(err, "with --lines there is no --wait", "wait for a job alone");
    return 0;
}

/* ---- The job as JSON, with its payload left out ---------------------------------------------- */

/* A time is local, unless it says otherwise: a server knows only what it says. */
static int write_time(struct json_writer *w, const char *name, const char *label, const char *text,
                      struct redrive_err *err)
{
    int64_t at_ms = 0;
    int rc = when_parse(label, text, NULL, &at_ms, err);
    if (rc == 0)
        job_write_time(w, name, at_ms);
    return rc;
}

/* A deadline that is a span counts from now by the clock of the store. */
static int write_times(struct json_writer *w, const struct enqueue_options *o,
                       struct redrive_err *err)
{
    int rc = o->at ? write_time(w, "at", "--at", o->at, err) : 0;
    if (rc < 0 || !o->deadline)
        return rc;
    if (when_looks_like_date(o->deadline))
        return write_time(w, "deadline", "--deadline", o->deadline, err);
    json_field_cstr(w, "deadline", o->deadline);
    rc = fields_check_text(&NEW_JOB_FIELDS[NEW_JOB_DEADLINE], "--deadline", str_of(o->deadline),
                           err);
    return rc < 0 ? (err->code = REDRIVE_E_USAGE) : 0;
}

static void write_after(struct json_writer *w, const struct enqueue_options *o)
{
    if (o->after.n == 0)
        return;
    json_open_array(w, "after");
    for (size_t i = 0; i < o->after.n; i++) {
        json_begin_object(w);
        json_field_cstr(w, "id", o->after.items[i]);
        json_field_cstr(w, "on", AFTER_ON_WORDS[o->on]);
        json_field_cstr(w, "on_dead", AFTER_DEAD_WORDS[o->on_dead]);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_trace(struct json_writer *w)
{
    const struct str text = str_of(getenv("TRACEPARENT"));
    struct trace_context ignored;
    if (traceparent_read(text, &ignored))
        json_field_string(w, "traceparent", text);
}

/* The object without its end: `{"task":"mail","queue":"q"`. */
static int write_job(const struct enqueue_options *o, struct str task, struct buf *out,
                     struct redrive_err *err)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_string(&w, "task", task);
    for (const struct field *option = OPTIONS; option->name; option++) {
        const char *const *text = (const void *)((const char *)o + option->offset);
        if (option->sets && option->kind == &OPTION_STRING && *text &&
            *text != option->default_text)
            fields_write_text(option->sets, str_of(*text), &w);
    }
    if (o->unique_forever)
        json_field_cstr(&w, "unique", "forever");
    write_after(&w, o);
    write_trace(&w);
    int rc = write_times(&w, o, err);
    return rc == 0 && buf_failed(out) ? err_full(err, buf_failed(out), "the job is too large") : rc;
}

void enqueue_add_job(struct str job, struct str payload, struct buf *out)
{
    buf_add_str(out, job);
    if (payload.len > 0) {
        buf_puts(out, ",\"payload\":");
        buf_add_str(out, payload);
    }
    buf_putc(out, '}');
}

/* ---- The payload ----------------------------------------------------------------------------- */

/* Space around it means nothing, and a newline at its end is the shell's. */
static int read_payload(const char *path, struct buf *text, struct str *ret,
                        struct redrive_err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int rc = is_stdin ? file_read_open(STDIN_FILENO, "standard input", INPUT_MAX_BYTES, text, err)
                      : file_read(path, INPUT_MAX_BYTES, text, err);
    if (rc == REDRIVE_E_TOO_BIG)
        err_hint(err, "a payload has at most %u bytes; --lines reads many of them",
                 ENGINE_PAYLOAD_MAX_BYTES);
    if (rc < 0)
        return rc;
    *ret = str_trim(buf_str(text));
    if (ret->len > 0)
        return 0;
    (void)err_set(err, REDRIVE_E_INVALID, "%s is empty", is_stdin ? "standard input" : path);
    err_hint(err, "for a job without a payload leave PAYLOAD and --from out");
    return REDRIVE_E_INVALID;
}

/* What is no JSON cannot be a part of the body. */
static int check_payload(struct str payload, bool is_argument, struct redrive_err *err)
{
    int rc = submit_check_payload(ENGINE_PAYLOAD_MAX_BYTES, payload, err);
    if (is_argument && rc == REDRIVE_E_PARSE)
        err_hint(err, "quote it for the shell, and a string once more: '{\"a\": 1}', '\"text\"'");
    return rc;
}

/* Reads the body as the operation will, so that nothing that is refused makes a store. */
static int check_body(const struct cli *cli, const struct session *session, struct str body,
                      struct redrive_err *err)
{
    const struct enqueue_options *o = invocation_options(&cli->invocation);
    const struct new_jobs_input input = {
        .text = body, .tenant = str_of(o->tenant), .now_ms = clock_wall_ms(), .are_options = true};
    RELEASED_BY(arena_release) struct arena arena = {0};
    struct new_jobs jobs;
    int rc = new_jobs_read(&input, &arena, &jobs, err);
    if (rc < 0)
        return rc == REDRIVE_E_NOMEM ? rc : (err->code = REDRIVE_E_USAGE);
    const struct config_task *task = config_task(session->config, jobs.specs->task);
    const struct str payload = jobs.specs->payload;
    rc = submit_check(session->config, task, ENGINE_PAYLOAD_MAX_BYTES, jobs.specs, err);
    if (rc < 0 && payload.len == 0 && task->payload == CONFIG_PAYLOAD_REQUIRED && !err->hint[0])
        err_hint(err, "give it as PAYLOAD, with --from FILE, or as - on standard input");
    return rc;
}

/* ---- Undeclared tasks ------------------------------------------------------------------------ */

/* Adds one that is known; whether it is this one. */
static bool add_known(struct words *words, struct str known, struct str name)
{
    words_add(words, "", known);
    return str_eq(known, name);
}

/* Adds the tasks that processes have published; whether this one is among them. A store that cannot
 * be read says so when the job is submitted. */
static bool add_published(struct store *store, struct str name, struct words *words)
{
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    bool is_there = false;
    if (store_ops(store)->shared_list(store, SHARED_TASK, (struct str){0}, &page, NULL) == 0)
        for (size_t i = 0; i < page.n; i++)
            is_there |= add_known(words, page.rows[i].key, name);
    return is_there;
}

/* The same with the tasks of a server: those that it declares, and those that a worker has run. A
 * token that may not look is no reason to warn. */
static bool add_tasks_of_server(const struct session *session, struct str name, struct words *words)
{
    RELEASED_BY(answer_release) struct answer tasks = {0};
    bool is_there = false;
    if (answer_read(session, &API_TASKS, (struct str){0}, &tasks, NULL) < 0)
        return false;
    for (size_t i = 0; i < tasks.n; i++) {
        RELEASED_BY(arena_release) struct arena arena = {0};
        const struct object task = answer_item(&tasks, i, &arena);
        const struct object counters = object_object(&task, "counters");
        if (object_bool(&task, "declared") || object_int(&counters, "jobs_started") > 0)
            is_there |= add_known(words, object_text(&task, "task"), name);
    }
    return is_there;
}

static void warn_of_task(struct cli *cli, const struct words *known, struct str name)
{
    struct redrive_err warning = {0};
    const char *nearest = words_nearest(known, name);
    (void)err_set(&warning, REDRIVE_E_UNKNOWN, "no task '%.*s' is declared", (int)name.len,
                  name.ptr);
    err_detail(&warning, "the job waits until a worker runs this task");
    if (nearest)
        err_hint(&warning, "did you mean '%s'? strict_tasks refuses others", nearest);
    else
        err_hint(&warning, "declare it under `tasks:`; strict_tasks refuses others");
    cli_warn(cli, &warning);
}

/* Warns of a task that is neither declared in the configuration nor published in the store, with
 * the nearest one: its jobs wait until a worker runs it, and its name is more likely a slip. Where
 * no task is known at all, there is no warning. */
static void warn_if_undeclared(struct cli *cli, const struct session *session, struct str name)
{
    const struct config *config = session->config;
    struct words known = WORDS_INIT;
    if (*config_task(config, name)->name != '\0')
        return;
    for (size_t i = 0; i < config->n_tasks; i++)
        words_add(&known, "", str_of(config->tasks[i].name));
    const bool is_known = session->remote ? add_tasks_of_server(session, name, &known)
                                          : add_published(session->store, name, &known);
    if (!is_known && known.n > 0)
        warn_of_task(cli, &known, name);
    words_release(&known);
}

/* ---- One job --------------------------------------------------------------------------------- */

/* Opens the store for jobs like this one. */
static int connect_for(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct engine_options options = {0};
    int rc = session->remote ? 0 : session_connect(session, &options, err);
    if (rc == 0)
        warn_if_undeclared(cli, session, str_of(cli->invocation.args[0]));
    return rc;
}

struct ask enqueue_ask(const struct cli *cli, struct api_input *input)
{
    const struct enqueue_options *o = invocation_options(&cli->invocation);
    return (struct ask){.operation = &API_SUBMIT, .tenant = str_of(o->tenant), .input = input};
}

static int submit_one(struct cli *cli, struct session *session, struct str body,
                      struct redrive_err *err)
{
    const struct enqueue_options *o = invocation_options(&cli->invocation);
    struct api_input input = {.body = body};
    const struct ask ask = enqueue_ask(cli, &input);
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = answer_change(session, &ask, &answer, err);
    if (rc < 0)
        return rc;
    if (object_text(&answer.object, "id").len == 0)
        return err_set(err, REDRIVE_E_PARSE, "the answer is about no job");
    if (object_bool(&answer.object, "existed")) {
        RELEASED_BY(buf_release) struct buf state = BUF_MAX(256);
        text_add_clean(&state, object_text(&answer.object, "state"));
        cli_say(cli, "note: this job existed already; it is %s\n", buf_cstr(&state));
    }
    return o->wait_ms > 0
               ? enqueue_wait(cli, session, &answer.object, str_of(o->tenant), o->wait_ms, err)
               : enqueue_print_answer(cli, &answer.object, err);
}

static int run_one(struct cli *cli, struct session *session, struct str job, const char *argument,
                   struct redrive_err *err)
{
    const struct enqueue_options *o = invocation_options(&cli->invocation);
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(INPUT_MAX_BYTES + 1);
    RELEASED_BY(buf_release) struct buf body = BUF_MAX(HTTP_CLIENT_BODY_MAX);
    const char *path = argument && strcmp(argument, "-") == 0 ? "-" : o->from;
    struct str payload = str_of(argument);
    int rc = path ? read_payload(path, &text, &payload, err) : 0;
    if (rc == 0)
        rc = check_payload(payload, !path, err);
    if (rc < 0)
        return rc;
    enqueue_add_job(job, payload, &body);
    rc = buf_failed(&body) ? err_nomem(err) : check_body(cli, session, buf_str(&body), err);
    if (rc == 0)
        rc = connect_for(cli, session, err);
    return rc == 0 ? submit_one(cli, session, buf_str(&body), err) : rc;
}

/* ---- Many ------------------------------------------------------------------------------------ */

static int open_input(const char *from, FILE **ret, struct redrive_err *err)
{
    *ret = !from || strcmp(from, "-") == 0 ? stdin : fopen(from, "re");
    if (*ret)
        return 0;
    int error = errno;
    int code = error == ENOENT   ? REDRIVE_E_NOT_FOUND
               : error == EACCES ? REDRIVE_E_DENIED
                                 : REDRIVE_E_IO;
    (void)err_set(err, code, "cannot read the lines: %s", strerror(error));
    err_detail(err, "path %s", from);
    return code;
}

/* All that the lines have in common is checked before any of them is submitted. */
static int run_lines(struct cli *cli, struct session *session, struct str job, const char *from,
                     struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf body = BUF_MAX(HTTP_CLIENT_BODY_MAX);
    FILE *input;
    int rc = open_input(from, &input, err);
    if (rc < 0)
        return rc;
    enqueue_add_job(job, STR("0"), &body);
    rc = buf_failed(&body) ? err_nomem(err) : check_body(cli, session, buf_str(&body), err);
    if (rc == 0)
        rc = connect_for(cli, session, err);
    if (rc == 0)
        rc = enqueue_lines(cli, session, job, input, err);
    if (input != stdin)
        fclose(input);
    return rc;
}

static int run_enqueue(struct cli *cli, struct redrive_err *err)
{
    const struct enqueue_options *o = invocation_options(&cli->invocation);
    const char *argument = cli->invocation.n_args > 1 ? cli->invocation.args[1] : NULL;
    const struct str task = str_of(cli->invocation.args[0]);
    struct session session = {0};
    RELEASED_BY(buf_release) struct buf job = BUF_MAX(HTTP_CLIENT_BODY_MAX);
    int rc = fields_check_text(&NEW_JOB_FIELDS[NEW_JOB_TASK], "TASK", task, err);
    if (rc == 0)
        rc = check_options(o, argument, err);
    if (rc == 0)
        rc = write_job(o, task, &job, err);
    if (rc == 0)
        rc = session_load(cli, &session, err);
    session_hush(cli, &session);
    if (rc == 0)
        rc = o->lines ? run_lines(cli, &session, buf_str(&job), o->from, err)
                      : run_one(cli, &session, buf_str(&job), argument, err);
    session_close(&session);
    return rc;
}

const struct command cmd_enqueue = {
    .name = "enqueue",
    .summary = "submit a job, or one for each line",
    .arguments = "TASK [PAYLOAD]",
    .description =
        "Prints the id of the job. PAYLOAD is JSON; - reads it from standard input, and without "
        "one the job has none. If neither the configuration nor a worker declares the task, the "
        "job waits until a worker does; the command warns of it if other tasks are declared. If "
        "the id or the unique key is taken, no job is made: the id of the existing job is printed, "
        "with a note. With --json the answer is an object with `id`, `state` and `existed`.\n"
        "\n"
        "With --lines, up to 1000 jobs are submitted together, and empty lines are passed over. "
        "All "
        "lines are looked at and every good one becomes a job. A bad one is reported with its "
        "number, up to 20 of them, and makes the exit code 1. What is no fault of a line, such as "
        "a "
        "store that fails or a breaker that is open, ends the command: the error names the line "
        "from which to go on. With --json each job is an object on a line of its own, with the "
        "number of its `line`.\n"
        "\n"
        "With --after the job waits until the other one has ended; `redrive jobs show` tells what "
        "it waits for. If that one ends in another way than --on says, this one is cancelled, with "
        "reason skipped. A dead job may still be redriven: --on-dead says what this one does "
        "meanwhile.\n"
        "\n"
        "With --wait the state is printed after the id and, when the job has completed, its result "
        "after that; with --json both are part of the object. The exit code is 3 when the job "
        "failed, 1 when it was cancelled or has not ended in time.\n"
        "\n"
        "Times are written 2026-03-28T12:00Z or 2026-03-28T12:00+02:00; without either ending they "
        "are local. Bad input changes nothing and makes the exit code 2; a store that cannot be "
        "used, 1.",
    OPTIONS_INTO(OPTIONS, struct enqueue_options),
    .examples =
        EXAMPLES({"redrive enqueue thumbnail '{\"path\": \"a.png\"}'", "a job, now"},
                 {"redrive enqueue report --delay 1h --deadline 3h", "in an hour, or not at all"},
                 {"redrive enqueue enrich --lines --from records.jsonl", "one for each line"},
                 {"redrive enqueue mail --after resize-17", "once that job has completed"}),
    .run = run_enqueue,
    .settings = SETTINGS_STORE | SETTINGS_SUBMIT,
    .settings_hint = "this job's own policy is --retry '{\"initial_delay\": \"1s\"}' or "
                     "--max-attempts N; other settings are for the process that runs it",
    .over_http = true,
};
