#include "kit.h"

KIT_TEST(parking_uses_no_attempt)
{
    int64_t seq = PUT(k, .breaker_key = STR("b"));
    k->now_ms += 10;
    check_move(kit_park(k, seq, false), 0, REDRIVE_STATE_PARKED);
    const struct job_status *s = &kit_job(k, seq)->status;
    assert_int_equal(s->state, REDRIVE_STATE_PARKED);
    assert_int_equal(s->attempts, 0);
    assert_int_equal(s->deferrals, 1);
    assert_false(s->parked_by_limit);
    assert_int_equal(s->paused_since_ms, k->now_ms);
    assert_int_equal(READY(k, .tenant = STR("acme"))->n, 0);
}

KIT_TEST(only_queued_jobs_are_parked_and_only_parked_ones_let_go)
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++) {
        int64_t seq = kit_put_in(k, (enum redrive_state)s, NULL);
        if (s != REDRIVE_STATE_PARKED)
            check_move(kit_unpark(k, seq), REDRIVE_E_STATE, (enum redrive_state)s);
        if (s != REDRIVE_STATE_QUEUED)
            check_move(kit_park(k, seq, true), REDRIVE_E_STATE, (enum redrive_state)s);
        assert_int_equal(kit_state(k, seq), s);
        assert_false(kit_job(k, seq)->status.parked_by_limit);
    }
}

KIT_TEST(time_before_the_first_start_is_not_held)
{
    int64_t seq = PUT(k, .breaker_key = STR("b"));
    kit_park(k, seq, true);
    assert_true(kit_job(k, seq)->status.parked_by_limit);
    k->now_ms += 500;
    check_move(kit_unpark(k, seq), 0, REDRIVE_STATE_QUEUED);
    const struct job_status *s = &kit_job(k, seq)->status;
    assert_int_equal(s->paused_ms, 0);
    assert_int_equal(s->paused_since_ms, 0);
    assert_false(s->parked_by_limit);
    assert_int_equal(s->deferrals, 1);
}

/* Started, failed, promoted, and queued again. */
static int64_t queued_again(struct kit *k)
{
    int64_t seq = PUT(k, .breaker_key = STR("b")), next_ms;
    uint64_t token = kit_start(k, seq);
    kit_settle(k, seq, token, decision_retrying(0));
    assert_int_equal(kit_promote(k, 10, &next_ms), 1);
    return seq;
}

KIT_TEST(held_time_adds_up)
{
    int64_t seq = queued_again(k);
    for (int i = 1; i <= 3; i++) {
        kit_park(k, seq, false);
        k->now_ms += 500;
        kit_unpark(k, seq);
        assert_int_equal(kit_job(k, seq)->status.paused_ms, 500 * i);
        k->now_ms += 77;
    }
    assert_int_equal(kit_job(k, seq)->status.deferrals, 3);
}

KIT_TEST(a_clock_that_goes_back_holds_for_no_time)
{
    int64_t seq = queued_again(k);
    kit_park(k, seq, false);
    k->now_ms -= 500;
    kit_unpark(k, seq);
    assert_int_equal(kit_job(k, seq)->status.paused_ms, 0);
}

KIT_TEST(a_parked_job_that_ends_is_held_no_longer)
{
    int64_t a = queued_again(k), b = queued_again(k);
    kit_park(k, a, true);
    kit_park(k, b, true);
    k->now_ms += 300;
    CHANGE(k, .seq = a, .kind = MOVE_CANCEL);
    CHANGE(k, .seq = b, .kind = MOVE_END, .to = REDRIVE_STATE_DEAD_LETTER,
           .reason = REDRIVE_REASON_DEADLINE);
    const int64_t both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        const struct job_status *s = &kit_job(k, both[i])->status;
        assert_int_equal(s->paused_ms, 300);
        assert_int_equal(s->paused_since_ms, 0);
        assert_false(s->parked_by_limit);
    }
}

KIT_TEST(parked_jobs_are_found_by_the_gate_that_holds_them)
{
    int64_t by_breaker = PUT(k, .breaker_key = STR("gate"), .limit_key = STR("l"));
    int64_t by_limit = PUT(k, .breaker_key = STR("b"), .limit_key = STR("gate"));
    int64_t other = PUT(k, .tenant = STR("other"), .breaker_key = STR("gate"));
    PUT(k, .breaker_key = STR("gate"));
    kit_park(k, by_breaker, false);
    kit_park(k, by_limit, true);
    kit_park(k, other, false);
    check_seqs(kit_parked(k, STR("gate"), SCAN_PARKED_OLDEST, 10), by_breaker, by_limit);
    assert_int_equal(kit_parked(k, STR("l"), SCAN_PARKED_OLDEST, 10)->n, 0);
    assert_int_equal(kit_parked(k, STR("b"), SCAN_PARKED_OLDEST, 10)->n, 0);
}

static int64_t put_parked(struct kit *k, int32_t max_attempts, int failures)
{
    int64_t seq = PUT(k, .breaker_key = STR("gate"), .max_attempts = max_attempts), next_ms;
    for (int i = 0; i < failures; i++) {
        uint64_t token = kit_start(k, seq);
        kit_settle(k, seq, token, decision_retrying(0));
        kit_promote(k, 1, &next_ms);
    }
    kit_park(k, seq, false);
    return seq;
}

KIT_TEST(the_probe_is_the_one_with_the_most_attempts_left)
{
    int64_t a = put_parked(k, 5, 2), b = put_parked(k, 5, 1), c = put_parked(k, 5, 2),
            d = put_parked(k, 10, 3), e = put_parked(k, 3, 3);
    check_seqs(kit_parked(k, STR("gate"), SCAN_PARKED_PROBES, 10), d, b, a, c, e);
    check_seqs(kit_parked(k, STR("gate"), SCAN_PARKED_OLDEST, 10), a, b, c, d, e);
    struct job_page *page = kit_parked(k, STR("gate"), SCAN_PARKED_PROBES, 2);
    check_seqs(page, d, b);
    assert_true(page->more);
    assert_false(kit_parked(k, STR("gate"), SCAN_PARKED_PROBES, 5)->more);
}

KIT_TEST(of_those_with_the_most_attempts_left_the_newest_may_be_asked_for)
{
    int64_t a = put_parked(k, 5, 1), b = put_parked(k, 5, 1), c = put_parked(k, 5, 2),
            d = put_parked(k, 5, 1);
    struct job_page *page = kit_parked(k, STR("gate"), SCAN_PARKED_NEWEST, 2);
    check_seqs(page, d, b);
    assert_true(page->more);
    /* The one that has fewer left is not among them, and is not forgotten either. */
    page = kit_parked(k, STR("gate"), SCAN_PARKED_NEWEST, 10);
    check_seqs(page, d, b, a);
    assert_true(page->more);
    page = kit_parked(k, STR("gate"), SCAN_PARKED_NEWEST, 3);
    check_seqs(page, d, b, a);
    assert_true(page->more);
    kit_unpark(k, c);
    assert_false(kit_parked(k, STR("gate"), SCAN_PARKED_NEWEST, 3)->more);
    assert_int_equal(kit_parked(k, STR("nobody's"), SCAN_PARKED_NEWEST, 3)->n, 0);
}

/* Whoever is told that there are none does not look again. */
KIT_TEST(one_that_the_transaction_has_ended_hides_no_other)
{
    const enum scan_index orders[] = {SCAN_PARKED_OLDEST, SCAN_PARKED_PROBES, SCAN_PARKED_NEWEST};
    int64_t seqs[5];
    for (int i = 0; i < 5; i++)
        seqs[i] = put_parked(k, 3, 0);
    for (int i = 0; i < 3; i++) {
        kit_begin(k);
        CHANGE(k, .seq = seqs[orders[i] == SCAN_PARKED_NEWEST ? 4 : 0], .kind = MOVE_CANCEL);
        const struct job_page *page = kit_parked(k, STR("gate"), orders[i], 1);
        assert_true(page->n <= 1);
        assert_true(page->more);
        kit_rollback(k);
    }
}
