/* Threads that share a handler: turns, cancellation in each phase, stopping, virtual time. */
#include "fixture.h"

/* ---- Turns ----------------------------------------------------------------------------------- */

/* The first job holds the only slot until the test says otherwise. */
struct gate {
    atomic_bool is_open;
    atomic_int n;
    char names[16];
};

static int wait_at_gate(struct redrive_run *run, void *arg)
{
    struct gate *gate = arg;
    HOLD_UNTIL(atomic_load(&gate->is_open));
    gate->names[atomic_fetch_add(&gate->n, 1)] = redrive_run_job_id(run)[0];
    return 0;
}

OPTIONS_TEST(turns_go_by_priority_then_age)
{
    f->options.concurrency = 1;
    fixture_new_handler(f);
    struct gate gate = {0};
    const struct redrive_job jobs[] = {
        {.id = "a", .task = "t"},
        {.id = "b", .task = "t", .priority = -1},
        {.id = "c", .task = "t", .priority = 5},
        {.id = "d", .task = "t"},
        {.id = "e", .task = "t", .priority = 5},
        {.id = "f", .task = "t"},
    };
    struct job_thread t[6];
    for (int i = 0; i < 6; i++) {
        t[i] = (struct job_thread){f->handler, jobs[i], wait_at_gate, &gate};
        job_thread_start(&t[i]);
        if (i == 0)
            WAIT_FOR(metrics_of(f->handler).running == 1);
        else
            WAIT_FOR(metrics_of(f->handler).queued == (unsigned)i);
    }
    assert_int_equal(metrics_of(f->handler).running, 1);
    atomic_store(&gate.is_open, true);
    for (int i = 0; i < 6; i++)
        assert_int_equal(job_thread_join(&t[i]), 0);
    assert_memory_equal(gate.names, "acedfb", 6);
}

/* None leaves before three have been there at one time. */
struct crowd {
    atomic_int now;
    atomic_int most;
};

static int join_crowd(struct redrive_run *run, void *arg)
{
    struct crowd *crowd = arg;
    int now = atomic_fetch_add(&crowd->now, 1) + 1;
    int most = atomic_load(&crowd->most);
    while (now > most && !atomic_compare_exchange_weak(&crowd->most, &most, now))
        ;
    WAIT_FOR(crowd->most >= 3);
    pass_ms(1);
    atomic_fetch_sub(&crowd->now, 1);
    return redrive_run_attempt(run) < 3 ? -EAGAIN : 0;
}

OPTIONS_TEST(no_more_run_at_one_time_than_concurrency_allows)
{
    f->options.concurrency = 3;
    fixture_new_handler(f);
    struct crowd crowd = {0};
    struct job_thread t[8];
    for (int i = 0; i < 8; i++) {
        t[i] = (struct job_thread){f->handler, {.task = "t"}, join_crowd, &crowd};
        job_thread_start(&t[i]);
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(job_thread_join(&t[i]), 0);
    assert_int_equal(crowd.most, 3);
    check_balance(f->handler);
}

/* Fails once; its retry finds the slot taken for ten seconds. */
struct slow_neighbour {
    struct fixture *fixture;
    atomic_bool has_slot;
};

static int take_ten_seconds(struct redrive_run *run, void *arg)
{
    struct slow_neighbour *n = arg;
    (void)run;
    atomic_store(&n->has_slot, true);
    WAIT_FOR(metrics_of(n->fixture->handler).queued == 1);
    atomic_fetch_add(&n->fixture->clock.now_ms, 10 * SECOND);
    return 0;
}

static int fail_once_then_check_remaining(struct redrive_run *run, void *arg)
{
    (void)arg;
    if (redrive_run_attempt(run) == 1)
        return -EAGAIN;
    assert_int_equal(redrive_run_remaining_ms(run), 4 * SECOND);
    return 0;
}

OPTIONS_TEST(waiting_for_a_turn_does_not_count_for_the_total_timeout)
{
    f->options.concurrency = 1;
    f->policy.total_timeout_ms = 5 * SECOND;
    fixture_new_handler(f);
    struct slow_neighbour n = {.fixture = f};
    struct job_thread a = {f->handler, {.task = "a"}, fail_once_then_check_remaining, NULL};
    struct job_thread b = {f->handler, {.task = "b"}, take_ten_seconds, &n};
    atomic_store(&f->clock.held, true);
    job_thread_start(&a);
    WAIT_FOR(metrics_of(f->handler).waiting == 1);
    job_thread_start(&b);
    WAIT_FOR(atomic_load(&n.has_slot));
    atomic_store(&f->clock.held, false);
    assert_int_equal(job_thread_join(&a), 0);
    assert_int_equal(job_thread_join(&b), 0);
    assert_int_equal(a.result.elapsed_ms, 11 * SECOND);
    assert_int_equal(a.result.parked_ms, 0);
}

static int move_clock_past_deadlines(struct redrive_run *run, void *arg)
{
    struct fixture *f = arg;
    (void)run;
    WAIT_FOR(metrics_of(f->handler).queued == 1);
    atomic_fetch_add(&f->clock.now_ms, MINUTE);
    return 0;
}

OPTIONS_TEST(a_deadline_can_pass_while_waiting_for_a_turn)
{
    f->options.concurrency = 1;
    fixture_new_handler(f);
    struct job_thread a = {f->handler, {.task = "a"}, move_clock_past_deadlines, f};
    struct job_thread b = {f->handler, {.task = "b", .deadline_ms = SECOND}, succeed, NULL};
    job_thread_start(&a);
    WAIT_FOR(metrics_of(f->handler).running == 1);
    job_thread_start(&b);
    assert_int_equal(job_thread_join(&a), 0);
    assert_int_equal(job_thread_join(&b), REDRIVE_E_DEADLINE);
    assert_int_equal(b.result.attempts, 0);
    assert_int_equal(redrive_call(f->handler, "c", succeed, NULL, NULL), 0); /* the slot is free */
}

TEST(a_deadline_ends_the_wait_for_a_turn_in_real_time)
{
    struct redrive_handler *h =
        redrive_handler_new(&(struct redrive_handler_options){.concurrency = 1}, NULL);
    struct gate gate = {0};
    struct job_thread a = {h, {.id = "a", .task = "a"}, wait_at_gate, &gate};
    job_thread_start(&a);
    WAIT_FOR(metrics_of(h).running == 1);
    struct redrive_job job = {.task = "b", .deadline_ms = 20};
    struct redrive_result result;
    assert_int_equal(redrive_submit(h, &job, succeed, NULL, &result), REDRIVE_E_DEADLINE);
    assert_true(result.elapsed_ms >= 20);
    atomic_store(&gate.is_open, true);
    assert_int_equal(job_thread_join(&a), 0);
    redrive_handler_free(h);
}

/* ---- Cancellation, in real time -------------------------------------------------------------- */

static struct redrive_handler *patient_handler(uint32_t concurrency)
{
    struct redrive_policy policy;
    redrive_policy_init(&policy);
    policy.backoff.strategy = REDRIVE_STRATEGY_FIXED;
    policy.backoff.jitter.mode = REDRIVE_JITTER_NONE;
    policy.backoff.initial_delay_ms = policy.backoff.max_delay_ms = 100 * SECOND;
    struct redrive_handler_options options = {.policy = &policy, .concurrency = concurrency};
    return redrive_handler_new(&options, NULL);
}

static void check_cancelled(struct job_thread *t, unsigned attempts)
{
    assert_int_equal(redrive_cancel(t->handler, t->job.id), 0);
    assert_int_equal(job_thread_join(t), REDRIVE_E_CANCELLED);
    assert_int_equal(t->result.state, REDRIVE_STATE_CANCELLED);
    assert_int_equal(t->result.reason, REDRIVE_REASON_NONE);
    assert_int_equal(t->result.attempts, attempts);
    assert_true(t->result.elapsed_ms < 60 * SECOND);
    assert_int_equal(redrive_cancel(t->handler, t->job.id), REDRIVE_E_NOT_FOUND);
    assert_int_equal(metrics_of(t->handler).jobs_cancelled, 1);
    assert_int_equal(dlq_of(t->handler).total_jobs, 0);
    check_balance(t->handler);
}

TEST(a_job_that_waits_for_a_retry_is_cancelled_at_once)
{
    struct redrive_handler *h = patient_handler(0);
    struct job_thread t = {h, {.id = "a", .task = "t"}, refuse_connection};
    job_thread_start(&t);
    WAIT_FOR(metrics_of(h).waiting == 1);
    check_cancelled(&t, 1);
    assert_string_equal(t.result.error.message, "t was cancelled after 1 of 6 attempts");
    redrive_handler_free(h);
}

TEST(a_parked_job_is_cancelled_at_once)
{
    struct redrive_handler *h = patient_handler(0);
    redrive_call(h, "t", succeed, NULL, NULL);
    redrive_breaker_trip(h, "t");
    struct job_thread t = {h, {.id = "a", .task = "t"}, succeed};
    job_thread_start(&t);
    WAIT_FOR(metrics_of(h).parked == 1);
    check_cancelled(&t, 0);
    assert_int_equal(breaker_of(h, "t").parked, 0);
    redrive_handler_free(h);
}

TEST(a_queued_job_is_cancelled_at_once)
{
    struct redrive_handler *h = patient_handler(1);
    struct gate gate = {0};
    struct job_thread holder = {h, {.id = "h", .task = "t"}, wait_at_gate, &gate};
    struct job_thread t = {h, {.id = "a", .task = "t"}, succeed};
    job_thread_start(&holder);
    WAIT_FOR(metrics_of(h).running == 1);
    job_thread_start(&t);
    WAIT_FOR(metrics_of(h).queued == 1);
    check_cancelled(&t, 0);
    atomic_store(&gate.is_open, true);
    assert_int_equal(job_thread_join(&holder), 0);
    redrive_handler_free(h);
}

static int return_when_cancelled(struct redrive_run *run, void *arg)
{
    WAIT_FOR(redrive_run_cancelled(run));
    return *(int *)arg;
}

TEST(a_running_job_is_asked_and_not_retried)
{
    struct redrive_handler *h = patient_handler(0);
    struct job_thread t = {h, {.id = "a", .task = "t"}, return_when_cancelled, &(int){-EINTR}};
    job_thread_start(&t);
    WAIT_FOR(metrics_of(h).running == 1);
    check_cancelled(&t, 1);
    redrive_handler_free(h);
}

HANDLER_TEST(a_cancelled_run_says_nothing_about_health)
{
    redrive_call(f->handler, "t", refuse_login, NULL, NULL);
    struct job_thread t = {
        f->handler, {.id = "a", .task = "t"}, return_when_cancelled, &(int){-EINTR}};
    job_thread_start(&t);
    WAIT_FOR(metrics_of(f->handler).running == 1);
    redrive_cancel(f->handler, "a");
    assert_int_equal(job_thread_join(&t), REDRIVE_E_CANCELLED);
    assert_true(health_of(f->handler).error_rate == 1);
}

TEST(a_running_job_that_succeeds_nevertheless_has_completed)
{
    struct redrive_handler *h = patient_handler(0);
    struct job_thread t = {h, {.id = "a", .task = "t"}, return_when_cancelled, &(int){0}};
    job_thread_start(&t);
    WAIT_FOR(metrics_of(h).running == 1);
    assert_int_equal(redrive_cancel(h, "a"), 0);
    assert_int_equal(job_thread_join(&t), 0);
    assert_int_equal(t.result.state, REDRIVE_STATE_COMPLETED);
    redrive_handler_free(h);
}

TEST(cancel_needs_a_handler_and_an_id)
{
    struct redrive_handler *h = patient_handler(0);
    assert_int_equal(redrive_cancel(h, NULL), REDRIVE_E_INVALID);
    assert_int_equal(redrive_cancel(NULL, "a"), REDRIVE_E_INVALID);
    assert_int_equal(redrive_cancel(h, "a"), REDRIVE_E_NOT_FOUND);
    redrive_handler_free(h);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

TEST(stop_ends_all_phases_and_refuses_new_jobs)
{
    struct redrive_handler *h = patient_handler(2);
    redrive_call(h, "down", succeed, NULL, NULL);
    redrive_breaker_trip(h, "down");
    struct job_thread t[] = {
        {h, {.id = "parked", .task = "down"}, succeed},
        {h, {.id = "waiting", .task = "t"}, refuse_connection},
        {h, {.id = "running", .task = "t"}, return_when_cancelled, &(int){-EINTR}},
        {h, {.id = "done", .task = "t"}, return_when_cancelled, &(int){0}},
        {h, {.id = "queued", .task = "t"}, succeed},
    };
    job_thread_start(&t[0]);
    WAIT_FOR(metrics_of(h).parked == 1);
    job_thread_start(&t[1]);
    WAIT_FOR(metrics_of(h).waiting == 1);
    job_thread_start(&t[2]);
    job_thread_start(&t[3]);
    WAIT_FOR(metrics_of(h).running == 2);
    job_thread_start(&t[4]);
    WAIT_FOR(metrics_of(h).queued == 1);
    redrive_handler_stop(h);
    for (int i = 0; i < 5; i++)
        assert_int_equal(job_thread_join(&t[i]), i == 3 ? 0 : REDRIVE_E_CANCELLED);
    struct redrive_result result;
    assert_int_equal(redrive_call(h, "t", succeed, NULL, &result), REDRIVE_E_STOPPING);
    assert_string_equal(result.error.message, "handler redrive is being stopped");
    assert_int_equal(metrics_of(h).jobs_cancelled, 4);
    check_balance(h);
    redrive_handler_stop(h);
    redrive_handler_stop(NULL);
    redrive_handler_free(h);
}

static int stop_own_handler(struct redrive_run *run, void *arg)
{
    redrive_handler_stop(arg);
    assert_true(redrive_run_cancelled(run));
    return -EAGAIN;
}

HANDLER_TEST(stop_from_inside_asks_but_does_not_wait)
{
    assert_int_equal(redrive_call(f->handler, "t", stop_own_handler, f->handler, NULL),
                     REDRIVE_E_CANCELLED);
}

TEST(a_stopped_handler_may_be_freed_at_once)
{
    for (int round = 0; round < 50; round++) {
        struct redrive_handler *h = patient_handler(0);
        struct job_thread t[4];
        for (int i = 0; i < 4; i++) {
            t[i] = (struct job_thread){h, {.task = "t"}, refuse_connection};
            job_thread_start(&t[i]);
        }
        WAIT_FOR(metrics_of(h).waiting == 4);
        redrive_handler_stop(h);
        redrive_handler_free(h);
        for (int i = 0; i < 4; i++)
            assert_int_equal(job_thread_join(&t[i]), REDRIVE_E_CANCELLED);
    }
}

/* ---- Virtual time ---------------------------------------------------------------------------- */

/* All first attempts meet before they fail, so that all retries are due at the same time. */
static int fail_together(struct redrive_run *run, void *arg)
{
    pthread_barrier_t *barrier = arg;
    if (redrive_run_attempt(run) == 1)
        pthread_barrier_wait(barrier);
    return redrive_run_attempt(run) < 4 ? -EAGAIN : 0;
}

OPTIONS_TEST(virtual_time_passes_once_for_all_threads)
{
    f->breaker.failure_threshold = 0;
    f->breaker.failure_rate = 0;
    fixture_new_handler(f);
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 8);
    struct job_thread t[8];
    for (int i = 0; i < 8; i++) {
        t[i] = (struct job_thread){f->handler, {.task = "t"}, fail_together, &barrier};
        job_thread_start(&t[i]);
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(job_thread_join(&t[i]), 0);
        assert_int_equal(t[i].result.elapsed_ms, 7 * SECOND);
    }
    assert_int_equal(fixture_elapsed_ms(f), 7 * SECOND);
    pthread_barrier_destroy(&barrier);
}

static void wait_half(int64_t ms, void *ctx)
{
    atomic_fetch_add(&((struct test_clock *)ctx)->now_ms, (ms + 1) / 2);
}

OPTIONS_TEST(a_wait_that_returns_early_is_continued)
{
    f->options.clock.wait_ms = wait_half;
    fixture_new_handler(f);
    struct script script = {.failures = 2, .code = -EAGAIN};
    struct redrive_result result;
    assert_int_equal(redrive_call(f->handler, "t", run_script, &script, &result), 0);
    assert_int_equal(result.elapsed_ms, 3 * SECOND);
}

TEST(retries_wait_in_real_time_without_a_clock)
{
    struct redrive_policy policy;
    redrive_policy_init(&policy);
    policy.backoff.strategy = REDRIVE_STRATEGY_FIXED;
    policy.backoff.jitter.mode = REDRIVE_JITTER_NONE;
    policy.backoff.min_delay_ms = 0;
    policy.backoff.initial_delay_ms = 15;
    struct redrive_handler_options options = {.policy = &policy};
    struct redrive_handler *h = redrive_handler_new(&options, NULL);
    struct script script = {.failures = 2, .code = -EAGAIN};
    struct redrive_result result;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    assert_int_equal(redrive_call(h, "t", run_script, &script, &result), 0);
    clock_gettime(CLOCK_MONOTONIC, &to);
    int64_t ms = (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
    assert_in_range(ms, 29, 15000); /* two waits of 15 s, were they seconds, would be 30 */
    assert_in_range(result.elapsed_ms, 29, 15000);
    redrive_handler_free(h);
}
