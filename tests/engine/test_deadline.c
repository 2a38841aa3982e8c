/* Deadlines are met on time wherever a job waits, and pauses cost no time. */
#include "engine/bed.h"

#define RETRY                                                                                \
    "tasks: {t: {retry: {strategy: fixed, initial_delay: 1h, max_delay: 1h, jitter: false, " \
    "total_timeout: 0s}}}\n"

static void check_dead(struct bed *bed, int64_t seq)
{
    struct job job = bed_job(bed, seq);
    assert_int_equal(job.status.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job.status.reason, REDRIVE_REASON_DEADLINE);
    assert_int_equal(job.status.finished_ms, bed->now_ms);
}

static int64_t submit_until(struct bed *bed, int64_t deadline_ms, int64_t process_after_ms)
{
    return bed_submit_spec(bed, &(struct job_spec){.task = STR("t"),
                                                   .queue = STR("q"),
                                                   .deadline_ms = deadline_ms,
                                                   .process_after_ms = process_after_ms});
}

BED_TEST(a_scheduled_job_ends_at_its_deadline, RETRY)
{
    int64_t seq = submit_until(bed, bed->now_ms + 5000, bed->now_ms + 60000);
    bed_tick(bed);
    assert_int_equal(engine_next_ms(bed->engine), bed->now_ms + 5000);
    bed_pass(bed, 4999);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_SCHEDULED);
    bed_pass(bed, 1);
    check_dead(bed, seq);
    assert_int_equal(bed->told[ENGINE_EVENT_DEAD], 1);
}

BED_TEST(a_retrying_job_ends_at_its_deadline, RETRY)
{
    int64_t seq = submit_until(bed, bed->now_ms + 7200000, 0);
    struct job job = *bed_claim_one(bed);
    assert_int_equal(bed_fail(bed, &job, "TRANSIENT_FAIL"), 0);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_RETRYING);
    bed_pass(bed, 3600000);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_QUEUED);
    bed_pass(bed, 3600000);
    check_dead(bed, seq);
}

/* A tick while it ran has looked at those that wait only. */
BED_TEST(a_job_that_waits_again_asks_for_its_deadline, RETRY)
{
    const int64_t deadline_ms = bed->now_ms + 5400000;
    submit_until(bed, deadline_ms, 0);
    struct job job = *bed_claim_one(bed);
    bed_pass(bed, 1000);
    const struct outcome released = {.ending = ENDING_RELEASED};
    assert_int_equal(bed_settle(bed, &job, &released), 0);
    assert_true(engine_next_ms(bed->engine) <= deadline_ms);
}

BED_TEST(a_parked_job_ends_at_its_deadline, RETRY)
{
    struct breaker_op trip;
    int64_t seq = submit_until(bed, bed->now_ms + 5000, 0);
    breaker_op_init(&trip, (struct str){0}, STR("t"), BREAKER_TRIP);
    assert_int_equal(engine_apply_one(bed->engine, &trip.op, NULL), 0);
    assert_int_equal(bed_claim(bed, 1), 0);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_PARKED);
    bed_pass(bed, 5000);
    check_dead(bed, seq);
}

static void pause(struct bed *bed, bool pause)
{
    struct pause_op op;
    pause_op_init(&op, (struct str){0}, STR("q"), pause);
    do
        assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    while (pause_op_goes_on(&op));
}

BED_TEST(a_job_in_a_paused_queue_ends_at_its_deadline, RETRY)
{
    pause(bed, true);
    int64_t seq = submit_until(bed, bed->now_ms + 5000, 0);
    bed_pass(bed, 5000);
    check_dead(bed, seq);
}

BED_TEST(a_running_job_may_finish_after_its_deadline, "tasks: {t: {lease: 1h}}\n")
{
    int64_t done = submit_until(bed, bed->now_ms + 5000, 0);
    struct job job = *bed_claim_one(bed);
    bed_pass(bed, 9000);
    assert_int_equal(bed_state(bed, done), REDRIVE_STATE_RUNNING);
    assert_int_equal(bed_succeed(bed, &job), 0);
    assert_int_equal(bed_state(bed, done), REDRIVE_STATE_COMPLETED);
    bed_pass(bed, 9000);
    assert_int_equal(bed_state(bed, done), REDRIVE_STATE_COMPLETED);

    int64_t given_back = submit_until(bed, bed->now_ms + 5000, 0);
    job = *bed_claim_one(bed);
    bed_pass(bed, 9000);
    const struct outcome released = {.ending = ENDING_RELEASED};
    assert_int_equal(bed_settle(bed, &job, &released), 0);
    assert_true(engine_next_ms(bed->engine) <= bed->now_ms);
    bed_tick(bed);
    check_dead(bed, given_back);
}

BED_TEST(a_thousand_deadlines_are_met_in_one_tick, RETRY)
{
    for (int i = 0; i < 1000; i++)
        (void)submit_until(bed, bed->now_ms + 5000, bed->now_ms + 60000);
    bed_pass(bed, 5000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 1000);
}

/* ---- Pauses and the total time-out ----------------------------------------------------------- */

#define TIMEOUT                                                                          \
    "tasks: {t: {queue: q, retry: {strategy: fixed, initial_delay: 10s, jitter: false, " \
    "total_timeout: 60s, max_retries: 9}}}\n"

TEST(time_in_a_paused_queue_does_not_count_towards_the_total_timeout)
{
    struct bed bed;
    for (int paused = 0; paused < 2; paused++) {
        bed_init(&bed, TIMEOUT);
        int64_t seq = bed_submit(&bed, "t", "{}");
        struct job job = *bed_claim_one(&bed);
        assert_int_equal(bed_fail(&bed, &job, "TRANSIENT_FAIL"), 0);
        if (paused)
            pause(&bed, true);
        /* 10 s of its own delay, then 100 s in the queue. */
        bed_pass(&bed, 10000);
        bed_pass(&bed, 100000);
        if (paused)
            pause(&bed, false);
        job = *bed_claim_one(&bed);
        assert_int_equal(bed_fail(&bed, &job, "TRANSIENT_FAIL"), 0);
        assert_int_equal(bed_job(&bed, seq).status.paused_ms, paused ? 100000 : 0);
        assert_int_equal(bed_state(&bed, seq),
                         paused ? REDRIVE_STATE_RETRYING : REDRIVE_STATE_DEAD_LETTER);
        bed_release(&bed);
    }
}

/* It has four attempts left, and is dead: somebody has to say why. */
BED_TEST(a_job_that_has_no_time_for_its_next_retry_says_so,
         "tasks: {t: {retry: {total_timeout: 5m}}}\n")
{
    int64_t seq = bed_submit(bed, "t", NULL);
    struct job job = *bed_claim_one(bed);
    const struct outcome outcome = {
        .failure = {.http_status = 429, .retry_after_ms = 3600000, .message = "slow down"}};
    assert_int_equal(bed_settle(bed, &job, &outcome), 0);
    check_dead(bed, seq);
    struct store *store = engine_store(bed->engine);
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
