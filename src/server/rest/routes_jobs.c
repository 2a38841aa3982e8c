/* routes_jobs.c - jobs: submit; and the operations on them. */
#include "server/rest/private.h"

#include <stdio.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/text/encode.h"
#include "engine/engine.h"
#include "server/rest/body/job.h"
#include "server/rest/body/views.h"
#include "server/rest/resource.h"

/* ---- New jobs -------------------------------------------------------------------------------- */

/* A request for new jobs: POST /jobs or POST /tasks/{task}. */
struct submission {
    struct submit_op submit; /* first */
    bool is_array;
    bool body_is_payload;
    int status;             /* of success */
    struct str key;         /* Idempotency-Key */
    struct trace_span span; /* its flags say whether it is sampled */
};

/* Which member was at fault. Names and numbers have been looked at before, so that little is left.
 */
static const char *faulty_member(const struct submission *s, size_t i)
{
    const struct submit_answer *a = &s->submit.answers[i];
    const struct job_spec *spec = &s->submit.specs[i];
    struct config_part *box = NULL;
    if (a->err && str_starts_with(str_of(a->err->message), STR("after: ")))
        return "after";
    if (!a->invalid)
        return NULL;
    if (spec->policy.len > 0 && policy_parse_json(spec->policy, NULL, &box, NULL) < 0)
        return "retry";
    config_part_free(box);
    if (a->code == REDRIVE_E_UNKNOWN || spec->task.len > FIELD_NAME_MAX)
        return "task";
    return s->body_is_payload && !a->lacks_payload && a->code == REDRIVE_E_INVALID ? "task"
                                                                                   : "payload";
}

static void refuse(struct rest_call *call, const struct submission *s, size_t i)
{
    char field[64] = "";
    const char *member = faulty_member(s, i);
    if (s->submit.answers[i].code == REDRIVE_E_EXISTS)
        (void)snprintf(field, sizeof field, "Idempotency-Key");
    else if (s->is_array)
        (void)snprintf(field, sizeof field, "[%zu]%s%s", i, member ? "." : "",
                       member ? member : "");
    else if (member)
        (void)snprintf(field, sizeof field, "%s", member);
    kit_fail(call, s->submit.answers[i].err, field);
}

/* The first that was refused for a reason of its own; n: none. */
static size_t first_refused(const struct submit_op *op)
{
    size_t i = 0;
    while (i < op->n && (op->answers[i].code == 0 || op->answers[i].code == REDRIVE_E_CANCELLED))
        i++;
    return i;
}

static void write_answers(struct json_writer *w, const struct submission *s)
{
    if (!s->is_array) {
        view_submitted(w, &s->submit.answers[0]);
        return;
    }
    json_begin_object(w);
    json_open_array(w, "items");
    for (size_t i = 0; i < s->submit.n; i++)
        view_submitted(w, &s->submit.answers[i]);
    json_end_array(w);
    json_end_object(w);
}

/* Where a job can be looked at: in an array there is more than one such place. */
static void add_location(struct rest_call *call, const struct submission *s)
{
    if (s->is_array)
        return;
    RELEASED_BY(buf_release) struct buf path = BUF_MAX(4 * FIELD_NAME_MAX);
    buf_puts(&path, "/v1/jobs/");
    percent_encode(s->submit.answers[0].id, &path);
    const char *copy =
        buf_failed(&path) ? NULL : arena_dup(http_arena(call->request), buf_str(&path));
    if (copy)
        rest_header(call, "Location", copy);
}

/* ---- Their trace ----------------------------------------------------------------------------- */

/* The jobs of a request with a traceparent belong to that trace. With tracing the request is a span
 * of it, and the parent of their attempts. A job that has one of its own keeps it. */
static void join_trace(struct rest_call *call, struct submission *s, struct job_spec *specs,
                       size_t n)
{
    const struct tracing *tracing = call->rest->tracing;
    struct trace_context parent;
    char text[TRACEPARENT_LEN + 1];
    if (!traceparent_read(http_header(call->request, "traceparent"), &parent))
        return;
    if (tracing) {
        const uint64_t number = atomic_fetch_add(&call->rest->n_spans, 1);
        s->span = (struct trace_span){
            .operation = TRACE_SUBMIT,
            .context = trace_child(&tracing->sampler, &parent, rng_mix(call->rest->seed ^ number)),
            .parent = parent.span,
            .start_ms = rest_now_ms(call),
        };
        parent = s->span.context;
    }
    traceparent_write(&parent, text);
    for (size_t i = 0; i < n; i++)
        if (trace_kept(specs[i].policy).len == 0)
            specs[i].policy = trace_keep(str_of(text), specs[i].policy, http_arena(call->request));
}

/* The operation has been answered. */
static void end_span(const struct rest_call *call, struct submission *s)
{
    const struct submit_op *op = &s->submit;
    const size_t refused = first_refused(op);
    const int code = op->op.code < 0   ? op->op.code
                     : refused < op->n ? op->answers[refused].code
                                       : 0;
    if (!(s->span.context.flags & TRACE_SAMPLED) || op->n == 0)
        return;
    s->span.end_ms = rest_now_ms(call);
    s->span.tenant = op->specs[0].tenant;
    s->span.task = op->specs[0].task;
    s->span.queue = op->specs[0].queue;
    s->span.job_id = op->n == 1 && code == 0 ? op->answers[0].id : (struct str){0};
    s->span.n_jobs = op->n > 1 ? (uint32_t)op->n : 0;
    s->span.error = code < 0 ? redrive_err_name(code) : NULL;
    call->rest->tracing->add(&s->span, call->rest->tracing->ctx);
}

/* ---- New jobs, their answers ----------------------------------------------------------------- */

/* What is sent is a copy; the request and all that is in its arena are gone afterwards. */
static void submitted(struct rest_call *call, struct op *op)
{
    struct submission *s = (struct submission *)(void *)op;
    struct submit_op kept = s->submit;
    const size_t refused = first_refused(&s->submit);
    end_span(call, s);
    if (op->code < 0) {
        rest_fail(call, &op->err, NULL);
    } else if (refused < s->submit.n) {
        refuse(call, s, refused);
    } else {
        add_location(call, s);
        write_answers(rest_json(call), s);
        rest_send(call, s->status);
    }
    submit_op_release(&kept);
}

static void submit(struct rest_call *call, struct job_spec *specs, size_t n,
                   const struct submission *pattern)
{
    struct submission *s = kit_alloc(call, sizeof *s);
    struct redrive_err err = {0};
    if (!s)
        return;
    *s = *pattern;
    join_trace(call, s, specs, n);
    if (http_arena(call->request)->failed) {
        kit_nomem(call);
        return;
    }
    if (submit_op_init(&s->submit, committer_engine(call->rest->committer), specs, n, &err) < 0) {
        rest_fail(call, &err, NULL);
        return;
    }
    s->submit.whole = true;
    s->submit.key = s->key;
    rest_commit(call, &s->submit.op, submitted);
}

static struct str idempotency_key(const struct rest_call *call)
{
    return http_header(call->request, "Idempotency-Key");
}

static void post_jobs(struct rest_call *call)
{
    struct redrive_err err = {0};
    struct job_body body;
    int rc = job_body_read(http_body(call->request), call->principal.tenant, idempotency_key(call),
                           rest_now_ms(call), http_arena(call->request), &body, &err);
    if (rc < 0) {
        kit_fail(call, &err, body.field);
        return;
    }
    const struct submission pattern = {
        .is_array = body.is_array, .status = 201, .key = idempotency_key(call)};
    submit(call, body.specs, body.n, &pattern);
}

/* No body is no payload; one of nothing but space is no JSON, and is refused as such. */
static struct str payload_of(struct str body)
{
    const struct str text = str_trim(body);
    return text.len > 0 ? text : body;
}

static void post_task(struct rest_call *call)
{
    const struct str key = idempotency_key(call);
    const struct submission pattern = {.body_is_payload = true, .status = 202, .key = key};
    struct redrive_err err = {0};
    struct job_spec spec = {
        .tenant = call->principal.tenant,
        .task = call->params[0],
        .id = key,
        .payload = payload_of(http_body(call->request)),
    };
    if (key.ptr && job_body_check_key(key, &err) < 0)
        rest_fail(call, &err, "Idempotency-Key");
    else
        submit(call, &spec, 1, &pattern);
}

const struct rest_route REST_JOBS[] = {
    {.operation = &API_JOBS},
    {.operation = &API_JOB},
    {.operation = &API_WORKFLOW},
    {.operation = &API_CANCEL},
    {.operation = &API_RETRY},
    {HTTP_POST, "/jobs", CONFIG_SCOPE_ENQUEUE, false, post_jobs},
    {HTTP_POST, "/tasks/{task}", CONFIG_SCOPE_ENQUEUE, false, post_task},
    {0},
};
