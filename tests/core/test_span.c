#include "core/trace/span.h"

#include "check.h"

static const struct trace_context CONTEXT = {
    .trace = {UINT64_C(0x0af7651916cd43dd), UINT64_C(0x8448eb211c80319c)},
    .span = 0xabc,
    .flags = TRACE_SAMPLED,
};

static struct buf written;

static const char *write_span(const struct trace_span *span)
{
    buf_release(&written);
    buf_init(&written, 64 * 1024);
    trace_span_write(span, &written);
    assert_int_equal(buf_failed(&written), 0);
    return buf_cstr(&written);
}

TEST(a_failed_attempt_is_written_whole)
{
    const struct trace_span span = {
        .operation = TRACE_ATTEMPT,
        .context = CONTEXT,
        .parent = 0xdef,
        .previous = 0x123,
        .start_ms = 1700000000001,
        .end_ms = 1700000000042,
        .tenant = STR("acme"),
        .task = STR("mail"),
        .queue = STR("slow"),
        .job_id = STR("job-1"),
        .worker = STR("host:1"),
        .attempt = 2,
        .max_attempts = 4,
        .outcome = "retrying",
        .error = "network",
        .message = STR("connection \"refused\""),
    };
    assert_string_equal(
        write_span(&span),
        "{\"traceId\":\"0af7651916cd43dd8448eb211c80319c\",\"spanId\":\"0000000000000abc\","
        "\"parentSpanId\":\"0000000000000def\",\"flags\":1,\"name\":\"process mail\","
        "\"kind\":5,\"startTimeUnixNano\":\"1700000000001000000\","
        "\"endTimeUnixNano\":\"1700000000042000000\","
        "\"attributes\":[{\"key\":\"messaging.system\","
        "\"value\":{\"stringValue\":\"redrive\"}},{\"key\":\"messaging.operation.type\","
        "\"value\":{\"stringValue\":\"process\"}},{\"key\":\"messaging.operation.name\","
        "\"value\":{\"stringValue\":\"process\"}},{\"key\":\"messaging.destination.name\","
        "\"value\":{\"stringValue\":\"slow\"}},{\"key\":\"messaging.message.id\","
        "\"value\":{\"stringValue\":\"job-1\"}},{\"key\":\"messaging.client.id\","
        "\"value\":{\"stringValue\":\"host:1\"}},{\"key\":\"redrive.task\","
        "\"value\":{\"stringValue\":\"mail\"}},{\"key\":\"redrive.tenant\","
        "\"value\":{\"stringValue\":\"acme\"}},{\"key\":\"redrive.attempt\","
        "\"value\":{\"intValue\":\"2\"}},{\"key\":\"redrive.max_attempts\","
        "\"value\":{\"intValue\":\"4\"}},{\"key\":\"redrive.outcome\","
        "\"value\":{\"stringValue\":\"retrying\"}},{\"key\":\"error.type\","
        "\"value\":{\"stringValue\":\"network\"}}],"
        "\"links\":[{\"traceId\":\"0af7651916cd43dd8448eb211c80319c\","
        "\"spanId\":\"0000000000000123\",\"attributes\":[{\"key\":\"redrive.link\","
        "\"value\":{\"stringValue\":\"previous_attempt\"}}]}],\"status\":{\"code\":2,"
        "\"message\":\"connection \\\"refused\\\"\"}}");
}

TEST(what_is_not_known_is_left_out)
{
    const struct trace_span span = {.operation = TRACE_SUBMIT, .context = CONTEXT, .n_jobs = 3};
    assert_string_equal(
        write_span(&span),
        "{\"traceId\":\"0af7651916cd43dd8448eb211c80319c\",\"spanId\":\"0000000000000abc\","
        "\"flags\":1,\"name\":\"submit \",\"kind\":4,\"startTimeUnixNano\":\"0\","
        "\"endTimeUnixNano\":\"0\",\"attributes\":[{\"key\":\"messaging.system\","
        "\"value\":{\"stringValue\":\"redrive\"}},{\"key\":\"messaging.operation.type\","
        "\"value\":{\"stringValue\":\"send\"}},{\"key\":\"messaging.operation.name\","
        "\"value\":{\"stringValue\":\"submit\"}},{\"key\":\"messaging.batch.message_count\","
        "\"value\":{\"intValue\":\"3\"}}],\"status\":{}}");
}

TEST(a_span_does_not_end_before_it_begins)
{
    const struct trace_span span = {.context = CONTEXT, .start_ms = 50, .end_ms = 40};
    assert_non_null(strstr(write_span(&span), "\"endTimeUnixNano\":\"50000000\""));
}

TEST(long_texts_are_cut)
{
    static char text[4000];
    memset(text, 'x', sizeof text);
    const struct trace_span span = {
        .context = CONTEXT,
        .task = {text, 1000},
        .error = "permanent",
        .message = {text, sizeof text},
    };
    const char *json = write_span(&span);
    const char *message = strstr(json, "\"message\":\"");
    const char *name = strstr(json, "\"name\":\"submit ");
    assert_non_null(message);
    assert_non_null(name);
    assert_int_equal(strspn(message + strlen("\"message\":\""), "x"), TRACE_MESSAGE_MAX);
    assert_int_equal(strspn(name + strlen("\"name\":\"submit "), "x"), 256);
}

TEST(an_error_without_a_message_has_a_status)
{
    const struct trace_span span = {.context = CONTEXT, .error = "network"};
    assert_non_null(strstr(write_span(&span), "\"status\":{\"code\":2}}"));
}

TEST(a_batch_names_its_resource)
{
    const struct trace_attribute resource[] = {{STR("service.name"), STR("mail")},
                                               {STR("empty"), STR("")}};
    struct buf out;
    buf_init(&out, 4096);
    trace_batch_begin(resource, 2, &out);
    buf_puts(&out, "{}");
    trace_batch_end(&out);
    assert_string_equal(
        buf_cstr(&out),
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
        "\"value\":{\"stringValue\":\"mail\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"redrive\","
        "\"version\":\"" REDRIVE_VERSION "\"},\"spans\":[{}]}]}]}");
    buf_release(&out);
}

TEST(a_collector_may_refuse_some_spans)
{
    static const struct {
        const char *answer;
        int64_t n;
    } ANSWERS[] = {
        {"", 0},
        {"{}", 0},
        {"not json", 0},
        {"{\"partialSuccess\":{}}", 0},
        {"{\"partialSuccess\":null}", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"0\"}}", 0},
        {"{\"partialSuccess\":{\"errorMessage\":\"full\",\"rejectedSpans\":\"12\"}}", 12},
        {"{\"other\":[1],\"partialSuccess\":{\"rejectedSpans\":7}}", 7},
        {"{\"partialSuccess\":{\"rejectedSpans\":-7}}", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"1x\"}}", 1},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"99999999999\"}}", 999999999},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"5\"}", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"5", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"5\"}} more", 5},
    };
    for (size_t i = 0; i < sizeof ANSWERS / sizeof ANSWERS[0]; i++)
        if (trace_refused_spans(str_of(ANSWERS[i].answer)) != ANSWERS[i].n)
            fail_msg("%s", ANSWERS[i].answer);
}

TEST(without_tracing_there_is_no_sampler)
{
    struct tracing tracing = {0};
    assert_null(tracing_sampler(NULL));
    assert_ptr_equal(tracing_sampler(&tracing), &tracing.sampler);
}

static int release_written(void **state)
{
    (void)state;
    buf_release(&written);
    return 0;
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, release_written);
}
