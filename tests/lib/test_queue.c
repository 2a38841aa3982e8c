/* Functions that work jobs of a store, and what becomes of the jobs; each fact in memory and in a
 * file. */
#include "queue_for_test.h"

/* ---- Success and failure --------------------------------------------------------------------- */

BOTH_TEST(a_job_that_succeeds_is_completed_with_its_result)
{
    atomic_int n = 0;
    struct redrive_job_status job;
    submit(tq->queue, "t", "a");
    tq_handle(tq->queue, "t", succeed, &n, 1);
    work_until_idle(tq->queue);
    assert_int_equal(atomic_load(&n), 1);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(job.attempts, 1);
    assert_int_equal(job.result_len, 8);
    assert_memory_equal(job.result, "{\"ok\":1}", 8);
    assert_string_equal(job.payload, "{\"n\":1}");
    assert_string_equal(job.task, "t");
    assert_null(job.message);
    assert_true(job.finished_ms >= job.created_ms);
    redrive_queue_job_release(&job);
}

/* Gives what it is given of its parents: "id state result;" of each. */
static int look_at_parents(struct redrive_task_run *run, void *arg)
{
    char text[256] = "none";
    size_t n = 9, len = 0;
    const struct redrive_parent *parents = redrive_task_run_parents(run, &n);
    (void)arg;
    assert_int_equal(parents == NULL, n == 0);
    assert_ptr_equal(redrive_task_run_parents(run, NULL), parents);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(strlen(parents[i].result), parents[i].result_len);
        len += (size_t)snprintf(text + len, sizeof text - len, "%s %s %s%s;", parents[i].id,
                                redrive_state_name(parents[i].state), parents[i].result,
                                parents[i].result_omitted ? "omitted" : "");
    }
    return redrive_task_run_result(run, text, strlen(text));
}

static int give_much(struct redrive_task_run *run, void *arg)
{
    static char much[300 * 1024];
    (void)arg;
    return redrive_task_run_result(run, much, sizeof much);
}

BOTH_TEST(a_job_is_given_the_results_of_those_that_it_waited_for)
{
    const struct redrive_job_after after[] = {{.id = "a"}, {.id = "much"}};
    const struct redrive_job_spec jobs[] = {
        {.task = "look", .id = "a"},
        {.task = "much", .id = "much"},
        {.task = "look", .id = "child", .after = after, .n_after = 2},
    };
    struct redrive_job_status job;
    assert_int_equal(redrive_queue_submit(tq->queue, jobs, 3, 0, NULL, NULL), 0);
    tq_handle(tq->queue, "look", look_at_parents, NULL, 1);
    tq_handle(tq->queue, "much", give_much, NULL, 1);
    work_until_idle(tq->queue);
    assert_int_equal(redrive_queue_job(tq->queue, "child", &job, NULL), 0);
    assert_string_equal(job.result, "a completed none;much completed omitted;");
    redrive_queue_job_release(&job);
}

static int look_at_mask(struct redrive_task_run *run, void *arg)
{
    (void)run;
    return pthread_sigmask(SIG_SETMASK, NULL, arg);
}

BOTH_TEST(signals_are_left_to_the_program)
{
    sigset_t mask, mine;
    submit(tq->queue, "t", "a");
    tq_handle(tq->queue, "t", look_at_mask, &mask, 1);
    work_until_idle(tq->queue);
    assert_int_equal(state_of(tq->queue, "a"), REDRIVE_STATE_COMPLETED);
    assert_int_equal(sigismember(&mask, SIGTERM), 1);
    assert_int_equal(sigismember(&mask, SIGSEGV), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    assert_int_equal(sigismember(&mine, SIGTERM), 0);
}

static int elect(struct redrive_task_run *run, void *arg)
{
    size_t len;
    assert_string_equal(redrive_task_run_id(run), "a");
    assert_string_equal(redrive_task_run_task(run), "t");
    assert_string_equal(redrive_task_run_queue(run), "low");
    assert_string_equal(redrive_task_run_tenant(run), "default");
    assert_string_equal(redrive_task_run_payload(run, &len), "[1, 2]");
    assert_int_equal(len, 6);
    assert_int_equal(redrive_task_run_attempt(run), 1);
    assert_int_equal(redrive_task_run_max_attempts(run), 3);
    assert_in_range(redrive_task_run_remaining_ms(run), 1, 60000);
    assert_false(redrive_task_run_cancelled(run));
    assert_ptr_equal(redrive_task_run_owner(run), arg);
    assert_int_equal(redrive_task_run_extend(run, 0, NULL), 0);
    assert_int_equal(redrive_task_run_extend(run, -1, NULL), REDRIVE_E_RANGE);
    assert_int_equal(redrive_task_run_extend(run, INT64_MAX, NULL), REDRIVE_E_RANGE);
    assert_false(redrive_task_run_cancelled(run));
    return 0;
}

BOTH_TEST(a_function_sees_its_job)
{
    const struct redrive_job_spec job = {
        .task = "t",
        .id = "a",
        .payload = "[1, 2] and more",
        .payload_len = 6,
        .queue = "low",
        .deadline_ms = 60000,
    };
    assert_int_equal(redrive_queue_submit(tq->queue, &job, 1, 0, NULL, NULL), 0);
    tq_handle(tq->queue, "t", elect, tq->queue, 1);
    work_until_idle(tq->queue);
    assert_int_equal(state_of(tq->queue, "a"), REDRIVE_STATE_COMPLETED);
}

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static int compare_trace(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    const char *traceparent = redrive_task_run_traceparent(run);
    assert_int_equal(redrive_task_run_max_attempts(run), 8);
    if (strcmp(redrive_task_run_id(run), "traced") == 0)
        assert_string_equal(traceparent, PARENT);
    else
        assert_null(traceparent);
    return 0;
}

BOTH_TEST(a_function_sees_the_trace_of_its_submitter)
{
    const struct redrive_job_spec jobs[] = {
        {.task = "t", .id = "traced", .retry = "{\"max_retries\":7}", .traceparent = PARENT},
        {.task = "t", .id = "not traced", .retry = "{\"max_retries\":7}", .traceparent = "no"},
    };
    assert_int_equal(redrive_queue_submit(tq->queue, jobs, 2, 0, NULL, NULL), 0);
    tq_handle(tq->queue, "t", compare_trace, NULL, 1);
    work_until_idle(tq->queue);
    assert_int_equal(state_of(tq->queue, "traced"), REDRIVE_STATE_COMPLETED);
    assert_int_equal(state_of(tq->queue, "not traced"), REDRIVE_STATE_COMPLETED);
}

/* As docs/library.md shows it. */
static int keep_letter(const struct redrive_dead_letter *letter, void *ctx)
{
    const struct redrive_job_spec job = {
        .task = letter->task,
        .id = letter->id,
        .payload = letter->payload,
        .payload_len = letter->payload_len,
        .failed = letter,
    };
    return redrive_queue_submit(ctx, &job, 1, 0, NULL, NULL);
}

BOTH_TEST(a_dead_letter_of_a_handler_is_kept_in_a_store)
{
    const struct redrive_dead_letter letter = {
        .task = "t",
        .id = "a",
        .reason = REDRIVE_REASON_NOT_RETRIABLE,
        .class_ = REDRIVE_CLASS_VALIDATION,
        .error_type = "BadAddress",
        .message = "no such street",
        .payload = "[7]",
        .payload_len = 3,
        .attempts = 4,
    };
    struct redrive_job_status kept;
    assert_int_equal(keep_letter(&letter, tq->queue), 0);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &kept, NULL), 0);
    assert_int_equal(kept.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(kept.reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(kept.class_, REDRIVE_CLASS_VALIDATION);
    assert_int_equal(kept.attempts, 0);
    assert_string_equal(kept.error_type, "BadAddress");
    assert_string_equal(kept.message, "no such street");
    assert_string_equal(kept.payload, "[7]");
    redrive_queue_job_release(&kept);
}

static int refuse_connection(struct redrive_task_run *run, void *arg)
{
    assert_int_equal(redrive_task_run_attempt(run), atomic_fetch_add((atomic_int *)arg, 1) + 1);
    redrive_task_run_result(run, "half", 4);
    return -ECONNREFUSED;
}

BOTH_TEST(a_failure_is_retried_until_it_is_a_dead_letter)
{
    atomic_int n = 0;
    struct redrive_job_status job;
    submit(tq->queue, "t", "a");
    tq_handle(tq->queue, "t", refuse_connection, &n, 1);
    work_until(tq->queue, "a", REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(atomic_load(&n), 3);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.reason, REDRIVE_REASON_EXHAUSTED);
    assert_int_equal(job.class_, REDRIVE_CLASS_NETWORK);
    assert_string_equal(job.message, "Connection refused");
    assert_int_equal(job.attempts, 3);
    assert_null(job.result);
    redrive_queue_job_release(&job);
}

static int fail_for_good(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    redrive_task_run_fail(run, NULL);
    return redrive_task_run_fail(run, &(struct redrive_failure){.status = "PERMANENT_FAIL",
                                                                .error_type = "NoSuchThing",
                                                                .message = "it is gone"});
}

static int fail_as_derived(struct redrive_task_run *run, void *arg)
{
    char base[] = "HTTPError";
    const char *types[] = {"ConnectTimeout", base};
    (void)arg;
    redrive_task_run_fail(run, &(struct redrive_failure){.error_types = types, .n_error_types = 2});
    memset(base, 'x', sizeof base - 1);
    return 1;
}

BOTH_TEST(a_base_type_is_looked_for_in_the_lists_of_a_policy)
{
    const struct redrive_job_spec jobs[] = {
        {.task = "t", .id = "listed", .retry = "{\"retry_on\": [\"HTTPError\"]}"},
        {.task = "t", .id = "other", .retry = "{\"retry_on\": [\"ValueError\"]}"},
    };
    struct redrive_job_status job;
    assert_int_equal(redrive_queue_submit(tq->queue, jobs, 2, 0, NULL, NULL), 0);
    tq_handle(tq->queue, "t", fail_as_derived, NULL, 1);
    work_until(tq->queue, "listed", REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(redrive_queue_job(tq->queue, "listed", &job, NULL), 0);
    assert_int_equal(job.attempts, 3);
    assert_string_equal(job.error_type, "ConnectTimeout");
    redrive_queue_job_release(&job);
    assert_int_equal(redrive_queue_job(tq->queue, "other", &job, NULL), 0);
    assert_int_equal(job.attempts, 1);
    redrive_queue_job_release(&job);
}

static int fail_oddly(struct redrive_task_run *run, void *arg)
{
    (void)run, (void)arg;
    return 42;
}

static int64_t wait_half_a_minute(uint32_t n, uint64_t seed, void *ctx)
{
    (void)seed;
    atomic_fetch_add((atomic_uint *)ctx, n);
    return 30 * 1000;
}

BOTH_TEST(a_program_may_bring_its_own_strategy)
{
    atomic_uint asked = 0;
    const struct redrive_handle_options options = {.delay = wait_half_a_minute,
                                                   .delay_ctx = &asked};
    struct redrive_job_status job;
    int64_t before_ms = clock_wall_ms();
    submit(tq->queue, "t", "a");
    assert_int_equal(redrive_queue_handle(tq->queue, "t", fail_oddly, NULL, &options, NULL), 0);
    assert_int_equal(redrive_queue_work(tq->queue, REDRIVE_WORK_UNTIL_IDLE, NULL), 0);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_RETRYING);
    assert_int_equal(asked, 1);
    assert_true(job.process_after_ms >= before_ms + 30 * 1000);
    redrive_queue_job_release(&job);
}

static int fail_as_configured(struct redrive_task_run *run, void *arg)
{
    (void)run, (void)arg;
    return -ENOSPC;
}

BOTH_TEST(what_a_failure_says_is_kept_and_decides)
{
    struct redrive_job_status job;
    submit(tq->queue, "t", "a");
    submit(tq->queue, "odd", "b");
    submit(tq->queue, "own", "c");
    tq_handle(tq->queue, "t", fail_for_good, NULL, 1);
    tq_handle(tq->queue, "odd", fail_oddly, NULL, 1);
    tq_handle(tq->queue, "own", fail_as_configured, NULL, 1);
    work_until(tq->queue, "b", REDRIVE_STATE_DEAD_LETTER);

    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job.reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(job.attempts, 1);
    assert_string_equal(job.error_type, "NoSuchThing");
    assert_string_equal(job.message, "it is gone");
    redrive_queue_job_release(&job);

    assert_int_equal(redrive_queue_job(tq->queue, "b", &job, NULL), 0);
    assert_int_equal(job.class_, REDRIVE_CLASS_TRANSIENT);
    assert_string_equal(job.message, "the function returned 42");
    redrive_queue_job_release(&job);

    assert_int_equal(redrive_queue_job(tq->queue, "c", &job, NULL), 0);
    assert_int_equal(job.class_, REDRIVE_CLASS_VALIDATION);
    assert_int_equal(job.attempts, 1);
    redrive_queue_job_release(&job);
}

static int run_out_of_time(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    WAIT_FOR(redrive_task_run_cancelled(run));
    assert_int_equal(redrive_task_run_remaining_ms(run), 0);
    return -ECANCELED;
}

BOTH_TEST(a_run_that_is_out_of_time_is_told_and_has_timed_out)
{
    const struct redrive_handle_options options = {.timeout_ms = 20};
    const struct redrive_job_spec spec = {.task = "t", .id = "a", .retry = "{\"max_attempts\":1}"};
    struct redrive_job_status job;
    assert_int_equal(redrive_queue_submit(tq->queue, &spec, 1, 0, NULL, NULL), 0);
    assert_int_equal(redrive_queue_handle(tq->queue, "t", run_out_of_time, NULL, &options, NULL),
                     0);
    work_until_idle(tq->queue);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_DEAD_LETTER);
    assert_string_equal(job.error_type, "TimeoutError");
    assert_string_equal(job.message, "timed out after 20ms");
    redrive_queue_job_release(&job);
}

static int look_at_time(struct redrive_task_run *run, void *arg)
{
    *(int64_t *)arg = redrive_task_run_remaining_ms(run);
    return redrive_task_run_cancelled(run);
}

BOTH_TEST(a_time_out_that_is_too_far_away_is_none)
{
    const struct redrive_handle_options options = {.timeout_ms = INT64_MAX};
    int64_t left_ms = 0;
    submit(tq->queue, "t", "a");
    assert_int_equal(redrive_queue_handle(tq->queue, "t", look_at_time, &left_ms, &options, NULL),
                     0);
    work_until_idle(tq->queue);
    assert_int_equal(state_of(tq->queue, "a"), REDRIVE_STATE_COMPLETED);
    assert_true(left_ms == INT64_MAX);
}

static int give_too_much(struct redrive_task_run *run, void *arg)
{
    assert_int_equal(redrive_task_run_result(run, "ok", 2), 0);
    assert_int_equal(redrive_task_run_result(run, arg, REDRIVE_RESULT_MAX + 1), REDRIVE_E_TOO_BIG);
    return 0;
}

BOTH_TEST(a_result_that_is_too_big_leaves_the_earlier_one)
{
    char *big = calloc(1, REDRIVE_RESULT_MAX + 1);
    struct redrive_job_status job;
    submit(tq->queue, "t", "a");
    tq_handle(tq->queue, "t", give_too_much, big, 1);
    work_until_idle(tq->queue);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.result_len, 2);
    redrive_queue_job_release(&job);
    free(big);
}
