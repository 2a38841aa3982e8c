/* answer.c - prints what became of a submit, and waits for the end of a job. */
#include "cli/commands/enqueue/private.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "cli/jobs/list.h"
#include "cli/output/term.h"
#include "core/state.h"
#include "core/vocabulary.h"

/* How long a look at the store lasts at most; a store that notifies answers sooner. */
#define LOOK_MS 500
/* How long until a server is asked again. */
#define ASK_MS 200

/* Above any result, though every byte of it were escaped. */
#define OUTPUT_MAX_BYTES (16u * 1024 * 1024)

/* ---- Answers --------------------------------------------------------------------------------- */

/* What was answered, in a state, with one more member, unless `name` is NULL. */
static void put_json(const struct object *job, struct str state, const char *name, struct str value,
                     struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_string(&w, "id", object_text(job, "id"));
    json_field_string(&w, "state", state);
    json_field_bool(&w, "existed", object_bool(job, "existed"));
    if (name) {
        json_key(&w, name);
        json_put_raw(&w, value);
    }
    json_end_object(&w);
}

void enqueue_put_answer(const struct cli *cli, const struct object *job, uint64_t line,
                        struct buf *out)
{
    char number[24];
    if (cli->globals->json) {
        (void)snprintf(number, sizeof number, "%" PRIu64, line);
        put_json(job, object_text(job, "state"), line > 0 ? "line" : NULL, str_of(number), out);
    } else {
        text_add_clean(out, object_text(job, "id"));
    }
    buf_putc(out, '\n');
}

int enqueue_print_answer(struct cli *cli, const struct object *job, struct redrive_err *err)
{
    struct buf out;
    buf_init(&out, OUTPUT_MAX_BYTES);
    enqueue_put_answer(cli, job, 0, &out);
    int rc = cli_print(cli, &out, err);
    (void)fflush(cli->out.file);
    return rc;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static int not_in_time(struct str state, int64_t timeout_ms, struct redrive_err *err)
{
    char span[DURATION_TEXT_MAX];
    (void)err_set(err, REDRIVE_E_STATE, "the job has not ended after %s",
                  duration_format(timeout_ms, span));
    err_detail(err, "it is %.*s, and goes on", (int)state.len, state.ptr);
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

/* A state of a newer server is none that a job ends in. */
static bool has_ended(struct str state)
{
    const int number = vocabulary_find(VOCABULARY_STATE, state);
    return number >= 0 && state_has_ended((enum redrive_state)number);
}

/* The answer has the job as it was seen last. */
static int wait_for_end(struct session *session, const struct ask *ask, int64_t timeout_ms,
                        struct answer *ret, struct redrive_err *err)
{
    const int64_t until_ms = clock_monotonic_ms() + timeout_ms;
    for (;;) {
        answer_release(ret);
        int rc = answer_ask(session, ask, ret, err);
        if (rc == REDRIVE_E_NOT_FOUND)
            return err_set(err, rc, "the job was removed");
        const struct str state = object_text(&ret->object, "state");
        if (rc < 0 || has_ended(state))
            return rc;
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        if (left_ms <= 0)
            return not_in_time(state, timeout_ms, err);
        rc = wait_for_change(session, left_ms, err);
        if (rc < 0)
            return rc;
    }
}

/* A result goes to a program as it is, to a terminal without what would steer it. */
static void put_result(const struct cli *cli, struct str result, struct buf *out)
{
    if (cli->out.is_tty) {
        text_add_clean_lines(out, result, 0);
    } else if (result.len > 0) {
        buf_add_str(out, result);
        buf_puts(out, result.ptr[result.len - 1] == '\n' ? "" : "\n");
    }
}

/* `submitted` is what the submit has answered, `job` what has become of it: nothing, if it could
 * not be seen. */
static int print_end(struct cli *cli, const struct object *submitted, const struct object *job,
                     bool has_ended, struct redrive_err *err)
{
    const struct str seen = object_text(job, "state");
    const bool is_done = str_is(seen, redrive_state_name(REDRIVE_STATE_COMPLETED));
    const struct str result = is_done ? object_json(job, "result") : (struct str){0};
    struct buf out;
    buf_init(&out, OUTPUT_MAX_BYTES);
    if (cli->globals->json)
        put_json(submitted, seen.len > 0 ? seen : object_text(submitted, "state"),
                 has_ended ? "result" : NULL, result.ptr ? result : STR("null"), &out);
    else
        text_add_clean(&out, seen);
    buf_putc(&out, '\n');
    if (is_done && !cli->globals->json)
        put_result(cli, object_value(job, "result", "result_bytes"), &out);
    return cli_print(cli, &out, err);
}

static int blame(const struct object *job, struct redrive_err *err)
{
    const struct str state = object_text(job, "state");
    const struct object error = object_object(job, "last_error");
    if (str_is(state, redrive_state_name(REDRIVE_STATE_CANCELLED)))
        return err_set(err, REDRIVE_E_CANCELLED, "the job was cancelled");
    if (str_is(state, redrive_state_name(REDRIVE_STATE_COMPLETED)))
        return 0;
    (void)err_set(err, REDRIVE_E_JOB_FAILED, "the job ended as %.*s", (int)state.len, state.ptr);
    RELEASED_BY(buf_release) struct buf why = BUF_MAX(OUTPUT_MAX_BYTES);
    job_add_error(&why, &error);
    err_detail(err, "%s", buf_cstr(&why));
    return REDRIVE_E_JOB_FAILED;
}

/* The id is printed before the wait, so that a user who ends the wait has it. JSON is one object,
 * with the state at the end, or that in which the job was seen last. */
int enqueue_wait(struct cli *cli, struct session *session, const struct object *job,
                 struct str tenant, int64_t timeout_ms, struct redrive_err *err)
{
    const struct ask ask = {.operation = &API_JOB,
                            .tenant = tenant.ptr ? tenant : STR(ENGINE_TENANT_DEFAULT),
                            .name = object_text(job, "id")};
    RELEASED_BY(answer_release) struct answer seen = {0};
    int rc = cli->globals->json ? 0 : enqueue_print_answer(cli, job, err);
    if (rc < 0)
        return rc;
    rc = wait_for_end(session, &ask, timeout_ms, &seen, err);
    if (rc < 0) {
        if (cli->globals->json)
            (void)print_end(cli, job, &seen.object, false, NULL);
        return rc;
    }
    rc = print_end(cli, job, &seen.object, true, err);
    return rc == 0 ? blame(&seen.object, err) : rc;
}
