/* Functions that work jobs of a store, and what becomes of the jobs; each fact in memory and in a
 * file. */
#include "queue_bed.h"

static int setup(void **state)
{
    struct bed *bed = bed_new(*state);
    bed->queue = bed_open(bed);
    *state = bed;
    return 0;
}

static int teardown(void **state)
{
    bed_free(*state);
    return 0;
}

static void handle(struct redrive_queue *q, const char *task, redrive_task_fn fn, void *arg,
                   uint32_t concurrency)
{
    const struct redrive_handle_options options = {.concurrency = concurrency};
    assert_int_equal(redrive_queue_handle(q, task, fn, arg, &options, NULL), 0);
}

/* ---- Success and failure --------------------------------------------------------------------- */

static int succeed(struct redrive_task_run *run, void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    assert_int_equal(redrive_task_run_result(run, "early", 5), 0);
    return redrive_task_run_result(run, "{\"ok\":1}", 8);
}

static void a_job_that_succeeds_is_completed_with_its_result(void **state)
{
    const struct bed *bed = *state;
    atomic_int n = 0;
    struct redrive_job_status job;
    submit(bed->queue, "t", "a");
    handle(bed->queue, "t", succeed, &n, 1);
    work_until_idle(bed->queue);
    assert_int_equal(atomic_load(&n), 1);
    assert_int_equal(redrive_queue_job(bed->queue, "a", &job, NULL), 0);
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

static void a_job_is_given_the_results_of_those_that_it_waited_for(void **state)
{
    const struct bed *bed = *state;
    const struct redrive_job_after after[] = {{.id = "a"}, {.id = "much"}};
    const struct redrive_job_spec jobs[] = {
        {.task = "look", .id = "a"},
        {.task = "much", .id = "much"},
        {.task = "look", .id = "child", .after = after, .n_after = 2},
    };
    struct redrive_job_status job;
    assert_int_equal(redrive_queue_submit(bed->queue, jobs, 3, 0, NULL, NULL), 0);
    handle(bed->queue, "look", look_at_parents, NULL, 1);
    handle(bed->queue, "much", give_much, NULL, 1);
    work_until_idle(bed->queue);
    assert_int_equal(redrive_queue_job(bed->queue, "child", &job, NULL), 0);
    assert_string_equal(job.result, "a completed none;much completed omitted;");
    redrive_queue_job_release(&job);
}

static int look_at_mask(struct redrive_task_run *run, void *arg)
{
    (void)run;
    return pthread_sigmask(SIG_SETMASK, NULL, arg);
}

static void signals_are_left_to_the_program(void **state)
{
    const struct bed *bed = *state;
    sigset_t mask, mine;
    submit(bed->queue, "t", "a");
    handle(bed->queue, "t", look_at_mask, &mask, 1);
    work_until_idle(bed->queue);
    assert_int_equal(state_of(bed->queue, "a"), REDRIVE_STATE_COMPLETED);
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

static void a_function_sees_its_job(void **state)
{
    const struct bed *bed = *state;
    const struct redrive_job_spec job = {
        .task = "t",
        .id = "a",
        .payload = "[1, 2] and more",
        .payload_len = 6,
        .queue = "low",
        .deadline_ms = 60000,
    };
    assert_int_equal(redrive_queue_submit(bed->queue, &job, 1, 0, NULL, NULL), 0);
    handle(bed->queue, "t", elect, bed->queue, 1);
    work_until_idle(bed->queue);
    assert_int_equal(state_of(bed->queue, "a"), REDRIVE_STATE_COMPLETED);
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

static void a_function_sees_the_trace_of_its_submitter(void **state)
{
    const struct bed *bed = *state;
    const struct redrive_job_spec jobs[] = {
        {.task = "t", .id = "traced", .retry = "{\"max_retries\":7}", .traceparent = PARENT},
        {.task = "t", .id = "not traced", .retry = "{\"max_retries\":7}", .traceparent = "no"},
    };
    assert_int_equal(redrive_queue_submit(bed->queue, jobs, 2, 0, NULL, NULL), 0);
    handle(bed->queue, "t", compare_trace, NULL, 1);
    work_until_idle(bed->queue);
    assert_int_equal(state_of(bed->queue, "traced"), REDRIVE_STATE_COMPLETED);
    assert_int_equal(state_of(bed->queue, "not traced"), REDRIVE_STATE_COMPLETED);
}

static int refuse_connection(struct redrive_task_run *run, void *arg)
{
    assert_int_equal(redrive_task_run_attempt(run), atomic_fetch_add((atomic_int *)arg, 1) + 1);
    redrive_task_run_result(run, "half", 4);
    return -ECONNREFUSED;
}

static void a_failure_is_retried_until_it_is_a_dead_letter(void **state)
{
    const struct bed *bed = *state;
    atomic_int n = 0;
    struct redrive_job_status job;
    submit(bed->queue, "t", "a");
    handle(bed->queue, "t", refuse_connection, &n, 1);
    work_until(bed->queue, "a", REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(atomic_load(&n), 3);
    assert_int_equal(redrive_queue_job(bed->queue, "a", &job, NULL), 0);
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

static void a_base_type_is_looked_for_in_the_lists_of_a_policy(void **state)
{
    const struct bed *bed = *state;
    const struct redrive_job_spec jobs[] = {
        {.task = "t", .id = "listed", .retry = "{\"retry_on\": [\"HTTPError\"]}"},
        {.task = "t", .id = "other", .retry = "{\"retry_on\": [\"ValueError\"]}"},
    };
    struct redrive_job_status job;
    assert_int_equal(redrive_queue_submit(bed->queue, jobs, 2, 0, NULL, NULL), 0);
    handle(bed->queue, "t", fail_as_derived, NULL, 1);
    work_until(bed->queue, "listed", REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(redrive_queue_job(bed->queue, "listed", &job, NULL), 0);
    assert_int_equal(job.attempts, 3);
    assert_string_equal(job.error_type, "ConnectTimeout");
    redrive_queue_job_release(&job);
    assert_int_equal(redrive_queue_job(bed->queue, "other", &job, NULL), 0);
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

static void a_program_may_bring_its_own_strategy(void **state)
{
    const struct bed *bed = *state;
    atomic_uint asked = 0;
    const struct redrive_handle_options options = {.delay = wait_half_a_minute,
                                                   .delay_ctx = &asked};
    struct redrive_job_status job;
    int64_t before_ms = clock_wall_ms();
    submit(bed->queue, "t", "a");
    assert_int_equal(redrive_queue_handle(bed->queue, "t", fail_oddly, NULL, &options, NULL), 0);
    assert_int_equal(redrive_queue_work(bed->queue, REDRIVE_WORK_UNTIL_IDLE, NULL), 0);
    assert_int_equal(redrive_queue_job(bed->queue, "a", &job, NULL), 0);
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

static void what_a_failure_says_is_kept_and_decides(void **state)
{
    const struct bed *bed = *state;
    struct redrive_job_status job;
    submit(bed->queue, "t", "a");
    submit(bed->queue, "odd", "b");
    submit(bed->queue, "own", "c");
    handle(bed->queue, "t", fail_for_good, NULL, 1);
    handle(bed->queue, "odd", fail_oddly, NULL, 1);
    handle(bed->queue, "own", fail_as_configured, NULL, 1);
    work_until(bed->queue, "b", REDRIVE_STATE_DEAD_LETTER);

    assert_int_equal(redrive_queue_job(bed->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job.reason, REDRIVE_REASON_NOT_RETRIABLE);
    assert_int_equal(job.attempts, 1);
    assert_string_equal(job.error_type, "NoSuchThing");
    assert_string_equal(job.message, "it is gone");
    redrive_queue_job_release(&job);

    assert_int_equal(redrive_queue_job(bed->queue, "b", &job, NULL), 0);
    assert_int_equal(job.class_, REDRIVE_CLASS_TRANSIENT);
    assert_string_equal(job.message, "the function returned 42");
    redrive_queue_job_release(&job);

    assert_int_equal(redrive_queue_job(bed->queue, "c", &job, NULL), 0);
    assert_int_equal(job.class_, REDRIVE_CLASS_VALIDATION);
    assert_int_equal(job.attempts, 1);
    redrive_queue_job_release(&job);
}

static int run_out_of_time(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    while (!redrive_task_run_cancelled(run))
        sleep_ms(1);
    assert_int_equal(redrive_task_run_remaining_ms(run), 0);
    return -ECANCELED;
}

static void a_run_that_is_out_of_time_is_told_and_has_timed_out(void **state)
{
    const struct bed *bed = *state;
    const struct redrive_handle_options options = {.timeout_ms = 20};
    const struct redrive_job_spec spec = {.task = "t", .id = "a", .retry = "{\"max_attempts\":1}"};
    struct redrive_job_status job;
    assert_int_equal(redrive_queue_submit(bed->queue, &spec, 1, 0, NULL, NULL), 0);
    assert_int_equal(redrive_queue_handle(bed->queue, "t", run_out_of_time, NULL, &options, NULL),
                     0);
    work_until_idle(bed->queue);
    assert_int_equal(redrive_queue_job(bed->queue, "a", &job, NULL), 0);
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

static void a_time_out_that_is_too_far_away_is_none(void **state)
{
    const struct bed *bed = *state;
    const struct redrive_handle_options options = {.timeout_ms = INT64_MAX};
    int64_t left_ms = 0;
    submit(bed->queue, "t", "a");
    assert_int_equal(redrive_queue_handle(bed->queue, "t", look_at_time, &left_ms, &options, NULL),
                     0);
    work_until_idle(bed->queue);
    assert_int_equal(state_of(bed->queue, "a"), REDRIVE_STATE_COMPLETED);
    assert_true(left_ms == INT64_MAX);
}

static int give_too_much(struct redrive_task_run *run, void *arg)
{
    assert_int_equal(redrive_task_run_result(run, "ok", 2), 0);
    assert_int_equal(redrive_task_run_result(run, arg, REDRIVE_RESULT_MAX + 1), REDRIVE_E_TOO_BIG);
    return 0;
}

static void a_result_that_is_too_big_leaves_the_earlier_one(void **state)
{
    const struct bed *bed = *state;
    char *big = calloc(1, REDRIVE_RESULT_MAX + 1);
    struct redrive_job_status job;
    submit(bed->queue, "t", "a");
    handle(bed->queue, "t", give_too_much, big, 1);
    work_until_idle(bed->queue);
    assert_int_equal(redrive_queue_job(bed->queue, "a", &job, NULL), 0);
    assert_int_equal(job.result_len, 2);
    redrive_queue_job_release(&job);
    free(big);
}

/* ---- Slots ----------------------------------------------------------------------------------- */

struct crowd {
    atomic_int now;
    atomic_int most;
    atomic_int all;
    int awaited; /* nobody leaves before so many have been there at one time */
};

static int join_crowd(struct redrive_task_run *run, void *arg)
{
    struct crowd *crowd = arg;
    int now = atomic_fetch_add(&crowd->now, 1) + 1;
    int most = atomic_load(&crowd->most);
    (void)run;
    while (now > most && !atomic_compare_exchange_weak(&crowd->most, &most, now))
        ;
    wait_for(&crowd->most, crowd->awaited);
    sleep_ms(1);
    atomic_fetch_sub(&crowd->now, 1);
    atomic_fetch_add(&crowd->all, 1);
    return 0;
}

static void submit_many(struct redrive_queue *q, const char *task, size_t n)
{
    struct redrive_job_spec *jobs = calloc(n, sizeof *jobs);
    for (size_t i = 0; i < n; i++)
        jobs[i].task = task;
    assert_int_equal(redrive_queue_submit(q, jobs, n, 0, NULL, NULL), 0);
    free(jobs);
}

static void all_places_are_used_and_no_more(void **state)
{
    const struct bed *bed = *state;
    struct crowd crowd = {.awaited = 3};
    submit_many(bed->queue, "t", 20);
    handle(bed->queue, "t", join_crowd, &crowd, 3);
    work_until_idle(bed->queue);
    assert_int_equal(atomic_load(&crowd.all), 20);
    assert_int_equal(atomic_load(&crowd.most), 3);
}

static void each_task_has_places_of_its_own(void **state)
{
    const struct bed *bed = *state;
    struct crowd crowd = {.awaited = 2};
    submit_many(bed->queue, "t", 3);
    submit_many(bed->queue, "u", 3);
    handle(bed->queue, "t", join_crowd, &crowd, 1);
    handle(bed->queue, "u", join_crowd, &crowd, 1);
    work_until_idle(bed->queue);
    assert_int_equal(atomic_load(&crowd.all), 6);
    assert_int_equal(atomic_load(&crowd.most), 2);
}

static void limits_of_the_configuration_hold(void **state)
{
    const struct bed *bed = *state;
    struct crowd crowd = {.awaited = 1};
    struct worker worker;
    submit_many(bed->queue, "alone", 8);
    handle(bed->queue, "alone", join_crowd, &crowd, 4);
    worker_start(&worker, bed->queue);
    wait_for(&crowd.all, 8);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(atomic_load(&crowd.most), 1);
}

static void sleeping_places_wake_for_new_jobs(void **state)
{
    const struct bed *bed = *state;
    atomic_int n = 0;
    struct worker worker;
    handle(bed->queue, "t", succeed, &n, 2);
    worker_start(&worker, bed->queue);
    submit(bed->queue, "t", "a");
    wait_for_state(bed->queue, "a", REDRIVE_STATE_COMPLETED);
    const struct redrive_job_spec later = {.task = "t", .id = "b", .delay_ms = 100};
    struct redrive_submitted answer;
    assert_int_equal(redrive_queue_submit(bed->queue, &later, 1, 0, &answer, NULL), 0);
    assert_int_equal(answer.state, REDRIVE_STATE_SCHEDULED);
    wait_for_state(bed->queue, "b", REDRIVE_STATE_COMPLETED);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(atomic_load(&n), 2);
}

static int split(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    submit(redrive_task_run_owner(run), "part", "part-1");
    submit(redrive_task_run_owner(run), "part", "part-2");
    return 0;
}

static void a_function_may_submit(void **state)
{
    const struct bed *bed = *state;
    atomic_int n = 0;
    submit(bed->queue, "whole", "a");
    handle(bed->queue, "part", succeed, &n, 1);
    handle(bed->queue, "whole", split, NULL, 1);
    work_until_idle(bed->queue);
    assert_int_equal(atomic_load(&n), 2);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

static int take_long(struct redrive_task_run *run, void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    sleep_ms(2500);
    assert_false(redrive_task_run_cancelled(run));
    return 0;
}

static void heartbeats_keep_a_run_that_outlasts_its_lease(void **state)
{
    const struct bed *bed = *state;
    atomic_int n = 0;
    struct redrive_job_status job;
    submit(bed->queue, "long", "a");
    handle(bed->queue, "long", take_long, &n, 2);
    work_until_idle(bed->queue);
    assert_int_equal(redrive_queue_job(bed->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(job.attempts, 1);
    assert_int_equal(atomic_load(&n), 1);
    redrive_queue_job_release(&job);
}

static int wait_to_be_told(struct redrive_task_run *run, void *arg)
{
    const int64_t end_ms = clock_monotonic_ms() + LONG_MS;
    atomic_fetch_add((atomic_int *)arg, 1);
    while (!redrive_task_run_cancelled(run) && clock_monotonic_ms() < end_ms)
        sleep_ms(1);
    redrive_task_run_result(run, "late", 4);
    return 0;
}

static void a_cancelled_run_is_told_and_its_word_does_not_count(void **state)
{
    const struct bed *bed = *state;
    atomic_int n = 0;
    struct worker worker;
    struct redrive_job_status job;
    submit(bed->queue, "long", "a");
    handle(bed->queue, "long", wait_to_be_told, &n, 1);
    worker_start(&worker, bed->queue);
    wait_for(&n, 1);
    assert_int_equal(redrive_queue_cancel(bed->queue, "a", NULL), 0);
    assert_int_equal(redrive_queue_cancel(bed->queue, "a", NULL), REDRIVE_E_STATE);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(redrive_queue_job(bed->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_CANCELLED);
    assert_null(job.result);
    redrive_queue_job_release(&job);
}

static int notice(struct redrive_task_run *run, void *arg)
{
    struct redrive_queue *q = redrive_task_run_owner(run);
    (void)arg;
    assert_int_equal(redrive_task_run_extend(run, 60000, NULL), 0);
    assert_int_equal(redrive_queue_cancel(q, redrive_task_run_id(run), NULL), 0);
    assert_int_equal(redrive_task_run_extend(run, 0, NULL), REDRIVE_E_STATE);
    assert_true(redrive_task_run_cancelled(run));
    return 0;
}

static void extending_tells_whether_the_lease_is_still_held(void **state)
{
    const struct bed *bed = *state;
    submit(bed->queue, "t", "a");
    handle(bed->queue, "t", notice, NULL, 1);
    work_until_idle(bed->queue);
    assert_int_equal(state_of(bed->queue, "a"), REDRIVE_STATE_CANCELLED);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

struct gate {
    atomic_int arrived;
    atomic_bool is_open;
};

static int wait_at_gate(struct redrive_task_run *run, void *arg)
{
    struct gate *gate = arg;
    (void)run;
    atomic_fetch_add(&gate->arrived, 1);
    while (!atomic_load(&gate->is_open))
        sleep_ms(1);
    return 0;
}

static void a_stop_lets_what_runs_end_and_takes_no_more(void **state)
{
    const struct bed *bed = *state;
    struct gate gate = {0};
    struct worker worker;
    struct redrive_job_status job;
    handle(bed->queue, "t", wait_at_gate, &gate, 1);
    submit(bed->queue, "t", "a");
    submit(bed->queue, "t", "b");
    worker_start(&worker, bed->queue);
    wait_for(&gate.arrived, 1);
    redrive_queue_stop(bed->queue, LONG_MS);
    /* It goes on being usable while it drains. */
    assert_int_equal(state_of(bed->queue, "a"), REDRIVE_STATE_RUNNING);
    atomic_store(&gate.is_open, true);
    worker_join(&worker);
    assert_int_equal(state_of(bed->queue, "a"), REDRIVE_STATE_COMPLETED);
    assert_int_equal(redrive_queue_job(bed->queue, "b", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(job.attempts, 0);
    redrive_queue_job_release(&job);
}

static int leave_when_told(struct redrive_task_run *run, void *arg)
{
    wait_to_be_told(run, arg);
    return strcmp(redrive_task_run_id(run), "done") == 0 ? 0 : -EINTR;
}

static void after_the_grace_runs_are_told_and_released(void **state)
{
    const struct bed *bed = *state;
    atomic_int n = 0;
    struct worker worker;
    struct redrive_job_status job;
    handle(bed->queue, "t", leave_when_told, &n, 2);
    submit(bed->queue, "t", "done");
    submit(bed->queue, "t", "half");
    worker_start(&worker, bed->queue);
    wait_for(&n, 2);
    redrive_queue_stop(bed->queue, LONG_MS);
    worker_stop(&worker, 0); /* the second hurries */
    assert_int_equal(state_of(bed->queue, "done"), REDRIVE_STATE_COMPLETED);
    assert_int_equal(redrive_queue_job(bed->queue, "half", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(job.attempts, 0);
    redrive_queue_job_release(&job);
}

static struct redrive_queue *signalled;

static void on_signal(int number)
{
    (void)number;
    redrive_queue_stop(signalled, LONG_MS);
}

static void a_signal_handler_may_stop(void **state)
{
    const struct bed *bed = *state;
    atomic_int n = 0;
    struct worker worker;
    signalled = bed->queue;
    assert_true(signal(SIGUSR1, on_signal) != SIG_ERR);
    handle(bed->queue, "t", succeed, &n, 2);
    submit(bed->queue, "t", "a");
    worker_start(&worker, bed->queue);
    wait_for(&n, 1);
    errno = EDOM;
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(errno, EDOM);
    worker_join(&worker);
    assert_int_equal(state_of(bed->queue, "a"), REDRIVE_STATE_COMPLETED);
}

static void a_stop_before_work_ends_it_at_once(void **state)
{
    const struct bed *bed = *state;
    atomic_int n = 0;
    handle(bed->queue, "t", succeed, &n, 3);
    submit(bed->queue, "t", "a");
    redrive_queue_stop(bed->queue, LONG_MS);
    assert_int_equal(redrive_queue_work(bed->queue, 0, NULL), 0);
    assert_int_equal(atomic_load(&n), 0);
    assert_int_equal(state_of(bed->queue, "a"), REDRIVE_STATE_QUEUED);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

#define STRESS_THREADS 4
#define STRESS_JOBS    150

struct stress {
    struct redrive_queue *queue;
    atomic_int runs[STRESS_THREADS * STRESS_JOBS];
    atomic_int ended;
};

static int count_run(struct redrive_task_run *run, void *arg)
{
    struct stress *stress = arg;
    int number = atoi(redrive_task_run_payload(run, NULL));
    atomic_fetch_add(&stress->runs[number], 1);
    if (number % 10 == 0 && redrive_task_run_attempt(run) == 1)
        return -EAGAIN;
    atomic_fetch_add(&stress->ended, 1);
    return 0;
}

static void *submit_some(void *arg)
{
    struct stress *stress = arg;
    static atomic_int next;
    for (int i = 0; i < STRESS_JOBS; i++) {
        char payload[16];
        int number = atomic_fetch_add(&next, 1) % (STRESS_THREADS * STRESS_JOBS);
        snprintf(payload, sizeof payload, "%d", number);
        const struct redrive_job_spec job = {.task = number % 2 ? "t" : "u", .payload = payload};
        assert_int_equal(redrive_queue_submit(stress->queue, &job, 1, 0, NULL, NULL), 0);
    }
    return NULL;
}

static void each_of_many_jobs_runs_as_often_as_it_should(void **state)
{
    const struct bed *bed = *state;
    struct stress *stress = calloc(1, sizeof *stress);
    pthread_t threads[STRESS_THREADS];
    struct worker worker;
    stress->queue = bed->queue;
    handle(bed->queue, "t", count_run, stress, 3);
    handle(bed->queue, "u", count_run, stress, 3);
    worker_start(&worker, bed->queue);
    for (int i = 0; i < STRESS_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_some, stress), 0);
    for (int i = 0; i < STRESS_THREADS; i++)
        pthread_join(threads[i], NULL);
    wait_for(&stress->ended, STRESS_THREADS * STRESS_JOBS);
    worker_stop(&worker, LONG_MS);
    for (int i = 0; i < STRESS_THREADS * STRESS_JOBS; i++)
        assert_int_equal(atomic_load(&stress->runs[i]), i % 10 == 0 ? 2 : 1);
    free(stress);
}

#define IN_BOTH(function)                                                    \
    {#function "_in_memory", function, setup, teardown, (void *)"memory:"},  \
    {                                                                        \
#function "_in_a_file", function, setup, teardown, (void *)"sqlite:" \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH(a_job_that_succeeds_is_completed_with_its_result),
        IN_BOTH(a_job_is_given_the_results_of_those_that_it_waited_for),
        IN_BOTH(signals_are_left_to_the_program),
        IN_BOTH(a_function_sees_its_job),
        IN_BOTH(a_function_sees_the_trace_of_its_submitter),
        IN_BOTH(a_failure_is_retried_until_it_is_a_dead_letter),
        IN_BOTH(what_a_failure_says_is_kept_and_decides),
        IN_BOTH(a_program_may_bring_its_own_strategy),
        IN_BOTH(a_base_type_is_looked_for_in_the_lists_of_a_policy),
        IN_BOTH(a_run_that_is_out_of_time_is_told_and_has_timed_out),
        IN_BOTH(a_time_out_that_is_too_far_away_is_none),
        IN_BOTH(a_result_that_is_too_big_leaves_the_earlier_one),
        IN_BOTH(all_places_are_used_and_no_more),
        IN_BOTH(each_task_has_places_of_its_own),
        IN_BOTH(limits_of_the_configuration_hold),
        IN_BOTH(sleeping_places_wake_for_new_jobs),
        IN_BOTH(a_function_may_submit),
        IN_BOTH(heartbeats_keep_a_run_that_outlasts_its_lease),
        IN_BOTH(a_cancelled_run_is_told_and_its_word_does_not_count),
        IN_BOTH(extending_tells_whether_the_lease_is_still_held),
        IN_BOTH(a_stop_lets_what_runs_end_and_takes_no_more),
        IN_BOTH(after_the_grace_runs_are_told_and_released),
        IN_BOTH(a_signal_handler_may_stop),
        IN_BOTH(a_stop_before_work_ends_it_at_once),
        IN_BOTH(each_of_many_jobs_runs_as_often_as_it_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
