/* add.c - `redrive dlq add`: jobs that a program has tried by itself, and that have failed for
 * good, as dead letters of a store. */
#include "cli/commands/commands.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/os/file.h"
#include "base/time/clock.h"
#include "cli/output/term.h"
#include "cli/remote/remote.h"
#include "cli/shared/session.h"
#include "engine/verbs/submit.h"
#include "server/rest/body/job.h"

/* As a server takes them: a job with its error, or up to JOB_BODY_MAX of them. */
#define INPUT_MAX_BYTES (16u * 1024 * 1024)

struct add_options {
    const char *tenant;
};

static const struct field OPTIONS[] = {
    OPTION("tenant", 0, "TENANT", "whose jobs they are (default: default)",
           INTO_STRING(struct add_options, tenant)),
    {0},
};

/* ---- What is given --------------------------------------------------------------------------- */

static int read_input(const char *path, struct buf *text, struct redrive_err *err)
{
    const bool is_stdin = !path || strcmp(path, "-") == 0;
    return is_stdin ? file_read_open(STDIN_FILENO, "standard input", INPUT_MAX_BYTES, text, err)
                    : file_read(path, INPUT_MAX_BYTES, text, err);
}

/* A job that has not failed belongs into a queue: `redrive enqueue` puts it there. */
static int check_all_failed(const struct job_body *body, struct redrive_err *err)
{
    for (size_t i = 0; i < body->n; i++) {
        if (body->specs[i].failed)
            continue;
        (void)err_set(err, REDRIVE_E_INVALID, "job %zu does not say how it has failed", i + 1);
        err_hint(err, "give it a member such as \"failed\": {\"class\": \"network\", \"message\": "
                      "\"no route\"}");
        return REDRIVE_E_INVALID;
    }
    return 0;
}

static int read_letters(struct cli *cli, const struct add_options *o, struct buf *text,
                        struct arena *arena, struct job_body *ret, struct redrive_err *err)
{
    const char *path = cli->invocation.n_args > 0 ? cli->invocation.args[0] : NULL;
    int rc = read_input(path, text, err);
    if (rc < 0)
        return rc;
    rc = job_body_read(buf_str(text), str_of(o->tenant), (struct str){0}, clock_wall_ms(), arena,
                       ret, err);
    if (rc < 0 && ret->field[0] && !err->detail[0])
        err_detail(err, "member %s", ret->field);
    return rc == 0 ? check_all_failed(ret, err) : rc;
}

/* ---- What became of them --------------------------------------------------------------------- */

struct added {
    const struct submit_answer *answers;
    size_t n;
};

static void added_as_json(struct json_writer *w, const void *thing)
{
    const struct added *added = thing;
    json_begin_object(w);
    json_key(w, "items");
    json_begin_array(w);
    for (size_t i = 0; i < added->n; i++) {
        json_begin_object(w);
        json_field_string(w, "id", added->answers[i].id);
        json_field_cstr(w, "state", redrive_state_name(added->answers[i].state));
        json_field_bool(w, "existed", added->answers[i].existed);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static void added_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct added *added = thing;
    (void)term;
    for (size_t i = 0; i < added->n; i++) {
        text_add_clean(out, added->answers[i].id);
        buf_printf(out, "  %s%s\n", added->answers[i].existed ? "existed, is " : "",
                   redrive_state_name(added->answers[i].state));
    }
}

static int show(struct cli *cli, const struct submit_answer *answers, size_t n,
                struct redrive_err *err)
{
    const struct added added = {answers, n};
    return cli_show(cli, &added, added_as_json, added_as_text, err);
}

/* ---- Adding ---------------------------------------------------------------------------------- */

static int add_to_server(struct cli *cli, struct session *session, const struct job_body *body,
                         struct arena *arena, struct redrive_err *err)
{
    struct submit_answer *answers = arena_array(arena, body->n, sizeof *answers);
    if (!answers)
        return err_nomem(err);
    memset(answers, 0, body->n * sizeof *answers);
    int rc = remote_submit(session->remote, body->specs, body->n, answers, arena, err);
    return rc == 0 ? show(cli, answers, body->n, err) : rc;
}

/* All of them, or none. */
static int add_to_store(struct cli *cli, struct session *session, const struct job_body *body,
                        struct redrive_err *err)
{
    struct submit_op op;
    int rc = session_connect(session, &(const struct engine_options){0}, err);
    if (rc == 0)
        rc = submit_op_init(&op, session_engine(session), body->specs, body->n, err);
    if (rc < 0)
        return rc;
    op.whole = true;
    rc = session_apply(session, &op.op, err);
    for (size_t i = 0; rc == 0 && i < op.n; i++) {
        if (op.answers[i].code < 0 && op.answers[i].code != REDRIVE_E_CANCELLED) {
            *err = *op.answers[i].err;
            rc = op.answers[i].code;
        }
    }
    if (rc == 0)
        rc = show(cli, op.answers, op.n, err);
    submit_op_release(&op);
    return rc;
}

static int run_add(struct cli *cli, struct redrive_err *err)
{
    const struct add_options *o = invocation_options(&cli->invocation);
    struct session session = {0};
    struct job_body body = {0};
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(INPUT_MAX_BYTES + 1);
    RELEASED_BY(arena_release) struct arena arena = {0};
    int rc = read_letters(cli, o, &text, &arena, &body, err);
    if (rc == 0)
        rc = session_load(cli, &session, err);
    /* That the jobs are dead is what was asked for: no line of the log for each. */
    if (cli->globals->log_level < 0)
        session.log.level = LOG_LEVEL_OFF;
    if (rc == 0)
        rc = session.remote ? add_to_server(cli, &session, &body, &arena, err)
                            : add_to_store(cli, &session, &body, err);
    session_close(&session);
    return rc;
}

const struct command cmd_dlq_add = {
    .name = "add",
    .summary = "keep jobs that have failed elsewhere as dead letters",
    .arguments = "[FILE]",
    .description =
        "Reads a job, or an array of up to 1000, as JSON from FILE or standard input: the members "
        "of POST /v1/jobs, and `failed` with `class`, `reason`, `error_type`, `message` and "
        "`stacktrace`, each of them optional. All are taken, or none. They have no attempts: the "
        "store has never run them. A redrive queues them for a worker that has their task. An id "
        "that is taken is answered with the job that has it, which is left as it is.",
    OPTIONS_INTO(OPTIONS, struct add_options),
    .examples = EXAMPLES({"redrive dlq add letters.json", "from a file"},
                         {"make-report | redrive dlq add", "from a program"}),
    .run = run_add,
    .over_http = true,
};
