/* enqueue.c - `redrive enqueue`: new jobs from the command line. */
#include "cli/commands/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/os/file.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "cli/commands/enqueue/private.h"
#include "cli/output/figures.h"
#include "cli/remote/remote.h"
#include "core/vocabulary.h"

#define POLICY_MAX_BYTES (64u * 1024)
/* Above the limit of a payload, so that one that is too big is measured and not cut. */
#define INPUT_MAX_BYTES (64u * 1024 * 1024)

struct enqueue_options {
    const char *from;
    bool lines;
    const char *id;
    const char *queue;
    int64_t priority;
    int64_t delay_ms;
    const char *at;
    const char *deadline;
    const char *unique;
    bool unique_forever;
    const char *user;
    const char *project;
    const char *service;
    const char *tenant;
    const char *retry;
    int64_t max_attempts;
    struct option_strings after;
    int on;
    int on_dead;
    int64_t wait_ms;
};

#define TEXT_OPTION(option, what, text) \
    OPTION(#option, 0, what, text, INTO_STRING(struct enqueue_options, option))

static const char *const ON[] = {"success", "end", "failure", NULL};
static const char *const ON_DEAD[] = {"wait", "cancel", "run", NULL};

static const struct field OPTIONS[] = {
    OPTION("from", 'f', "FILE", "read the payload from this file; - is standard input",
           INTO_STRING(struct enqueue_options, from)),
    OPTION("lines", 0, NULL, "each line of the file, or of standard input, is the payload of a job",
           INTO_FLAG(struct enqueue_options, lines)),
    TEXT_OPTION(id, "ID",
                "the job's id, unique within the tenant, in place of a new one; submitting it "
                "again does nothing"),
    TEXT_OPTION(queue, "QUEUE", "another queue than the task's"),
    OPTION("priority", 'p', "N", "from -100 to 100; higher ones start first",
           INTO_INT(struct enqueue_options, priority), .min = -100, .max = 100,
           .default_text = "0"),
    OPTION("delay", 0, "DURATION", "do not start before this time has passed",
           INTO_DURATION(struct enqueue_options, delay_ms)),
    TEXT_OPTION(at, "TIME", "do not start before 2026-03-28T12:00Z, or a local time"),
    TEXT_OPTION(deadline, "DURATION|TIME",
                "no attempt starts after this time: a job that waits then becomes a dead letter"),
    TEXT_OPTION(unique, "KEY", "one live job at most has this key; a second one is not made"),
    OPTION("unique-forever", 0, NULL,
           "with --unique: one job ever has the key, even after it has been removed",
           INTO_FLAG(struct enqueue_options, unique_forever), .needs = "unique"),
    TEXT_OPTION(user, "NAME", "the user of the job, for limits and breakers"),
    TEXT_OPTION(project, "NAME", "the project of the job, for limits"),
    TEXT_OPTION(service, "NAME", "which service it calls, for breakers"),
    TEXT_OPTION(tenant, "TENANT", "whose job it is (default: default)"),
    TEXT_OPTION(retry, "JSON",
                "this job's own policy, with the keys of a `retry` section, on top of its task's"),
    OPTION("max-attempts", 0, "N", "how often the job is run at most",
           INTO_INT(struct enqueue_options, max_attempts), .min = 1,
           .max = REDRIVE_MAX_RETRIES + 1),
    OPTION("after", 0, "ID", "start after this job has ended",
           INTO_STRINGS(struct enqueue_options, after)),
    OPTION("on", 0, "END", "with --after: how that job must end",
           INTO_CHOICE(struct enqueue_options, on), .words = ON, .default_text = "success",
           .needs = "after"),
    OPTION("on-dead", 0, "WHAT", "with --after: what this job does if that one dies",
           INTO_CHOICE(struct enqueue_options, on_dead), .words = ON_DEAD, .default_text = "wait",
           .needs = "after"),
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

static int check_options(const struct cli *cli, const struct enqueue_options *o,
                         const char *argument, struct redrive_err *err)
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
    if (o->at && invocation_given(&cli->invocation, "delay"))
        return conflict(err, "--at and --delay exclude each other", "give one of them");
    return 0;
}

static int read_times(const struct enqueue_options *o, struct job_spec *spec,
                      struct redrive_err *err)
{
    const int64_t now_ms = clock_wall_ms();
    int64_t span_ms = 0;
    int rc = 0;
    spec->delay_ms = o->delay_ms;
    if (o->at)
        rc = when_parse("--at", o->at, NULL, &spec->process_after_ms, err);
    if (rc < 0 || !o->deadline)
        return rc;
    if (when_looks_like_date(o->deadline)) {
        rc = when_parse("--deadline", o->deadline, NULL, &spec->deadline_ms, err);
    } else {
        struct redrive_err why = {0};
        rc = duration_parse(str_of(o->deadline), &span_ms, &why);
        spec->deadline_ms = now_ms + span_ms;
        if (rc < 0) {
            rc = err_set(err, REDRIVE_E_USAGE, "--deadline: %s", why.message);
            err_detail(err, "%s", why.detail);
            err_hint(err, "a duration such as 90m, or a time such as 2026-03-28T12:00Z");
        }
    }
    if (rc == 0 && (spec->deadline_ms <= now_ms + spec->delay_ms ||
                    spec->deadline_ms <= spec->process_after_ms))
        rc = conflict(err,
                      spec->deadline_ms <= now_ms ? "--deadline: that time has passed"
                                                  : "--deadline: the job could never start",
                      "the deadline must be later than now, and than --at or --delay");
    return rc;
}

/* A deadline that was asked for as a span counts from now by the clock of the store. */
static void go_by_store(const struct cli *cli, const struct session *session, struct job_spec *spec)
{
    const struct enqueue_options *o = invocation_options(&cli->invocation);
    if (o->deadline && !when_looks_like_date(o->deadline))
        spec->deadline_ms += session_now_ms(session) - clock_wall_ms();
}

/* --max-attempts is a key of the policy like any other. */
static void write_policy(const struct enqueue_options *o, struct buf *out)
{
    struct str json = str_trim(str_of(o->retry));
    if (o->max_attempts == 0) {
        buf_add_str(out, json);
    } else if (json.len < 2 || json.ptr[0] != '{') {
        /* What is no object is refused as it is. */
        buf_printf(out, "%.*s", (int)json.len, json.len ? json.ptr : "");
        if (json.len == 0)
            buf_printf(out, "{\"max_attempts\":%" PRId64 "}", o->max_attempts);
    } else {
        struct str rest = str_trim((struct str){json.ptr + 1, json.len - 1});
        buf_printf(out, "{\"max_attempts\":%" PRId64 "%s", o->max_attempts,
                   rest.ptr[0] == '}' ? "" : ",");
        buf_add_str(out, rest);
    }
}

static void fill_spec(const struct enqueue_options *o, const char *task, struct job_spec *spec)
{
    *spec = (struct job_spec){
        .tenant = str_of(o->tenant),
        .id = str_of(o->id),
        .task = str_of(task),
        .queue = str_of(o->queue),
        .user = str_of(o->user),
        .project = str_of(o->project),
        .service = str_of(o->service),
        .unique_key = str_of(o->unique),
        .unique_forever = o->unique_forever,
        .priority = (int32_t)o->priority,
    };
}

/* The jobs that it waits for. */
static void fill_after(const struct enqueue_options *o, struct arena *arena, struct job_spec *spec)
{
    struct job_after *after = arena_array(arena, o->after.n, sizeof *after);
    for (size_t i = 0; after && i < o->after.n; i++)
        after[i] = (struct job_after){
            .id = str_of(o->after.items[i]),
            .rule = {(enum after_on)o->on, (enum after_dead)o->on_dead},
        };
    spec->after = after;
    spec->n_after = after ? o->after.n : 0;
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

static void add_hint(const struct config_task *task, const struct job_spec *spec,
                     const char *argument, struct redrive_err *err)
{
    if (spec->payload.len == 0 && task->payload == CONFIG_PAYLOAD_REQUIRED && !err->hint[0])
        err_hint(err, "give it as PAYLOAD, with --from FILE, or as - on standard input");
    if (argument && err->code == REDRIVE_E_PARSE && json_check(spec->payload, NULL, NULL) < 0)
        err_hint(err, "quote it for the shell, and a string once more: '{\"a\": 1}', '\"text\"'");
}

static int check_spec(const struct session *session, struct job_spec *spec, const char *argument,
                      struct redrive_err *err)
{
    const struct config_task *task = config_task(session->config, spec->task);
    int rc = submit_check(session->config, task, ENGINE_PAYLOAD_MAX_BYTES, spec, err);
    if (rc < 0)
        add_hint(task, spec, argument, err);
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
static bool add_tasks_of_server(struct remote *remote, struct str name, struct words *words)
{
    struct remote_task *tasks = NULL;
    RELEASED_BY(arena_release) struct arena arena = {0};
    bool is_there = false;
    size_t n = 0;
    if (remote_tasks(remote, &arena, &tasks, &n, NULL) == 0)
        for (size_t i = 0; i < n; i++)
            if (tasks[i].is_declared || tasks[i].started > 0)
                is_there |= add_known(words, tasks[i].name, name);
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
    const bool is_known = session->remote ? add_tasks_of_server(session->remote, name, &known)
                                          : add_published(session->store, name, &known);
    if (!is_known && known.n > 0)
        warn_of_task(cli, &known, name);
    words_release(&known);
}

/* ---- One job --------------------------------------------------------------------------------- */

static int finish_one(struct cli *cli, struct session *session, const struct job_spec *spec,
                      struct submit_answer *a, int64_t wait_ms, struct redrive_err *err)
{
    if (a->existed)
        cli_say(cli, "note: this job existed already; it is %s\n", redrive_state_name(a->state));
    return wait_ms > 0 ? enqueue_wait(cli, session, spec, a, wait_ms, err)
                       : enqueue_print_answer(cli, a, err);
}

static int submit_to_server(struct cli *cli, struct session *session, const struct job_spec *spec,
                            int64_t wait_ms, struct redrive_err *err)
{
    struct submit_answer answer = {0};
    RELEASED_BY(arena_release) struct arena arena = {0};
    int rc = remote_submit(session->remote, spec, 1, &answer, &arena, err);
    return rc == 0 ? finish_one(cli, session, spec, &answer, wait_ms, err) : rc;
}

static int submit_one(struct cli *cli, struct session *session, const struct job_spec *spec,
                      int64_t wait_ms, struct redrive_err *err)
{
    struct submit_op op;
    if (session->remote)
        return submit_to_server(cli, session, spec, wait_ms, err);
    int rc = submit_op_init(&op, session_engine(session), spec, 1, err);
    if (rc < 0)
        return rc;
    rc = session_apply(session, &op.op, err);
    struct submit_answer *a = &op.answers[0];
    if (rc == 0 && a->code < 0) {
        *err = *a->err;
        rc = a->code;
    }
    if (rc == 0)
        rc = finish_one(cli, session, spec, a, wait_ms, err);
    submit_op_release(&op);
    return rc;
}

/* Opens the store for jobs like this one. */
static int connect_for(struct cli *cli, struct session *session, struct job_spec *spec,
                       struct redrive_err *err)
{
    const struct engine_options options = {0};
    int rc = session->remote ? 0 : session_connect(session, &options, err);
    if (rc < 0)
        return rc;
    warn_if_undeclared(cli, session, spec->task);
    go_by_store(cli, session, spec);
    return 0;
}

static int run_one(struct cli *cli, struct session *session, struct job_spec *spec,
                   const char *argument, struct redrive_err *err)
{
    const struct enqueue_options *o = invocation_options(&cli->invocation);
    int rc = 0;
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(INPUT_MAX_BYTES + 1);
    const char *path = argument && strcmp(argument, "-") == 0 ? "-" : o->from;
    if (path)
        rc = read_payload(path, &text, &spec->payload, err);
    else
        spec->payload = str_of(argument);
    if (rc == 0)
        rc = check_spec(session, spec, path ? NULL : argument, err);
    if (rc == 0)
        rc = connect_for(cli, session, spec, err);
    return rc == 0 ? submit_one(cli, session, spec, o->wait_ms, err) : rc;
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

static int run_lines(struct cli *cli, struct session *session, struct job_spec *spec,
                     const char *from, struct redrive_err *err)
{
    struct job_spec any = *spec;
    FILE *input;
    int rc = open_input(from, &input, err);
    if (rc < 0)
        return rc;
    /* All that the lines have in common is checked before any of them is submitted. */
    any.payload = STR("0");
    rc = check_spec(session, &any, NULL, err);
    if (rc == 0)
        rc = connect_for(cli, session, spec, err);
    if (rc == 0)
        rc = enqueue_lines(cli, session, spec, input, err);
    if (input != stdin)
        fclose(input);
    return rc;
}

static int run_enqueue(struct cli *cli, struct redrive_err *err)
{
    const struct enqueue_options *o = invocation_options(&cli->invocation);
    const char *argument = cli->invocation.n_args > 1 ? cli->invocation.args[1] : NULL;
    struct session session = {0};
    struct job_spec spec;
    RELEASED_BY(buf_release) struct buf policy = BUF_MAX(POLICY_MAX_BYTES);
    RELEASED_BY(arena_release) struct arena arena = {0};
    fill_spec(o, cli->invocation.args[0], &spec);
    write_policy(o, &policy);
    spec.policy = trace_keep(str_of(getenv("TRACEPARENT")), buf_str(&policy), &arena);
    int rc = check_options(cli, o, argument, err);
    if (rc == 0 && buf_failed(&policy))
        rc = err_full(err, buf_failed(&policy), "--retry: over %u bytes", POLICY_MAX_BYTES);
    fill_after(o, &arena, &spec);
    if (rc == 0 && arena.failed)
        rc = err_nomem(err);
    if (rc == 0)
        rc = read_times(o, &spec, err);
    if (rc == 0)
        rc = session_load(cli, &session, err);
    session_hush(cli, &session);
    if (rc == 0)
        rc = o->lines ? run_lines(cli, &session, &spec, o->from, err)
                      : run_one(cli, &session, &spec, argument, err);
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
        "With --lines, up to 500 jobs are submitted together, and empty lines are passed over. All "
        "lines are looked at and every good one becomes a job. A bad one is reported with its "
        "number, up to 20 of them, and makes the exit code 1. With --json each job is an object on "
        "a line of its own, with the number of its `line`.\n"
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
