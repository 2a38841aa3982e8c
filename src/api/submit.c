/* submit.c - new jobs. */
#include "api/api.h"
#include "api/new_job.h"
#include "base/err.h"
#include "base/text/encode.h"

/* ---- What is asked for ----------------------------------------------------------------------- */

/* The key is the id of a job, or in an array the beginning of it. */
static int check_key(const struct api_context *c, struct redrive_err *err)
{
    const struct str key = c->input->key;
    const bool is_good = key.len > 0 && utf8_valid(key) && !str_has_control(key);
    if (!key.ptr || (is_good && key.len <= API_KEY_MAX))
        return 0;
    int rc = is_good ? REDRIVE_E_TOO_BIG : REDRIVE_E_INVALID;
    (void)err_set(err, rc, API_KEY_NAME ": it is %s", is_good ? "too long" : "empty or not text");
    err_detail(err, "expected 1 to %d bytes", API_KEY_MAX);
    return api_note_fault(c, rc, API_KEY_NAME);
}

/* A job without an id gets the key for one, in an array KEY/0, KEY/1 …; one that belongs to no
 * trace belongs to that of the request. */
static void add_input(const struct api_context *c, bool is_array, struct job_spec *specs, size_t n)
{
    const struct api_input *input = c->input;
    const struct str key = input->key;
    for (size_t i = 0; i < n; i++) {
        struct job_spec *spec = &specs[i];
        if (key.ptr && spec->id.len == 0)
            spec->id = is_array
                           ? str_of(arena_printf(c->arena, "%.*s/%zu", (int)key.len, key.ptr, i))
                           : key;
        if (input->traceparent.ptr && trace_kept(spec->policy).len == 0)
            spec->policy = trace_keep(input->traceparent, spec->policy, c->arena);
    }
}

static int begin_submit(const struct api_context *c, struct api_change *change,
                        struct job_spec *specs, size_t n, struct redrive_err *err)
{
    add_input(c, change->is_array, specs, n);
    if (c->arena->failed)
        return err_nomem(err);
    int rc = submit_op_init(&change->submit, c->engine, specs, n, err);
    if (rc < 0)
        return rc;
    change->submit.whole = true;
    change->submit.key = c->input->key;
    return 0;
}

static int begin_jobs(const struct api_context *c, struct api_change *change,
                      struct redrive_err *err)
{
    const struct new_jobs_input input = {
        .text = c->input->body, .tenant = c->tenant, .now_ms = c->now_ms};
    struct new_jobs jobs;
    int rc = check_key(c, err);
    if (rc < 0)
        return rc;
    rc = new_jobs_read(&input, c->arena, &jobs, err);
    if (rc < 0)
        return api_note_fault(c, rc, jobs.field);
    change->status = 201;
    change->is_array = jobs.is_array;
    return begin_submit(c, change, jobs.specs, jobs.n, err);
}

/* No body is no payload; one of nothing but space is no JSON, and is refused as such. */
static struct str payload_of(struct str body)
{
    const struct str text = str_trim(body);
    return text.len > 0 ? text : body;
}

static int begin_task(const struct api_context *c, struct api_change *change,
                      struct redrive_err *err)
{
    struct job_spec spec = {
        .tenant = c->tenant, .task = c->name, .payload = payload_of(c->input->body)};
    int rc = check_key(c, err);
    change->status = 202;
    return rc == 0 ? begin_submit(c, change, &spec, 1, err) : rc;
}

static void release_submit(struct api_change *change)
{
    submit_op_release(&change->submit);
}

/* ---- What became of it ----------------------------------------------------------------------- */

static int refuse_submit(const struct api_change *change, size_t i, const char **ret_field,
                         struct redrive_err *err)
{
    const struct submit_answer *a = &change->submit.answers[i];
    const char *member = a->member;
    if (a->code == REDRIVE_E_EXISTS)
        *ret_field = API_KEY_NAME;
    else if (change->is_array)
        *ret_field =
            arena_printf(change->arena, "[%zu]%s%s", i, member ? "." : "", member ? member : "");
    else
        *ret_field = member;
    *err = *a->err;
    return a->code;
}

static void write_answer(struct json_writer *w, const struct submit_answer *a)
{
    json_begin_object(w);
    json_field_string(w, "id", a->id);
    json_field_cstr(w, "state", redrive_state_name(a->state));
    json_field_bool(w, "existed", a->existed);
    json_end_object(w);
}

static int end_submit(struct api_change *change, struct json_writer *w, const char **ret_field,
                      struct redrive_err *err)
{
    const struct submit_op *op = &change->submit;
    const size_t refused = submit_first_refused(op);
    *ret_field = NULL;
    if (op->op.code < 0) {
        *err = op->op.err;
        return op->op.code;
    }
    if (refused < op->n)
        return refuse_submit(change, refused, ret_field, err);
    if (!change->is_array) {
        change->job_id = arena_str(change->arena, op->answers[0].id);
        write_answer(w, &op->answers[0]);
        return API_ANSWERED;
    }
    json_begin_object(w);
    json_open_array(w, "items");
    for (size_t i = 0; i < op->n; i++)
        write_answer(w, &op->answers[i]);
    json_end_array(w);
    json_end_object(w);
    return API_ANSWERED;
}

const struct operation API_SUBMIT = {
    .method = API_POST,
    .path = "/jobs",
    .summary = "Submit a job, or an array of up to 1000, all or none",
    .scope = CONFIG_SCOPE_ENQUEUE,
    .body = {NEW_JOB_FIELDS},
    .begin = begin_jobs,
    .end = end_submit,
    .release = release_submit,
};
const struct operation API_SUBMIT_TASK = {
    .method = API_POST,
    .path = "/tasks/{task}",
    .summary = "Submit a job whose payload is the body",
    .scope = CONFIG_SCOPE_ENQUEUE,
    .begin = begin_task,
    .end = end_submit,
    .release = release_submit,
};
