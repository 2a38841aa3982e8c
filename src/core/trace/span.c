/* span.c - spans as JSON of OTLP. */
#include "core/trace/span.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/json/json.h"

#define STATUS_ERROR 2

/* The conventions for messaging are in development: what changes there changes here alone. */
static const struct {
    const char *verb; /* begins the span's name */
    int kind;         /* of OTLP: 4 producer, 5 consumer */
    const char *type; /* messaging.operation.type */
} OPERATIONS[] = {
    [TRACE_SUBMIT] = {"submit", 4, "send"},
    [TRACE_ATTEMPT] = {"process", 5, "process"},
};

/* ---- Values ---------------------------------------------------------------------------------- */

static void put_hex(struct json_writer *w, const char *key, const uint64_t *words, int n)
{
    char text[33];
    for (int i = 0; i < 16 * n; i++)
        text[i] = "0123456789abcdef"[words[i / 16] >> (60 - i % 16 * 4) & 15];
    text[16 * n] = '\0';
    json_field_cstr(w, key, text);
}

static void put_nanoseconds(struct json_writer *w, const char *key, int64_t ms)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64 "000000", ms);
    json_field_cstr(w, key, ms > 0 ? text : "0");
}

/* Attributes are most of a span, and all but their values is known here: `before` is what stands
 * before the value. The first of a list has no comma. */
#define KEY(name, type) "{\"key\":\"" name "\",\"value\":{\"" type "\":"
#define TEXT(name)      "," KEY(name, "stringValue")
#define NUMBER(name)    "," KEY(name, "intValue")

static void put_text(struct buf *out, const char *before, struct str value)
{
    struct json_writer w;
    if (value.len == 0)
        return;
    json_writer_init(&w, out);
    (void)buf_puts(out, before);
    json_put_string(&w, value);
    (void)buf_puts(out, "}}");
}

static void put_number(struct buf *out, const char *before, uint32_t value)
{
    char text[16];
    if (value == 0)
        return;
    (void)snprintf(text, sizeof text, "%" PRIu32, value);
    put_text(out, before, str_of(text));
}

/* ---- A span ---------------------------------------------------------------------------------- */

static void put_attributes(struct json_writer *w, const struct trace_span *span)
{
    struct buf *out = w->out;
    json_open_array(w, "attributes");
    put_text(out, KEY("messaging.system", "stringValue"), STR("redrive"));
    put_text(out, TEXT("messaging.operation.type"), str_of(OPERATIONS[span->operation].type));
    put_text(out, TEXT("messaging.operation.name"), str_of(OPERATIONS[span->operation].verb));
    put_text(out, TEXT("messaging.destination.name"), span->queue);
    put_text(out, TEXT("messaging.message.id"), span->job_id);
    put_text(out, TEXT("messaging.client.id"), span->worker);
    put_number(out, NUMBER("messaging.batch.message_count"), span->n_jobs);
    put_text(out, TEXT("redrive.task"), span->task);
    put_text(out, TEXT("redrive.tenant"), span->tenant);
    put_number(out, NUMBER("redrive.attempt"), span->attempt);
    put_number(out, NUMBER("redrive.max_attempts"), span->max_attempts);
    put_text(out, TEXT("redrive.outcome"), str_of(span->outcome));
    put_text(out, TEXT("error.type"), str_of(span->error));
    json_end_array(w);
}

static void put_link(struct json_writer *w, const struct trace_span *span)
{
    json_open_array(w, "links");
    json_begin_object(w);
    put_hex(w, "traceId", span->context.trace, 2);
    put_hex(w, "spanId", &span->previous, 1);
    json_open_array(w, "attributes");
    put_text(w->out, KEY("redrive.link", "stringValue"), STR("previous_attempt"));
    json_end_array(w);
    json_end_object(w);
    json_end_array(w);
}

static void put_status(struct json_writer *w, const struct trace_span *span)
{
    char message[TRACE_MESSAGE_MAX + 1];
    json_open_object(w, "status");
    if (span->error) {
        json_field_int(w, "code", STATUS_ERROR);
        (void)str_copy(message, sizeof message, span->message);
        if (*message)
            json_field_cstr(w, "message", message);
    }
    json_end_object(w);
}

void trace_span_write(const struct trace_span *span, struct buf *out)
{
    const char *verb = OPERATIONS[span->operation].verb;
    char name[300];
    struct json_writer w;
    json_writer_init(&w, out);
    (void)snprintf(name, sizeof name, "%s %.*s", verb,
                   (int)(span->task.len < 256 ? span->task.len : 256),
                   span->task.len > 0 ? span->task.ptr : "");
    json_begin_object(&w);
    put_hex(&w, "traceId", span->context.trace, 2);
    put_hex(&w, "spanId", &span->context.span, 1);
    if (span->parent != 0)
        put_hex(&w, "parentSpanId", &span->parent, 1);
    json_field_int(&w, "flags", span->context.flags);
    json_field_cstr(&w, "name", name);
    json_field_int(&w, "kind", OPERATIONS[span->operation].kind);
    put_nanoseconds(&w, "startTimeUnixNano", span->start_ms);
    put_nanoseconds(&w, "endTimeUnixNano",
                    span->end_ms > span->start_ms ? span->end_ms : span->start_ms);
    put_attributes(&w, span);
    if (span->previous != 0)
        put_link(&w, span);
    put_status(&w, span);
    json_end_object(&w);
}

/* ---- A batch --------------------------------------------------------------------------------- */

static void put_resource(struct json_writer *w, const struct trace_attribute *attribute)
{
    if (attribute->value.len == 0)
        return;
    json_begin_object(w);
    json_field_string(w, "key", attribute->name);
    json_open_object(w, "value");
    json_field_string(w, "stringValue", attribute->value);
    json_end_object(w);
    json_end_object(w);
}

void trace_batch_begin(const struct trace_attribute *resource, size_t n, struct buf *out)
{
    struct json_writer w;
    (void)buf_puts(out, "{\"resourceSpans\":[{\"resource\":");
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_open_array(&w, "attributes");
    for (size_t i = 0; i < n; i++)
        put_resource(&w, &resource[i]);
    json_end_array(&w);
    json_end_object(&w);
    (void)buf_puts(
        out, ",\"scopeSpans\":[{\"scope\":{\"name\":\"redrive\",\"version\":\"" REDRIVE_VERSION
             "\"},\"spans\":[");
}

void trace_batch_end(struct buf *out)
{
    (void)buf_puts(out, "]}]}]}");
}

/* ---- The answer ------------------------------------------------------------------------------ */

/* A 64-bit integer is a string in this mapping; some collectors write a number. */
static int read_refused(struct json_reader *r, int64_t *ret)
{
    struct json_string text;
    if (json_peek(r) != JSON_TYPE_STRING)
        return json_read_int(r, ret);
    int rc = json_read_string(r, &text);
    *ret = 0;
    for (size_t i = 0; rc == 0 && i < text.raw.len && i < 9 && str_is_digit(text.raw.ptr[i]); i++)
        *ret = *ret * 10 + (text.raw.ptr[i] - '0');
    return rc;
}

static int read_partial(struct json_reader *r, int64_t *ret)
{
    struct json_string key;
    int rc = json_enter_object(r);
    while (rc == 0 && (rc = json_next_key(r, &key)) > 0)
        rc = json_string_is(key, "rejectedSpans") ? read_refused(r, ret) : json_skip(r, NULL);
    return rc;
}

int64_t trace_refused_spans(struct str answer)
{
    struct json_reader r;
    struct json_string key;
    int64_t n = 0;
    json_reader_init(&r, answer, NULL);
    int rc = json_enter_object(&r);
    while (rc == 0 && (rc = json_next_key(&r, &key)) > 0)
        rc = json_string_is(key, "partialSuccess") ? read_partial(&r, &n) : json_skip(&r, NULL);
    json_reader_release(&r);
    return rc == 0 && n > 0 ? n : 0;
}
