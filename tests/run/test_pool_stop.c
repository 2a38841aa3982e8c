/* How a pool ends, and how it fares with a store that fails. */
#include "pool_for_test.h"

#define NOTE(word)   "echo " word " $REDRIVE_JOB_ID $REDRIVE_ATTEMPT >> @/effects; "
#define WAIT         "while [ ! -e @/gate ]; do sleep 0.02; done"
#define TASK(script) "run: {exec: [sh, -c, '" script "']"

static bool is_at_work(struct test_pool *tp)
{
    return tp_effects(tp, "start") > 0;
}

/* ---- Stopping -------------------------------------------------------------------------------- */

POOL_TEST(stop_lets_jobs_in_hand_end_and_takes_no_more,
          "tasks: {t: {" TASK(NOTE("start") WAIT) ", concurrency: 1}}}\n")
{
    int64_t first = tp_submit(tp, "t", "{}");
    int64_t second = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until(tp, is_at_work);
    pool_stop(tp->pool, 30000);
    assert_true(pool_status(tp->pool).stopping);
    tp_open_gate(tp);
    tp_until_stopped(tp);
    assert_int_equal(tp_state(tp, first), REDRIVE_STATE_COMPLETED);
    assert_int_equal(tp_state(tp, second), REDRIVE_STATE_QUEUED);
    assert_int_equal(tp_effects(tp, "start"), 1);
}

static void check_released(struct test_pool *tp, int64_t seq)
{
    struct job_page page = {0};
    const struct job *job = tp_job(tp, seq, &page);
    assert_int_equal(job->status.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(job->status.attempts, 0);
    assert_int_equal(job->status.deferrals, 1);
    assert_int_equal(job->status.token, 0);
    job_page_release(&page);
}

POOL_TEST(second_stop_releases_at_once_and_costs_no_attempt,
          "tasks: {t: {" TASK(NOTE("start") "exec sleep 600") "}}}\n")
{
    int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until(tp, is_at_work);
    pool_stop(tp->pool, 10 * WAIT_LIMIT_MS);
    tp_pass_ms(tp, 100); /* a stop that ended the run at once would be seen */
    assert_false(tp->is_stopped);
    pool_stop(tp->pool, 0);
    tp_until_stopped(tp);
    check_released(tp, seq);
}

POOL_TEST(job_is_released_when_the_grace_is_over,
          "tasks: {t: {" TASK(NOTE("start") "exec sleep 60") "}}}\n")
{
    int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until(tp, is_at_work);
    pool_stop(tp->pool, 100);
    tp_until_stopped(tp);
    check_released(tp, seq);
}

POOL_TEST(jobs_that_come_after_the_stop_are_given_back,
          "tasks: {t: {" TASK(NOTE("start") "true") "}}}\n")
{
    struct job_page page = {0};
    int64_t seq = tp_submit(tp, "t", "{}");
    tp->is_held = true;
    tp_start(tp);
    uv_run(&tp->loop, UV_RUN_NOWAIT); /* the claim is on its way */
    pool_stop(tp->pool, 30000);
    tp->is_held = false;
    tp_until_stopped(tp);
    const struct job *job = tp_job(tp, seq, &page);
    assert_int_equal(job->status.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(job->status.attempts, 0);
    job_page_release(&page);
    assert_int_equal(tp_effects(tp, "start"), 0);
}

POOL_TEST(idle_pool_stops_by_itself,
          "tasks:\n"
          "  t: {" TASK(NOTE(
              "start") "true") "}}\n"
                               "  few: {" TASK(NOTE(
                                   "start") "true") "}, limits: {rate: 1/h}}\n"
                                                    "  again: {" TASK(NOTE(
                                                        "start") "exit 75") "},\n"
                                                                            "          retry: "
                                                                            "{strategy: fixed, "
                                                                            "initial_delay: 1h, "
                                                                            "jitter: none}}\n")
{
    tp->options.until_idle = true;
    for (int i = 0; i < 9; i++)
        (void)tp_submit(tp, "t", "{}");
    (void)tp_submit(tp, "few", "{}");
    int64_t parked = tp_submit(tp, "few", "{}");
    int64_t retrying = tp_submit(tp, "again", "{}");
    int64_t scheduled = tp_submit_later(tp, "t", 3600000);
    tp_start(tp);
    tp_until_stopped(tp);
    assert_int_equal(tp->told[ENGINE_EVENT_COMPLETED], 10);
    assert_int_equal(tp_effects(tp, "start"), 11);
    assert_int_equal(tp_state(tp, parked), REDRIVE_STATE_PARKED);
    assert_int_equal(tp_state(tp, retrying), REDRIVE_STATE_RETRYING);
    assert_int_equal(tp_state(tp, scheduled), REDRIVE_STATE_SCHEDULED);
}

POOL_TEST(idle_pool_waits_for_what_its_own_runs_make_ready,
          "tasks:\n"
          "  t: {" TASK(
              NOTE("start") "sleep 0.02") "}, limits: {concurrency: 1}}\n"
                                          "  now: {" TASK(NOTE(
                                              "start") "exit 75") "},\n"
                                                                  "        retry: {strategy: "
                                                                  "immediate, max_retries: 3}}\n")
{
    tp->options.until_idle = true;
    for (int i = 0; i < 5; i++)
        (void)tp_submit(tp, "t", "{}"); /* all but one are parked by the limit */
    (void)tp_submit(tp, "now", "{}");
    tp_start(tp);
    tp_until_stopped(tp);
    assert_int_equal(tp->told[ENGINE_EVENT_COMPLETED], 5);
    assert_int_equal(tp->told[ENGINE_EVENT_DEAD], 1);
}

/* ---- A store in trouble ---------------------------------------------------------------------- */

POOL_TEST(jobs_that_come_later_are_heard_of, "tasks: {t: {" TASK("true") "}}}\n")
{
    tp_start(tp);
    tp_until_rest(tp);
    (void)tp_submit(tp, "t", "{}");
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 1);
    (void)tp_submit_later(tp, "t", 100);
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 2);
}

static bool has_failed_to_settle_twice(struct test_pool *tp)
{
    return tp_count_logged(tp, "settlement_failed") >= 2;
}

POOL_TEST(settlement_waits_for_a_store_that_fails,
          "tasks: {t: {" TASK(NOTE("start") WAIT) ", concurrency: 2}}}\n")
{
    int64_t first = tp_submit(tp, "t", "{}");
    for (int i = 0; i < 4; i++)
        (void)tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until(tp, is_at_work);
    tp->is_broken = true;
    tp_open_gate(tp);
    tp_until(tp, has_failed_to_settle_twice);
    assert_true(tp_effects(tp, "start") <= 2); /* it is given no more work */
    assert_int_equal(tp_state(tp, first), REDRIVE_STATE_RUNNING);
    tp->is_broken = false;
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 5);
    assert_int_equal(tp_effects(tp, "start"), 5);
    assert_int_equal(tp->told[ENGINE_EVENT_STARTED], 5);
}

static bool has_failed_to_claim_twice(struct test_pool *tp)
{
    return tp_count_logged(tp, "claim_failed") >= 2;
}

POOL_TEST(claim_that_fails_is_made_again, "tasks: {t: {" TASK(NOTE("start") "true") "}}}\n")
{
    (void)tp_submit(tp, "t", "{}");
    tp->is_broken = true;
    tp_start(tp);
    tp_until(tp, has_failed_to_claim_twice);
    tp->is_broken = false;
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(tp_effects(tp, "start"), 1);
}

POOL_TEST(stop_does_not_wait_for_ever_for_a_store_that_fails,
          "tasks: {t: {" TASK(NOTE("start") WAIT) "}}}\n")
{
    int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until(tp, is_at_work);
    tp->is_broken = true;
    tp_open_gate(tp);
    pool_stop(tp->pool, 1000);
    tp_until_stopped(tp);
    assert_true(tp_logged(tp, "settlement_lost"));
    assert_int_equal(tp_state(tp, seq), REDRIVE_STATE_RUNNING); /* until its lease ends */
}
