/* answer.c - prints what became of a submit, and waits for the end of a job. */
#include "cli/commands/enqueue/private.h"

#include <poll.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "cli/jobs/change.h"
#include "cli/jobs/list.h"
#include "cli/output/term.h"
#include "core/state.h"
#include "store/job_json.h"

/* How long a look at the store lasts at most; a store that notifies answers sooner. */
#define LOOK_MS 500
/* How long until a server is asked again. */
#define ASK_MS 200

/* Above any result, though every byte of it were escaped. */
#define OUTPUT_MAX_BYTES (16u * 1024 * 1024)

/* ---- Answers --------------------------------------------------------------------------------- */

static void write_answer(struct json_writer *w, const struct submit_answer *a)
{
    json_field_string(w, "id", a->id);
    json_field_cstr(w, "state", redrive_state_name(a->state));
    json_field_bool(w, "existed", a->existed);
}

void enqueue_put_answer(const struct cli *cli, const struct submit_answer *a, uint64_t line,
                        struct buf *out)
{
    if (!cli->globals->json) {
        buf_add_str(out, a->id);
        buf_putc(out, '\n');
        return;
    }
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    write_answer(&w, a);
    if (line > 0)
        json_field_int(&w, "line", (int64_t)line);
    json_end_object(&w);
    buf_putc(out, '\n');
}

/* That object with the result of a job that has ended. */
static void put_end(const struct submit_answer *a, struct str result, struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    write_answer(&w, a);
    job_write_value(&w, "result", result);
    json_end_object(&w);
    buf_putc(out, '\n');
}

int enqueue_print_answer(struct cli *cli, const struct submit_answer *a, struct redrive_err *err)
{
    struct buf out;
    buf_init(&out, OUTPUT_MAX_BYTES);
    enqueue_put_answer(cli, a, 0, &out);
    int rc = cli_print(cli, &out, err);
    (void)fflush(cli->out.file);
    return rc;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* The job that is waited for. */
struct waited {
    const char *tenant;
    const char *id;
};

static int read_job(const struct session *session, const struct waited *job, struct job_page *ret,
                    struct redrive_err *err)
{
    job_page_release(ret);
    const int rc = job_find(session, job->tenant, job->id, ret, err);
    return rc == REDRIVE_E_NOT_FOUND ? err_set(err, rc, "the job was removed") : rc;
}

static int not_in_time(enum redrive_state state, int64_t timeout_ms, struct redrive_err *err)
{
    char span[DURATION_TEXT_MAX];
    (void)err_set(err, REDRIVE_E_STATE, "the job has not ended after %s",
                  duration_format(timeout_ms, span));
    err_detail(err, "it is %s, and goes on", redrive_state_name(state));
    return REDRIVE_E_STATE;
}

static int wait_for_change(struct session *session, int64_t ms, struct redrive_err *err)
{
    struct store *store = session->store;
    if (!session->remote)
        return store_ops(store)->wait(store, ms < LOOK_MS ? ms : LOOK_MS, NULL, err);
    (void)poll(NULL, 0, ms < ASK_MS ? (int)ms : ASK_MS);
    return 0;
}

/* The page has the job as it was seen last. */
static int wait_for_end(struct session *session, const struct waited *job, int64_t timeout_ms,
                        struct job_page *ret, struct redrive_err *err)
{
    const int64_t until_ms = clock_monotonic_ms() + timeout_ms;
    for (;;) {
        int rc = read_job(session, job, ret, err);
        if (rc < 0 || state_has_ended(ret->jobs[0].status.state))
            return rc;
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        if (left_ms <= 0)
            return not_in_time(ret->jobs[0].status.state, timeout_ms, err);
        rc = wait_for_change(session, left_ms, err);
        if (rc < 0)
            return rc;
    }
}

/* A result goes to a program byte for byte, to a terminal without what would steer it. */
static int print_end(struct cli *cli, const struct submit_answer *a, struct str result,
                     struct redrive_err *err)
{
    struct buf out;
    buf_init(&out, OUTPUT_MAX_BYTES);
    if (cli->globals->json) {
        put_end(a, result, &out);
    } else {
        buf_printf(&out, "%s\n", redrive_state_name(a->state));
        if (cli->out.is_tty) {
            text_add_clean_lines(&out, result, 0);
        } else if (result.len > 0) {
            buf_add_str(&out, result);
            buf_puts(&out, result.ptr[result.len - 1] == '\n' ? "" : "\n");
        }
    }
    return cli_print(cli, &out, err);
}

static int blame(const struct job_status *status, struct redrive_err *err)
{
    if (status->state == REDRIVE_STATE_CANCELLED)
        return err_set(err, REDRIVE_E_CANCELLED, "the job was cancelled");
    if (status->state == REDRIVE_STATE_COMPLETED)
        return 0;
    (void)err_set(err, REDRIVE_E_JOB_FAILED, "the job ended as %s",
                  redrive_state_name(status->state));
    RELEASED_BY(buf_release) struct buf why = BUF_MAX(OUTPUT_MAX_BYTES);
    if (status->error.class_ != REDRIVE_CLASS_SUCCESS)
        job_add_error_text(&why, str_of(redrive_class_name(status->error.class_)),
                           status->error.type, status->error.message);
    err_detail(err, "%s", buf_cstr(&why));
    return REDRIVE_E_JOB_FAILED;
}

/* The id is printed before the wait, so that a user who ends the wait has it. JSON is one object,
 * with the state at the end, or that in which the job was seen last. */
int enqueue_wait(struct cli *cli, struct session *session, const struct job_spec *spec,
                 struct submit_answer *a, int64_t timeout_ms, struct redrive_err *err)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    const struct str tenant = spec->tenant.len ? spec->tenant : STR(ENGINE_TENANT_DEFAULT);
    const struct waited job = {arena_dup(&arena, tenant), arena_dup(&arena, a->id)};
    RELEASED_BY(job_page_release) struct job_page page = {0};
    int rc = cli->globals->json ? 0 : enqueue_print_answer(cli, a, err);
    if (arena.failed)
        return err_nomem(err);
    if (rc == 0) {
        rc = wait_for_end(session, &job, timeout_ms, &page, err);
        if (page.n > 0)
            a->state = page.jobs[0].status.state;
        if (rc < 0 && cli->globals->json)
            (void)enqueue_print_answer(cli, a, NULL);
    }
    if (rc == 0) {
        const struct job_status *status = &page.jobs[0].status;
        const bool is_done = status->state == REDRIVE_STATE_COMPLETED;
        rc = print_end(cli, a, is_done ? status->result : (struct str){0}, err);
        if (rc == 0)
            rc = blame(status, err);
    }
    return rc;
}
