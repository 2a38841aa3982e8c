/* Jobs that are claimed before there is a slot for them: they start when there is one, or go back
 * and lose no attempt. */
#include "rig.h"

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
static void init_with(struct rig *rig, const char *more)
{
    char yaml[4600];
    (void)snprintf(yaml, sizeof yaml, "tasks: {s: {run: {stream: [python3, %s/worker.py]}, %s}}\n",
                   here, more);
    rig_init(rig, yaml);
}

static void init(struct rig *rig)
{
    init_with(rig, RETRY);
}

/* Quick jobs, then one of its own kind, then quick ones again, which are claimed ahead while the
 * one runs. Returns its number; those after it follow. */
static int64_t fill(struct rig *rig, const char *payload)
{
    for (int i = 0; i < BEFORE; i++)
        (void)rig_submit(rig, "s", QUICK);
    int64_t seq = rig_submit(rig, "s", payload);
    for (int i = 0; i < AFTER; i++)
        (void)rig_submit(rig, "s", QUICK);
    return seq;
}

/* The one of its own kind runs, and others wait behind it. */
static bool are_waiting(struct rig *rig)
{
    return rig->told[ENGINE_EVENT_COMPLETED] == BEFORE && pool_status(rig->pool).running > 1;
}

static void check_job(struct rig *rig, int64_t seq, enum redrive_state state, uint32_t attempts)
{
    struct job_page page = {0};
    const struct job *job = rig_job(rig, seq, &page);
    assert_int_equal(job->status.state, state);
    assert_int_equal(job->status.attempts, attempts);
    job_page_release(&page);
}

#define POOL_TEST(test) TEST_OF(test, struct rig, rig, init(rig), rig_release(rig))

POOL_TEST(waiting_jobs_go_back_at_once_when_the_pool_stops)
{
    char payload[64];
    (void)snprintf(payload, sizeof payload, SLEEP, "0.2");
    int64_t slow = fill(rig, payload);
    rig_start(rig);
    rig_until(rig, are_waiting);
    pool_stop(rig->pool, 30000);
    rig_until_stopped(rig);
    check_job(rig, slow, REDRIVE_STATE_COMPLETED, 1);
    for (int i = 1; i <= AFTER; i++)
        check_job(rig, slow + i, REDRIVE_STATE_QUEUED, 0);
    assert_int_equal(rig->told[ENGINE_EVENT_COMPLETED], BEFORE + 1);
}

POOL_TEST(waiting_jobs_go_back_when_the_handler_has_become_slow)
{
    char payload[64];
    (void)snprintf(payload, sizeof payload, SLEEP, "0.7");
    int64_t slow = fill(rig, payload);
    rig_start(rig);
    rig_until_told(rig, ENGINE_EVENT_RELEASED, 1);
    assert_int_equal(rig_state(rig, slow), REDRIVE_STATE_RUNNING);
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, BEFORE + 1 + AFTER);
    for (int i = 0; i <= AFTER; i++)
        check_job(rig, slow + i, REDRIVE_STATE_COMPLETED, 1);
}

POOL_TEST(waiting_jobs_outlive_the_handler_and_lose_no_attempt)
{
    int64_t deadly = fill(rig, DIE);
    rig->options.until_idle = true;
    rig_start(rig);
    rig_until_stopped(rig);
    check_job(rig, deadly, REDRIVE_STATE_RETRYING, 1);
    for (int i = 1; i <= AFTER; i++)
        check_job(rig, deadly + i, REDRIVE_STATE_COMPLETED, 1);
    assert_int_equal(rig->told[ENGINE_EVENT_RETRYING], 1);
}

TEST(failure_that_opens_the_breaker_is_the_last_run)
{
    struct rig rig;
    init_with(&rig, RETRY ", breaker: {failure_threshold: 1}");
    int64_t failing = fill(&rig, FAIL);
    rig.options.until_idle = true;
    rig_start(&rig);
    rig_until_stopped(&rig);
    assert_int_equal(pool_status(rig.pool).ended, BEFORE + 1);
    check_job(&rig, failing, REDRIVE_STATE_RETRYING, 1);
    for (int i = 1; i <= AFTER; i++)
        check_job(&rig, failing + i, REDRIVE_STATE_PARKED, 0);
    rig_release(&rig);
}

POOL_TEST(waiting_job_that_is_cancelled_does_not_run)
{
    char payload[64];
    (void)snprintf(payload, sizeof payload, SLEEP, "0.15");
    rig->tells_of_cancels = true;
    int64_t slow = fill(rig, payload);
    rig_start(rig);
    rig_until(rig, are_waiting);
    assert_int_equal(rig_state(rig, slow + 1), REDRIVE_STATE_RUNNING);
    assert_int_equal(rig_change(rig, MOVE_CANCEL, slow + 1), 0);
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, BEFORE + AFTER);
    assert_int_equal(pool_status(rig->pool).ended, BEFORE + AFTER);
    assert_int_equal(rig_state(rig, slow + 1), REDRIVE_STATE_CANCELLED);
}

static bool has_ended_without_waiting(struct rig *rig)
{
    assert_true(pool_status(rig->pool).running <= 1);
    return rig->is_stopped;
}

/* A slot of a limit, or a last attempt, is not spent on waiting. */
TEST(no_job_is_claimed_ahead_under_a_limit_or_of_a_single_attempt)
{
    static const char *const KINDS[] = {"limits: {concurrency: 1}", "retry: {max_retries: 0}",
                                        "breaker: {slow_call: 1s, slow_rate: 0.5}"};
    for (size_t i = 0; i < 3; i++) {
        struct rig rig;
        init_with(&rig, KINDS[i]);
        (void)fill(&rig, QUICK);
        rig.options.until_idle = true;
        rig_start(&rig);
        rig_until(&rig, has_ended_without_waiting);
        assert_int_equal(rig.told[ENGINE_EVENT_COMPLETED], BEFORE + 1 + AFTER);
        rig_release(&rig);
    }
}

/* By a policy of its own, of which the claim knows nothing. */
POOL_TEST(a_job_with_a_single_attempt_does_not_wait_for_a_slot)
{
    char payload[64];
    (void)snprintf(payload, sizeof payload, SLEEP, "0.2");
    for (int i = 0; i < BEFORE; i++)
        (void)rig_submit(rig, "s", QUICK);
    int64_t slow = rig_submit(rig, "s", payload);
    const struct job_spec single = {
        .task = STR("s"), .payload = STR(QUICK), .policy = STR("{\"max_attempts\":1}")};
    for (int i = 0; i < AFTER; i++)
        (void)rig_submit_spec(rig, &single);
    rig_start(rig);
    rig_until_told(rig, ENGINE_EVENT_RELEASED, 1);
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, BEFORE + 1 + AFTER);
    for (int i = 0; i <= AFTER; i++)
        check_job(rig, slow + i, REDRIVE_STATE_COMPLETED, 1);
}

TEST_MAIN(argc, argv)
{
    if (argc != 2)
        return 2;
    here = argv[1];
    return check_run(NULL, NULL);
}
