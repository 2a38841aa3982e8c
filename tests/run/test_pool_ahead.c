/* Jobs that are claimed before there is a slot for them: they start when there is one, or go back
 * and lose no attempt. */
#include "pool_for_test.h"

#include <stdio.h>

#define QUICK "{}"
#define SLEEP "{\"do\":\"sleep\",\"s\":%s}"
#define FAIL  "{\"do\":\"answer\",\"answer\":{\"status\":\"TRANSIENT_FAIL\"}}"
#define DIE   "{\"do\":\"exit\",\"code\":1}"

#define RETRY "retry: {strategy: fixed, initial_delay: 1h, jitter: none}"

enum {
    BEFORE = 150, /* jobs by which the pool learns that the handler is quick */
    AFTER = 20
};

static const char *here;

/* A pool with a stream handler that takes one job at a time, and more of the task's settings. */
static void init_with(struct test_pool *tp, const char *more)
{
    char yaml[4600];
    (void)snprintf(yaml, sizeof yaml, "tasks: {s: {run: {stream: [python3, %s/worker.py]}, %s}}\n",
                   here, more);
    tp_init(tp, yaml);
}

static void init(struct test_pool *tp)
{
    init_with(tp, RETRY);
}

/* Quick jobs, then one of its own kind, then quick ones again, which are claimed ahead while the
 * one runs. Returns its number; those after it follow. */
static int64_t fill(struct test_pool *tp, const char *payload)
{
    for (int i = 0; i < BEFORE; i++)
        (void)tp_submit(tp, "s", QUICK);
    int64_t seq = tp_submit(tp, "s", payload);
    for (int i = 0; i < AFTER; i++)
        (void)tp_submit(tp, "s", QUICK);
    return seq;
}

/* The one of its own kind runs, and others wait behind it. */
static bool are_waiting(struct test_pool *tp)
{
    return tp->told[ENGINE_EVENT_COMPLETED] == BEFORE && pool_status(tp->pool).running > 1;
}

static void check_job(struct test_pool *tp, int64_t seq, enum redrive_state state,
                      uint32_t attempts)
{
    struct job_page page = {0};
    const struct job *job = tp_job(tp, seq, &page);
    assert_int_equal(job->status.state, state);
    assert_int_equal(job->status.attempts, attempts);
    job_page_release(&page);
}

#define AHEAD_TEST(test) TEST_OF(test, struct test_pool, tp, init(tp), tp_release(tp))

AHEAD_TEST(waiting_jobs_go_back_at_once_when_the_pool_stops)
{
    char payload[64];
    (void)snprintf(payload, sizeof payload, SLEEP, "0.2");
    int64_t slow = fill(tp, payload);
    tp_start(tp);
    tp_until(tp, are_waiting);
    pool_stop(tp->pool, 30000);
    tp_until_stopped(tp);
    check_job(tp, slow, REDRIVE_STATE_COMPLETED, 1);
    for (int i = 1; i <= AFTER; i++)
        check_job(tp, slow + i, REDRIVE_STATE_QUEUED, 0);
    assert_int_equal(tp->told[ENGINE_EVENT_COMPLETED], BEFORE + 1);
}

AHEAD_TEST(waiting_jobs_go_back_when_the_handler_has_become_slow)
{
    char payload[64];
    (void)snprintf(payload, sizeof payload, SLEEP, "0.7");
    int64_t slow = fill(tp, payload);
    tp_start(tp);
    tp_until_told(tp, ENGINE_EVENT_RELEASED, 1);
    assert_int_equal(tp_state(tp, slow), REDRIVE_STATE_RUNNING);
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, BEFORE + 1 + AFTER);
    for (int i = 0; i <= AFTER; i++)
        check_job(tp, slow + i, REDRIVE_STATE_COMPLETED, 1);
}

AHEAD_TEST(waiting_jobs_outlive_the_handler_and_lose_no_attempt)
{
    int64_t deadly = fill(tp, DIE);
    tp->options.until_idle = true;
    tp_start(tp);
    tp_until_stopped(tp);
    check_job(tp, deadly, REDRIVE_STATE_RETRYING, 1);
    for (int i = 1; i <= AFTER; i++)
        check_job(tp, deadly + i, REDRIVE_STATE_COMPLETED, 1);
    assert_int_equal(tp->told[ENGINE_EVENT_RETRYING], 1);
}

TEST(failure_that_opens_the_breaker_is_the_last_run)
{
    struct test_pool tp;
    init_with(&tp, RETRY ", breaker: {failure_threshold: 1}");
    int64_t failing = fill(&tp, FAIL);
    tp.options.until_idle = true;
    tp_start(&tp);
    tp_until_stopped(&tp);
    assert_int_equal(pool_status(tp.pool).ended, BEFORE + 1);
    check_job(&tp, failing, REDRIVE_STATE_RETRYING, 1);
    for (int i = 1; i <= AFTER; i++)
        check_job(&tp, failing + i, REDRIVE_STATE_PARKED, 0);
    tp_release(&tp);
}

AHEAD_TEST(waiting_job_that_is_cancelled_does_not_run)
{
    char payload[64];
    (void)snprintf(payload, sizeof payload, SLEEP, "0.15");
    tp->tells_of_cancels = true;
    int64_t slow = fill(tp, payload);
    tp_start(tp);
    tp_until(tp, are_waiting);
    assert_int_equal(tp_state(tp, slow + 1), REDRIVE_STATE_RUNNING);
    assert_int_equal(tp_change(tp, MOVE_CANCEL, slow + 1), 0);
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, BEFORE + AFTER);
    assert_int_equal(pool_status(tp->pool).ended, BEFORE + AFTER);
    assert_int_equal(tp_state(tp, slow + 1), REDRIVE_STATE_CANCELLED);
}

static bool has_ended_without_waiting(struct test_pool *tp)
{
    assert_true(pool_status(tp->pool).running <= 1);
    return tp->is_stopped;
}

/* A slot of a limit, or a last attempt, is not spent on waiting. */
TEST(no_job_is_claimed_ahead_under_a_limit_or_of_a_single_attempt)
{
    static const char *const KINDS[] = {"limits: {concurrency: 1}", "retry: {max_retries: 0}",
                                        "breaker: {slow_call: 1s, slow_rate: 0.5}"};
    for (size_t i = 0; i < 3; i++) {
        struct test_pool tp;
        init_with(&tp, KINDS[i]);
        (void)fill(&tp, QUICK);
        tp.options.until_idle = true;
        tp_start(&tp);
        tp_until(&tp, has_ended_without_waiting);
        assert_int_equal(tp.told[ENGINE_EVENT_COMPLETED], BEFORE + 1 + AFTER);
        tp_release(&tp);
    }
}

/* By a policy of its own, of which the claim knows nothing. */
AHEAD_TEST(a_job_with_a_single_attempt_does_not_wait_for_a_slot)
{
    char payload[64];
    (void)snprintf(payload, sizeof payload, SLEEP, "0.2");
    for (int i = 0; i < BEFORE; i++)
        (void)tp_submit(tp, "s", QUICK);
    int64_t slow = tp_submit(tp, "s", payload);
    const struct job_spec single = {
        .task = STR("s"), .payload = STR(QUICK), .policy = STR("{\"max_attempts\":1}")};
    for (int i = 0; i < AFTER; i++)
        (void)tp_submit_spec(tp, &single);
    tp_start(tp);
    tp_until_told(tp, ENGINE_EVENT_RELEASED, 1);
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, BEFORE + 1 + AFTER);
    for (int i = 0; i <= AFTER; i++)
        check_job(tp, slow + i, REDRIVE_STATE_COMPLETED, 1);
}

TEST_MAIN(argc, argv)
{
    if (argc != 2)
        return 2;
    here = argv[1];
    return check_run(NULL, NULL);
}
