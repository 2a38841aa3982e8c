/* spans.c - a span of each attempt that has ended. */
#include "engine/report/spans.h"

void spans_event(const struct tracing *tracing, const struct engine_event *event)
{
    if (!tracing || !event->ran || event->kind == ENGINE_EVENT_RELEASED)
        return;
    const struct trace_job job = {
        .tenant = event->tenant,
        .id = event->id,
        .created_ms = event->created_ms,
        .epoch = event->epoch,
        .attempt = event->attempt,
        .traceparent = event->traceparent,
    };
    const struct trace_attempt attempt = trace_attempt(&tracing->sampler, &job);
    if (!(attempt.context.flags & TRACE_SAMPLED))
        return;
    const bool has_failed = event->class_ != REDRIVE_CLASS_SUCCESS;
    const struct trace_span span = {
        .operation = TRACE_ATTEMPT,
        .context = attempt.context,
        .parent = attempt.parent,
        .previous = attempt.previous,
        .start_ms = event->at_ms - event->run_ms,
        .end_ms = event->at_ms,
        .tenant = event->tenant,
        .task = event->task,
        .queue = event->queue,
        .job_id = event->id,
        .worker = event->worker,
        .attempt = event->attempt,
        .max_attempts = event->max_attempts,
        .outcome = engine_event_name(event->kind),
        .error = has_failed ? redrive_class_name(event->class_) : NULL,
        .message = event->message,
    };
    tracing->add(&span, tracing->ctx);
}
