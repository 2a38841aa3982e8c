#include "store_for_test.h"
#include "scans.h"

STORE_TEST(a_lease_can_be_extended_but_not_shortened)
{
    int64_t seq = PUT(ts, .id = STR("x"));
    uint64_t token = ts_start(ts, seq);
    check_move(ts_extend(ts, seq, token, ts->now_ms + 60000), 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(ts_job(ts, seq)->status.lease_until_ms, ts->now_ms + 60000);
    check_move(ts_extend(ts, seq, token, ts->now_ms + 1), 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(ts_job(ts, seq)->status.lease_until_ms, ts->now_ms + 60000);
    assert_int_equal(ts_job(ts, seq)->status.token, token);
}

STORE_TEST(only_a_running_job_has_a_lease_to_extend)
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++) {
        if (s == REDRIVE_STATE_RUNNING)
            continue;
        int64_t seq = ts_put_in(ts, (enum redrive_state)s, NULL);
        check_move(ts_extend(ts, seq, 0, INT64_MAX), REDRIVE_E_STATE, (enum redrive_state)s);
        assert_int_equal(ts_job(ts, seq)->status.lease_until_ms, 0);
    }
}

static int64_t start_until(struct test_store *ts, int64_t lease_until_ms)
{
    int64_t seq = PUT(ts, .priority = 0);
    const struct start_move move = {
        .seq = seq, .token = ts->next_token++, .lease_until_ms = lease_until_ms};
    check_move(ts_try_start(ts, &move), 0, REDRIVE_STATE_RUNNING);
    return seq;
}

STORE_TEST(leases_that_have_ended_are_found_the_longest_first)
{
    int64_t t = ts->now_ms, next_ms = -1;
    int64_t a = start_until(ts, t + 30), b = start_until(ts, t + 10), c = start_until(ts, t + 20),
            d = start_until(ts, t + 20);
    ts->now_ms = t + 9;
    assert_int_equal(ts_expired(ts, 10, &next_ms)->n, 0);
    assert_int_equal(next_ms, t + 10);
    ts->now_ms = t + 20;
    check_seqs(ts_expired(ts, 10, &next_ms), b, c, d);
    assert_int_equal(next_ms, t + 30);
    check_seqs(ts_expired(ts, 2, &next_ms), b, c);
    assert_int_equal(next_ms, t + 20);
    ts->now_ms = t + 1000;
    check_seqs(ts_expired(ts, 10, &next_ms), b, c, d, a);
    assert_int_equal(next_ms, 0);
}

STORE_TEST(finding_an_expired_lease_does_not_end_it)
{
    int64_t seq = PUT(ts, .id = STR("x")), next_ms;
    uint64_t token = ts_start(ts, seq);
    ts->now_ms += 30000;
    check_seqs(ts_expired(ts, 10, &next_ms), seq);
    assert_int_equal(ts_job(ts, seq)->status.token, token);
    check_move(ts_extend(ts, seq, token, ts->now_ms + 10), 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(ts_expired(ts, 10, &next_ms)->n, 0);
    check_move(ts_settle(ts, seq, token, decision_completed()), 0, REDRIVE_STATE_COMPLETED);
}

STORE_TEST(only_running_jobs_expire)
{
    int64_t next_ms = -1;
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        if (s != REDRIVE_STATE_RUNNING)
            ts_put_in(ts, (enum redrive_state)s, NULL);
    ts->now_ms += 1000000;
    assert_int_equal(ts_expired(ts, 10, &next_ms)->n, 0);
    assert_int_equal(next_ms, 0);
}

/* Invariant 6. */
STORE_TEST(nothing_is_promoted_before_its_time)
{
    int64_t t = ts->now_ms, next_ms = -1;
    int64_t a = PUT(ts, .process_after_ms = t + 100);
    ts->now_ms = t + 99;
    assert_int_equal(ts_promote(ts, 10, &next_ms), 0);
    assert_int_equal(next_ms, t + 100);
    assert_int_equal(ts_state(ts, a), REDRIVE_STATE_SCHEDULED);
    ts->now_ms = t + 100;
    assert_int_equal(ts_promote(ts, 10, &next_ms), 1);
    assert_int_equal(next_ms, 0);
    assert_int_equal(ts_state(ts, a), REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_job(ts, a)->status.process_after_ms, t + 100);
    assert_int_equal(ts_job(ts, a)->status.updated_ms, t + 100);
}

STORE_TEST(the_earliest_are_promoted_first)
{
    int64_t t = ts->now_ms, next_ms = -1;
    int64_t a = PUT(ts, .process_after_ms = t + 30), b = PUT(ts, .process_after_ms = t + 10),
            c = PUT(ts, .process_after_ms = t + 20), d = PUT(ts, .process_after_ms = t + 20);
    ts->now_ms = t + 50;
    assert_int_equal(ts_promote(ts, 2, &next_ms), 2);
    assert_int_equal(next_ms, t + 20);
    check_seqs(READY(ts, .tenant = STR("acme")), b, c);
    assert_int_equal(ts_promote(ts, 2, &next_ms), 2);
    assert_int_equal(next_ms, 0);
    check_seqs(READY(ts, .tenant = STR("acme")), a, b, c, d);
}

/* Those that are left are due as well, though one that was before them is not any more. */
STORE_TEST(one_that_the_transaction_has_ended_hides_no_other)
{
    int64_t t = ts->now_ms, next_ms = -1, seqs[5];
    for (int i = 0; i < 5; i++)
        seqs[i] = PUT(ts, .process_after_ms = t + 10 + i);
    ts->now_ms = t + 50;
    ts_begin(ts);
    CHANGE(ts, .seq = seqs[0], .kind = MOVE_CANCEL);
    assert_true(ts_promote(ts, 2, &next_ms) <= 2);
    assert_in_range(next_ms, 1, t + 50);
    ts_commit(ts);
}

STORE_TEST(retries_are_promoted_like_scheduled_jobs)
{
    int64_t t = ts->now_ms, next_ms = -1;
    int64_t a = ts_put_in(ts, REDRIVE_STATE_RETRYING, NULL); /* in 60 s */
    int64_t b = PUT(ts, .process_after_ms = t + 60001);
    ts->now_ms = t + 60000;
    assert_int_equal(ts_promote(ts, 10, &next_ms), 1);
    assert_int_equal(next_ms, t + 60001);
    check_seqs(READY(ts, .tenant = STR("acme")), a);
    assert_int_equal(ts_state(ts, b), REDRIVE_STATE_SCHEDULED);
}

STORE_TEST(nothing_but_time_locked_jobs_is_promoted)
{
    int64_t seqs[REDRIVE_STATE_COUNT], next_ms = -1;
    for (int s = REDRIVE_STATE_QUEUED; s < REDRIVE_STATE_COUNT; s++)
        seqs[s] = ts_put_in(ts, (enum redrive_state)s, NULL);
    ts->now_ms += 1000000;
    assert_int_equal(ts_promote(ts, 100, &next_ms), 0);
    assert_int_equal(next_ms, 0);
    for (int s = REDRIVE_STATE_QUEUED; s < REDRIVE_STATE_COUNT; s++)
        assert_int_equal(ts_state(ts, seqs[s]), s);
}

STORE_TEST(a_clock_that_goes_back_promotes_nothing)
{
    int64_t next_ms;
    int64_t seq = PUT(ts, .process_after_ms = ts->now_ms + 10);
    ts->now_ms -= 100000;
    assert_int_equal(ts_promote(ts, 10, &next_ms), 0);
    assert_int_equal(ts_state(ts, seq), REDRIVE_STATE_SCHEDULED);
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

STORE_TEST(deadlines_of_waiting_jobs_are_found_the_earliest_first)
{
    int64_t t = ts->now_ms, next_ms = -1;
    int64_t queued = PUT(ts, .deadline_ms = t + 30),
            locked = PUT(ts, .deadline_ms = t + 10, .process_after_ms = t + 99);
    int64_t parked = PUT(ts, .deadline_ms = t + 20, .breaker_key = STR("b"));
    int64_t same = PUT(ts, .deadline_ms = t + 20);
    (void)PUT(ts, .priority = 0);
    check_move(ts_park(ts, parked, false), 0, REDRIVE_STATE_PARKED);
    ts->now_ms = t + 9;
    assert_int_equal(ts_overdue(ts, 10, &next_ms)->n, 0);
    assert_int_equal(next_ms, t + 10);
    ts->now_ms = t + 20;
    check_seqs(ts_overdue(ts, 10, &next_ms), locked, parked, same);
    assert_int_equal(next_ms, t + 30);
    check_seqs(ts_overdue(ts, 2, &next_ms), locked, parked);
    assert_int_equal(next_ms, t + 20);
    ts->now_ms = t + 1000;
    check_seqs(ts_overdue(ts, 10, &next_ms), locked, parked, same, queued);
    assert_int_equal(next_ms, 0);
}

STORE_TEST(a_job_that_runs_or_has_ended_is_not_overdue)
{
    int64_t t = ts->now_ms, next_ms = -1;
    int64_t runs = PUT(ts, .deadline_ms = t + 10), ends = PUT(ts, .deadline_ms = t + 10);
    uint64_t token = ts_start(ts, runs);
    check_move(CHANGE(ts, .seq = ends, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    ts->now_ms = t + 20;
    assert_int_equal(ts_overdue(ts, 10, &next_ms)->n, 0);
    const struct decision later = {.state = REDRIVE_STATE_RETRYING, .delay_ms = 1000};
    check_move(ts_settle(ts, runs, token, later), 0, REDRIVE_STATE_RETRYING);
    check_seqs(ts_overdue(ts, 10, &next_ms), runs);
}

STORE_TEST(a_dead_letter_that_comes_back_has_its_deadline_again)
{
    int64_t next_ms, seq = PUT(ts, .deadline_ms = ts->now_ms + 10);
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_END, .to = REDRIVE_STATE_DEAD_LETTER,
                      .reason = REDRIVE_REASON_MANUAL),
               0, REDRIVE_STATE_DEAD_LETTER);
    ts->now_ms += 20;
    assert_int_equal(ts_overdue(ts, 10, &next_ms)->n, 0);
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_REDRIVE), 0, REDRIVE_STATE_QUEUED);
    check_seqs(ts_overdue(ts, 10, &next_ms), seq);
}

STORE_TEST(removed_jobs_leave_no_deadline)
{
    int64_t t = ts->now_ms, next_ms = -1;
    int64_t seq = 0;
    for (int i = 0; i < 4; i++) {
        seq = PUT(ts, .deadline_ms = t + 1000000);
        check_move(CHANGE(ts, .seq = seq, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    }
    check_move(CHANGE(ts, .seq = seq, .kind = MOVE_REMOVE), 0, REDRIVE_STATE_CANCELLED);
    assert_int_equal(ts_sweep(ts, STATE_BIT(CANCELLED), t + 1, 10), 3);
    assert_int_equal(ts_overdue(ts, 10, &next_ms)->n, 0);
    assert_int_equal(next_ms, 0);
}

STORE_TEST(many_deadlines_of_ended_jobs_are_passed_over_in_the_end)
{
    int64_t t = ts->now_ms, next_ms = t;
    ts_begin(ts);
    for (int i = 0; i < 600; i++) {
        int64_t seq = PUT(ts, .deadline_ms = t + 10);
        check_move(CHANGE(ts, .seq = seq, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    }
    int64_t last = PUT(ts, .deadline_ms = t + 10);
    ts_commit(ts);
    ts->now_ms = t + 20;
    int calls = 0;
    while (ts_overdue(ts, 10, &next_ms)->n == 0 && next_ms != 0 && next_ms <= ts->now_ms)
        assert_true(++calls < 10);
    check_seqs(&ts->page, last);
}

/* ---- Pauses ---------------------------------------------------------------------------------- */

static void credit(struct test_store *ts, struct str queue, int64_t since_ms)
{
    const struct pause_time pause = {since_ms, ts->now_ms};
    struct scan scan = {.limit = 100, .tenant = STR("acme"), .name = queue};
    bool more;
    ts_begin(ts);
    assert_int_equal(scan_credit(ts->store, &scan, pause, &more, NULL), 0);
    assert_false(more);
    ts_commit(ts);
}

/* Fails an attempt; the job is in the queue again at once. */
static void fail_once(struct test_store *ts, int64_t seq)
{
    const struct decision again = {.state = REDRIVE_STATE_RETRYING, .uses_attempt = true};
    int64_t next_ms;
    check_move(ts_settle(ts, seq, ts_start(ts, seq), again), 0, REDRIVE_STATE_RETRYING);
    assert_int_equal(ts_promote(ts, 10, &next_ms), 1);
}

STORE_TEST(time_in_a_paused_queue_is_credited_once)
{
    int64_t fresh = PUT(ts, .queue = STR("main")), seq = PUT(ts, .queue = STR("main"));
    int64_t other = PUT(ts, .queue = STR("slow")), early = PUT(ts, .queue = STR("main"));
    fail_once(ts, early);
    int64_t paused_at = ts->now_ms += 100;
    ts->now_ms += 50;
    fail_once(ts, seq);
    fail_once(ts, other);
    ts->now_ms += 200;
    credit(ts, STR("main"), paused_at);
    credit(ts, STR("main"), paused_at);
    assert_int_equal(ts_job(ts, seq)->status.paused_ms, 200);
    assert_int_equal(ts_job(ts, early)->status.paused_ms, 250);
    assert_int_equal(ts_job(ts, fresh)->status.paused_ms, 0);
    assert_int_equal(ts_job(ts, other)->status.paused_ms, 0);
}

STORE_TEST(a_credit_outlasts_the_next_start)
{
    int64_t seq = PUT(ts, .queue = STR("main"));
    fail_once(ts, seq);
    int64_t paused_at = ts->now_ms += 100;
    ts->now_ms += 200;
    credit(ts, STR("main"), paused_at);
    (void)ts_start(ts, seq);
    assert_int_equal(ts_job(ts, seq)->status.paused_ms, 200);
}

/* Two at a time, of several partitions and priorities, while the clock goes on. */
STORE_TEST(a_pause_is_credited_some_jobs_at_a_time)
{
    int64_t seqs[15];
    for (int i = 0; i < 15; i++) {
        seqs[i] = PUT(ts, .task = i % 2 ? STR("a") : STR("b"), .priority = i % 3);
        if (i < 12)
            fail_once(ts, seqs[i]);
    }
    const struct pause_time pause = {ts->now_ms + 100, ts->now_ms + 300};
    struct scan scan = {.limit = 2, .tenant = STR("acme"), .name = STR("main")};
    bool more;
    ts->now_ms += 300;
    int transactions = 0;
    do {
        ts_begin(ts);
        assert_int_equal(scan_credit(ts->store, &scan, pause, &more, NULL), 0);
        ts_commit(ts);
        ts->now_ms += 10;
        PUT(ts, .priority = 9); /* before or after the place, it has nothing to get */
        assert_true(++transactions < 20);
    } while (more);
    assert_true(transactions >= 8);
    for (int i = 0; i < 15; i++)
        assert_int_equal(ts_job(ts, seqs[i])->status.paused_ms, i < 12 ? 200 : 0);
}
