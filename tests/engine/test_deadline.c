/* Deadlines are met on time wherever a job waits, and pauses cost no time. */
#include "engine/engine_for_test.h"

#define RETRY                                                                                \
    "tasks: {t: {retry: {strategy: fixed, initial_delay: 1h, max_delay: 1h, jitter: false, " \
    "total_timeout: 0s}}}\n"

static void check_dead(struct test_engine *te, int64_t seq)
{
    struct job job = te_job(te, seq);
    assert_int_equal(job.status.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job.status.reason, REDRIVE_REASON_DEADLINE);
    assert_int_equal(job.status.finished_ms, te->now_ms);
}

static int64_t submit_until(struct test_engine *te, int64_t deadline_ms, int64_t process_after_ms)
{
    return te_submit_spec(te, &(struct job_spec){.task = STR("t"),
                                                 .queue = STR("q"),
                                                 .deadline_ms = deadline_ms,
                                                 .process_after_ms = process_after_ms});
}

ENGINE_TEST(a_scheduled_job_ends_at_its_deadline, RETRY)
{
    int64_t seq = submit_until(te, te->now_ms + 5000, te->now_ms + 60000);
    te_tick(te);
    assert_int_equal(engine_next_ms(te->engine), te->now_ms + 5000);
    te_pass(te, 4999);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_SCHEDULED);
    te_pass(te, 1);
    check_dead(te, seq);
    assert_int_equal(te->told[ENGINE_EVENT_DEAD], 1);
}

ENGINE_TEST(a_retrying_job_ends_at_its_deadline, RETRY)
{
    int64_t seq = submit_until(te, te->now_ms + 7200000, 0);
    struct job job = *te_claim_one(te);
    assert_int_equal(te_fail(te, &job, "TRANSIENT_FAIL"), 0);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_RETRYING);
    te_pass(te, 3600000);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_QUEUED);
    te_pass(te, 3600000);
    check_dead(te, seq);
}

/* A tick while it ran has looked at those that wait only. */
ENGINE_TEST(a_job_that_waits_again_asks_for_its_deadline, RETRY)
{
    const int64_t deadline_ms = te->now_ms + 5400000;
    submit_until(te, deadline_ms, 0);
    struct job job = *te_claim_one(te);
    te_pass(te, 1000);
    const struct outcome released = {.ending = ENDING_RELEASED};
    assert_int_equal(te_settle(te, &job, &released), 0);
    assert_true(engine_next_ms(te->engine) <= deadline_ms);
}

ENGINE_TEST(a_parked_job_ends_at_its_deadline, RETRY)
{
    struct breaker_op trip;
    int64_t seq = submit_until(te, te->now_ms + 5000, 0);
    breaker_op_init(&trip, (struct str){0}, STR("t"), BREAKER_TRIP);
    assert_int_equal(engine_apply_one(te->engine, &trip.op, NULL), 0);
    assert_int_equal(te_claim(te, 1), 0);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_PARKED);
    te_pass(te, 5000);
    check_dead(te, seq);
}

static void pause(struct test_engine *te, bool pause)
{
    struct pause_op op;
    pause_op_init(&op, (struct str){0}, STR("q"), pause);
    do
        assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    while (pause_op_goes_on(&op));
}

ENGINE_TEST(a_job_in_a_paused_queue_ends_at_its_deadline, RETRY)
{
    pause(te, true);
    int64_t seq = submit_until(te, te->now_ms + 5000, 0);
    te_pass(te, 5000);
    check_dead(te, seq);
}

ENGINE_TEST(a_running_job_may_finish_after_its_deadline, "tasks: {t: {lease: 1h}}\n")
{
    int64_t done = submit_until(te, te->now_ms + 5000, 0);
    struct job job = *te_claim_one(te);
    te_pass(te, 9000);
    assert_int_equal(te_state(te, done), REDRIVE_STATE_RUNNING);
    assert_int_equal(te_succeed(te, &job), 0);
    assert_int_equal(te_state(te, done), REDRIVE_STATE_COMPLETED);
    te_pass(te, 9000);
    assert_int_equal(te_state(te, done), REDRIVE_STATE_COMPLETED);

    int64_t given_back = submit_until(te, te->now_ms + 5000, 0);
    job = *te_claim_one(te);
    te_pass(te, 9000);
    const struct outcome released = {.ending = ENDING_RELEASED};
    assert_int_equal(te_settle(te, &job, &released), 0);
    assert_true(engine_next_ms(te->engine) <= te->now_ms);
    te_tick(te);
    check_dead(te, given_back);
}

ENGINE_TEST(a_thousand_deadlines_are_met_in_one_tick, RETRY)
{
    for (int i = 0; i < 1000; i++)
        (void)submit_until(te, te->now_ms + 5000, te->now_ms + 60000);
    te_pass(te, 5000);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 1000);
}

/* ---- Pauses and the total time-out ----------------------------------------------------------- */

#define TIMEOUT                                                                          \
    "tasks: {t: {queue: q, retry: {strategy: fixed, initial_delay: 10s, jitter: false, " \
    "total_timeout: 60s, max_retries: 9}}}\n"

TEST(time_in_a_paused_queue_does_not_count_towards_the_total_timeout)
{
    struct test_engine te;
    for (int paused = 0; paused < 2; paused++) {
        te_init(&te, TIMEOUT);
        int64_t seq = te_submit(&te, "t", "{}");
        struct job job = *te_claim_one(&te);
        assert_int_equal(te_fail(&te, &job, "TRANSIENT_FAIL"), 0);
        if (paused)
            pause(&te, true);
        /* 10 s of its own delay, then 100 s in the queue. */
        te_pass(&te, 10000);
        te_pass(&te, 100000);
        if (paused)
            pause(&te, false);
        job = *te_claim_one(&te);
        assert_int_equal(te_fail(&te, &job, "TRANSIENT_FAIL"), 0);
        assert_int_equal(te_job(&te, seq).status.paused_ms, paused ? 100000 : 0);
        assert_int_equal(te_state(&te, seq),
                         paused ? REDRIVE_STATE_RETRYING : REDRIVE_STATE_DEAD_LETTER);
        te_release(&te);
    }
}

/* It has four attempts left, and is dead: somebody has to say why. */
ENGINE_TEST(a_job_that_has_no_time_for_its_next_retry_says_so,
            "tasks: {t: {retry: {total_timeout: 5m}}}\n")
{
    int64_t seq = te_submit(te, "t", NULL);
    struct job job = *te_claim_one(te);
    const struct outcome outcome = {
        .failure = {.http_status = 429, .retry_after_ms = 3600000, .message = "slow down"}};
    assert_int_equal(te_settle(te, &job, &outcome), 0);
    check_dead(te, seq);
    struct store *store = engine_store(te->engine);
    const struct job_filter filter = {.after_seq = seq - 1, .limit = 1};
    struct job_page page = {0};
    struct attempt_page history = {0};
    assert_int_equal(store_ops(store)->list(store, &filter, &page, NULL), 0);
    char message[256];
    (void)str_copy(message, sizeof message, page.jobs[0].status.error.message);
    assert_non_null(strstr(message, "slow down; not tried again: the delay asked for of 1h"));
    assert_non_null(strstr(message, "goes beyond total_timeout: 5m; a larger one, or 0"));
    assert_int_equal(store_ops(store)->history(store, &seq, 1, &history, NULL), 0);
    assert_int_equal(history.n, 1);
    assert_true(str_is(history.attempts[0].why, "too_late"));
    attempt_page_release(&history);
    job_page_release(&page);
}
