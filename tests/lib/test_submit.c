/* One job in one thread: retries, ends, refusals. */
#include "fixture.h"

#include <signal.h>

/* ---- Retries --------------------------------------------------------------------------------- */

HANDLER_TEST(a_success_runs_once_and_waits_for_nothing)
{
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", succeed, NULL, &result), 0);
    assert_int_equal(result.state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(result.reason, REDRIVE_REASON_NONE);
    assert_int_equal(result.class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(result.attempts, 1);
    assert_int_equal(result.elapsed_ms, 0);
    assert_int_equal(result.error.code, 0);
    assert_int_equal(strlen(result.id), 36);
    assert_null(result.data);
    assert_int_equal(fixture_elapsed_ms(f), 0);
}

OPTIONS_TEST(retries_follow_the_policy_and_then_end_in_the_dead_letters)
{
    f->policy.max_retries = 3;
    fixture_new_handler(f);
    struct script script = {.failures = ALWAYS, .code = -ETIMEDOUT};
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", run_script, &script, &result),
                     REDRIVE_E_JOB_FAILED);
    assert_int_equal(script.calls, 4);
    assert_int_equal(result.attempts, 4);
    assert_int_equal(result.reason, REDRIVE_REASON_EXHAUSTED);
    assert_int_equal(result.class_, REDRIVE_CLASS_NETWORK);
    assert_int_equal(result.elapsed_ms, (1 + 2 + 4) * SECOND);
    assert_int_equal(result.error.code, REDRIVE_E_JOB_FAILED);
    assert_string_equal(result.error.message, "t failed after 4 of 4 attempts: exhausted");
    assert_string_equal(result.error.detail, "network: Connection timed out");
}

OPTIONS_TEST(without_dead_letters_a_job_just_fails)
{
    f->policy.enable_dlq = false;
    fixture_new_handler(f);
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", find_input_malformed, NULL, &result),
                     REDRIVE_E_JOB_FAILED);
    assert_int_equal(result.state, REDRIVE_STATE_FAILED);
    assert_string_equal(result.error.hint, "");
    assert_int_equal(dlq_of(f->handler).total_jobs, 0);
    assert_int_equal(metrics_of(f->handler).jobs_failed, 1);
}

static int64_t five_times_n(uint32_t n, uint64_t seed, void *ctx)
{
    *(uint64_t *)ctx = seed;
    return 5 * n;
}

HANDLER_TEST(a_custom_strategy_is_asked_for_each_delay)
{
    uint64_t seed = 0;
    struct redrive_policy policy = f->policy;
    policy.max_retries = 3;
    policy.backoff.strategy = REDRIVE_STRATEGY_CUSTOM;
    policy.backoff.min_delay_ms = 0;
    policy.backoff.custom = five_times_n;
    policy.backoff.custom_ctx = &seed;
    struct redrive_job job = {.task = "t", .policy = &policy};
    struct redrive_result result;
    assert_int_equal(redrive_submit(f->handler, &job, refuse_connection, NULL, &result),
                     REDRIVE_E_JOB_FAILED);
    assert_int_equal(result.elapsed_ms, 5 + 10 + 15);
    assert_int_not_equal(seed, 0);
}

static int ask_for_90_seconds(struct redrive_run *run, void *arg)
{
    (void)arg;
    if (redrive_run_attempt(run) > 1)
        return 0;
    return redrive_run_fail(
        run, &(struct redrive_failure){.http_status = 429, .retry_after_ms = 90 * SECOND});
}

HANDLER_TEST(a_delay_that_was_asked_for_is_kept)
{
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", ask_for_90_seconds, NULL, &result), 0);
    assert_true(result.elapsed_ms >= 90 * SECOND && result.elapsed_ms <= 99 * SECOND);
    assert_int_equal(metrics_of(f->handler).failures_by_class[REDRIVE_CLASS_RATE_LIMITED], 1);
}

static int crash(struct redrive_run *run, void *arg)
{
    (void)arg;
    return redrive_run_fail(run, &(struct redrive_failure){.signal = SIGSEGV});
}

HANDLER_TEST(the_third_crash_in_a_row_is_poison)
{
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", crash, NULL, &result), REDRIVE_E_JOB_FAILED);
    assert_int_equal(result.reason, REDRIVE_REASON_POISON);
    assert_int_equal(result.attempts, 3);
}

OPTIONS_TEST(a_class_may_have_its_own_delays_and_limit)
{
    struct redrive_class_rule network = {.backoff = f->policy.backoff, .max_retries = 7};
    network.backoff.strategy = REDRIVE_STRATEGY_FIXED;
    network.backoff.initial_delay_ms = 10 * SECOND;
    f->policy.on[REDRIVE_CLASS_NETWORK] = &network;
    f->policy.max_retries = 1;
    f->breaker.failure_threshold = 0;
    f->breaker.failure_rate = 0;
    fixture_new_handler(f);
    memset(&network, 0xff, sizeof network); /* the handler has its own copy */
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", refuse_connection, NULL, &result),
                     REDRIVE_E_JOB_FAILED);
    assert_int_equal(result.attempts, 8);
    assert_int_equal(result.elapsed_ms, 70 * SECOND);
    assert_string_equal(result.error.message, "t failed after 8 of 8 attempts: exhausted");

    /* Another class ends the job earlier, and that number is shown. */
    struct script script = {.failures = ALWAYS, .code = -EAGAIN};
    assert_int_equal(redrive_call(f->handler, "t", run_script, &script, &result),
                     REDRIVE_E_JOB_FAILED);
    assert_string_equal(result.error.message, "t failed after 2 of 2 attempts: exhausted");
}

OPTIONS_TEST(lists_of_error_types_decide_what_is_retried)
{
    char type[] = "OrderError";
    const char *types[] = {type};
    f->policy.retry_on = (struct redrive_match){.types = types, .n_types = 1};
    f->policy.max_retries = 2;
    fixture_new_handler(f);
    memset(type, 'x', sizeof type - 1);
    struct redrive_result result;
    redrive_call(f->handler, "t", find_input_malformed, NULL, &result);
    assert_int_equal(result.attempts, 3);
    redrive_call(f->handler, "t", refuse_connection, NULL, &result);
    assert_int_equal(result.attempts, 1);
}

OPTIONS_TEST(your_rows_come_before_the_built_in_ones)
{
    const struct redrive_classify_row rows[] = {
        {.source = REDRIVE_SOURCE_ERRNO,
         .pattern = "ECONNREFUSED",
         .class_ = REDRIVE_CLASS_PERMANENT,
         .severity = REDRIVE_SEVERITY_CRITICAL,
         .user = "eve"},
        {.source = REDRIVE_SOURCE_MESSAGE,
         .pattern = "no such (bucket|key)",
         .class_ = REDRIVE_CLASS_PERMANENT,
         .severity = REDRIVE_SEVERITY_OF_CLASS},
    };
    f->options.classify = rows;
    f->options.n_classify = 2;
    fixture_new_handler(f);
    struct redrive_result result;
    struct redrive_job job = {.task = "t", .user = "eve"};
    redrive_submit(f->handler, &job, refuse_connection, NULL, &result);
    assert_int_equal(result.class_, REDRIVE_CLASS_PERMANENT);
    assert_int_equal(result.attempts, 1);
    job.user = "ada";
    redrive_submit(f->handler, &job, refuse_connection, NULL, &result);
    assert_int_equal(result.class_, REDRIVE_CLASS_NETWORK);
}

/* ---- Time limits ----------------------------------------------------------------------------- */

OPTIONS_TEST(a_retry_beyond_the_total_timeout_is_not_waited_for)
{
    f->policy.total_timeout_ms = 5 * SECOND;
    fixture_new_handler(f);
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", refuse_connection, NULL, &result),
                     REDRIVE_E_DEADLINE);
    assert_int_equal(result.reason, REDRIVE_REASON_DEADLINE);
    assert_int_equal(result.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(result.class_, REDRIVE_CLASS_NETWORK);
    assert_int_equal(result.attempts, 3); /* at 0, 1 and 3 s; the next would be at 7 s */
    assert_int_equal(result.elapsed_ms, 3 * SECOND);
}

HANDLER_TEST(a_deadline_ends_the_retries_too)
{
    struct redrive_job job = {.task = "t", .deadline_ms = 2 * SECOND};
    struct redrive_result result;
    assert_int_equal(redrive_submit(f->handler, &job, refuse_connection, NULL, &result),
                     REDRIVE_E_DEADLINE);
    assert_int_equal(result.attempts, 2);
}

static int check_remaining(struct redrive_run *run, void *arg)
{
    int64_t *expected = arg;
    assert_int_equal(redrive_run_remaining_ms(run), expected[redrive_run_attempt(run) - 1]);
    return redrive_run_attempt(run) < 3 ? -EAGAIN : 0;
}

HANDLER_TEST(a_function_knows_how_much_time_is_left)
{
    int64_t expected[] = {4000, 3000, 1000};
    struct redrive_job job = {.task = "t", .deadline_ms = 4 * SECOND};
    assert_int_equal(redrive_submit(f->handler, &job, check_remaining, expected, NULL), 0);

    int64_t by_policy[] = {5 * MINUTE, 5 * MINUTE - 1000, 5 * MINUTE - 3000};
    assert_int_equal(redrive_call(f->handler, "t", check_remaining, by_policy, NULL), 0);

    struct redrive_policy endless = f->policy;
    endless.total_timeout_ms = 0;
    int64_t forever[] = {INT64_MAX, INT64_MAX, INT64_MAX};
    job = (struct redrive_job){.task = "t", .policy = &endless};
    assert_int_equal(redrive_submit(f->handler, &job, check_remaining, forever, NULL), 0);
}

static int outlive_the_deadline(struct redrive_run *run, void *arg)
{
    struct fixture *f = arg;
    atomic_fetch_add(&f->clock.now_ms, MINUTE);
    assert_int_equal(redrive_run_remaining_ms(run), 0);
    return 0;
}

HANDLER_TEST(what_succeeds_late_has_succeeded)
{
    struct redrive_job job = {.task = "t", .deadline_ms = SECOND};
    assert_int_equal(redrive_submit(f->handler, &job, outlive_the_deadline, f, NULL), 0);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refuses(struct fixture *f, const struct redrive_job *job, int code, const char *message)
{
    struct redrive_result result;
    memset(&result, 0xff, sizeof result);
    struct script script = {0};
    assert_int_equal(redrive_submit(f->handler, job, run_script, &script, &result), code);
    assert_int_equal(redrive_submit(f->handler, job, run_script, &script, NULL), code);
    assert_int_equal(script.calls, 0);
    assert_int_equal(result.state, REDRIVE_STATE_FAILED);
    assert_int_equal(result.attempts, 0);
    assert_int_equal(result.error.code, code);
    assert_string_equal(result.error.message, message);
    assert_null(result.data);
    assert_int_equal(metrics_of(f->handler).jobs_received, 0);
}

HANDLER_TEST(a_wrong_job_is_refused_and_leaves_no_trace)
{
    char long_id[REDRIVE_ID_MAX + 2];
    memset(long_id, 'x', sizeof long_id);
    long_id[sizeof long_id - 1] = '\0';
    struct redrive_policy policy = f->policy;
    policy.max_retries = -1;

    refuses(f, NULL, REDRIVE_E_INVALID, "handler, job and function are required");
    refuses(f, &(struct redrive_job){0}, REDRIVE_E_INVALID, "job.task is required");
    refuses(f, &(struct redrive_job){.task = ""}, REDRIVE_E_INVALID, "job.task is required");
    refuses(f, &(struct redrive_job){.task = "t", .service = ""}, REDRIVE_E_INVALID,
            "job.service is empty");
    refuses(f, &(struct redrive_job){.task = "t", .id = ""}, REDRIVE_E_INVALID,
            "job.id must have 1 to 255 bytes");
    refuses(f, &(struct redrive_job){.task = "t", .id = long_id}, REDRIVE_E_INVALID,
            "job.id must have 1 to 255 bytes");
    refuses(f, &(struct redrive_job){.task = "t", .priority = 101}, REDRIVE_E_RANGE,
            "job.priority 101 is not between -100 and 100");
    refuses(f, &(struct redrive_job){.task = "t", .priority = -101}, REDRIVE_E_RANGE,
            "job.priority -101 is not between -100 and 100");
    refuses(f, &(struct redrive_job){.task = "t", .payload_len = 1}, REDRIVE_E_INVALID,
            "job.payload is NULL, but payload_len is not 0");
    refuses(f, &(struct redrive_job){.task = "t", .deadline_ms = -1}, REDRIVE_E_RANGE,
            "job.deadline_ms is not between 0 and 100 years");
    refuses(f, &(struct redrive_job){.task = "t", .deadline_ms = INT64_MAX}, REDRIVE_E_RANGE,
            "job.deadline_ms is not between 0 and 100 years");
    struct redrive_result result;
    struct redrive_job job = {.task = "t", .policy = &policy};
    assert_int_equal(redrive_submit(f->handler, &job, succeed, NULL, &result), REDRIVE_E_RANGE);
    job.policy = NULL;
    assert_int_equal(redrive_submit(f->handler, &job, NULL, NULL, NULL), REDRIVE_E_INVALID);
    assert_int_equal(redrive_submit(NULL, &job, succeed, NULL, NULL), REDRIVE_E_INVALID);
    assert_int_equal(redrive_call(f->handler, NULL, succeed, NULL, NULL), REDRIVE_E_INVALID);
}

static int submit_own_id(struct redrive_run *run, void *arg)
{
    struct redrive_job job = {.id = redrive_run_job_id(run), .task = "t"};
    struct redrive_result result;
    assert_int_equal(redrive_submit(arg, &job, succeed, NULL, &result), REDRIVE_E_EXISTS);
    assert_string_equal(result.id, "one");
    assert_string_equal(result.error.detail, "id one");
    return 0;
}

HANDLER_TEST(a_live_id_is_taken_and_free_again_afterwards)
{
    struct redrive_job job = {.id = "one", .task = "t"};
    for (int i = 0; i < 2; i++)
        assert_int_equal(redrive_submit(f->handler, &job, submit_own_id, f->handler, NULL), 0);
    assert_int_equal(metrics_of(f->handler).jobs_received, 2);
}

HANDLER_TEST(an_id_of_the_longest_length_is_kept_whole)
{
    char id[REDRIVE_ID_MAX + 1];
    memset(id, 'x', REDRIVE_ID_MAX);
    id[REDRIVE_ID_MAX] = '\0';
    struct redrive_result result;
    struct redrive_job job = {.id = id, .task = "t"};
    assert_int_equal(redrive_submit(f->handler, &job, succeed, NULL, &result), 0);
    assert_string_equal(result.id, id);
}

TEST(ids_of_one_seed_repeat_and_rise)
{
    char ids[2][4][REDRIVE_ID_MAX + 1];
    for (int round = 0; round < 2; round++) {
        struct fixture f;
        fixture_init(&f);
        for (int i = 0; i < 4; i++) {
            struct redrive_result result;
            redrive_call(f.handler, "t", succeed, NULL, &result);
            strcpy(ids[round][i], result.id);
            if (i > 0)
                assert_true(strcmp(ids[round][i - 1], ids[round][i]) < 0);
        }
        fixture_release(&f);
    }
    assert_memory_equal(ids[0][3], ids[1][3], 37);
}
