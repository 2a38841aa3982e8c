#include "store_for_test.h"

STORE_TEST(parking_uses_no_attempt)
{
    int64_t seq = PUT(ts, .breaker_key = STR("b"));
    ts->now_ms += 10;
    check_move(ts_park(ts, seq, false), 0, REDRIVE_STATE_PARKED);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->state, REDRIVE_STATE_PARKED);
    assert_int_equal(s->attempts, 0);
    assert_int_equal(s->deferrals, 1);
    assert_false(s->parked_by_limit);
    assert_int_equal(s->paused_since_ms, ts->now_ms);
    assert_int_equal(READY(ts, .tenant = STR("acme"))->n, 0);
}

STORE_TEST(only_queued_jobs_are_parked_and_only_parked_ones_let_go)
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++) {
        int64_t seq = ts_put_in(ts, (enum redrive_state)s, NULL);
        if (s != REDRIVE_STATE_PARKED)
            check_move(ts_unpark(ts, seq), REDRIVE_E_STATE, (enum redrive_state)s);
        if (s != REDRIVE_STATE_QUEUED)
            check_move(ts_park(ts, seq, true), REDRIVE_E_STATE, (enum redrive_state)s);
        assert_int_equal(ts_state(ts, seq), s);
        assert_false(ts_job(ts, seq)->status.parked_by_limit);
    }
}

STORE_TEST(time_before_the_first_start_is_not_held)
{
    int64_t seq = PUT(ts, .breaker_key = STR("b"));
    ts_park(ts, seq, true);
    assert_true(ts_job(ts, seq)->status.parked_by_limit);
    ts->now_ms += 500;
    check_move(ts_unpark(ts, seq), 0, REDRIVE_STATE_QUEUED);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->paused_ms, 0);
    assert_int_equal(s->paused_since_ms, 0);
    assert_false(s->parked_by_limit);
    assert_int_equal(s->deferrals, 1);
}

/* Started, failed, promoted, and queued again. */
static int64_t queued_again(struct test_store *ts)
{
    int64_t seq = PUT(ts, .breaker_key = STR("b")), next_ms;
    uint64_t token = ts_start(ts, seq);
    ts_settle(ts, seq, token, decision_retrying(0));
    assert_int_equal(ts_promote(ts, 10, &next_ms), 1);
    return seq;
}

STORE_TEST(held_time_adds_up)
{
    int64_t seq = queued_again(ts);
    for (int i = 1; i <= 3; i++) {
        ts_park(ts, seq, false);
        ts->now_ms += 500;
        ts_unpark(ts, seq);
        assert_int_equal(ts_job(ts, seq)->status.paused_ms, 500 * i);
        ts->now_ms += 77;
    }
    assert_int_equal(ts_job(ts, seq)->status.deferrals, 3);
}

STORE_TEST(a_clock_that_goes_back_holds_for_no_time)
{
    int64_t seq = queued_again(ts);
    ts_park(ts, seq, false);
    ts->now_ms -= 500;
    ts_unpark(ts, seq);
    assert_int_equal(ts_job(ts, seq)->status.paused_ms, 0);
}

STORE_TEST(a_parked_job_that_ends_is_held_no_longer)
{
    int64_t a = queued_again(ts), b = queued_again(ts);
    ts_park(ts, a, true);
    ts_park(ts, b, true);
    ts->now_ms += 300;
    CHANGE(ts, .seq = a, .kind = MOVE_CANCEL);
    CHANGE(ts, .seq = b, .kind = MOVE_END, .to = REDRIVE_STATE_DEAD_LETTER,
           .reason = REDRIVE_REASON_DEADLINE);
    const int64_t both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        const struct job_status *s = &ts_job(ts, both[i])->status;
        assert_int_equal(s->paused_ms, 300);
        assert_int_equal(s->paused_since_ms, 0);
        assert_false(s->parked_by_limit);
    }
}

STORE_TEST(parked_jobs_are_found_by_the_gate_that_holds_them)
{
    int64_t by_breaker = PUT(ts, .breaker_key = STR("gate"), .limit_key = STR("l"));
    int64_t by_limit = PUT(ts, .breaker_key = STR("b"), .limit_key = STR("gate"));
    int64_t other = PUT(ts, .tenant = STR("other"), .breaker_key = STR("gate"));
    PUT(ts, .breaker_key = STR("gate"));
    ts_park(ts, by_breaker, false);
    ts_park(ts, by_limit, true);
    ts_park(ts, other, false);
    check_seqs(ts_parked(ts, STR("gate"), SCAN_PARKED_OLDEST, 10), by_breaker, by_limit);
    assert_int_equal(ts_parked(ts, STR("l"), SCAN_PARKED_OLDEST, 10)->n, 0);
    assert_int_equal(ts_parked(ts, STR("b"), SCAN_PARKED_OLDEST, 10)->n, 0);
}

static int64_t put_parked(struct test_store *ts, int32_t max_attempts, int failures)
{
    int64_t seq = PUT(ts, .breaker_key = STR("gate"), .max_attempts = max_attempts), next_ms;
    for (int i = 0; i < failures; i++) {
        uint64_t token = ts_start(ts, seq);
        ts_settle(ts, seq, token, decision_retrying(0));
        ts_promote(ts, 1, &next_ms);
    }
    ts_park(ts, seq, false);
    return seq;
}

STORE_TEST(the_probe_is_the_one_with_the_most_attempts_left)
{
    int64_t a = put_parked(ts, 5, 2), b = put_parked(ts, 5, 1), c = put_parked(ts, 5, 2),
            d = put_parked(ts, 10, 3), e = put_parked(ts, 3, 3);
    check_seqs(ts_parked(ts, STR("gate"), SCAN_PARKED_PROBES, 10), d, b, a, c, e);
    check_seqs(ts_parked(ts, STR("gate"), SCAN_PARKED_OLDEST, 10), a, b, c, d, e);
    struct job_page *page = ts_parked(ts, STR("gate"), SCAN_PARKED_PROBES, 2);
    check_seqs(page, d, b);
    assert_true(page->more);
    assert_false(ts_parked(ts, STR("gate"), SCAN_PARKED_PROBES, 5)->more);
}

STORE_TEST(of_those_with_the_most_attempts_left_the_newest_may_be_asked_for)
{
    int64_t a = put_parked(ts, 5, 1), b = put_parked(ts, 5, 1), c = put_parked(ts, 5, 2),
            d = put_parked(ts, 5, 1);
    struct job_page *page = ts_parked(ts, STR("gate"), SCAN_PARKED_NEWEST, 2);
    check_seqs(page, d, b);
    assert_true(page->more);
    /* The one that has fewer left is not among them, and is not forgotten either. */
    page = ts_parked(ts, STR("gate"), SCAN_PARKED_NEWEST, 10);
    check_seqs(page, d, b, a);
    assert_true(page->more);
    page = ts_parked(ts, STR("gate"), SCAN_PARKED_NEWEST, 3);
    check_seqs(page, d, b, a);
    assert_true(page->more);
    ts_unpark(ts, c);
    assert_false(ts_parked(ts, STR("gate"), SCAN_PARKED_NEWEST, 3)->more);
    assert_int_equal(ts_parked(ts, STR("nobody's"), SCAN_PARKED_NEWEST, 3)->n, 0);
}

/* Whoever is told that there are none does not look again. */
STORE_TEST(one_that_the_transaction_has_ended_hides_no_other)
{
    const enum scan_index orders[] = {SCAN_PARKED_OLDEST, SCAN_PARKED_PROBES, SCAN_PARKED_NEWEST};
    int64_t seqs[5];
    for (int i = 0; i < 5; i++)
        seqs[i] = put_parked(ts, 3, 0);
    for (int i = 0; i < 3; i++) {
        ts_begin(ts);
        CHANGE(ts, .seq = seqs[orders[i] == SCAN_PARKED_NEWEST ? 4 : 0], .kind = MOVE_CANCEL);
        const struct job_page *page = ts_parked(ts, STR("gate"), orders[i], 1);
        assert_true(page->n <= 1);
        assert_true(page->more);
        ts_rollback(ts);
    }
}
