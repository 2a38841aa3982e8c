/* routes_jobs.c - jobs: submit; and the operations on them. */
#include "server/rest/private.h"

#include "base/rng.h"
#include "server/rest/resource.h"

/* ---- New jobs -------------------------------------------------------------------------------- */

/* The jobs of a request with a traceparent belong to that trace. With tracing the request is a span
 * of it, and the parent of their attempts. */
static void join_trace(struct rest_call *call, struct api_input *input)
{
    const struct tracing *tracing = call->rest->tracing;
    struct trace_context parent;
    char text[TRACEPARENT_LEN + 1];
    if (!traceparent_read(http_header(call->request, "traceparent"), &parent))
        return;
    if (tracing && (call->span = arena_alloc(http_arena(call->request), sizeof *call->span))) {
        const uint64_t number = atomic_fetch_add(&call->rest->n_spans, 1);
        *call->span = (struct trace_span){
            .operation = TRACE_SUBMIT,
            .context = trace_child(&tracing->sampler, &parent, rng_mix(call->rest->seed ^ number)),
            .parent = parent.span,
            .start_ms = rest_now_ms(call),
        };
        parent = call->span->context;
    }
    traceparent_write(&parent, text);
    input->traceparent = arena_str(http_arena(call->request), str_of(text));
}

static void before_submit(struct rest_call *call, struct api_input *input)
{
    input->key = http_header(call->request, API_KEY_NAME);
    join_trace(call, input);
}

static void end_span(struct rest_call *call, const struct api_change *change)
{
    const struct submit_op *op = &change->submit;
    const size_t refused = submit_first_refused(op);
    const int code = op->op.code < 0   ? op->op.code
                     : refused < op->n ? op->answers[refused].code
                                       : 0;
    struct trace_span *span = call->span;
    if (!span || !(span->context.flags & TRACE_SAMPLED))
        return;
    span->end_ms = rest_now_ms(call);
    span->tenant = op->specs[0].tenant;
    span->task = op->specs[0].task;
    span->queue = op->specs[0].queue;
    span->job_id = op->n == 1 && code == 0 ? op->answers[0].id : (struct str){0};
    span->n_jobs = op->n > 1 ? (uint32_t)op->n : 0;
    span->error = code < 0 ? redrive_err_name(code) : NULL;
    call->rest->tracing->add(span, call->rest->tracing->ctx);
}

const struct rest_route REST_JOBS[] = {
    {.operation = &API_JOBS},
    {.operation = &API_JOB},
    {.operation = &API_WORKFLOW},
    {.operation = &API_CANCEL},
    {.operation = &API_RETRY},
    {.operation = &API_SUBMIT, .before = before_submit, .after = end_span},
    {.operation = &API_SUBMIT_TASK, .before = before_submit, .after = end_span},
    {0},
};
