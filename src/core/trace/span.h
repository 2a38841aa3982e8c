/* span.h - spans, and how they are written for a collector: OTLP over HTTP, as JSON.
 *
 * By the protocol (opentelemetry-proto, and the JSON mapping of its specification): ids in hex,
 * 64-bit integers as strings, enumerations as numbers. The names of attributes follow
 * OpenTelemetry's conventions for messaging as far as these go; they are all in span.c.
 *
 * Pure.
 */
#ifndef CORE_TRACE_SPAN_H
#define CORE_TRACE_SPAN_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/json/writer.h"
#include "base/text/buf.h"
#include "core/trace/context.h"

enum trace_operation {
    TRACE_SUBMIT,  /* jobs were given to the queue */
    TRACE_ATTEMPT, /* a job was run once */
};

/* Absent strings and zeros are left out. */
struct trace_span {
    enum trace_operation operation;
    struct trace_context context;
    uint64_t parent;   /* 0: it begins the trace */
    uint64_t previous; /* a span of the same trace that it has a link to; 0: none */
    int64_t start_ms;  /* wall clock */
    int64_t end_ms;
    struct str tenant;
    struct str task;
    struct str queue;
    struct str job_id;
    struct str worker;
    uint32_t n_jobs; /* of one submit */
    uint32_t attempt;
    uint32_t max_attempts;
    const char *outcome; /* the state that it has led to */
    const char *error;   /* a failure class, or the name of an error; NULL: it went well */
    struct str message;  /* of the error; it is cut after TRACE_MESSAGE_MAX bytes */
};

#define TRACE_MESSAGE_MAX 1024

/* Appends the span as a JSON object. Failures are the buffer's. */
void trace_span_write(const struct trace_span *span, struct buf *out);

/* ---- A batch: what stands before the spans, commas between them, what stands after ------------
 */

/* A name and a value of the resource: which program this is, where it runs. */
struct trace_attribute {
    struct str name;
    struct str value;
};

void trace_batch_begin(const struct trace_attribute *resource, size_t n, struct buf *out);
void trace_batch_end(struct buf *out);

/* How many spans a collector says that it has refused, in its answer to a batch; 0 when it does not
 * say so. */
int64_t trace_refused_spans(struct str answer);

/* ---- Where spans go -------------------------------------------------------------------------- */

/* Spans since the start of the process. */
struct trace_counts {
    _Atomic uint64_t sent;
    _Atomic uint64_t dropped;
};

/* For the parts of a program that make spans. */
struct tracing {
    struct trace_sampler sampler;
    /* Takes a copy of a sampled span. Any thread; it never waits for a collector. */
    void (*add)(const struct trace_span *span, void *ctx);
    void *ctx;
    struct trace_counts *counts;
};

/* NULL: attempts are no spans. */
static inline const struct trace_sampler *tracing_sampler(const struct tracing *tracing)
{
    return tracing ? &tracing->sampler : NULL;
}

#endif
