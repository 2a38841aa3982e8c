/* How a pool ends, and how it fares with a store that fails. */
#include "rig.h"

#define NOTE(word)   "echo " word " $REDRIVE_JOB_ID $REDRIVE_ATTEMPT >> @/effects; "
#define WAIT         "while [ ! -e @/gate ]; do sleep 0.02; done"
#define TASK(script) "run: {exec: [sh, -c, '" script "']"

static bool is_at_work(struct rig *rig)
{
    return rig_effects(rig, "start") > 0;
}

/* ---- Stopping -------------------------------------------------------------------------------- */

RIG_TEST(stop_lets_jobs_in_hand_end_and_takes_no_more,
         "tasks: {t: {" TASK(NOTE("start") WAIT) ", concurrency: 1}}}\n")
{
    int64_t first = rig_submit(rig, "t", "{}");
    int64_t second = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until(rig, is_at_work);
    pool_stop(rig->pool, 30000);
    assert_true(pool_status(rig->pool).stopping);
    rig_open_gate(rig);
    rig_until_stopped(rig);
    assert_int_equal(rig_state(rig, first), REDRIVE_STATE_COMPLETED);
    assert_int_equal(rig_state(rig, second), REDRIVE_STATE_QUEUED);
    assert_int_equal(rig_effects(rig, "start"), 1);
}

static void check_released(struct rig *rig, int64_t seq)
{
    struct job_page page = {0};
    const struct job *job = rig_job(rig, seq, &page);
    assert_int_equal(job->status.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(job->status.attempts, 0);
    assert_int_equal(job->status.deferrals, 1);
    assert_int_equal(job->status.token, 0);
    job_page_release(&page);
}

RIG_TEST(second_stop_releases_at_once_and_costs_no_attempt,
         "tasks: {t: {" TASK(NOTE("start") "exec sleep 600") "}}}\n")
{
    int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until(rig, is_at_work);
    pool_stop(rig->pool, 10 * WAIT_LIMIT_MS);
    rig_pass_ms(rig, 100); /* a stop that ended the run at once would be seen */
    assert_false(rig->is_stopped);
    pool_stop(rig->pool, 0);
    rig_until_stopped(rig);
    check_released(rig, seq);
}

RIG_TEST(job_is_released_when_the_grace_is_over,
         "tasks: {t: {" TASK(NOTE("start") "exec sleep 60") "}}}\n")
{
    int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until(rig, is_at_work);
    pool_stop(rig->pool, 100);
    rig_until_stopped(rig);
    check_released(rig, seq);
}

RIG_TEST(jobs_that_come_after_the_stop_are_given_back,
         "tasks: {t: {" TASK(NOTE("start") "true") "}}}\n")
{
    struct job_page page = {0};
    int64_t seq = rig_submit(rig, "t", "{}");
    rig->is_held = true;
    rig_start(rig);
    uv_run(&rig->loop, UV_RUN_NOWAIT); /* the claim is on its way */
    pool_stop(rig->pool, 30000);
    rig->is_held = false;
    rig_until_stopped(rig);
    const struct job *job = rig_job(rig, seq, &page);
    assert_int_equal(job->status.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(job->status.attempts, 0);
    job_page_release(&page);
    assert_int_equal(rig_effects(rig, "start"), 0);
}

RIG_TEST(idle_pool_stops_by_itself,
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
    rig->options.until_idle = true;
    for (int i = 0; i < 9; i++)
        (void)rig_submit(rig, "t", "{}");
    (void)rig_submit(rig, "few", "{}");
    int64_t parked = rig_submit(rig, "few", "{}");
    int64_t retrying = rig_submit(rig, "again", "{}");
    int64_t scheduled = rig_submit_later(rig, "t", 3600000);
    rig_start(rig);
    rig_until_stopped(rig);
    assert_int_equal(rig->told[ENGINE_EVENT_COMPLETED], 10);
    assert_int_equal(rig_effects(rig, "start"), 11);
    assert_int_equal(rig_state(rig, parked), REDRIVE_STATE_PARKED);
    assert_int_equal(rig_state(rig, retrying), REDRIVE_STATE_RETRYING);
    assert_int_equal(rig_state(rig, scheduled), REDRIVE_STATE_SCHEDULED);
}

RIG_TEST(idle_pool_waits_for_what_its_own_runs_make_ready,
         "tasks:\n"
         "  t: {" TASK(
             NOTE("start") "sleep 0.02") "}, limits: {concurrency: 1}}\n"
                                         "  now: {" TASK(NOTE(
                                             "start") "exit 75") "},\n"
                                                                 "        retry: {strategy: "
                                                                 "immediate, max_retries: 3}}\n")
{
    rig->options.until_idle = true;
    for (int i = 0; i < 5; i++)
        (void)rig_submit(rig, "t", "{}"); /* all but one are parked by the limit */
    (void)rig_submit(rig, "now", "{}");
    rig_start(rig);
    rig_until_stopped(rig);
    assert_int_equal(rig->told[ENGINE_EVENT_COMPLETED], 5);
    assert_int_equal(rig->told[ENGINE_EVENT_DEAD], 1);
}

/* ---- A store in trouble ---------------------------------------------------------------------- */

RIG_TEST(jobs_that_come_later_are_heard_of, "tasks: {t: {" TASK("true") "}}}\n")
{
    rig_start(rig);
    rig_until_rest(rig);
    (void)rig_submit(rig, "t", "{}");
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 1);
    (void)rig_submit_later(rig, "t", 100);
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 2);
}

static bool has_failed_to_settle_twice(struct rig *rig)
{
    return rig_count_logged(rig, "settlement_failed") >= 2;
}

RIG_TEST(settlement_waits_for_a_store_that_fails,
         "tasks: {t: {" TASK(NOTE("start") WAIT) ", concurrency: 2}}}\n")
{
    int64_t first = rig_submit(rig, "t", "{}");
    for (int i = 0; i < 4; i++)
        (void)rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until(rig, is_at_work);
    rig->is_broken = true;
    rig_open_gate(rig);
    rig_until(rig, has_failed_to_settle_twice);
    assert_true(rig_effects(rig, "start") <= 2); /* it is given no more work */
    assert_int_equal(rig_state(rig, first), REDRIVE_STATE_RUNNING);
    rig->is_broken = false;
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 5);
    assert_int_equal(rig_effects(rig, "start"), 5);
    assert_int_equal(rig->told[ENGINE_EVENT_STARTED], 5);
}

static bool has_failed_to_claim_twice(struct rig *rig)
{
    return rig_count_logged(rig, "claim_failed") >= 2;
}

RIG_TEST(claim_that_fails_is_made_again, "tasks: {t: {" TASK(NOTE("start") "true") "}}}\n")
{
    (void)rig_submit(rig, "t", "{}");
    rig->is_broken = true;
    rig_start(rig);
    rig_until(rig, has_failed_to_claim_twice);
    rig->is_broken = false;
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(rig_effects(rig, "start"), 1);
}

RIG_TEST(stop_does_not_wait_for_ever_for_a_store_that_fails,
         "tasks: {t: {" TASK(NOTE("start") WAIT) "}}}\n")
{
    int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until(rig, is_at_work);
    rig->is_broken = true;
    rig_open_gate(rig);
    pool_stop(rig->pool, 1000);
    rig_until_stopped(rig);
    assert_true(rig_logged(rig, "settlement_lost"));
    assert_int_equal(rig_state(rig, seq), REDRIVE_STATE_RUNNING); /* until its lease ends */
}
