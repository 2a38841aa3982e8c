/* add.c - `redrive dlq add`: jobs that a program has tried by itself, and that have failed for
 * good, as dead letters of a store. */
#include "cli/commands/commands.h"

#include <string.h>
#include <unistd.h>

#include "api/new_job.h"
#include "base/err.h"
#include "base/os/file.h"
#include "base/time/clock.h"
#include "cli/output/term.h"
#include "cli/shared/answer.h"

/* As a server takes them: a job with its error, or up to NEW_JOBS_MAX of them. */
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
static int check_all_failed(const struct new_jobs *jobs, struct redrive_err *err)
{
    for (size_t i = 0; i < jobs->n; i++) {
        if (jobs->specs[i].failed)
            continue;
        (void)err_set(err, REDRIVE_E_INVALID, "job %zu does not say how it has failed", i + 1);
        err_hint(err, "give it a member such as \"failed\": {\"class\": \"network\", \"message\": "
                      "\"no route\"}");
        return REDRIVE_E_INVALID;
    }
    return 0;
}

/* Reads the letters as the operation will: what is wrong with them makes no store. */
static int check_letters(struct str text, struct redrive_err *err)
{
    const struct new_jobs_input input = {.text = text, .now_ms = clock_wall_ms()};
    RELEASED_BY(arena_release) struct arena arena = {0};
    struct new_jobs jobs;
    int rc = new_jobs_read(&input, &arena, &jobs, err);
    return rc == 0 ? check_all_failed(&jobs, err) : rc;
}

/* ---- What became of them --------------------------------------------------------------------- */

/* Of one letter that was no array the answer is no list. */
static void added_as_json(struct json_writer *w, const void *thing)
{
    const struct answer *answer = thing;
    const bool is_list = object_json(&answer->object, "items").ptr != NULL;
    if (!is_list) {
        json_begin_object(w);
        json_open_array(w, "items");
    }
    json_put_raw(w, buf_str(&answer->text));
    if (!is_list) {
        json_end_array(w);
        json_end_object(w);
    }
}

static void added_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct answer *answer = thing;
    struct object one = answer->object, *letters = &one;
    const size_t n =
        object_text(&one, "id").ptr ? 1 : object_objects(&answer->object, "items", &letters);
    (void)term;
    for (size_t i = 0; i < n; i++) {
        text_add_clean(out, object_text(&letters[i], "id"));
        buf_puts(out, object_bool(&letters[i], "existed") ? "  existed, is " : "  ");
        text_add_clean(out, object_text(&letters[i], "state"));
        buf_putc(out, '\n');
    }
}

/* ---- Adding ---------------------------------------------------------------------------------- */

static int add_letters(struct cli *cli, struct session *session, struct str text,
                       struct redrive_err *err)
{
    const struct add_options *o = invocation_options(&cli->invocation);
    struct api_input input = {.body = text};
    const struct ask ask = {.operation = &API_SUBMIT, .tenant = str_of(o->tenant), .input = &input};
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = session->remote ? 0 : session_connect(session, &(const struct engine_options){0}, err);
    if (rc == 0)
        rc = answer_change(session, &ask, &answer, err);
    return rc == 0 ? cli_show(cli, &answer, added_as_json, added_as_text, err) : rc;
}

static int run_add(struct cli *cli, struct redrive_err *err)
{
    const char *path = cli->invocation.n_args > 0 ? cli->invocation.args[0] : NULL;
    struct session session = {0};
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(INPUT_MAX_BYTES + 1);
    int rc = read_input(path, &text, err);
    if (rc == 0)
        rc = check_letters(buf_str(&text), err);
    if (rc == 0)
        rc = session_load(cli, &session, err);
    /* That the jobs are dead is what was asked for: no line of the log for each. */
    if (cli->globals->log_level < 0)
        session.log.level = LOG_LEVEL_OFF;
    if (rc == 0)
        rc = add_letters(cli, &session, buf_str(&text), err);
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
