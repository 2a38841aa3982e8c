#include "kit.h"
#include "scans.h"

KIT_TEST(a_lease_can_be_extended_but_not_shortened)
{
    int64_t seq = PUT(k, .id = STR("x"));
    uint64_t token = kit_start(k, seq);
    check_move(kit_extend(k, seq, token, k->now_ms + 60000), 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(kit_job(k, seq)->status.lease_until_ms, k->now_ms + 60000);
    check_move(kit_extend(k, seq, token, k->now_ms + 1), 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(kit_job(k, seq)->status.lease_until_ms, k->now_ms + 60000);
    assert_int_equal(kit_job(k, seq)->status.token, token);
}

KIT_TEST(only_a_running_job_has_a_lease_to_extend)
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++) {
        if (s == REDRIVE_STATE_RUNNING)
            continue;
        int64_t seq = kit_put_in(k, (enum redrive_state)s, NULL);
        check_move(kit_extend(k, seq, 0, INT64_MAX), REDRIVE_E_STATE, (enum redrive_state)s);
        assert_int_equal(kit_job(k, seq)->status.lease_until_ms, 0);
    }
}

static int64_t start_until(struct kit *k, int64_t lease_until_ms)
{
    int64_t seq = PUT(k, .priority = 0);
    const struct start_move move = {
        .seq = seq, .token = k->next_token++, .lease_until_ms = lease_until_ms};
    check_move(kit_try_start(k, &move), 0, REDRIVE_STATE_RUNNING);
    return seq;
}

KIT_TEST(leases_that_have_ended_are_found_the_longest_first)
{
    int64_t t = k->now_ms, next_ms = -1;
    int64_t a = start_until(k, t + 30), b = start_until(k, t + 10), c = start_until(k, t + 20),
            d = start_until(k, t + 20);
    k->now_ms = t + 9;
    assert_int_equal(kit_expired(k, 10, &next_ms)->n, 0);
    assert_int_equal(next_ms, t + 10);
    k->now_ms = t + 20;
    check_seqs(kit_expired(k, 10, &next_ms), b, c, d);
    assert_int_equal(next_ms, t + 30);
    check_seqs(kit_expired(k, 2, &next_ms), b, c);
    assert_int_equal(next_ms, t + 20);
    k->now_ms = t + 1000;
    check_seqs(kit_expired(k, 10, &next_ms), b, c, d, a);
    assert_int_equal(next_ms, 0);
}

KIT_TEST(finding_an_expired_lease_does_not_end_it)
{
    int64_t seq = PUT(k, .id = STR("x")), next_ms;
    uint64_t token = kit_start(k, seq);
    k->now_ms += 30000;
    check_seqs(kit_expired(k, 10, &next_ms), seq);
    assert_int_equal(kit_job(k, seq)->status.token, token);
    check_move(kit_extend(k, seq, token, k->now_ms + 10), 0, REDRIVE_STATE_RUNNING);
    assert_int_equal(kit_expired(k, 10, &next_ms)->n, 0);
    check_move(kit_settle(k, seq, token, decision_completed()), 0, REDRIVE_STATE_COMPLETED);
}

KIT_TEST(only_running_jobs_expire)
{
    int64_t next_ms = -1;
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        if (s != REDRIVE_STATE_RUNNING)
            kit_put_in(k, (enum redrive_state)s, NULL);
    k->now_ms += 1000000;
    assert_int_equal(kit_expired(k, 10, &next_ms)->n, 0);
    assert_int_equal(next_ms, 0);
}

/* Invariant 6. */
KIT_TEST(nothing_is_promoted_before_its_time)
{
    int64_t t = k->now_ms, next_ms = -1;
    int64_t a = PUT(k, .process_after_ms = t + 100);
    k->now_ms = t + 99;
    assert_int_equal(kit_promote(k, 10, &next_ms), 0);
    assert_int_equal(next_ms, t + 100);
    assert_int_equal(kit_state(k, a), REDRIVE_STATE_SCHEDULED);
    k->now_ms = t + 100;
    assert_int_equal(kit_promote(k, 10, &next_ms), 1);
    assert_int_equal(next_ms, 0);
    assert_int_equal(kit_state(k, a), REDRIVE_STATE_QUEUED);
    assert_int_equal(kit_job(k, a)->status.process_after_ms, t + 100);
    assert_int_equal(kit_job(k, a)->status.updated_ms, t + 100);
}

KIT_TEST(the_earliest_are_promoted_first)
{
    int64_t t = k->now_ms, next_ms = -1;
    int64_t a = PUT(k, .process_after_ms = t + 30), b = PUT(k, .process_after_ms = t + 10),
            c = PUT(k, .process_after_ms = t + 20), d = PUT(k, .process_after_ms = t + 20);
    k->now_ms = t + 50;
    assert_int_equal(kit_promote(k, 2, &next_ms), 2);
    assert_int_equal(next_ms, t + 20);
    check_seqs(READY(k, .tenant = STR("acme")), b, c);
    assert_int_equal(kit_promote(k, 2, &next_ms), 2);
    assert_int_equal(next_ms, 0);
    check_seqs(READY(k, .tenant = STR("acme")), a, b, c, d);
}

/* Those that are left are due as well, though one that was before them is not any more. */
KIT_TEST(one_that_the_transaction_has_ended_hides_no_other)
{
    int64_t t = k->now_ms, next_ms = -1, seqs[5];
    for (int i = 0; i < 5; i++)
        seqs[i] = PUT(k, .process_after_ms = t + 10 + i);
    k->now_ms = t + 50;
    kit_begin(k);
    CHANGE(k, .seq = seqs[0], .kind = MOVE_CANCEL);
    assert_true(kit_promote(k, 2, &next_ms) <= 2);
    assert_in_range(next_ms, 1, t + 50);
    kit_commit(k);
}

KIT_TEST(retries_are_promoted_like_scheduled_jobs)
{
    int64_t t = k->now_ms, next_ms = -1;
    int64_t a = kit_put_in(k, REDRIVE_STATE_RETRYING, NULL); /* in 60 s */
    int64_t b = PUT(k, .process_after_ms = t + 60001);
    k->now_ms = t + 60000;
    assert_int_equal(kit_promote(k, 10, &next_ms), 1);
    assert_int_equal(next_ms, t + 60001);
    check_seqs(READY(k, .tenant = STR("acme")), a);
    assert_int_equal(kit_state(k, b), REDRIVE_STATE_SCHEDULED);
}

KIT_TEST(nothing_but_time_locked_jobs_is_promoted)
{
    int64_t seqs[REDRIVE_STATE_COUNT], next_ms = -1;
    for (int s = REDRIVE_STATE_QUEUED; s < REDRIVE_STATE_COUNT; s++)
        seqs[s] = kit_put_in(k, (enum redrive_state)s, NULL);
    k->now_ms += 1000000;
    assert_int_equal(kit_promote(k, 100, &next_ms), 0);
    assert_int_equal(next_ms, 0);
    for (int s = REDRIVE_STATE_QUEUED; s < REDRIVE_STATE_COUNT; s++)
        assert_int_equal(kit_state(k, seqs[s]), s);
}

KIT_TEST(a_clock_that_goes_back_promotes_nothing)
{
    int64_t next_ms;
    int64_t seq = PUT(k, .process_after_ms = k->now_ms + 10);
    k->now_ms -= 100000;
    assert_int_equal(kit_promote(k, 10, &next_ms), 0);
    assert_int_equal(kit_state(k, seq), REDRIVE_STATE_SCHEDULED);
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

KIT_TEST(deadlines_of_waiting_jobs_are_found_the_earliest_first)
{
    int64_t t = k->now_ms, next_ms = -1;
    int64_t queued = PUT(k, .deadline_ms = t + 30),
            locked = PUT(k, .deadline_ms = t + 10, .process_after_ms = t + 99);
    int64_t parked = PUT(k, .deadline_ms = t + 20, .breaker_key = STR("b"));
    int64_t same = PUT(k, .deadline_ms = t + 20);
    (void)PUT(k, .priority = 0);
    check_move(kit_park(k, parked, false), 0, REDRIVE_STATE_PARKED);
    k->now_ms = t + 9;
    assert_int_equal(kit_overdue(k, 10, &next_ms)->n, 0);
    assert_int_equal(next_ms, t + 10);
    k->now_ms = t + 20;
    check_seqs(kit_overdue(k, 10, &next_ms), locked, parked, same);
    assert_int_equal(next_ms, t + 30);
    check_seqs(kit_overdue(k, 2, &next_ms), locked, parked);
    assert_int_equal(next_ms, t + 20);
    k->now_ms = t + 1000;
    check_seqs(kit_overdue(k, 10, &next_ms), locked, parked, same, queued);
    assert_int_equal(next_ms, 0);
}

KIT_TEST(a_job_that_runs_or_has_ended_is_not_overdue)
{
    int64_t t = k->now_ms, next_ms = -1;
    int64_t runs = PUT(k, .deadline_ms = t + 10), ends = PUT(k, .deadline_ms = t + 10);
    uint64_t token = kit_start(k, runs);
    check_move(CHANGE(k, .seq = ends, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    k->now_ms = t + 20;
    assert_int_equal(kit_overdue(k, 10, &next_ms)->n, 0);
    const struct decision later = {.state = REDRIVE_STATE_RETRYING, .delay_ms = 1000};
    check_move(kit_settle(k, runs, token, later), 0, REDRIVE_STATE_RETRYING);
    check_seqs(kit_overdue(k, 10, &next_ms), runs);
}

KIT_TEST(a_dead_letter_that_comes_back_has_its_deadline_again)
{
    int64_t next_ms, seq = PUT(k, .deadline_ms = k->now_ms + 10);
    check_move(CHANGE(k, .seq = seq, .kind = MOVE_END, .to = REDRIVE_STATE_DEAD_LETTER,
                      .reason = REDRIVE_REASON_MANUAL),
               0, REDRIVE_STATE_DEAD_LETTER);
    k->now_ms += 20;
    assert_int_equal(kit_overdue(k, 10, &next_ms)->n, 0);
    check_move(CHANGE(k, .seq = seq, .kind = MOVE_REDRIVE), 0, REDRIVE_STATE_QUEUED);
    check_seqs(kit_overdue(k, 10, &next_ms), seq);
}

KIT_TEST(removed_jobs_leave_no_deadline)
{
    int64_t t = k->now_ms, next_ms = -1;
    int64_t seq = 0;
    for (int i = 0; i < 4; i++) {
        seq = PUT(k, .deadline_ms = t + 1000000);
        check_move(CHANGE(k, .seq = seq, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    }
    check_move(CHANGE(k, .seq = seq, .kind = MOVE_REMOVE), 0, REDRIVE_STATE_CANCELLED);
    assert_int_equal(kit_sweep(k, STATE_BIT(CANCELLED), t + 1, 10), 3);
    assert_int_equal(kit_overdue(k, 10, &next_ms)->n, 0);
    assert_int_equal(next_ms, 0);
}

KIT_TEST(many_deadlines_of_ended_jobs_are_passed_over_in_the_end)
{
    int64_t t = k->now_ms, next_ms = t;
    kit_begin(k);
    for (int i = 0; i < 600; i++) {
        int64_t seq = PUT(k, .deadline_ms = t + 10);
        check_move(CHANGE(k, .seq = seq, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    }
    int64_t last = PUT(k, .deadline_ms = t + 10);
    kit_commit(k);
    k->now_ms = t + 20;
    int calls = 0;
    while (kit_overdue(k, 10, &next_ms)->n == 0 && next_ms != 0 && next_ms <= k->now_ms)
        assert_true(++calls < 10);
    check_seqs(&k->page, last);
}

/* ---- Pauses ---------------------------------------------------------------------------------- */

static void credit(struct kit *k, struct str queue, int64_t since_ms)
{
    const struct pause_time pause = {since_ms, k->now_ms};
    struct scan scan = {.limit = 100, .tenant = STR("acme"), .name = queue};
    bool more;
    kit_begin(k);
    assert_int_equal(scan_credit(k->store, &scan, pause, &more, NULL), 0);
    assert_false(more);
    kit_commit(k);
}

/* Fails an attempt; the job is in the queue again at once. */
static void fail_once(struct kit *k, int64_t seq)
{
    const struct decision again = {.state = REDRIVE_STATE_RETRYING, .uses_attempt = true};
    int64_t next_ms;
    check_move(kit_settle(k, seq, kit_start(k, seq), again), 0, REDRIVE_STATE_RETRYING);
    assert_int_equal(kit_promote(k, 10, &next_ms), 1);
}

KIT_TEST(time_in_a_paused_queue_is_credited_once)
{
    int64_t fresh = PUT(k, .queue = STR("main")), seq = PUT(k, .queue = STR("main"));
    int64_t other = PUT(k, .queue = STR("slow")), early = PUT(k, .queue = STR("main"));
    fail_once(k, early);
    int64_t paused_at = k->now_ms += 100;
    k->now_ms += 50;
    fail_once(k, seq);
    fail_once(k, other);
    k->now_ms += 200;
    credit(k, STR("main"), paused_at);
    credit(k, STR("main"), paused_at);
    assert_int_equal(kit_job(k, seq)->status.paused_ms, 200);
    assert_int_equal(kit_job(k, early)->status.paused_ms, 250);
    assert_int_equal(kit_job(k, fresh)->status.paused_ms, 0);
    assert_int_equal(kit_job(k, other)->status.paused_ms, 0);
}

KIT_TEST(a_credit_outlasts_the_next_start)
{
    int64_t seq = PUT(k, .queue = STR("main"));
    fail_once(k, seq);
    int64_t paused_at = k->now_ms += 100;
    k->now_ms += 200;
    credit(k, STR("main"), paused_at);
    (void)kit_start(k, seq);
    assert_int_equal(kit_job(k, seq)->status.paused_ms, 200);
}

/* Two at a time, of several partitions and priorities, while the clock goes on. */
KIT_TEST(a_pause_is_credited_some_jobs_at_a_time)
{
    int64_t seqs[15];
    for (int i = 0; i < 15; i++) {
        seqs[i] = PUT(k, .task = i % 2 ? STR("a") : STR("b"), .priority = i % 3);
        if (i < 12)
            fail_once(k, seqs[i]);
    }
    const struct pause_time pause = {k->now_ms + 100, k->now_ms + 300};
    struct scan scan = {.limit = 2, .tenant = STR("acme"), .name = STR("main")};
    bool more;
    k->now_ms += 300;
    int transactions = 0;
    do {
        kit_begin(k);
        assert_int_equal(scan_credit(k->store, &scan, pause, &more, NULL), 0);
        kit_commit(k);
        k->now_ms += 10;
        PUT(k, .priority = 9); /* before or after the place, it has nothing to get */
        assert_true(++transactions < 20);
    } while (more);
    assert_true(transactions >= 8);
    for (int i = 0; i < 15; i++)
        assert_int_equal(kit_job(k, seqs[i])->status.paused_ms, i < 12 ? 200 : 0);
}
