/* Jobs in steps: the same life as redrive_submit gives, asked for piece by piece. */
#include "fixture.h"

#include <semaphore.h>
#include <stdlib.h>

static const struct redrive_failure refused = {.errnum = ECONNREFUSED};
static const struct redrive_failure malformed = {.http_status = 422, .message = "no customer"};

static struct redrive_step *begin(struct fixture *f, const struct redrive_job *job,
                                  const struct redrive_step_options *options)
{
    struct redrive_err err = {0};
    struct redrive_step *step = redrive_step_begin(f->handler, job, options, &err);
    if (!step)
        fail_msg("%s", err.message);
    return step;
}

static int64_t wait_of(struct redrive_step *step)
{
    int64_t wait_ms = -1;
    assert_int_equal(redrive_step_next(step, &wait_ms), REDRIVE_STEP_WAIT);
    return wait_ms;
}

/* Makes the attempt that is due. */
static void attempt(struct redrive_step *step, const struct redrive_failure *failure)
{
    assert_int_equal(redrive_step_next(step, NULL), REDRIVE_STEP_RUN);
    redrive_step_done(step, failure);
}

static void count_wake(void *ctx)
{
    ++*(int *)ctx;
}

HANDLER_TEST(a_step_waits_as_long_as_the_policy_says)
{
    struct redrive_result result;
    struct redrive_step *step = begin(f, &(struct redrive_job){.task = "t"}, NULL);
    attempt(step, &refused);
    assert_int_equal(wait_of(step), 1 * SECOND);
    assert_int_equal(wait_of(step), 1 * SECOND);
    f->clock.now_ms += 400;
    assert_int_equal(wait_of(step), 600);
    f->clock.now_ms += 600;
    attempt(step, &refused);
    assert_int_equal(wait_of(step), 2 * SECOND);
    assert_int_equal(metrics_of(f->handler).waiting, 1);
    f->clock.now_ms += 2 * SECOND;
    assert_int_equal(redrive_step_next(step, NULL), REDRIVE_STEP_RUN);
    assert_int_equal(redrive_step_next(step, NULL), REDRIVE_STEP_RUN);
    assert_int_equal(redrive_run_attempt(redrive_step_run(step)), 3);
    redrive_step_done(step, NULL);
    redrive_step_done(step, &refused); /* there is no such attempt */
    assert_int_equal(redrive_step_next(step, NULL), REDRIVE_STEP_END);
    assert_int_equal(redrive_step_end(step, &result), 0);
    assert_int_equal(result.state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(result.attempts, 3);
    assert_int_equal(metrics_of(f->handler).jobs_completed, 1);
    check_balance(f->handler);
}

HANDLER_TEST(what_cannot_be_done_is_a_dead_letter_and_can_be_retried_in_steps)
{
    struct redrive_err err = {0};
    struct redrive_result result;
    struct redrive_step *step = begin(f, &(struct redrive_job){.task = "t", .id = "a"}, NULL);
    attempt(step, &malformed);
    assert_int_equal(redrive_step_next(step, NULL), REDRIVE_STEP_END);
    assert_int_equal(redrive_step_end(step, &result), REDRIVE_E_JOB_FAILED);
    assert_int_equal(result.class_, REDRIVE_CLASS_VALIDATION);
    assert_int_equal(dlq_of(f->handler).total_jobs, 1);

    assert_null(redrive_step_retry(f->handler, "b", NULL, &err));
    assert_int_equal(err.code, REDRIVE_E_NOT_FOUND);
    step = redrive_step_retry(f->handler, "a", NULL, &err);
    assert_non_null(step);
    assert_null(redrive_step_retry(f->handler, "a", NULL, &err));
    assert_int_equal(err.code, REDRIVE_E_STATE);
    attempt(step, NULL);
    assert_int_equal(redrive_step_end(step, &result), 0);
    assert_int_equal(dlq_of(f->handler).total_jobs, 0);
    check_balance(f->handler);
}

HANDLER_TEST(a_retry_that_is_given_up_leaves_the_dead_letter)
{
    bury(f, 1);
    struct ids ids = {0};
    redrive_dlq_list(f->handler, NULL, collect, &ids);
    struct redrive_step *step = redrive_step_retry(f->handler, ids.text, NULL, NULL);
    assert_int_equal(redrive_step_next(step, NULL), REDRIVE_STEP_RUN);
    assert_int_equal(redrive_step_end(step, NULL), REDRIVE_E_CANCELLED);
    assert_int_equal(dlq_of(f->handler).total_jobs, 1);
    check_balance(f->handler);
}

HANDLER_TEST(a_step_that_is_ended_early_is_cancelled)
{
    struct redrive_job job = {.task = "t", .id = "a"};
    struct redrive_result result;
    assert_int_equal(redrive_step_end(begin(f, &job, NULL), &result), REDRIVE_E_CANCELLED);
    assert_int_equal(result.attempts, 0);
    struct redrive_step *step = begin(f, &job, NULL);
    attempt(step, &refused);
    assert_int_equal(wait_of(step), 1 * SECOND);
    assert_int_equal(redrive_step_end(step, &result), REDRIVE_E_CANCELLED);
    assert_int_equal(result.attempts, 1);
    assert_int_equal(metrics_of(f->handler).jobs_cancelled, 2);
    assert_int_equal(redrive_step_end(NULL, NULL), REDRIVE_E_INVALID);
    check_balance(f->handler);
}

HANDLER_TEST(cancel_and_stop_wake_a_step)
{
    int wakes = 0;
    struct redrive_step_options options = {.wake = count_wake, .wake_ctx = &wakes};
    struct redrive_step *step = begin(f, &(struct redrive_job){.task = "t", .id = "a"}, &options);
    attempt(step, &refused);
    wait_of(step);
    assert_int_equal(redrive_cancel(f->handler, "a"), 0);
    assert_int_equal(wakes, 1);
    assert_int_equal(redrive_step_next(step, NULL), REDRIVE_STEP_END);
    assert_int_equal(redrive_step_end(step, NULL), REDRIVE_E_CANCELLED);
    redrive_handler_stop(f->handler);
    struct redrive_err err = {0};
    assert_null(redrive_step_begin(f->handler, &(struct redrive_job){.task = "t"}, &options, &err));
    assert_int_equal(err.code, REDRIVE_E_STOPPING);
}

OPTIONS_TEST(an_open_breaker_parks_a_step_until_the_probe)
{
    f->breaker.failure_threshold = 1;
    f->breaker.recovery_timeout_ms = 10 * SECOND;
    fixture_new_handler(f);
    int wakes = 0;
    struct redrive_step_options options = {.wake = count_wake, .wake_ctx = &wakes};
    struct redrive_step *first = begin(f, &(struct redrive_job){.task = "t"}, &options);
    struct redrive_step *second = begin(f, &(struct redrive_job){.task = "t"}, &options);
    attempt(first, &refused);
    assert_int_equal(wait_of(second), 10 * SECOND);
    assert_int_equal(metrics_of(f->handler).parked, 1);
    f->clock.now_ms += 10 * SECOND;
    attempt(second, NULL);
    assert_int_equal(breaker_of(f->handler, "t").state, REDRIVE_BREAKER_CLOSED);
    attempt(first, NULL);
    struct redrive_result result;
    assert_int_equal(redrive_step_end(first, NULL), 0);
    assert_int_equal(redrive_step_end(second, &result), 0);
    assert_int_equal(result.parked_ms, 10 * SECOND);
    check_balance(f->handler);
}

HANDLER_TEST(a_reset_by_hand_wakes_a_parked_step)
{
    int wakes = 0;
    struct redrive_step_options options = {.wake = count_wake, .wake_ctx = &wakes};
    assert_int_equal(redrive_call(f->handler, "t", succeed, NULL, NULL), 0);
    redrive_breaker_trip(f->handler, "t");
    struct redrive_step *step = begin(f, &(struct redrive_job){.task = "t"}, &options);
    assert_int_equal(wait_of(step), INT64_MAX);
    redrive_breaker_reset(f->handler, "t");
    assert_true(wakes >= 1);
    f->clock.now_ms += SECOND;
    attempt(step, NULL);
    assert_int_equal(redrive_step_end(step, NULL), 0);
}

OPTIONS_TEST(steps_take_turns_and_nested_ones_need_none)
{
    f->options.concurrency = 1;
    fixture_new_handler(f);
    int wakes = 0;
    struct redrive_step_options options = {.wake = count_wake, .wake_ctx = &wakes};
    struct redrive_step *first = begin(f, &(struct redrive_job){.task = "t"}, NULL);
    struct redrive_step *second = begin(f, &(struct redrive_job){.task = "t"}, &options);
    assert_int_equal(redrive_step_next(first, NULL), REDRIVE_STEP_RUN);
    assert_int_equal(wait_of(second), INT64_MAX);
    options.is_nested = true;
    struct redrive_step *inner = begin(f, &(struct redrive_job){.task = "t"}, &options);
    attempt(inner, NULL);
    assert_int_equal(redrive_step_end(inner, NULL), 0);
    assert_int_equal(wakes, 0);
    redrive_step_done(first, NULL);
    assert_int_equal(wakes, 1);
    assert_int_equal(redrive_step_end(first, NULL), 0);
    attempt(second, NULL);
    assert_int_equal(redrive_step_end(second, NULL), 0);
    check_balance(f->handler);
}

struct two_steps {
    struct fixture *f;
    struct redrive_step *woken;
    struct redrive_step *other;
    int wakes;
};

/* As the garbage collector of another language may do. */
static void end_both_steps(void *ctx)
{
    struct two_steps *steps = ctx;
    steps->wakes++;
    assert_int_equal(metrics_of(steps->f->handler).waiting, 2);
    assert_int_equal(redrive_step_end(steps->other, NULL), REDRIVE_E_CANCELLED);
    assert_int_equal(redrive_step_end(steps->woken, NULL), REDRIVE_E_CANCELLED);
}

HANDLER_TEST(a_wake_may_call_the_handler_and_end_steps_that_are_to_be_woken)
{
    int other_wakes = 0;
    struct two_steps steps = {.f = f};
    struct redrive_step_options options = {.wake = end_both_steps, .wake_ctx = &steps};
    steps.woken = begin(f, &(struct redrive_job){.task = "t"}, &options);
    options = (struct redrive_step_options){.wake = count_wake, .wake_ctx = &other_wakes};
    steps.other = begin(f, &(struct redrive_job){.task = "t"}, &options);
    attempt(steps.woken, &refused);
    attempt(steps.other, &refused);
    wait_of(steps.woken);
    wait_of(steps.other);
    redrive_handler_stop(f->handler);
    assert_int_equal(steps.wakes, 1);
    assert_int_equal(other_wakes, 0);
    check_balance(f->handler);
}

struct slow_wake {
    struct redrive_handler *handler;
    atomic_bool began;
    atomic_bool is_ending; /* the step is being ended */
    atomic_bool returned;
};

static void wake_slowly(void *ctx)
{
    struct slow_wake *slow = ctx;
    atomic_store(&slow->began, true);
    WAIT_FOR(atomic_load(&slow->is_ending));
    WAIT_FOR_REST(); /* that waits for this */
    atomic_store(&slow->returned, true);
}

static void *cancel_a(void *ctx)
{
    redrive_cancel(((struct slow_wake *)ctx)->handler, "a");
    return NULL;
}

HANDLER_TEST(the_end_of_a_step_waits_for_a_wake_in_another_thread)
{
    struct slow_wake slow = {.handler = f->handler};
    struct redrive_step_options options = {.wake = wake_slowly, .wake_ctx = &slow};
    struct redrive_step *step = begin(f, &(struct redrive_job){.task = "t", .id = "a"}, &options);
    attempt(step, &refused);
    wait_of(step);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_a, &slow), 0);
    WAIT_FOR(atomic_load(&slow.began));
    assert_int_equal(metrics_of(f->handler).waiting, 1); /* the handler is free */
    atomic_store(&slow.is_ending, true);
    assert_int_equal(redrive_step_end(step, NULL), REDRIVE_E_CANCELLED);
    assert_true(atomic_load(&slow.returned));
    assert_int_equal(pthread_join(thread, NULL), 0);
}

OPTIONS_TEST(threads_and_steps_share_a_handler)
{
    f->options.concurrency = 1;
    fixture_new_handler(f);
    struct redrive_step *step = begin(f, &(struct redrive_job){.task = "t"}, NULL);
    assert_int_equal(redrive_step_next(step, NULL), REDRIVE_STEP_RUN);
    struct job_thread thread = {.handler = f->handler, .job = {.task = "u"}, .fn = succeed};
    job_thread_start(&thread);
    WAIT_FOR(metrics_of(f->handler).queued == 1);
    redrive_step_done(step, NULL);
    assert_int_equal(job_thread_join(&thread), 0);
    assert_int_equal(redrive_step_end(step, NULL), 0);
    check_balance(f->handler);
}

static void post(void *ctx)
{
    sem_post(ctx);
}

/* The semaphore of each job is freed as soon as the job has ended: ASan sees a wake after that. */
static void *take_turns(void *ctx)
{
    struct redrive_handler *h = ctx;
    for (int i = 0; i < 500; i++) {
        sem_t *woken = malloc(sizeof *woken);
        assert_non_null(woken);
        sem_init(woken, 0, 0);
        struct redrive_step_options options = {.wake = post, .wake_ctx = woken};
        struct redrive_job job = {.task = "t"};
        struct redrive_step *step = redrive_step_begin(h, &job, &options, NULL);
        assert_non_null(step);
        while (redrive_step_next(step, NULL) == REDRIVE_STEP_WAIT)
            sem_wait(woken);
        if (i % 3 != 0)
            redrive_step_done(step, NULL);
        assert_int_equal(redrive_step_end(step, NULL), i % 3 != 0 ? 0 : REDRIVE_E_CANCELLED);
        sem_destroy(woken);
        free(woken);
    }
    return NULL;
}

OPTIONS_TEST(steps_of_many_threads_wake_each_other)
{
    f->options.concurrency = 1;
    fixture_new_handler(f);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, f->handler), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(metrics_of(f->handler).jobs_received, 2000);
    check_balance(f->handler);
}

HANDLER_TEST(wrong_jobs_are_refused)
{
    struct redrive_err err = {0};
    assert_null(redrive_step_begin(NULL, &(struct redrive_job){.task = "t"}, NULL, &err));
    assert_int_equal(err.code, REDRIVE_E_INVALID);
    assert_null(redrive_step_begin(f->handler, &(struct redrive_job){.task = ""}, NULL, NULL));
    assert_null(redrive_step_retry(f->handler, NULL, NULL, NULL));
    assert_int_equal(metrics_of(f->handler).jobs_received, 0);
}
