#include "core/decide.h"

#include "check.h"

#include <errno.h>
#include <signal.h>

#include "core/retry/backoff.h"
#include "core/retry/policy.h"

static struct redrive_policy policy_of(const char *profile)
{
    struct redrive_policy policy;
    assert_int_equal(redrive_policy_profile(&policy, profile, NULL), 0);
    return policy;
}

static struct job_facts after_attempt(uint32_t attempts)
{
    return (struct job_facts){.attempts = attempts, .deadline_in_ms = INT64_MAX, .seed = 7};
}

static struct outcome failed_with_http(int status)
{
    return (struct outcome){.failure = {.http_status = status}};
}

static struct decision decide_http(uint32_t attempts, int status, const struct redrive_policy *p)
{
    struct job_facts job = after_attempt(attempts);
    struct outcome outcome = failed_with_http(status);
    return decide(&job, &outcome, p, NULL);
}

TEST(success_completes_the_job)
{
    struct redrive_policy policy = policy_of("handler");
    struct decision d = decide_http(1, 200, &policy);
    assert_int_equal(d.state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(d.breaker, BREAKER_SUCCESS);
    assert_int_equal(d.reason, REDRIVE_REASON_NONE);
    assert_int_equal(d.delay_ms, 0);
    assert_true(d.uses_attempt);
}

TEST(a_transient_failure_is_retried_after_the_policys_delay)
{
    struct redrive_policy policy = policy_of("handler");
    struct decision d = decide_http(3, 503, &policy);
    assert_int_equal(d.state, REDRIVE_STATE_RETRYING);
    assert_int_equal(d.class_, REDRIVE_CLASS_TRANSIENT);
    assert_int_equal(d.delay_ms, 9000);
    assert_int_equal(d.why, DELAY_BACKOFF);
    assert_int_equal(d.breaker, BREAKER_FAILURE);
}

TEST(a_service_that_cannot_keep_up_is_told_from_one_that_fails)
{
    struct redrive_policy policy = policy_of("handler");
    assert_true(decide_http(1, 429, &policy).is_overload);
    assert_true(decide_http(1, 504, &policy).is_overload);
    assert_true(decide_http(99, 504, &policy).is_overload); /* whatever becomes of the job */
    assert_false(decide_http(1, 503, &policy).is_overload);
    const struct job_facts job = after_attempt(1);
    const struct outcome bad = {
        .failure = {.status = "validation", .message = "timeout must be positive"}};
    assert_false(decide(&job, &bad, &policy, NULL).is_overload);
    assert_false(decide_http(1, 200, &policy).is_overload);
}

TEST(the_last_attempt_ends_exhausted)
{
    struct redrive_policy policy = policy_of("thumbnail");
    assert_int_equal(decide_http(2, 503, &policy).state, REDRIVE_STATE_RETRYING);
    struct decision d = decide_http(3, 503, &policy);
    assert_int_equal(d.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(d.reason, REDRIVE_REASON_EXHAUSTED);
    policy.enable_dlq = false;
    assert_int_equal(decide_http(3, 503, &policy).state, REDRIVE_STATE_FAILED);
}

TEST(no_retries_means_one_attempt)
{
    struct redrive_policy policy = policy_of("handler");
    policy.max_retries = 0;
    assert_int_equal(decide_http(1, 503, &policy).reason, REDRIVE_REASON_EXHAUSTED);
}

TEST(classes_that_are_not_retried_end_at_once)
{
    struct redrive_policy policy = policy_of("handler");
    struct decision d = decide_http(1, 422, &policy);
    assert_int_equal(d.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(d.reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(d.class_, REDRIVE_CLASS_VALIDATION);
    assert_int_equal(d.breaker, BREAKER_NEUTRAL);
    d = decide_http(1, 401, &policy);
    assert_int_equal(d.reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(d.breaker, BREAKER_FAILURE);
    assert_int_equal(d.severity, REDRIVE_SEVERITY_CRITICAL);
}

static struct decision decide_type(const char *type, const struct redrive_policy *policy)
{
    struct job_facts job = after_attempt(1);
    struct outcome outcome = {.failure = {.error_type = type}};
    return decide(&job, &outcome, policy, NULL);
}

TEST(retry_on_beats_the_class_and_excludes_the_rest)
{
    struct redrive_policy policy = policy_of("thumbnail");
    policy.retry_on = (struct redrive_match){
        .classes = 1u << REDRIVE_CLASS_NETWORK,
        .types = (const char *const[]){"FileNotFoundError", "httpx.HTTPError", "*Busy*"},
        .n_types = 3,
    };
    assert_int_equal(decide_type("FileNotFoundError", &policy).state, REDRIVE_STATE_RETRYING);
    assert_int_equal(decide_type("builtins.FileNotFoundError", &policy).state,
                     REDRIVE_STATE_RETRYING);
    assert_int_equal(decide_type("httpx.HTTPError", &policy).state, REDRIVE_STATE_RETRYING);
    assert_int_equal(decide_type("DeviceBusyError", &policy).state, REDRIVE_STATE_RETRYING);
    assert_int_equal(decide_type("ConnectionError", &policy).state, REDRIVE_STATE_RETRYING);
    assert_int_equal(decide_type("HTTPError", &policy).state, REDRIVE_STATE_RETRYING);
    assert_int_equal(decide_type("requests.HTTPError", &policy).reason,
                     REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(decide_type("TimeoutError", &policy).reason, REDRIVE_REASON_NOT_RETRIABLE);
    policy.retry_on.classes = 0;
    assert_int_equal(decide_type("ConnectionError", &policy).reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(decide_http(1, 503, &policy).reason, REDRIVE_REASON_NOT_RETRIABLE);
}

TEST(give_up_on_beats_retry_on)
{
    struct redrive_policy policy = policy_of("thumbnail");
    policy.retry_on.classes = 1u << REDRIVE_CLASS_NETWORK;
    policy.give_up_on = (struct redrive_match){
        .types = (const char *const[]){"ConnectionError"},
        .n_types = 1,
    };
    assert_int_equal(decide_type("ConnectionError", &policy).reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(decide_type("BrokenPipeError", &policy).state, REDRIVE_STATE_RETRYING);
    policy.give_up_on = (struct redrive_match){.classes = 1u << REDRIVE_CLASS_NETWORK};
    assert_int_equal(decide_type("BrokenPipeError", &policy).reason, REDRIVE_REASON_NOT_RETRIABLE);
}

static struct decision decide_outcome(const struct outcome *outcome,
                                      const struct redrive_policy *policy)
{
    struct job_facts job = after_attempt(1);
    return decide(&job, outcome, policy, NULL);
}

TEST(retry_on_leaves_lost_and_killed_runs_to_be_retried)
{
    static const int FROM_OUTSIDE[] = {SIGKILL, SIGTERM, SIGINT, SIGQUIT, SIGHUP};
    struct redrive_policy policy = policy_of("handler");
    policy.retry_on =
        (struct redrive_match){.types = (const char *const[]){"TaskError"}, .n_types = 1};
    struct outcome outcome = {.ending = ENDING_LEASE_LOST};
    assert_int_equal(decide_outcome(&outcome, &policy).state, REDRIVE_STATE_RETRYING);
    struct job_facts twice_lost = after_attempt(3);
    twice_lost.crashes = 2;
    assert_int_equal(decide(&twice_lost, &outcome, &policy, NULL).reason, REDRIVE_REASON_POISON);
    for (size_t i = 0; i < sizeof FROM_OUTSIDE / sizeof FROM_OUTSIDE[0]; i++) {
        outcome = (struct outcome){.failure = {.signal = FROM_OUTSIDE[i]}};
        assert_int_equal(decide_outcome(&outcome, &policy).state, REDRIVE_STATE_RETRYING);
    }
    outcome = (struct outcome){.failure = {.status = "system"}, .was_killed = true};
    assert_int_equal(decide_outcome(&outcome, &policy).state, REDRIVE_STATE_RETRYING);

    /* A crash is the program's own, and a full disk was not listed. */
    outcome = (struct outcome){.failure = {.signal = SIGSEGV}};
    assert_int_equal(decide_outcome(&outcome, &policy).reason, REDRIVE_REASON_NOT_RETRIABLE);
    outcome = (struct outcome){.failure = {.errnum = ENOSPC}};
    assert_int_equal(decide_outcome(&outcome, &policy).reason, REDRIVE_REASON_NOT_RETRIABLE);

    policy.give_up_on.classes = 1u << REDRIVE_CLASS_SYSTEM;
    outcome = (struct outcome){.ending = ENDING_LEASE_LOST};
    assert_int_equal(decide_outcome(&outcome, &policy).reason, REDRIVE_REASON_NOT_RETRIABLE);
    outcome = (struct outcome){.failure = {.signal = SIGKILL}};
    assert_int_equal(decide_outcome(&outcome, &policy).reason, REDRIVE_REASON_NOT_RETRIABLE);
}

TEST(lists_may_name_a_type_that_the_error_derives_from)
{
    static const char *const TYPES[] = {"httpx.ConnectTimeout", "httpx.TimeoutException",
                                        "httpx.HTTPError"};
    struct redrive_policy policy = policy_of("handler");
    policy.retry_on =
        (struct redrive_match){.types = (const char *const[]){"HTTPError"}, .n_types = 1};
    struct outcome outcome = {.failure = {.error_type = TYPES[0]}};
    assert_int_equal(decide_outcome(&outcome, &policy).reason, REDRIVE_REASON_NOT_RETRIABLE);
    outcome.failure.error_types = TYPES;
    outcome.failure.n_error_types = 3;
    assert_int_equal(decide_outcome(&outcome, &policy).state, REDRIVE_STATE_RETRYING);
    outcome.failure.error_type = NULL;
    assert_int_equal(decide_outcome(&outcome, &policy).state, REDRIVE_STATE_RETRYING);
    policy.give_up_on =
        (struct redrive_match){.types = (const char *const[]){"*Timeout*"}, .n_types = 1};
    assert_int_equal(decide_outcome(&outcome, &policy).reason, REDRIVE_REASON_NOT_RETRIABLE);
}

TEST(retry_on_may_list_all_failures)
{
    struct redrive_policy policy = policy_of("thumbnail");
    policy.retry_on.classes = REDRIVE_ALL_FAILURES;
    assert_int_equal(decide_http(1, 422, &policy).state, REDRIVE_STATE_RETRYING);
    assert_int_equal(decide_http(1, 401, &policy).state, REDRIVE_STATE_RETRYING);
    assert_int_equal(decide_http(1, 200, &policy).state, REDRIVE_STATE_COMPLETED);
}

TEST(a_class_has_its_own_delay_and_limit)
{
    struct redrive_policy policy = policy_of("tasks-network");
    struct redrive_class_rule database = {.backoff = policy_of("tasks-database").backoff,
                                          .max_retries = 3};
    struct redrive_class_rule limited = {.backoff = policy_of("thumbnail").backoff,
                                         .max_retries = -1};
    policy.on[REDRIVE_CLASS_DATABASE] = &database;
    policy.on[REDRIVE_CLASS_RATE_LIMITED] = &limited;

    struct job_facts job = after_attempt(3);
    struct outcome deadlock = {.failure = {.sqlstate = "40P01"}};
    struct decision d = decide(&job, &deadlock, &policy, NULL);
    assert_int_equal(d.delay_ms, 15000);
    assert_int_equal(d.why, DELAY_CLASS_RULE);
    assert_int_equal(decide_http(3, 429, &policy).delay_ms, 5000);
    assert_int_equal(decide_http(3, 503, &policy).delay_ms, 20000);

    /* Retries count whatever their class: the fourth is one too many for the database only. */
    job.attempts = 4;
    assert_int_equal(decide(&job, &deadlock, &policy, NULL).reason, REDRIVE_REASON_EXHAUSTED);
    assert_int_equal(decide_http(4, 429, &policy).state, REDRIVE_STATE_RETRYING);

    /* The number that applied; never less than there were. */
    assert_int_equal(decide(&job, &deadlock, &policy, NULL).max_attempts, 4);
    assert_int_equal(decide_http(4, 429, &policy).max_attempts, 5);
    job.attempts = 6;
    assert_int_equal(decide(&job, &deadlock, &policy, NULL).max_attempts, 6);
}

static int64_t three_seconds(uint32_t n, uint64_t seed, void *ctx)
{
    (void)seed;
    return (int64_t)n * *(const int64_t *)ctx;
}

TEST(a_program_may_choose_the_delay_itself)
{
    struct redrive_policy policy = policy_of("tasks-network");
    struct redrive_class_rule rule = {.backoff = policy.backoff, .max_retries = -1};
    int64_t step_ms = 3000;
    struct job_facts job = after_attempt(2);
    struct outcome outcome = failed_with_http(503);
    outcome.delay = three_seconds;
    outcome.delay_ctx = &step_ms;
    assert_int_equal(decide(&job, &outcome, &policy, NULL).delay_ms, 6000);
    policy.backoff.max_delay_ms = 4000;
    assert_int_equal(decide(&job, &outcome, &policy, NULL).delay_ms, 4000);
    policy.on[REDRIVE_CLASS_TRANSIENT] = &rule;
    assert_int_equal(decide(&job, &outcome, &policy, NULL).delay_ms, 10000);
}

TEST(an_asked_delay_is_a_floor_with_up_to_a_tenth_more)
{
    struct redrive_policy policy = policy_of("handler");
    policy.total_timeout_ms = 0;
    struct job_facts job = after_attempt(1);
    struct outcome outcome = failed_with_http(429);
    outcome.failure.retry_after_ms = 120000;
    struct decision d = decide(&job, &outcome, &policy, NULL);
    assert_in_range(d.delay_ms, 120000, 132000);
    assert_int_equal(d.why, DELAY_ASKED);

    outcome.failure.retry_after_ms = 500;
    d = decide(&job, &outcome, &policy, NULL);
    assert_in_range(d.delay_ms, 1000, 1100);
    assert_int_equal(d.why, DELAY_BACKOFF);

    struct redrive_policy slow = policy;
    slow.backoff = (struct redrive_backoff){.strategy = REDRIVE_STRATEGY_FIXED,
                                            .initial_delay_ms = 7200000,
                                            .max_delay_ms = 7200000,
                                            .multiplier = 1};
    outcome.failure.retry_after_ms = 10800000;
    assert_int_equal(decide(&job, &outcome, &slow, NULL).why, DELAY_BACKOFF);

    outcome.failure.retry_after_ms = INT64_MAX;
    assert_in_range(decide(&job, &outcome, &policy, NULL).delay_ms, 3600000, 3960000);
}

TEST(a_retry_that_would_begin_too_late_is_not_scheduled)
{
    struct redrive_policy policy = policy_of("handler");
    struct outcome outcome = failed_with_http(503);
    struct job_facts job = after_attempt(2);
    job.elapsed_ms = 300000 - 3000;
    assert_int_equal(decide(&job, &outcome, &policy, NULL).state, REDRIVE_STATE_RETRYING);
    job.elapsed_ms++;
    struct decision d = decide(&job, &outcome, &policy, NULL);
    assert_int_equal(d.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(d.reason, REDRIVE_REASON_DEADLINE);
    assert_int_equal(d.delay_ms, 0);
    assert_int_equal(d.why, DELAY_TOO_LATE);
    assert_int_equal(d.too_late.delay_ms, 3000);
    assert_int_equal(d.too_late.total_timeout_ms, 300000);
    assert_false(d.too_late.was_asked);
    outcome.failure.retry_after_ms = 3600000;
    d = decide(&job, &outcome, &policy, NULL);
    assert_int_equal(d.reason, REDRIVE_REASON_DEADLINE);
    assert_true(d.too_late.was_asked);
    assert_in_range(d.too_late.delay_ms, 3600000, 3960000);
    outcome.failure.retry_after_ms = 0;
    policy.total_timeout_ms = 0;
    assert_int_equal(decide(&job, &outcome, &policy, NULL).state, REDRIVE_STATE_RETRYING);
}

TEST(the_jobs_own_deadline_counts_too)
{
    struct redrive_policy policy = policy_of("handler");
    struct outcome outcome = failed_with_http(503);
    struct job_facts job = after_attempt(2);
    job.deadline_in_ms = 2999;
    struct decision d = decide(&job, &outcome, &policy, NULL);
    assert_int_equal(d.reason, REDRIVE_REASON_DEADLINE);
    assert_int_equal(d.too_late.delay_ms, 3000);
    assert_int_equal(d.too_late.total_timeout_ms, 0);
    job.deadline_in_ms = 3000;
    assert_int_equal(decide(&job, &outcome, &policy, NULL).state, REDRIVE_STATE_RETRYING);
}

TEST(what_can_never_run_ends_whatever_is_worth_retrying)
{
    struct redrive_policy policy = policy_of("handler");
    policy.retry_on = (struct redrive_match){.classes = 1u << REDRIVE_CLASS_VALIDATION};
    const struct job_facts job = after_attempt(0);
    const struct outcome outcome = {.ending = ENDING_INVALID};
    struct decision d = decide(&job, &outcome, &policy, NULL);
    assert_int_equal(d.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(d.reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(d.class_, REDRIVE_CLASS_VALIDATION);
    assert_int_equal(d.severity, REDRIVE_SEVERITY_ERROR);
    assert_int_equal(d.breaker, BREAKER_RETURNED);
    policy.enable_dlq = false;
    assert_int_equal(decide(&job, &outcome, &policy, NULL).state, REDRIVE_STATE_FAILED);
}

TEST(what_cannot_be_read_ends_as_damaged)
{
    struct redrive_policy policy = policy_of("handler");
    policy.retry_on = (struct redrive_match){.classes = 1u << REDRIVE_CLASS_VALIDATION};
    const struct job_facts job = after_attempt(0);
    const struct outcome outcome = {.ending = ENDING_DAMAGED};
    struct decision d = decide(&job, &outcome, &policy, NULL);
    assert_int_equal(d.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(d.reason, REDRIVE_REASON_DAMAGED);
    assert_int_equal(d.class_, REDRIVE_CLASS_VALIDATION);
    assert_int_equal(d.severity, REDRIVE_SEVERITY_ERROR);
}

TEST(the_third_crash_in_a_row_is_poison)
{
    struct redrive_policy policy = policy_of("handler");
    static const int CRASHES[] = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE};
    for (size_t i = 0; i < sizeof CRASHES / sizeof CRASHES[0]; i++) {
        struct job_facts job = after_attempt(1);
        struct outcome crash = {.failure = {.signal = CRASHES[i]}};
        for (uint32_t n = 1; n <= 2; n++) {
            struct decision d = decide(&job, &crash, &policy, NULL);
            assert_int_equal(d.state, REDRIVE_STATE_RETRYING);
            assert_int_equal(d.crashes, n);
            job.crashes = d.crashes;
        }
        assert_int_equal(decide(&job, &crash, &policy, NULL).reason, REDRIVE_REASON_POISON);
    }
}

TEST(another_ending_breaks_the_row_of_crashes)
{
    struct redrive_policy policy = policy_of("handler");
    struct job_facts job = after_attempt(2);
    job.crashes = 2;
    struct outcome outcome = failed_with_http(503);
    assert_int_equal(decide(&job, &outcome, &policy, NULL).crashes, 0);
    outcome = (struct outcome){.failure = {.signal = SIGTERM}};
    assert_int_equal(decide(&job, &outcome, &policy, NULL).crashes, 0);
    outcome = (struct outcome){.ending = ENDING_RELEASED};
    assert_int_equal(decide(&job, &outcome, &policy, NULL).crashes, 2);
}

TEST(a_lost_lease_is_a_system_failure_and_poison_at_the_third)
{
    struct redrive_policy policy = policy_of("handler");
    struct job_facts job = after_attempt(1);
    struct outcome lost = {.ending = ENDING_LEASE_LOST};
    struct decision d = decide(&job, &lost, &policy, NULL);
    assert_int_equal(d.state, REDRIVE_STATE_RETRYING);
    assert_int_equal(d.class_, REDRIVE_CLASS_SYSTEM);
    assert_int_equal(d.breaker, BREAKER_NEUTRAL);
    job.crashes = 2;
    assert_int_equal(decide(&job, &lost, &policy, NULL).reason, REDRIVE_REASON_POISON);
}

TEST(a_lost_probe_counts_against_the_breaker)
{
    struct redrive_policy policy = policy_of("handler");
    struct job_facts job = after_attempt(1);
    job.is_probe = true;
    struct outcome lost = {.ending = ENDING_LEASE_LOST};
    assert_int_equal(decide(&job, &lost, &policy, NULL).breaker, BREAKER_FAILURE);
}

TEST(a_released_start_is_taken_back)
{
    struct redrive_policy policy = policy_of("handler");
    struct job_facts job = after_attempt(6);
    struct outcome released = {.ending = ENDING_RELEASED};
    struct decision d = decide(&job, &released, &policy, NULL);
    assert_int_equal(d.state, REDRIVE_STATE_QUEUED);
    assert_false(d.uses_attempt);
    assert_int_equal(d.breaker, BREAKER_RETURNED);
}

TEST(a_snooze_waits_as_asked_and_takes_no_attempt)
{
    struct redrive_policy policy = policy_of("handler");
    struct job_facts job = after_attempt(6);
    struct outcome snoozed = {.ending = ENDING_SNOOZED, .snooze_ms = 45000};
    struct decision d = decide(&job, &snoozed, &policy, NULL);
    assert_int_equal(d.state, REDRIVE_STATE_SCHEDULED);
    assert_int_equal(d.delay_ms, 45000);
    assert_int_equal(d.why, DELAY_SNOOZE);
    assert_false(d.uses_attempt);
    snoozed.snooze_ms = -1;
    assert_int_equal(decide(&job, &snoozed, &policy, NULL).delay_ms, 0);
}

TEST(endings_by_hand_and_by_the_clock)
{
    struct redrive_policy policy = policy_of("handler");
    struct job_facts job = after_attempt(1);
    struct outcome outcome = {.ending = ENDING_CANCELLED};
    assert_int_equal(decide(&job, &outcome, &policy, NULL).state, REDRIVE_STATE_CANCELLED);
    outcome.ending = ENDING_DEADLINE;
    assert_int_equal(decide(&job, &outcome, &policy, NULL).reason, REDRIVE_REASON_DEADLINE);
    outcome.ending = ENDING_BREAKER_OPEN;
    assert_int_equal(decide(&job, &outcome, &policy, NULL).reason, REDRIVE_REASON_BREAKER_OPEN);
    outcome.ending = ENDING_KILLED;
    policy.enable_dlq = false;
    struct decision d = decide(&job, &outcome, &policy, NULL);
    assert_int_equal(d.reason, REDRIVE_REASON_MANUAL);
    assert_int_equal(d.state, REDRIVE_STATE_DEAD_LETTER);
}

TEST(the_users_classifier_is_asked)
{
    struct redrive_policy policy = policy_of("handler");
    struct redrive_classify_row row = {.source = REDRIVE_SOURCE_HTTP_STATUS,
                                       .pattern = "503",
                                       .class_ = REDRIVE_CLASS_PERMANENT,
                                       .severity = REDRIVE_SEVERITY_CRITICAL,
                                       .task = "billing"};
    struct classifier *classifier = NULL;
    assert_int_equal(classifier_new(&row, 1, &classifier, NULL), 0);
    struct job_facts job = after_attempt(1);
    struct outcome outcome = failed_with_http(503);
    assert_int_equal(decide(&job, &outcome, &policy, classifier).state, REDRIVE_STATE_RETRYING);
    job.names.task = "billing";
    struct decision d = decide(&job, &outcome, &policy, classifier);
    assert_int_equal(d.reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(d.severity, REDRIVE_SEVERITY_CRITICAL);
    classifier_free(classifier);
}

TEST(what_nobody_knows_is_transient_and_counted)
{
    struct redrive_policy policy = policy_of("handler");
    struct decision d = decide_type("SomethingNobodyKnows", &policy);
    assert_int_equal(d.class_, REDRIVE_CLASS_TRANSIENT);
    assert_true(d.unclassified);
    assert_int_equal(d.state, REDRIVE_STATE_RETRYING);
}

TEST(reasons_for_a_delay_have_names)
{
    assert_string_equal(delay_why_name(DELAY_NONE), "none");
    assert_string_equal(delay_why_name(DELAY_ASKED), "asked");
    assert_string_equal(delay_why_name(DELAY_TOO_LATE), "too_late");
    assert_string_equal(delay_why_name(DELAY_SNOOZE), "snooze");
}
