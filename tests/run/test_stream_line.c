#include "check.h"

#include "run/stream/private.h"

static void check_line(const char *payload, const char *expected)
{
    struct buf out;
    buf_init(&out, 4096);
    struct run_request request = {
        .job_id = "a\"b", .task = "t", .attempt = 1, .max_attempts = 2, .payload = str_of(payload)};
    assert_int_equal(stream_line_write(&request, &out, NULL), 0);
    assert_string_equal(buf_cstr(&out), expected);
    buf_release(&out);
}

TEST(job_is_one_line_whatever_its_payload)
{
    check_line(NULL, "{\"id\":\"a\\\"b\",\"task\":\"t\",\"attempt\":1,\"max_attempts\":2,"
                     "\"payload\":null}\n");
    check_line("{\r\n\"x\": \"\\n\"\n}", "{\"id\":\"a\\\"b\",\"task\":\"t\",\"attempt\":1,"
                                         "\"max_attempts\":2,\"payload\":{  \"x\": \"\\n\" }}\n");
}

TEST(a_job_of_a_trace_says_so)
{
    struct buf out;
    buf_init(&out, 4096);
    struct run_request request = {.job_id = "a", .task = "t", .traceparent = "00-1-2-01"};
    assert_int_equal(stream_line_write(&request, &out, NULL), 0);
    assert_non_null(strstr(buf_cstr(&out), ",\"traceparent\":\"00-1-2-01\",\"payload\":null}"));
    buf_release(&out);
}

TEST(a_job_that_has_waited_for_others_has_their_results)
{
    const struct job_parent parents[] = {
        {.id = STR("p"), .state = REDRIVE_STATE_COMPLETED, .result = STR("{\n\"n\":1}")},
        {.id = STR("q"), .state = REDRIVE_STATE_CANCELLED},
        {.id = STR("r"), .state = REDRIVE_STATE_COMPLETED, .result = STR("no JSON\n")},
        {.id = STR("s"), .state = REDRIVE_STATE_COMPLETED, .is_omitted = true},
    };
    struct run_request request = {.job_id = "a", .task = "t", .parents = parents, .n_parents = 4};
    struct buf out;
    buf_init(&out, 4096);
    assert_int_equal(stream_line_write(&request, &out, NULL), 0);
    assert_non_null(strstr(buf_cstr(&out),
                           ",\"payload\":null,\"parents\":["
                           "{\"id\":\"p\",\"state\":\"completed\",\"result\":{ \"n\":1}},"
                           "{\"id\":\"q\",\"state\":\"cancelled\",\"result\":null},"
                           "{\"id\":\"r\",\"state\":\"completed\",\"result\":\"no JSON\\n\"},"
                           "{\"id\":\"s\",\"state\":\"completed\",\"result_omitted\":true}]}\n"));
    buf_release(&out);
}

TEST(answer_is_read_whole)
{
    struct stream_answer a;
    struct redrive_err err;
    assert_int_equal(
        stream_answer_read(&a,
                           STR("{\"status\":\"SUCCESS\",\"id\":\"\\u0041\",\"result\":[1, 2],"
                               "\"message\":null,\"retry_after\":0.0001}"),
                           &err),
        0);
    assert_string_equal(a.id, "A");
    assert_string_equal(a.status, "SUCCESS");
    assert_null(a.message);
    assert_null(a.error_type);
    check_str(a.result, "[1, 2]");
    assert_int_equal(a.retry_after_ms, 1);
    stream_answer_release(&a);
}

TEST(answer_may_name_base_types)
{
    struct stream_answer a;
    assert_int_equal(
        stream_answer_read(&a,
                           STR("{\"error_types\":[\"Own\",null,\"a.\\u0042\"],\"id\":\"1\","
                               "\"status\":\"FAIL\",\"error_type\":\"a.Own\"}"),
                           NULL),
        0);
    assert_string_equal(a.error_type, "a.Own");
    assert_int_equal(a.n_error_types, 2);
    assert_string_equal(a.error_types[0], "Own");
    assert_string_equal(a.error_types[1], "a.B");
    stream_answer_release(&a);
    assert_int_equal(stream_answer_read(
                         &a, STR("{\"error_types\":null,\"id\":\"1\",\"status\":\"FAIL\"}"), NULL),
                     0);
    assert_int_equal(a.n_error_types, 0);
    stream_answer_release(&a);
}

TEST(answer_keeps_the_most_derived_types)
{
    struct buf line;
    struct stream_answer a;
    buf_init(&line, 4096);
    buf_puts(&line, "{\"id\":\"1\",\"status\":\"FAIL\",\"error_types\":[\"T0\"");
    for (int i = 1; i <= REDRIVE_ERROR_TYPES_MAX; i++)
        buf_printf(&line, ",\"T%d\"", i);
    buf_puts(&line, "]}");
    assert_int_equal(stream_answer_read(&a, buf_str(&line), NULL), 0);
    assert_int_equal(a.n_error_types, REDRIVE_ERROR_TYPES_MAX);
    assert_string_equal(a.error_types[REDRIVE_ERROR_TYPES_MAX - 1], "T63");
    stream_answer_release(&a);
    buf_release(&line);
}

TEST(answer_may_say_where_and_of_what_it_failed)
{
    struct stream_answer a;
    assert_int_equal(
        stream_answer_read(&a,
                           STR("{\"id\":\"1\",\"status\":\"FAIL\",\"stacktrace\":\"at x\\nat y\","
                               "\"http_status\":404,\"sqlstate\":\"40001\"}"),
                           NULL),
        0);
    assert_string_equal(a.stacktrace, "at x\nat y");
    assert_string_equal(a.sqlstate, "40001");
    assert_int_equal(a.http_status, 404);
    stream_answer_release(&a);
    assert_int_equal(stream_answer_read(&a,
                                        STR("{\"id\":\"1\",\"status\":\"FAIL\",\"stacktrace\":null,"
                                            "\"http_status\":null}"),
                                        NULL),
                     0);
    assert_null(a.stacktrace);
    assert_int_equal(a.http_status, 0);
    stream_answer_release(&a);
}

TEST(answer_may_ask_for_a_run_later)
{
    static const struct {
        const char *line;
        bool is_snoozed;
        int64_t snooze_ms;
    } rows[] = {
        {"{\"id\":\"1\",\"snooze\":0}", true, 0},
        {"{\"id\":\"1\",\"snooze\":2.5}", true, 2500},
        {"{\"id\":\"1\",\"snooze\":1e9}", true, STREAM_SNOOZE_MAX_MS},
        {"{\"id\":\"1\",\"snooze\":1,\"status\":\"FAIL\"}", true, 1000},
        {"{\"id\":\"1\",\"snooze\":null,\"status\":\"FAIL\"}", false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stream_answer a;
        assert_int_equal(stream_answer_read(&a, str_of(rows[i].line), NULL), 0);
        assert_int_equal(a.is_snoozed, rows[i].is_snoozed);
        assert_int_equal(a.snooze_ms, rows[i].snooze_ms);
        stream_answer_release(&a);
    }
}

TEST(what_is_not_an_answer_is_refused)
{
    static const char *const lines[] = {
        "",
        "null",
        "{}",
        "{\"id\":\"1\"}",
        "{\"status\":\"SUCCESS\"}",
        "{\"id\":1,\"status\":\"SUCCESS\"}",
        "{\"id\":\"1\",\"status\":\"SUCCESS\"} x",
        "{\"id\":\"1\",\"id\":\"1\",\"status\":\"SUCCESS\"}",
        "{\"id\":\"1\",\"status\":\"SUCCESS\",\"retry_after\":-1}",
        "{\"id\":\"1\",\"status\":\"SUCCESS\",\"retry_after\":\"soon\"}",
        "{\"id\":\"1\",\"status\":\"SUCCESS\",\"retry_after\":1e300}",
        "{\"id\":\"1\",\"status\":\"SUCCESS\",\"result\":{]}",
        "{\"snooze\":1}",
        "{\"id\":\"1\",\"snooze\":null}",
        "{\"id\":\"1\",\"snooze\":-1}",
        "{\"id\":\"1\",\"snooze\":\"1h\"}",
        "{\"id\":\"1\",\"status\":\"FAIL\",\"error_types\":\"A\"}",
        "{\"id\":\"1\",\"status\":\"FAIL\",\"error_types\":[1]}",
        "{\"id\":\"1\",\"status\":\"FAIL\",\"http_status\":99}",
        "{\"id\":\"1\",\"status\":\"FAIL\",\"http_status\":\"404\"}",
        "{\"id\":\"1\",\"status\":\"FAIL\",\"stacktrace\":1}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct stream_answer a;
        struct redrive_err err = {0};
        assert_true(stream_answer_read(&a, str_of(lines[i]), &err) < 0);
        assert_true(err.code < 0 && err.message[0] != '\0');
        stream_answer_release(&a);
    }
}
