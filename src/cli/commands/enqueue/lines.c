/* lines.c - a job for each line of a file. */
#include "cli/commands/enqueue/private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "cli/output/progress.h"
#include "run/http/client.h"

/* A batch also ends when it is this large: with one more payload it still fits in a request of
 * 8 MiB. */
#define BATCH_MAX_BYTES  (4u * 1024 * 1024)
#define OUTPUT_MAX_BYTES (16u * 1024 * 1024)

/* Longer than any payload, so that one that is too long is known as such. */
#define LINE_MAX_BYTES (2u * ENGINE_PAYLOAD_MAX_BYTES)

struct feed {
    struct cli *cli;
    struct session *session;
    struct str job; /* what the jobs have in common */
    FILE *input;
    struct progress progress;
    char block[16384]; /* of the input, */
    struct str rest;   /* and what is left of it */
    struct buf line;
    uint64_t number; /* of the line */

    struct buf body; /* the array of the batch */
    struct {
        size_t from, to; /* in the body */
        uint64_t number;
    } jobs[ENQUEUE_BATCH];
    size_t n;

    uint64_t submitted;
    uint64_t existed;
    uint64_t refused;
};

/* ---- Reading --------------------------------------------------------------------------------- */

/* False at the end, or after a failure. */
static bool read_block(struct feed *f)
{
    f->rest = (struct str){f->block, fread(f->block, 1, sizeof f->block, f->input)};
    return f->rest.len > 0;
}

/* 1 and a line in f->line, 0 at the end, or a negative code. What is longer than any payload may be
 * is cut. */
static int next_line(struct feed *f, struct redrive_err *err)
{
    const char *end = NULL;
    buf_reset(&f->line);
    while (!end) {
        if (f->rest.len == 0 && !read_block(f))
            break;
        end = memchr(f->rest.ptr, '\n', f->rest.len);
        const size_t n = end ? (size_t)(end - f->rest.ptr) : f->rest.len;
        const size_t room = LINE_MAX_BYTES - f->line.len;
        if (buf_add(&f->line, f->rest.ptr, n < room ? n : room) < 0)
            return err_nomem(err);
        f->rest = (struct str){f->rest.ptr + n + !!end, f->rest.len - n - !!end};
    }
    if (ferror(f->input))
        return err_set(err, REDRIVE_E_IO, "cannot read the lines: %s", strerror(errno));
    if (!end && f->line.len == 0)
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

static void take_answer(struct feed *f, size_t i, const struct object *job, struct buf *out)
{
    const bool existed = object_bool(job, "existed");
    f->submitted += !existed;
    f->existed += existed;
    enqueue_put_answer(f->cli, job, f->jobs[i].number, out);
}

static int print_answers(struct feed *f, struct buf *out, struct redrive_err *err)
{
    if (f->cli->out.is_tty)
        progress_clear(&f->progress);
    int rc = cli_print(f->cli, out, err);
    (void)fflush(f->cli->out.file);
    return rc;
}

/* What is wrong with a job, and not with the store, the server or the way to it. The payloads are
 * JSON: what cannot be read is the answer. */
static bool is_refusal(int rc)
{
    const int status = redrive_err_http_status(rc);
    return rc < 0 && rc != REDRIVE_E_DENIED && rc != REDRIVE_E_PARSE && status >= 400 &&
           status < 500;
}

/* Whether a commit that ended so may have been made all the same. */
static bool may_be_made(int rc)
{
    return rc != REDRIVE_E_BREAKER_OPEN &&
           (redrive_err_retryable(rc) || rc == REDRIVE_E_IO || rc == REDRIVE_E_PARSE);
}

/* The lines before job `from` have been answered; those from it on, up to job `to`, have not. */
static int stop_at(const struct feed *f, size_t from, size_t to, const struct redrive_err *why,
                   struct redrive_err *err)
{
    const uint64_t first = f->jobs[from].number, last = f->jobs[to - 1].number;
    char open[80] = "";
    const char *before = f->submitted + f->existed == 0 ? "no job was made before that line"
                         : f->refused == 0 ? "the jobs of the lines before it are there"
                                           : "the jobs of the good lines before it are there";
    if (may_be_made(why->code))
        (void)snprintf(open, sizeof open,
                       "; whether those of lines %" PRIu64 " to %" PRIu64 " are is not known",
                       first, last);
    (void)err_set(err, why->code, "stopped at line %" PRIu64 ": %s", first, why->message);
    err_detail(err, "%s", why->detail);
    if (why->hint[0])
        err_hint(err, "%s%s; from line %" PRIu64 " on: %s", before, open, first, why->hint);
    else
        err_hint(err, "%s%s; go on with line %" PRIu64, before, open, first);
    return why->code;
}

/* The jobs from `from` up to `to`: all of them, or none. */
static int submit_batch(struct feed *f, size_t from, size_t to, struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf part = BUF_MAX(HTTP_CLIENT_BODY_MAX);
    const bool is_whole = to - from == f->n;
    if (!is_whole) {
        buf_putc(&part, '[');
        buf_add(&part, f->body.data + f->jobs[from].from, f->jobs[to - 1].to - f->jobs[from].from);
        buf_putc(&part, ']');
    }
    struct api_input input = {.body = buf_str(is_whole ? &f->body : &part)};
    const struct ask ask = enqueue_ask(f->cli, &input);
    struct object *jobs = NULL;
    struct buf out;
    size_t n = 0;
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = buf_failed(&part) ? err_nomem(err)
                               : answer_change_many(f->session, &ask, &answer, &jobs, &n, err);
    if (rc < 0)
        return rc;
    if (n != to - from)
        return err_set(err, REDRIVE_E_PARSE, "the answer is about %zu jobs of %zu", n, to - from);
    buf_init(&out, OUTPUT_MAX_BYTES);
    for (size_t i = 0; i < n; i++)
        take_answer(f, from + i, &jobs[i], &out);
    return print_answers(f, &out, err);
}

static int submit_alone(struct feed *f, size_t i, struct redrive_err *err)
{
    struct redrive_err why = {0};
    struct buf out;
    RELEASED_BY(answer_release) struct answer answer = {0};
    struct api_input input = {
        .body = {buf_str(&f->body).ptr + f->jobs[i].from, f->jobs[i].to - f->jobs[i].from}};
    const struct ask ask = enqueue_ask(f->cli, &input);
    int rc = answer_change(f->session, &ask, &answer, &why);
    if (is_refusal(rc)) {
        report_refused(f, f->jobs[i].number, &why);
        return 0;
    }
    if (rc < 0)
        return stop_at(f, i, i + 1, &why, err);
    buf_init(&out, OUTPUT_MAX_BYTES);
    take_answer(f, i, &answer.object, &out);
    return print_answers(f, &out, err);
}

/* A batch is taken as a whole or not at all: when one is refused, each half of it is sent. A
 * breaker that is open may be that of one line, which is found in the same way. */
static int submit_lines(struct feed *f, size_t from, size_t to, struct redrive_err *err)
{
    struct redrive_err why = {0};
    if (to - from == 1)
        return submit_alone(f, from, err);
    int rc = submit_batch(f, from, to, &why);
    if (rc == 0)
        return 0;
    if (!is_refusal(rc) && rc != REDRIVE_E_BREAKER_OPEN)
        return stop_at(f, from, to, &why, err);
    const size_t half = from + (to - from) / 2;
    rc = submit_lines(f, from, half, err);
    return rc < 0 ? rc : submit_lines(f, half, to, err);
}

static int flush(struct feed *f, struct redrive_err *err)
{
    if (f->n == 0)
        return 0;
    buf_putc(&f->body, ']');
    int rc = buf_failed(&f->body) ? err_nomem(err) : submit_lines(f, 0, f->n, err);
    if (rc < 0)
        return rc;
    buf_reset(&f->body);
    f->n = 0;
    progress_update(&f->progress, f->number);
    return rc;
}

/* What is no JSON cannot be a part of a body. */
static int add(struct feed *f, struct redrive_err *err)
{
    struct str text = str_trim(buf_str(&f->line));
    struct redrive_err wrong;
    if (text.len == 0)
        return 0;
    if (submit_check_payload(ENGINE_PAYLOAD_MAX_BYTES, text, &wrong) < 0) {
        report_refused(f, f->number, &wrong);
        return 0;
    }
    buf_putc(&f->body, f->n == 0 ? '[' : ',');
    f->jobs[f->n].from = f->body.len;
    enqueue_add_job(f->job, text, &f->body);
    f->jobs[f->n].to = f->body.len;
    f->jobs[f->n++].number = f->number;
    return f->n == ENQUEUE_BATCH || f->body.len >= BATCH_MAX_BYTES ? flush(f, err) : 0;
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

int enqueue_lines(struct cli *cli, struct session *session, struct str job, FILE *input,
                  struct redrive_err *err)
{
    struct feed *f = calloc(1, sizeof *f);
    if (!f)
        return err_nomem(err);
    *f = (struct feed){.cli = cli, .session = session, .job = job, .input = input};
    buf_init(&f->line, LINE_MAX_BYTES);
    buf_init(&f->body, HTTP_CLIENT_BODY_MAX);
    progress_init(&f->progress, &cli->err, "enqueue", cli->err.is_tty ? count_lines(input) : 0,
                  NULL);
    int rc;
    while ((rc = next_line(f, err)) > 0 && (rc = add(f, err)) == 0)
        ;
    if (rc == 0)
        rc = flush(f, err);
    progress_clear(&f->progress);
    if (rc == 0)
        rc = finish(f, err);
    buf_release(&f->body);
    buf_release(&f->line);
    free(f);
    return rc;
}
