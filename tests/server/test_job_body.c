#include "check.h"

#include "server/rest/body/job.h"

#define NOW INT64_C(1767225600000) /* 2026-01-01T00:00:00Z */

static struct arena arena;
static struct job_body body;
static struct redrive_err err;

static int read_keyed(const char *text, const char *key)
{
    arena_release(&arena);
    arena_init(&arena);
    err = (struct redrive_err){0};
    return job_body_read(str_of(text), STR("acme"), str_of(key), NOW, &arena, &body, &err);
}

static int read(const char *text)
{
    return read_keyed(text, NULL);
}

static void check_fault(const char *text, int code, const char *field)
{
    assert_int_equal(read(text), code);
    assert_string_equal(body.field, field);
    assert_int_equal(err.code, code);
}

static int teardown(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

TEST(every_member_is_read)
{
    assert_int_equal(
        read("{\"task\":\"mail\",\"payload\":{\"a\": [1, 2]},\"id\":\"j\\u0031\",\"queue\":\"q\","
             "\"priority\":-100,\"delay\":\"1m30s\",\"deadline\":\"2026-01-01T01:00:00+00:30\","
             "\"unique_key\":\"k\",\"unique\":\"forever\",\"user\":\"u\",\"project\":\"p\","
             "\"service\":\"s\",\"retry\":{\"strategy\":\"fixed\"},\"max_attempts\":7}"),
        0);
    const struct job_spec *s = &body.specs[0];
    assert_int_equal(body.n, 1);
    assert_false(body.is_array);
    check_str(s->tenant, "acme");
    check_str(s->task, "mail");
    check_str(s->payload, "{\"a\": [1, 2]}");
    check_str(s->id, "j1");
    check_str(s->queue, "q");
    assert_int_equal(s->priority, -100);
    assert_int_equal(s->delay_ms, 90000);
    assert_int_equal(s->process_after_ms, 0);
    assert_int_equal(s->deadline_ms, NOW + 30 * 60 * 1000);
    check_str(s->unique_key, "k");
    assert_true(s->unique_forever);
    check_str(s->user, "u");
    check_str(s->project, "p");
    check_str(s->service, "s");
    check_str(s->policy, "{\"max_attempts\":7,\"strategy\":\"fixed\"}");
}

TEST(little_is_needed)
{
    assert_int_equal(read("{\"task\":\"mail\"}"), 0);
    assert_null(body.specs[0].payload.ptr);
    assert_null(body.specs[0].id.ptr);
    assert_int_equal(body.specs[0].policy.len, 0);
    assert_int_equal(read("{\"task\":\"mail\",\"queue\":null,\"payload\":null}"), 0);
    assert_null(body.specs[0].queue.ptr);
    check_str(body.specs[0].payload, "null");
}

TEST(max_attempts_alone_is_a_policy)
{
    assert_int_equal(read("{\"task\":\"t\",\"max_attempts\":3}"), 0);
    check_str(body.specs[0].policy, "{\"max_attempts\":3}");
    assert_int_equal(read("{\"task\":\"t\",\"max_attempts\":3,\"retry\":{ }}"), 0);
    check_str(body.specs[0].policy, "{\"max_attempts\":3}");
}

TEST(an_array_has_many)
{
    assert_int_equal(read(" [{\"task\":\"a\"}, {\"task\":\"b\",\"id\":\"x\"}] "), 0);
    assert_true(body.is_array);
    assert_int_equal(body.n, 2);
    check_str(body.specs[1].task, "b");
}

TEST(a_key_is_the_id_of_what_has_none)
{
    assert_int_equal(read_keyed("{\"task\":\"a\"}", "order-1"), 0);
    check_str(body.specs[0].id, "order-1");
    assert_int_equal(read_keyed("{\"task\":\"a\",\"id\":\"own\"}", "order-1"), 0);
    check_str(body.specs[0].id, "own");
    assert_int_equal(read_keyed("[{\"task\":\"a\"},{\"task\":\"b\"}]", "order-1"), 0);
    check_str(body.specs[0].id, "order-1/0");
    check_str(body.specs[1].id, "order-1/1");
    assert_int_equal(read_keyed("{\"task\":\"a\"}", ""), REDRIVE_E_INVALID);
    assert_string_equal(body.field, "Idempotency-Key");
}

TEST(an_unknown_member_is_named_with_the_nearest)
{
    check_fault("{\"task\":\"a\",\"priorty\":1}", REDRIVE_E_UNKNOWN, "priorty");
    assert_non_null(strstr(err.hint, "'priority'"));
    check_fault("[{\"task\":\"a\"},{\"tsk\":\"a\"}]", REDRIVE_E_UNKNOWN, "[1].tsk");
    assert_non_null(strstr(err.hint, "'task'"));
}

TEST(a_wrong_value_is_named_with_what_was_expected)
{
    check_fault("{}", REDRIVE_E_INVALID, "task");
    check_fault("{\"task\":\"\"}", REDRIVE_E_INVALID, "task");
    check_fault("{\"task\":7}", REDRIVE_E_INVALID, "task");
    check_fault("{\"task\":\"a\\u0007b\"}", REDRIVE_E_INVALID, "task");
    check_fault("{\"task\":\"a\",\"priority\":101}", REDRIVE_E_RANGE, "priority");
    assert_non_null(strstr(err.detail, "expected a whole number from -100 to 100"));
    check_fault("{\"task\":\"a\",\"priority\":1.5}", REDRIVE_E_INVALID, "priority");
    check_fault("{\"task\":\"a\",\"priority\":\"1\"}", REDRIVE_E_INVALID, "priority");
    check_fault("{\"task\":\"a\",\"delay\":-1}", REDRIVE_E_RANGE, "delay");
    check_fault("{\"task\":\"a\",\"delay\":\"5 minutes\"}", REDRIVE_E_INVALID, "delay");
    check_fault("{\"task\":\"a\",\"at\":\"tomorrow\"}", REDRIVE_E_INVALID, "at");
    check_fault("{\"task\":\"a\",\"unique_key\":\"k\",\"unique\":\"ever\"}", REDRIVE_E_INVALID,
                "unique");
    check_fault("{\"task\":\"a\",\"unique\":\"live\"}", REDRIVE_E_INVALID, "unique_key");
    check_fault("{\"task\":\"a\",\"retry\":\"fixed\"}", REDRIVE_E_INVALID, "retry");
    check_fault("{\"task\":\"a\",\"max_attempts\":0}", REDRIVE_E_RANGE, "max_attempts");
}

TEST(times_must_make_sense)
{
    check_fault("{\"task\":\"a\",\"delay\":1,\"at\":\"2026-01-02T00:00Z\"}", REDRIVE_E_INVALID,
                "at");
    check_fault("{\"task\":\"a\",\"deadline\":\"2025-12-31T00:00Z\"}", REDRIVE_E_INVALID,
                "deadline");
    check_fault("{\"task\":\"a\",\"deadline\":\"1h\",\"delay\":\"2h\"}", REDRIVE_E_INVALID,
                "deadline");
    assert_int_equal(read("{\"task\":\"a\",\"deadline\":\"2h\",\"delay\":3600}"), 0);
    assert_int_equal(body.specs[0].deadline_ms, NOW + 2 * 3600 * 1000);
}

TEST(what_is_no_job_is_refused)
{
    check_fault("", REDRIVE_E_PARSE, "");
    check_fault("{\"task\":", REDRIVE_E_PARSE, "");
    check_fault("{\"task\":\"a\"} x", REDRIVE_E_PARSE, "");
    check_fault("{\"task\":nope}", REDRIVE_E_PARSE, "");
    check_fault("7", REDRIVE_E_INVALID, "");
    check_fault("[]", REDRIVE_E_RANGE, "");
    check_fault("[7]", REDRIVE_E_INVALID, "[0]");
    check_fault("[{\"task\":\"a\"}", REDRIVE_E_PARSE, "");
}

TEST(a_job_may_have_failed_elsewhere)
{
    assert_int_equal(
        read("{\"task\":\"a\",\"failed\":{\"class\":\"network\",\"reason\":\"deadline\","
             "\"error_type\":\"OSError\",\"message\":\"no \\u0041\","
             "\"stacktrace\":\"at 1\"}}"),
        0);
    const struct job_failed *failed = body.specs[0].failed;
    assert_non_null(failed);
    assert_int_equal(failed->reason, REDRIVE_REASON_DEADLINE);
    assert_int_equal(failed->error.class_, REDRIVE_CLASS_NETWORK);
    check_str(failed->error.type, "OSError");
    check_str(failed->error.message, "no A");
    check_str(failed->error.stacktrace, "at 1");
    assert_int_equal(read("[{\"task\":\"a\",\"failed\":{}},{\"task\":\"b\"}]"), 0);
    assert_int_equal(body.specs[0].failed->reason, REDRIVE_REASON_EXHAUSTED);
    assert_int_equal(body.specs[0].failed->error.class_, REDRIVE_CLASS_PERMANENT);
    assert_null(body.specs[1].failed);
    check_fault("{\"task\":\"a\",\"failed\":{\"class\":\"netwrk\"}}", REDRIVE_E_INVALID,
                "failed.class");
    check_fault("[{\"task\":\"a\"},{\"task\":\"a\",\"failed\":{\"class\":\"success\"}}]",
                REDRIVE_E_INVALID, "[1].failed.class");
    check_fault("{\"task\":\"a\",\"failed\":{\"msg\":\"\"}}", REDRIVE_E_UNKNOWN, "failed.msg");
    check_fault("{\"task\":\"a\",\"failed\":true}", REDRIVE_E_INVALID, "failed");
}

TEST(an_array_has_a_limit)
{
    struct buf text;
    buf_init(&text, 1u << 20);
    for (int i = 0; i <= JOB_BODY_MAX; i++)
        buf_puts(&text, i == 0 ? "[{\"task\":\"a\"}" : ",{\"task\":\"a\"}");
    buf_puts(&text, "]");
    assert_int_equal(read(buf_cstr(&text)), REDRIVE_E_RANGE);
    buf_release(&text);
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, teardown);
}
