#include "check.h"

#include <stdio.h>

#include "config/config.h"
#include "server/faktory/format/job.h"

static struct arena arena;

static int release(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

static struct faktory_job job_of(const char *json)
{
    struct faktory_job job;
    struct redrive_err err = {0};
    if (faktory_job_read(str_of(json), &arena, &job, &err) < 0)
        fail_msg("%s", err.message);
    return job;
}

static struct job_spec spec_of(const char *json, bool is_declared)
{
    struct faktory_job job = job_of(json);
    struct job_spec spec;
    faktory_job_spec(&job, STR("acme"), is_declared ? FAKTORY_POLICY_BOTH : FAKTORY_POLICY_CLIENT,
                     &arena, &spec);
    return spec;
}

static void check_refused(const char *json, const char *text)
{
    struct faktory_job job;
    struct redrive_err err = {0};
    assert_true(faktory_job_read(str_of(json), &arena, &job, &err) < 0);
    if (strncmp(err.message, text, strlen(text)) != 0)
        fail_msg("'%s' is not '%s'", err.message, text);
}

#define PLAIN "{\"jid\":\"12345678\",\"jobtype\":\"T\",\"args\":[]"

TEST(a_job_is_kept_whole)
{
    const char *json =
        "{\"jid\":\"12345678\", \"jobtype\":\"Mail\",\"args\":[1,{\"a\":2}],\"queue\":"
        "\"bulk\",\"at\":\"1970-01-01T00:01:00Z\",\"unheard_of\":null,\"priority\":9}";
    struct job_spec spec = spec_of(json, false);
    check_str(spec.tenant, "acme");
    check_str(spec.id, "12345678");
    check_str(spec.task, "Mail");
    check_str(spec.queue, "bulk");
    check_str(spec.payload, json);
    assert_int_equal(spec.priority, 100);
    assert_int_equal(spec.process_after_ms, 60000);
}

TEST(what_is_left_open_has_faktorys_defaults)
{
    struct faktory_job job = job_of(PLAIN ",\"queue\":null,\"retry\":null,\"at\":\"\"}");
    check_str(job.queue, "default");
    assert_int_equal(job.retry, 25);
    assert_int_equal(job.priority, 5);
    assert_int_equal(job.at_ms, 0);
}

TEST(escaped_names_are_decoded)
{
    struct faktory_job job =
        job_of("{\"jid\":\"\\u0031234567\\u0038\",\"jobtype\":\"A\\/B\",\"args\":[]}");
    check_str(job.jid, "12345678");
    check_str(job.type, "A/B");
}

TEST(wrong_jobs_are_refused_in_faktorys_words)
{
    check_refused("{\"jid\":\"1234567\",\"jobtype\":\"T\",\"args\":[]}",
                  "jobs must have a reasonable jid parameter");
    check_refused("{\"jobtype\":\"T\",\"args\":[]}", "jobs must have a reasonable jid parameter");
    check_refused("{\"jid\":\"12345678\",\"args\":[]}", "jobs must have a jobtype parameter");
    check_refused("{\"jid\":\"12345678\",\"jobtype\":\"T\"}", "jobs must have an args parameter");
    check_refused("{\"jid\":\"12345678\",\"jobtype\":\"T\",\"args\":null}",
                  "jobs must have an args parameter");
    check_refused(PLAIN ",\"reserve_for\":86401}", "jobs cannot be reserved for more than one day");
    check_refused(PLAIN ",\"at\":\"tomorrow\"}", "invalid timestamp for 'at': \"tomorrow\"");
    check_refused(PLAIN, "invalid JSON: ");
    check_refused(PLAIN ",\"retry\":\"5\"}", "invalid JSON: ");
    check_refused("{\"jid\":\"12345678\",\"jobtype\":\"T\",\"args\":{}}", "invalid JSON: ");
    check_refused("[]", "invalid JSON: ");
    check_refused("", "invalid JSON: ");
}

/* The policy of a job whose task nobody declared. */
static struct config_part *policy_of(const char *json)
{
    struct config_part *box = NULL;
    struct redrive_err err = {0};
    struct job_spec spec = spec_of(json, false);
    if (policy_parse_json(spec.policy, NULL, &box, &err) < 0)
        fail_msg("%.*s: %s", (int)spec.policy.len, spec.policy.ptr, err.message);
    return box;
}

TEST(an_undeclared_task_follows_faktorys_schedule)
{
    struct config_part *box = policy_of(PLAIN "}");
    const struct redrive_policy *policy = &box->policy;
    assert_int_equal(policy->max_retries, 25);
    assert_int_equal(policy->backoff.strategy, REDRIVE_STRATEGY_POLYNOMIAL);
    assert_int_equal(policy->total_timeout_ms, 0);
    assert_int_equal(policy->dlq_retention_days, 180);
    assert_true(policy->enable_dlq);
    config_part_free(box);
}

TEST(retry_says_how_often)
{
    static const struct {
        const char *json;
        int32_t retries;
        bool dlq;
    } CASES[] = {
        {PLAIN ",\"retry\":3}", 3, true},
        {PLAIN ",\"retry\":0}", 0, false},
        {PLAIN ",\"retry\":-1}", 0, true},
        {PLAIN ",\"retry\":-7}", 0, true},
        {PLAIN ",\"retry\":9000000}", REDRIVE_MAX_RETRIES, true},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct config_part *box = policy_of(CASES[i].json);
        assert_int_equal(box->policy.max_retries, CASES[i].retries);
        assert_int_equal(box->policy.enable_dlq, CASES[i].dlq);
        config_part_free(box);
    }
}

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

TEST(the_trace_of_the_client_is_kept)
{
    static const char *const NONE[] = {
        ",\"custom\":null}", ",\"custom\":7}", ",\"custom\":{\"traceparent\":7}}",
        ",\"custom\":{\"traceparent\":\"no\"}}", ",\"traceparent\":\"" PARENT "\"}"};
    check_str(
        trace_kept(
            spec_of(PLAIN ",\"custom\":{\"a\":[1],\"traceparent\":\"" PARENT "\"}}", true).policy),
        PARENT);
    for (size_t i = 0; i < sizeof NONE / sizeof NONE[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "%s%s", PLAIN, NONE[i]);
        assert_int_equal(spec_of(text, true).policy.len, 0);
    }
    struct config_part *box =
        policy_of(PLAIN ",\"retry\":7,\"custom\":{\"traceparent\":\"" PARENT "\"}}");
    assert_int_equal(box->policy.max_retries, 7);
    config_part_free(box);
}

TEST(a_declared_task_keeps_its_policy)
{
    assert_int_equal(spec_of(PLAIN ",\"retry\":25}", true).policy.len, 0);
    check_str(spec_of(PLAIN ",\"retry\":7}", true).policy, "{\"max_retries\":7}");
    check_str(spec_of(PLAIN ",\"retry\":0}", true).policy,
              "{\"max_retries\":0,\"enable_dlq\":false}");
    check_str(spec_of(PLAIN ",\"retry\":-1}", true).policy, "{\"max_retries\":0}");
}

TEST(priorities_go_there_and_back)
{
    assert_int_equal(faktory_priority_in(1), -100);
    assert_int_equal(faktory_priority_in(5), 0);
    assert_int_equal(faktory_priority_in(9), 100);
    assert_int_equal(faktory_priority_in(0), 0);
    assert_int_equal(faktory_priority_in(10), 0);
    for (int64_t p = 1; p <= 9; p++)
        assert_int_equal(faktory_priority_out(faktory_priority_in(p)), p);
    assert_int_equal(faktory_priority_out(-99), 1);
    assert_int_equal(faktory_priority_out(13), 6);
    assert_int_equal(faktory_priority_out(-12), 5);
}

static int64_t lease_of(const char *payload)
{
    const struct job job = {.spec = {.payload = str_of(payload)}};
    return faktory_job_lease_ms(&job);
}

TEST(a_lease_lasts_as_long_as_the_job_asks)
{
    assert_int_equal(lease_of(PLAIN "}"), 1800000);
    assert_int_equal(lease_of(PLAIN ",\"reserve_for\":600}"), 600000);
    assert_int_equal(lease_of(PLAIN ",\"reserve_for\":5}"), 60000);
    assert_int_equal(lease_of(PLAIN ",\"reserve_for\":0}"), 1800000);
    assert_int_equal(lease_of(PLAIN ",\"reserve_for\":100000}"), 86400000);
    assert_int_equal(lease_of(PLAIN ",\"reserve_for\":\"x\"}"), 1800000);
    assert_int_equal(lease_of("[\"reserve_for\"]"), 1800000);
}

static void check_written(const struct job *job, const char *expected)
{
    struct buf out;
    buf_init(&out, 1 << 16);
    assert_int_equal(faktory_job_write(job, &out), 0);
    assert_string_equal(buf_cstr(&out), expected);
    buf_release(&out);
}

TEST(a_worker_gets_back_what_the_producer_sent)
{
    struct job job = {
        .spec = {.id = STR("12345678"),
                 .task = STR("T"),
                 .queue = STR("default"),
                 .payload =
                     STR(PLAIN ",\"custom\":{\"a\": [1]},\"enqueued_at\":\"x\",\"x\\ny\":1.50}"),
                 .max_attempts = 26},
        .status = {.attempts = 1, .created_ms = 1000},
    };
    check_written(&job, PLAIN ",\"custom\":{\"a\": [1]},\"x\\ny\":1.50,\"queue\":\"default\","
                              "\"retry\":25,\"created_at\":\"1970-01-01T00:00:01.000Z\","
                              "\"enqueued_at\":\"1970-01-01T00:00:01.000Z\"}");
}

TEST(a_retry_brings_its_failure_along)
{
    struct job job = {
        .spec = {.id = STR("12345678"),
                 .task = STR("T"),
                 .queue = STR("q"),
                 .payload = STR(PLAIN ",\"queue\":\"q\",\"retry\":3,\"created_at\":\"c\","
                                      "\"failure\":{\"old\":1}}"),
                 .max_attempts = 4},
        .status = {.attempts = 3,
                   .created_ms = 1000,
                   .first_started_ms = 2000,
                   .process_after_ms = 9000,
                   .error = {.class_ = REDRIVE_CLASS_TRANSIENT,
                             .type = STR("IOError"),
                             .message = STR("no \"disk\""),
                             .stacktrace = STR("one\ntwo")}},
    };
    check_written(&job, PLAIN ",\"queue\":\"q\",\"retry\":3,\"created_at\":\"c\",\"enqueued_at\":"
                              "\"1970-01-01T00:00:09.000Z\",\"failure\":{\"retry_count\":1,"
                              "\"remaining\":2,\"failed_at\":\"1970-01-01T00:00:02.000Z\","
                              "\"next_at\":\"1970-01-01T00:00:09.000Z\",\"errtype\":\"IOError\","
                              "\"message\":\"no \\\"disk\\\"\",\"backtrace\":[\"one\",\"two\"]}}");
}

TEST(a_payload_from_elsewhere_becomes_arguments)
{
    static const struct {
        const char *payload;
        const char *args;
    } CASES[] = {
        {"[1, 2]", "[1, 2]"},
        {"{\"a\":1}", "[{\"a\":1}]"},
        {" \"x\" ", "[\"x\"]"},
        {"null", "[]"},
        {"", "[]"},
        /* Somebody else's job is a payload like any other. */
        {"{\"jid\":\"87654321\",\"jobtype\":\"T\",\"args\":[]}",
         "[{\"jid\":\"87654321\",\"jobtype\":\"T\",\"args\":[]}]"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char expected[512];
        struct job job = {
            .spec = {.id = STR("0190"),
                     .task = STR("T"),
                     .queue = STR("q"),
                     .priority = 50,
                     .payload = str_of(CASES[i].payload),
                     .max_attempts = 6},
            .status = {.attempts = 1, .created_ms = 1000},
        };
        snprintf(expected, sizeof expected,
                 "{\"jid\":\"0190\",\"jobtype\":\"T\",\"args\":%s,\"priority\":7,"
                 "\"reserve_for\":1800,\"queue\":\"q\",\"retry\":5,"
                 "\"created_at\":\"1970-01-01T00:00:01.000Z\","
                 "\"enqueued_at\":\"1970-01-01T00:00:01.000Z\"}",
                 CASES[i].args);
        check_written(&job, expected);
    }
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, release);
}
