/* jobs.c - jobs of a server, read back into what the stores give. */
#include "cli/remote/remote.h"

#include <stdio.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "core/experiment/arm.h"
#include "store/after_json.h"
#include "store/job_json.h"

/* ---- Changes --------------------------------------------------------------------------------- */

int remote_job_change(struct remote *remote, const char *method, const char *before, struct str id,
                      const char *after, struct str body, enum redrive_state *ret_state,
                      struct redrive_err *err)
{
    static const struct unpack STATE[] = {{"state", UNPACK_WORD, 0, .words = VOCABULARY_STATE},
                                          {0}};
    const struct remote_request request = {method, before, id, after, body};
    RELEASED_BY(arena_release) struct arena arena = {0};
    int state = -1;
    int rc = remote_ask(remote, &request, STATE, &arena, &state, err);
    if (rc >= 0 && state >= 0)
        *ret_state = (enum redrive_state)state;
    return rc < 0 ? rc : 0;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

int remote_tasks(struct remote *remote, struct arena *arena, struct remote_task **ret,
                 size_t *ret_n, struct redrive_err *err)
{
    static const struct unpack COUNTERS[] = {
        {.key = "jobs_started", UNPACK_U64, offsetof(struct remote_task, started)}, {0}};
    static const struct unpack TASKS[] = {
        {.key = "task", UNPACK_STR, offsetof(struct remote_task, name)},
        {.key = "declared", UNPACK_BOOL, offsetof(struct remote_task, is_declared)},
        {.key = "counters", UNPACK_OBJECT, 0, .object = COUNTERS},
        {0},
    };
    struct unpack_list list = {0};
    int rc = remote_get_list(remote, "/tasks", TASKS, sizeof **ret, NULL, arena, &list, err);
    *ret = list.rows;
    *ret_n = rc < 0 ? 0 : list.n;
    return rc;
}

/* ---- New jobs -------------------------------------------------------------------------------- */

static void put_text(struct json_writer *w, const char *key, struct str value)
{
    if (value.len > 0)
        json_field_string(w, key, value);
}

static void put_raw(struct json_writer *w, const char *key, struct str value)
{
    if (value.len == 0)
        return;
    json_key(w, key);
    json_put_raw(w, value);
}

static void put_failed(struct json_writer *w, const struct job_failed *failed)
{
    json_key(w, "failed");
    json_begin_object(w);
    json_field_cstr(w, "class", redrive_class_name(failed->error.class_));
    json_field_cstr(w, "reason", redrive_reason_name(failed->reason));
    put_text(w, "error_type", failed->error.type);
    put_text(w, "message", failed->error.message);
    put_text(w, "stacktrace", failed->error.stacktrace);
    json_end_object(w);
}

/* The tenant is that of the token. Payload and policy have been checked: they are JSON. */
static void put_spec(struct json_writer *w, const struct job_spec *spec)
{
    json_begin_object(w);
    put_text(w, "task", spec->task);
    put_text(w, "id", spec->id);
    put_text(w, "queue", spec->queue);
    put_raw(w, "payload", spec->payload);
    put_text(w, "user", spec->user);
    put_text(w, "project", spec->project);
    put_text(w, "service", spec->service);
    put_text(w, "unique_key", spec->unique_key);
    if (spec->unique_forever)
        json_field_cstr(w, "unique", "forever");
    if (spec->priority != 0)
        json_field_int(w, "priority", spec->priority);
    if (spec->process_after_ms != 0)
        job_write_time(w, "at", spec->process_after_ms);
    if (spec->delay_ms != 0)
        json_field_double(w, "delay", (double)spec->delay_ms / 1000);
    if (spec->deadline_ms != 0)
        job_write_time(w, "deadline", spec->deadline_ms);
    after_write_json(w, spec);
    RELEASED_BY(buf_release) struct buf policy = BUF_MAX(spec->policy.len + 1);
    put_raw(w, "retry", trace_own_policy(spec->policy, &policy));
    put_text(w, "traceparent", trace_kept(spec->policy));
    if (spec->failed)
        put_failed(w, spec->failed);
    json_end_object(w);
}

#define ANSWER(m) offsetof(struct submit_answer, m)
static const struct unpack ANSWERS[] = {
    {.key = "id", UNPACK_STR, ANSWER(id)},
    {.key = "state", UNPACK_WORD, ANSWER(state), .words = VOCABULARY_STATE},
    {.key = "existed", UNPACK_BOOL, ANSWER(existed)},
    {0},
};

static int take_answers(struct str text, size_t n, struct submit_answer *ret, struct arena *arena,
                        struct redrive_err *err)
{
    struct unpack_list list = {0};
    if (n == 1)
        return unpack_object(text, ANSWERS, arena, ret, err);
    int rc = unpack_list(text, ANSWERS, sizeof *ret, NULL, arena, &list, err);
    if (rc == 0 && list.n != n)
        rc = err_set(err, REDRIVE_E_PARSE, "the answer of the server is about %zu jobs of %zu",
                     list.n, n);
    if (rc == 0)
        memcpy(ret, list.rows, n * sizeof *ret);
    return rc;
}

int remote_submit(struct remote *remote, const struct job_spec *specs, size_t n,
                  struct submit_answer *ret, struct arena *arena, struct redrive_err *err)
{
    struct json_writer w;
    RELEASED_BY(buf_release) struct buf path = BUF_MAX(REMOTE_PATH_MAX);
    RELEASED_BY(buf_release) struct buf body = BUF_MAX(HTTP_CLIENT_BODY_MAX);
    RELEASED_BY(http_answer_release) struct http_answer answer;
    http_answer_init(&answer);
    json_writer_init(&w, &body);
    if (n > 1)
        json_begin_array(&w);
    for (size_t i = 0; i < n; i++)
        put_spec(&w, &specs[i]);
    if (n > 1)
        json_end_array(&w);
    buf_puts(&path, "/jobs");
    int rc = buf_failed(&body) ? err_nomem(err) : 0;
    if (rc == 0)
        rc = remote_call(remote, "POST", &path, buf_str(&body), &answer, err);
    return rc == 0 ? take_answers(buf_str(&answer.body), n, ret, arena, err) : rc;
}
