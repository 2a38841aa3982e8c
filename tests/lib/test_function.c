/* What the function of a job sees and says. */
#include "fixture.h"

static int elect(struct redrive_run *run, void *arg)
{
    size_t len = 0;
    assert_string_equal(redrive_run_job_id(run), "my-id");
    assert_string_equal(redrive_run_task(run), "t");
    assert_memory_equal(redrive_run_payload(run, &len), "a\0b", 3);
    assert_int_equal(len, 3);
    assert_non_null(redrive_run_payload(run, NULL));
    assert_int_equal(redrive_run_max_attempts(run), 6);
    assert_false(redrive_run_cancelled(run));
    int *attempts = arg;
    assert_int_equal(redrive_run_attempt(run), ++*attempts);
    return *attempts < 3 ? -EAGAIN : 0;
}

HANDLER_TEST(a_function_sees_its_job)
{
    int attempts = 0;
    struct redrive_job job = {.id = "my-id", .task = "t", .payload = "a\0b", .payload_len = 3};
    struct redrive_result result;
    assert_int_equal(redrive_submit(f->handler, &job, elect, &attempts, &result), 0);
    assert_string_equal(result.id, "my-id");
}

static int return_it(struct redrive_run *run, void *arg)
{
    (void)run;
    return *(int *)arg;
}

OPTIONS_TEST(a_value_that_says_nothing_is_transient_and_unclassified)
{
    f->policy.max_retries = 0;
    fixture_new_handler(f);
    struct redrive_result result;
    redrive_call(f->handler, "t", return_it, &(int){3}, &result);
    assert_int_equal(result.class_, REDRIVE_CLASS_TRANSIENT);
    assert_string_equal(result.error.detail, "transient: the function returned 3");
    redrive_call(f->handler, "t", return_it, &(int){INT32_MIN}, &result);
    assert_int_equal(result.class_, REDRIVE_CLASS_TRANSIENT);
    assert_int_equal(metrics_of(f->handler).unclassified, 2);
    redrive_call(f->handler, "t", return_it, &(int){-ENOSPC}, &result);
    assert_int_equal(result.class_, REDRIVE_CLASS_SYSTEM);
    assert_int_equal(metrics_of(f->handler).unclassified, 2);
}

static int fail_without_facts(struct redrive_run *run, void *arg)
{
    (void)arg;
    return redrive_run_fail(run, NULL);
}

OPTIONS_TEST(a_failure_without_facts_is_a_failure)
{
    f->policy.max_retries = 0;
    fixture_new_handler(f);
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", fail_without_facts, NULL, &result),
                     REDRIVE_E_JOB_FAILED);
    assert_int_equal(result.class_, REDRIVE_CLASS_TRANSIENT);
    assert_string_equal(result.error.detail, "");
}

static int speak_twice(struct redrive_run *run, void *arg)
{
    (void)arg;
    redrive_run_fail(run, &(struct redrive_failure){.http_status = 500, .message = "first"});
    return redrive_run_fail(run, &(struct redrive_failure){.status = "PERMANENT_FAIL",
                                                           .message = "second",
                                                           .sqlstate = "40001"});
}

static int fall_back(struct redrive_run *run, void *arg)
{
    (void)arg;
    redrive_run_fail(run, &(struct redrive_failure){.http_status = 500});
    redrive_run_result(run, "partial", 7);
    redrive_run_result(run, "whole", 5);
    return 0;
}

static int say_success(struct redrive_run *run, void *arg)
{
    (void)arg;
    return redrive_run_fail(run, &(struct redrive_failure){.status = "SUCCESS"});
}

HANDLER_TEST(the_last_word_counts)
{
    struct redrive_result result;
    redrive_call(f->handler, "t", speak_twice, NULL, &result);
    assert_int_equal(result.class_, REDRIVE_CLASS_PERMANENT);
    assert_string_equal(result.error.detail, "permanent: second");

    assert_int_equal(redrive_call(f->handler, "t", fall_back, NULL, &result), 0);
    assert_int_equal(result.len, 5);
    assert_memory_equal(result.data, "whole", 5);
    redrive_result_release(&result);
    assert_null(result.data);
    redrive_result_release(&result);
    redrive_result_release(NULL);

    assert_int_equal(redrive_call(f->handler, "t", say_success, NULL, NULL), 0);
}

static int give_a_result_and_fail(struct redrive_run *run, void *arg)
{
    (void)arg;
    assert_int_equal(redrive_run_result(run, "404 page", 8), 0);
    if (redrive_run_attempt(run) == 1)
        return -EAGAIN;
    return redrive_run_result(run, NULL, 0) == 0 ? -ENOENT : 0;
}

HANDLER_TEST(a_result_is_handed_out_also_when_the_job_failed)
{
    struct redrive_result result;
    assert_int_not_equal(redrive_call(f->handler, "t", give_a_result_and_fail, NULL, &result), 0);
    assert_int_equal(result.len, 0);
    assert_non_null(result.data);
    redrive_result_release(&result);
    assert_int_not_equal(redrive_call(f->handler, "t", give_a_result_and_fail, NULL, NULL), 0);
}

static int be_verbose(struct redrive_run *run, void *arg)
{
    char *text = arg;
    return redrive_run_fail(
        run, &(struct redrive_failure){.http_status = 400, .message = text, .stacktrace = text});
}

static int check_cut(const struct redrive_dead_letter *entry, void *ctx)
{
    (void)ctx;
    assert_int_equal(strlen(entry->message), REDRIVE_MESSAGE_MAX);
    assert_int_equal(strlen(entry->stacktrace), REDRIVE_STACKTRACE_MAX);
    assert_int_equal(strlen(entry->history[0].message), 255);
    return 0;
}

HANDLER_TEST(endless_messages_are_cut)
{
    size_t len = REDRIVE_STACKTRACE_MAX + 1000;
    char *text = malloc(len + 1);
    memset(text, 'x', len);
    text[len] = '\0';
    redrive_call(f->handler, "t", be_verbose, text, NULL);
    free(text);
    assert_int_equal(redrive_dlq_list(f->handler, NULL, check_cut, NULL), 0);
}

static int submit_another(struct redrive_run *run, void *arg)
{
    struct fixture *f = arg;
    struct script script = {.failures = 2, .code = -EAGAIN};
    assert_int_equal(redrive_call(f->handler, "inner", run_script, &script, NULL), 0);
    return redrive_run_attempt(run) < 2 ? -EAGAIN : 0;
}

OPTIONS_TEST(a_function_may_submit_to_its_own_handler)
{
    f->options.concurrency = 1;
    fixture_new_handler(f);
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "outer", submit_another, f, &result), 0);
    assert_int_equal(result.elapsed_ms, 3000 + 1000 + 3000);
    assert_int_equal(metrics_of(f->handler).attempts, 2 + 6);
    check_balance(f->handler);
}
