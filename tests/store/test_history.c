#include "store_for_test.h"

static void run_once(struct test_store *ts, int64_t seq, struct decision d)
{
    int64_t next_ms;
    ts_promote(ts, 10, &next_ms);
    uint64_t token = ts_start(ts, seq);
    ts->now_ms += 5;
    assert_int_equal(ts_settle(ts, seq, token, d).code, 0);
}

static void check_attempt(const struct job_attempt *a, uint32_t epoch, uint32_t number,
                          enum redrive_state outcome)
{
    assert_int_equal(a->epoch, epoch);
    assert_int_equal(a->number, number);
    assert_int_equal(a->outcome, outcome);
}

STORE_TEST(a_job_that_never_ran_has_none)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    assert_int_equal(ts_history(ts, seq)->n, 0);
    ts_park(ts, seq, false);
    ts_unpark(ts, seq);
    CHANGE(ts, .seq = seq, .kind = MOVE_CANCEL);
    assert_int_equal(ts_history(ts, seq)->n, 0);
}

STORE_TEST(a_success_at_once_is_read_from_the_jobs_own_row)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    run_once(ts, seq, decision_completed());
    struct attempt_page *h = ts_history(ts, seq);
    assert_int_equal(h->n, 1);
    check_attempt(&h->attempts[0], 0, 1, REDRIVE_STATE_COMPLETED);
    assert_int_equal(h->attempts[0].started_ms, TS_START_MS);
    assert_int_equal(h->attempts[0].ended_ms, TS_START_MS + 5);
    check_str(h->attempts[0].worker, "w1");
    assert_int_equal(h->attempts[0].error.class_, REDRIVE_CLASS_SUCCESS);
    check_str(h->attempts[0].why, "none");
    assert_int_equal(h->attempts[0].next_ms, 0);
}

STORE_TEST(the_attempt_that_runs_is_the_last)
{
    int64_t seq = PUT(ts, .id = STR("x")), next_ms;
    run_once(ts, seq, decision_retrying(0));
    ts_promote(ts, 10, &next_ms);
    ts_start(ts, seq);
    struct attempt_page *h = ts_history(ts, seq);
    assert_int_equal(h->n, 2);
    check_attempt(&h->attempts[0], 0, 1, REDRIVE_STATE_RETRYING);
    check_attempt(&h->attempts[1], 0, 2, REDRIVE_STATE_RUNNING);
    assert_int_equal(h->attempts[1].started_ms, ts->now_ms);
    assert_int_equal(h->attempts[1].ended_ms, 0);
}

STORE_TEST(a_failure_says_everything_about_itself)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    uint64_t token = ts_start(ts, seq);
    ts->now_ms += 50;
    struct decision d = decision_retrying(9000);
    d.why = DELAY_ASKED;
    const struct settle_move move = {
        .seq = seq,
        .token = token,
        .decision = &d,
        .error = {REDRIVE_CLASS_RATE_LIMITED, STR("TooMany"), STR("slow down"), STR("at f"), 429}};
    ts_settle_with(ts, &move);
    struct attempt_page *h = ts_history(ts, seq);
    assert_int_equal(h->n, 1);
    const struct job_attempt *a = &h->attempts[0];
    check_attempt(a, 0, 1, REDRIVE_STATE_RETRYING);
    assert_int_equal(a->started_ms, TS_START_MS);
    assert_int_equal(a->ended_ms, ts->now_ms);
    check_str(a->worker, "w1");
    assert_int_equal(a->error.class_, REDRIVE_CLASS_RATE_LIMITED);
    check_str(a->error.type, "TooMany");
    check_str(a->error.message, "slow down");
    check_str(a->error.stacktrace, "at f");
    assert_int_equal(a->error.code, 429);
    assert_int_equal(a->delay_ms, 9000);
    check_str(a->why, "asked");
    assert_int_equal(a->next_ms, ts->now_ms + 9000);
}

STORE_TEST(a_whole_life_is_told_in_order)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    run_once(ts, seq, decision_retrying(0));
    run_once(ts, seq, decision_released());
    run_once(ts, seq, decision_snoozed(0));
    run_once(ts, seq, decision_retrying(0));
    run_once(ts, seq, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    CHANGE(ts, .seq = seq, .kind = MOVE_REDRIVE);
    run_once(ts, seq, decision_retrying(0));
    run_once(ts, seq, decision_completed());
    static const struct {
        uint32_t epoch, number;
        enum redrive_state outcome;
    } TOLD[] = {
        {0, 1, REDRIVE_STATE_RETRYING},    {0, 0, REDRIVE_STATE_QUEUED},
        {0, 0, REDRIVE_STATE_SCHEDULED},   {0, 2, REDRIVE_STATE_RETRYING},
        {0, 3, REDRIVE_STATE_DEAD_LETTER}, {1, 1, REDRIVE_STATE_RETRYING},
        {1, 2, REDRIVE_STATE_COMPLETED},
    };
    struct attempt_page *h = ts_history(ts, seq);
    assert_int_equal(h->n, 7);
    for (size_t i = 0; i < 7; i++) {
        check_attempt(&h->attempts[i], TOLD[i].epoch, TOLD[i].number, TOLD[i].outcome);
        assert_int_equal(h->attempts[i].started_ms, TS_START_MS + 5 * (int64_t)i);
        assert_int_equal(h->attempts[i].ended_ms, TS_START_MS + 5 * (int64_t)i + 5);
    }
}

STORE_TEST(a_success_at_once_after_a_redrive_follows_the_old_history)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    run_once(ts, seq, decision_ended(REDRIVE_STATE_FAILED, REDRIVE_REASON_NOT_RETRIABLE));
    CHANGE(ts, .seq = seq, .kind = MOVE_REDRIVE);
    run_once(ts, seq, decision_completed());
    struct attempt_page *h = ts_history(ts, seq);
    assert_int_equal(h->n, 2);
    check_attempt(&h->attempts[0], 0, 1, REDRIVE_STATE_FAILED);
    check_attempt(&h->attempts[1], 1, 1, REDRIVE_STATE_COMPLETED);
    assert_int_equal(h->attempts[1].error.class_, REDRIVE_CLASS_SUCCESS);
}

STORE_TEST(a_success_at_once_after_a_release_follows_it)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    run_once(ts, seq, decision_released());
    run_once(ts, seq, decision_completed());
    struct attempt_page *h = ts_history(ts, seq);
    assert_int_equal(h->n, 2);
    check_attempt(&h->attempts[0], 0, 0, REDRIVE_STATE_QUEUED);
    check_attempt(&h->attempts[1], 0, 1, REDRIVE_STATE_COMPLETED);
}

STORE_TEST(a_cancelled_run_is_told)
{
    int64_t by_hand = PUT(ts, .id = STR("x")), by_worker = PUT(ts, .id = STR("y"));
    ts_start(ts, by_hand);
    uint64_t token = ts_start(ts, by_worker);
    ts->now_ms += 5;
    CHANGE(ts, .seq = by_hand, .kind = MOVE_CANCEL);
    ts_settle(ts, by_worker, token, decision_cancelled());
    const int64_t both[] = {by_hand, by_worker};
    for (int i = 0; i < 2; i++) {
        struct attempt_page *h = ts_history(ts, both[i]);
        assert_int_equal(h->n, 1);
        check_attempt(&h->attempts[0], 0, 1, REDRIVE_STATE_CANCELLED);
        assert_int_equal(h->attempts[0].ended_ms, TS_START_MS + 5);
        check_str(h->attempts[0].worker, "w1");
    }
}

STORE_TEST(histories_do_not_mix)
{
    int64_t a = PUT(ts, .id = STR("a")), b = PUT(ts, .id = STR("b"));
    run_once(ts, a, decision_retrying(0));
    run_once(ts, b, decision_retrying(0));
    run_once(ts, a, decision_retrying(0));
    assert_int_equal(ts_history(ts, a)->n, 2);
    assert_int_equal(ts_history(ts, b)->n, 1);
}

STORE_TEST(several_are_told_at_once_a_page_each)
{
    struct attempt_page pages[6] = {0};
    const int64_t a = PUT(ts, .id = STR("a")), b = PUT(ts, .id = STR("b")),
                  never = PUT(ts, .id = STR("c")), runs = PUT(ts, .id = STR("d"));
    run_once(ts, a, decision_retrying(0));
    run_once(ts, b, decision_completed());
    run_once(ts, a, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    ts_start(ts, runs);
    const int64_t seqs[] = {runs, b, 123456, never, a, -1};
    const size_t counts[] = {1, 1, 0, 0, 2, 0};
    for (int again = 0; again < 2; again++) {
        assert_int_equal(store_ops(ts->store)->history(ts->store, seqs, 6, pages, NULL), 0);
        for (size_t i = 0; i < 6; i++)
            assert_int_equal(pages[i].n, counts[i]);
        check_attempt(&pages[0].attempts[0], 0, 1, REDRIVE_STATE_RUNNING);
        check_attempt(&pages[1].attempts[0], 0, 1, REDRIVE_STATE_COMPLETED);
        check_attempt(&pages[4].attempts[0], 0, 1, REDRIVE_STATE_RETRYING);
        check_attempt(&pages[4].attempts[1], 0, 2, REDRIVE_STATE_DEAD_LETTER);
    }
    assert_int_equal(store_ops(ts->store)->history(ts->store, NULL, 0, pages, NULL), 0);
    attempt_pages_release(pages, 6);
}
