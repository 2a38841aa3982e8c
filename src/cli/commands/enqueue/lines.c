/* lines.c - a job for each line of a file. */
#include "cli/commands/enqueue/private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/mem/arena.h"
#include "cli/output/progress.h"
#include "cli/remote/remote.h"

/* A batch also ends when its payloads are this large together: with one more of them, and what goes
 * around each, it still fits in a request of 8 MiB. */
#define BATCH_MAX_BYTES  (4u * 1024 * 1024)
#define OUTPUT_MAX_BYTES (16u * 1024 * 1024)

/* Longer than any payload, so that one that is too long is known as such. */
#define LINE_MAX_BYTES (2u * ENGINE_PAYLOAD_MAX_BYTES)

struct feed {
    struct cli *cli;
    struct session *session;
    const struct job_spec *pattern;
    FILE *input;
    struct progress progress;
    struct buf line;
    uint64_t number; /* of the line */

    struct arena arena; /* of the batch */
    struct job_spec specs[ENQUEUE_BATCH];
    uint64_t numbers[ENQUEUE_BATCH];
    size_t n;
    size_t bytes;

    uint64_t submitted;
    uint64_t existed;
    uint64_t refused;
};

/* ---- Reading --------------------------------------------------------------------------------- */

/* 1 and a line in f->line, 0 at the end, or a negative code. What is longer than any payload may be
 * is cut. */
static int next_line(struct feed *f, struct redrive_err *err)
{
    int c;
    buf_reset(&f->line);
    while ((c = getc_unlocked(f->input)) != EOF && c != '\n')
        if (buf_putc(&f->line, (char)c) == REDRIVE_E_NOMEM)
            return err_nomem(err);
    if (ferror(f->input))
        return err_set(err, REDRIVE_E_IO, "cannot read the lines: %s", strerror(errno));
    if (c == EOF && f->line.len == 0)
        return 0;
    f->number++;
    return 1;
}

/* How many lines a file has, for the bar; 0 when it cannot be read twice. */
static uint64_t count_lines(FILE *input)
{
    struct stat st;
    uint64_t n = 0;
    int c, last = '\n';
    if (fstat(fileno(input), &st) != 0 || !S_ISREG(st.st_mode) || ftello(input) != 0)
        return 0;
    for (; (c = getc_unlocked(input)) != EOF; last = c)
        n += c == '\n';
    n += last != '\n';
    rewind(input);
    return n;
}

/* ---- Submitting ------------------------------------------------------------------------------ */

static void report_refused(struct feed *f, uint64_t number, const struct redrive_err *why)
{
    struct redrive_err e;
    /* The line of a payload that is one line says nothing. */
    const char *detail = strncmp(why->detail, "line 1, ", 8) == 0 ? why->detail + 8 : why->detail;
    if (f->refused++ >= ENQUEUE_REPORTS)
        return;
    err_set(&e, why->code, "line %" PRIu64 ": %s", number, why->message);
    err_detail(&e, "%s", detail);
    err_hint(&e, "%s", why->hint);
    progress_clear(&f->progress);
    cli_report(f->cli, &e);
}

static int print_answers(struct feed *f, const struct submit_answer *answers,
                         struct redrive_err *err)
{
    struct buf out;
    buf_init(&out, OUTPUT_MAX_BYTES);
    for (size_t i = 0; i < f->n; i++) {
        const struct submit_answer *a = &answers[i];
        if (a->code < 0) {
            report_refused(f, f->numbers[i], a->err);
            continue;
        }
        f->submitted += !a->existed;
        f->existed += a->existed;
        enqueue_put_answer(f->cli, a, f->numbers[i], &out);
    }
    if (f->cli->out.is_tty)
        progress_clear(&f->progress);
    return cli_print(f->cli, &out, err);
}

static int submit_to_store(struct feed *f, struct redrive_err *err)
{
    struct submit_op op;
    int rc = submit_op_init(&op, session_engine(f->session), f->specs, f->n, err);
    if (rc < 0)
        return rc;
    rc = session_apply(f->session, &op.op, err);
    if (rc == 0)
        rc = print_answers(f, op.answers, err);
    submit_op_release(&op);
    return rc;
}

/* What is wrong with a job, and not with the server or the way to it. */
static bool is_refusal(int rc)
{
    const int status = redrive_err_http_status(rc);
    return rc < 0 && rc != REDRIVE_E_DENIED && status >= 400 && status < 500;
}

/* A server takes an array as a whole or not at all: when one is refused, each line is sent alone.
 */
static int submit_one_by_one(struct feed *f, struct submit_answer *answers,
                             struct redrive_err *errors, struct redrive_err *err)
{
    for (size_t i = 0; i < f->n; i++) {
        answers[i] = (struct submit_answer){.err = &errors[i]};
        int rc =
            remote_submit(f->session->remote, &f->specs[i], 1, &answers[i], &f->arena, &errors[i]);
        if (rc < 0 && !is_refusal(rc)) {
            if (err)
                *err = errors[i];
            return rc;
        }
        answers[i].code = rc;
    }
    return 0;
}

static int submit_to_server(struct feed *f, struct redrive_err *err)
{
    struct redrive_err why = {0};
    struct submit_answer *answers = calloc(f->n, sizeof *answers);
    struct redrive_err *errors = calloc(f->n, sizeof *errors);
    int rc = answers && errors ? 0 : err_nomem(err);
    if (rc == 0) {
        rc = remote_submit(f->session->remote, f->specs, f->n, answers, &f->arena, &why);
        if (is_refusal(rc))
            rc = submit_one_by_one(f, answers, errors, err);
        else if (rc < 0 && err)
            *err = why;
    }
    if (rc == 0)
        rc = print_answers(f, answers, err);
    free(errors);
    free(answers);
    return rc;
}

static int flush(struct feed *f, struct redrive_err *err)
{
    if (f->n == 0)
        return 0;
    if (f->arena.failed)
        return err_nomem(err);
    int rc = f->session->remote ? submit_to_server(f, err) : submit_to_store(f, err);
    if (rc < 0)
        return rc;
    arena_release(&f->arena);
    arena_init(&f->arena);
    f->n = f->bytes = 0;
    progress_update(&f->progress, f->number);
    return rc;
}

/* What is no JSON cannot be part of a request: a line of that kind is refused here, in the words of
 * the store. */
static int check_line(struct feed *f, struct str text, struct redrive_err *ret)
{
    struct job_spec spec = *f->pattern;
    const struct config *config = f->session->config;
    spec.payload = text;
    return submit_check(config, config_task(config, spec.task), ENGINE_PAYLOAD_MAX_BYTES, &spec,
                        ret);
}

static int add(struct feed *f, struct redrive_err *err)
{
    struct str text = str_trim(buf_str(&f->line));
    struct redrive_err wrong = {0};
    if (text.len == 0)
        return 0;
    if (f->session->remote && check_line(f, text, &wrong) < 0) {
        report_refused(f, f->number, &wrong);
        return 0;
    }
    struct job_spec *spec = &f->specs[f->n];
    *spec = *f->pattern;
    spec->payload = arena_str(&f->arena, text);
    f->numbers[f->n++] = f->number;
    f->bytes += text.len;
    return f->n == ENQUEUE_BATCH || f->bytes >= BATCH_MAX_BYTES ? flush(f, err) : 0;
}

static int finish(const struct feed *f, struct redrive_err *err)
{
    if (f->refused > ENQUEUE_REPORTS) {
        struct redrive_err more;
        err_set(&more, REDRIVE_E_STATE, "%" PRIu64 " more lines were refused",
                f->refused - ENQUEUE_REPORTS);
        cli_report(f->cli, &more);
    }
    const uint64_t total = f->refused + f->submitted + f->existed;
    if (f->refused > 0) {
        (void)err_set(err, REDRIVE_E_STATE, "%" PRIu64 " of %" PRIu64 " line%s refused", f->refused,
                      total, total == 1 ? " was" : "s were");
        if (f->submitted + f->existed > 0)
            err_detail(err, "the others were submitted");
        err_hint(err, f->refused == 1 ? "mend that line and submit it alone"
                                      : "mend those lines and submit them alone");
        return REDRIVE_E_STATE;
    }
    if (f->cli->err.is_tty)
        cli_say(f->cli, "%" PRIu64 " submitted, %" PRIu64 " existed already\n", f->submitted,
                f->existed);
    return 0;
}

int enqueue_lines(struct cli *cli, struct session *session, const struct job_spec *pattern,
                  FILE *input, struct redrive_err *err)
{
    struct feed *f = calloc(1, sizeof *f);
    if (!f)
        return err_nomem(err);
    *f = (struct feed){.cli = cli, .session = session, .pattern = pattern, .input = input};
    buf_init(&f->line, LINE_MAX_BYTES);
    arena_init(&f->arena);
    progress_init(&f->progress, &cli->err, "enqueue", count_lines(input), NULL);
    int rc;
    while ((rc = next_line(f, err)) > 0 && (rc = add(f, err)) == 0)
        ;
    if (rc == 0)
        rc = flush(f, err);
    progress_clear(&f->progress);
    if (rc == 0)
        rc = finish(f, err);
    arena_release(&f->arena);
    buf_release(&f->line);
    free(f);
    return rc;
}
