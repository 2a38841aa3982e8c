#include "kit.h"

static void run_once(struct kit *k, int64_t seq, struct decision d)
{
    int64_t next_ms;
    kit_promote(k, 10, &next_ms);
    uint64_t token = kit_start(k, seq);
    k->now_ms += 5;
    assert_int_equal(kit_settle(k, seq, token, d).code, 0);
}

static void check_attempt(const struct job_attempt *a, uint32_t epoch, uint32_t number,
                          enum redrive_state outcome)
{
    assert_int_equal(a->epoch, epoch);
    assert_int_equal(a->number, number);
    assert_int_equal(a->outcome, outcome);
}

KIT_TEST(a_job_that_never_ran_has_none)
{
    int64_t seq = PUT(k, .id = STR("x"));
    assert_int_equal(kit_history(k, seq)->n, 0);
    kit_park(k, seq, false);
    kit_unpark(k, seq);
    CHANGE(k, .seq = seq, .kind = MOVE_CANCEL);
    assert_int_equal(kit_history(k, seq)->n, 0);
}

KIT_TEST(a_success_at_once_is_read_from_the_jobs_own_row)
{
    int64_t seq = PUT(k, .id = STR("x"));
    run_once(k, seq, decision_completed());
    struct attempt_page *h = kit_history(k, seq);
    assert_int_equal(h->n, 1);
    check_attempt(&h->attempts[0], 0, 1, REDRIVE_STATE_COMPLETED);
    assert_int_equal(h->attempts[0].started_ms, KIT_START_MS);
    assert_int_equal(h->attempts[0].ended_ms, KIT_START_MS + 5);
    check_str(h->attempts[0].worker, "w1");
    assert_int_equal(h->attempts[0].error.class_, REDRIVE_CLASS_SUCCESS);
    check_str(h->attempts[0].why, "none");
    assert_int_equal(h->attempts[0].next_ms, 0);
}

KIT_TEST(the_attempt_that_runs_is_the_last)
{
    int64_t seq = PUT(k, .id = STR("x")), next_ms;
    run_once(k, seq, decision_retrying(0));
    kit_promote(k, 10, &next_ms);
    kit_start(k, seq);
    struct attempt_page *h = kit_history(k, seq);
    assert_int_equal(h->n, 2);
    check_attempt(&h->attempts[0], 0, 1, REDRIVE_STATE_RETRYING);
    check_attempt(&h->attempts[1], 0, 2, REDRIVE_STATE_RUNNING);
    assert_int_equal(h->attempts[1].started_ms, k->now_ms);
    assert_int_equal(h->attempts[1].ended_ms, 0);
}

KIT_TEST(a_failure_says_everything_about_itself)
{
    int64_t seq = PUT(k, .id = STR("x"));
    uint64_t token = kit_start(k, seq);
    k->now_ms += 50;
    struct decision d = decision_retrying(9000);
    d.why = DELAY_ASKED;
    const struct settle_move move = {
        .seq = seq,
        .token = token,
        .decision = &d,
        .error = {REDRIVE_CLASS_RATE_LIMITED, STR("TooMany"), STR("slow down"), STR("at f"), 429}};
    kit_settle_with(k, &move);
    struct attempt_page *h = kit_history(k, seq);
    assert_int_equal(h->n, 1);
    const struct job_attempt *a = &h->attempts[0];
    check_attempt(a, 0, 1, REDRIVE_STATE_RETRYING);
    assert_int_equal(a->started_ms, KIT_START_MS);
    assert_int_equal(a->ended_ms, k->now_ms);
    check_str(a->worker, "w1");
    assert_int_equal(a->error.class_, REDRIVE_CLASS_RATE_LIMITED);
    check_str(a->error.type, "TooMany");
    check_str(a->error.message, "slow down");
    check_str(a->error.stacktrace, "at f");
    assert_int_equal(a->error.code, 429);
    assert_int_equal(a->delay_ms, 9000);
    check_str(a->why, "asked");
    assert_int_equal(a->next_ms, k->now_ms + 9000);
}

KIT_TEST(a_whole_life_is_told_in_order)
{
    int64_t seq = PUT(k, .id = STR("x"));
    run_once(k, seq, decision_retrying(0));
    run_once(k, seq, decision_released());
    run_once(k, seq, decision_snoozed(0));
    run_once(k, seq, decision_retrying(0));
    run_once(k, seq, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    CHANGE(k, .seq = seq, .kind = MOVE_REDRIVE);
    run_once(k, seq, decision_retrying(0));
    run_once(k, seq, decision_completed());
    static const struct {
        uint32_t epoch, number;
        enum redrive_state outcome;
    } TOLD[] = {
        {0, 1, REDRIVE_STATE_RETRYING},    {0, 0, REDRIVE_STATE_QUEUED},
        {0, 0, REDRIVE_STATE_SCHEDULED},   {0, 2, REDRIVE_STATE_RETRYING},
        {0, 3, REDRIVE_STATE_DEAD_LETTER}, {1, 1, REDRIVE_STATE_RETRYING},
        {1, 2, REDRIVE_STATE_COMPLETED},
    };
    struct attempt_page *h = kit_history(k, seq);
    assert_int_equal(h->n, 7);
    for (size_t i = 0; i < 7; i++) {
        check_attempt(&h->attempts[i], TOLD[i].epoch, TOLD[i].number, TOLD[i].outcome);
        assert_int_equal(h->attempts[i].started_ms, KIT_START_MS + 5 * (int64_t)i);
        assert_int_equal(h->attempts[i].ended_ms, KIT_START_MS + 5 * (int64_t)i + 5);
    }
}

KIT_TEST(a_success_at_once_after_a_redrive_follows_the_old_history)
{
    int64_t seq = PUT(k, .id = STR("x"));
    run_once(k, seq, decision_ended(REDRIVE_STATE_FAILED, REDRIVE_REASON_NOT_RETRIABLE));
    CHANGE(k, .seq = seq, .kind = MOVE_REDRIVE);
    run_once(k, seq, decision_completed());
    struct attempt_page *h = kit_history(k, seq);
    assert_int_equal(h->n, 2);
    check_attempt(&h->attempts[0], 0, 1, REDRIVE_STATE_FAILED);
    check_attempt(&h->attempts[1], 1, 1, REDRIVE_STATE_COMPLETED);
    assert_int_equal(h->attempts[1].error.class_, REDRIVE_CLASS_SUCCESS);
}

KIT_TEST(a_success_at_once_after_a_release_follows_it)
{
    int64_t seq = PUT(k, .id = STR("x"));
    run_once(k, seq, decision_released());
    run_once(k, seq, decision_completed());
    struct attempt_page *h = kit_history(k, seq);
    assert_int_equal(h->n, 2);
    check_attempt(&h->attempts[0], 0, 0, REDRIVE_STATE_QUEUED);
    check_attempt(&h->attempts[1], 0, 1, REDRIVE_STATE_COMPLETED);
}

KIT_TEST(a_cancelled_run_is_told)
{
    int64_t by_hand = PUT(k, .id = STR("x")), by_worker = PUT(k, .id = STR("y"));
    kit_start(k, by_hand);
    uint64_t token = kit_start(k, by_worker);
    k->now_ms += 5;
    CHANGE(k, .seq = by_hand, .kind = MOVE_CANCEL);
    kit_settle(k, by_worker, token, decision_cancelled());
    const int64_t both[] = {by_hand, by_worker};
    for (int i = 0; i < 2; i++) {
        struct attempt_page *h = kit_history(k, both[i]);
        assert_int_equal(h->n, 1);
        check_attempt(&h->attempts[0], 0, 1, REDRIVE_STATE_CANCELLED);
        assert_int_equal(h->attempts[0].ended_ms, KIT_START_MS + 5);
        check_str(h->attempts[0].worker, "w1");
    }
}

KIT_TEST(histories_do_not_mix)
{
    int64_t a = PUT(k, .id = STR("a")), b = PUT(k, .id = STR("b"));
    run_once(k, a, decision_retrying(0));
    run_once(k, b, decision_retrying(0));
    run_once(k, a, decision_retrying(0));
    assert_int_equal(kit_history(k, a)->n, 2);
    assert_int_equal(kit_history(k, b)->n, 1);
}

KIT_TEST(several_are_told_at_once_a_page_each)
{
    struct attempt_page pages[6] = {0};
    const int64_t a = PUT(k, .id = STR("a")), b = PUT(k, .id = STR("b")),
                  never = PUT(k, .id = STR("c")), runs = PUT(k, .id = STR("d"));
    run_once(k, a, decision_retrying(0));
    run_once(k, b, decision_completed());
    run_once(k, a, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    kit_start(k, runs);
    const int64_t seqs[] = {runs, b, 123456, never, a, -1};
    const size_t counts[] = {1, 1, 0, 0, 2, 0};
    for (int again = 0; again < 2; again++) {
        assert_int_equal(store_ops(k->store)->history(k->store, seqs, 6, pages, NULL), 0);
        for (size_t i = 0; i < 6; i++)
            assert_int_equal(pages[i].n, counts[i]);
        check_attempt(&pages[0].attempts[0], 0, 1, REDRIVE_STATE_RUNNING);
        check_attempt(&pages[1].attempts[0], 0, 1, REDRIVE_STATE_COMPLETED);
        check_attempt(&pages[4].attempts[0], 0, 1, REDRIVE_STATE_RETRYING);
        check_attempt(&pages[4].attempts[1], 0, 2, REDRIVE_STATE_DEAD_LETTER);
    }
    assert_int_equal(store_ops(k->store)->history(k->store, NULL, 0, pages, NULL), 0);
    attempt_pages_release(pages, 6);
}
