/* Two processes on one store, step by step: `a` is the fixture, `b` has joined it.
 *
 * A store with one writer makes b wait while a has a transaction, and then says REDRIVE_E_IO; one
 * with several lets b begin. Both are right; what b must not do is see or take what is a's. */
#include "store_for_test.h"

STORE_TEST(a_transaction_is_not_visible_before_its_commit)
{
    struct test_store *a = ts, b;
    ts_join(&b, a);
    int64_t old = PUT(a, .id = STR("old"));
    ts_begin(a);
    int64_t new_ = PUT(a, .id = STR("new"));
    ts_start(a, old);
    ts_pause(a, STR("acme"), STR("main"));
    ts_count(a, (struct counter){STR("acme"), STR("n"), STR(""), 1});
    assert_null(ts_job(&b, new_));
    assert_int_equal(ts_state(&b, old), REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_history(&b, old)->n, 0);
    assert_false(ts_queues(&b, STR("acme"))->counts[0].paused);
    assert_int_equal(ts_shared(&b, SHARED_PAUSE, STR("acme"))->n, 0);
    ts_commit(a);
    assert_int_equal(ts_state(&b, new_), REDRIVE_STATE_QUEUED);
    assert_int_equal(ts_state(&b, old), REDRIVE_STATE_RUNNING);
    assert_true(ts_queues(&b, STR("acme"))->counts[0].paused);
    ts_close(&b);
}

/* Invariant 7. */
STORE_TEST(two_workers_cannot_start_the_same_job)
{
    struct test_store *a = ts, b;
    ts_join(&b, a);
    int64_t seq = PUT(a, .id = STR("x"));
    ts_begin(a);
    check_seqs(READY(a, .tenant = STR("acme")), seq);

    int rc = ts_try_begin(&b);
    assert_true(rc == 0 || rc == REDRIVE_E_IO);
    if (rc == 0) {
        assert_int_equal(READY(&b, .tenant = STR("acme"))->n, 0);
        ts_rollback(&b);
    }
    uint64_t token = ts_start(a, seq);
    ts_commit(a);

    const struct start_move second = {.seq = seq, .token = 4711, .worker = STR("b")};
    check_move(ts_try_start(&b, &second), REDRIVE_E_STATE, REDRIVE_STATE_RUNNING);
    assert_int_equal(READY(&b, .tenant = STR("acme"))->n, 0);
    assert_int_equal(ts_job(&b, seq)->status.token, token);
    assert_int_equal(ts_job(&b, seq)->status.attempts, 1);
    ts_close(&b);
}

/* Invariant 8. */
STORE_TEST(a_worker_that_was_given_up_can_no_longer_settle)
{
    struct test_store *a = ts, b;
    ts_join(&b, a);
    int64_t seq = PUT(a, .id = STR("x")), next_ms;
    uint64_t old = ts_start(a, seq);

    /* The lease ends, and b takes the job back. */
    b.now_ms += 30000;
    struct job_page *page = ts_expired(&b, 10, &next_ms);
    check_seqs(page, seq);
    struct decision lost = decision_retrying(0);
    lost.class_ = REDRIVE_CLASS_SYSTEM;
    check_move(ts_settle(&b, seq, page->jobs[0].status.token, lost), 0, REDRIVE_STATE_RETRYING);

    check_move(ts_settle(a, seq, old, decision_completed()), REDRIVE_E_STATE,
               REDRIVE_STATE_RETRYING);
    check_move(ts_extend(a, seq, old, INT64_MAX), REDRIVE_E_STATE, REDRIVE_STATE_RETRYING);
    assert_int_equal(ts_promote(&b, 10, &next_ms), 1);
    uint64_t new_ = ts_start(&b, seq);
    check_move(ts_settle(a, seq, old, decision_completed()), REDRIVE_E_STATE,
               REDRIVE_STATE_RUNNING);
    check_move(ts_settle(&b, seq, new_, decision_completed()), 0, REDRIVE_STATE_COMPLETED);
    assert_int_equal(ts_history(a, seq)->n, 2);
    ts_close(&b);
}

STORE_TEST(a_settle_in_time_makes_the_rescue_too_late)
{
    struct test_store *a = ts, b;
    ts_join(&b, a);
    int64_t seq = PUT(a, .id = STR("x")), next_ms;
    uint64_t token = ts_start(a, seq);
    b.now_ms += 30000;
    check_seqs(ts_expired(&b, 10, &next_ms), seq);
    check_move(ts_settle(a, seq, token, decision_completed()), 0, REDRIVE_STATE_COMPLETED);
    check_move(ts_settle(&b, seq, token, decision_retrying(0)), REDRIVE_E_STATE,
               REDRIVE_STATE_COMPLETED);
    ts_close(&b);
}

STORE_TEST(a_cancel_beats_the_settle_that_comes_after_it)
{
    struct test_store *a = ts, b;
    ts_join(&b, a);
    int64_t seq = PUT(a, .id = STR("x"));
    uint64_t token = ts_start(a, seq);
    check_move(CHANGE(&b, .seq = seq, .kind = MOVE_CANCEL), 0, REDRIVE_STATE_CANCELLED);
    check_move(ts_settle(a, seq, token, decision_completed()), REDRIVE_E_STATE,
               REDRIVE_STATE_CANCELLED);
    ts_close(&b);
}

/* Reads the job as a cancel by id does, in a transaction that stays open. */
static struct job_status begin_and_see(struct test_store *ts, const char *id)
{
    const struct job_name name = {STR("acme"), str_of(id)};
    struct job_page page = {0};
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->lookup(ts->store, &name, 1, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    const struct job_status *status = &page.jobs[0].status;
    const struct job_status seen = {
        .seq = status->seq, .state = status->state, .token = status->token};
    job_page_release(&page);
    return seen;
}

/* Cancels what was seen, and ends the transaction. */
static int cancel_as_seen(struct test_store *ts, const struct job_status *seen)
{
    const struct change_move move = {.seq = seen->seq, .kind = MOVE_CANCEL, .seen = seen};
    struct move_result result;
    int rc = store_ops(ts->store)->move(ts->store, CHANGES(&move, 1), &result, NULL);
    if (rc == 0)
        check_move(result, 0, REDRIVE_STATE_CANCELLED);
    if (rc == 0)
        rc = store_ops(ts->store)->commit(ts->store, NULL);
    ts_rollback(ts);
    return rc;
}

/* The engine gives back a slot of a limit if the job that it cancels was running: what it has seen
 * must be what is cancelled. */
STORE_TEST(a_job_that_has_started_since_it_was_seen_is_not_cancelled_unseen)
{
    struct test_store *a = ts, b;
    ts_join(&b, a);
    const int64_t seq = PUT(a, .id = STR("x"));
    struct job_status seen = begin_and_see(&b, "x");
    const int rc = ts_try_begin(a);
    assert_true(rc == 0 || rc == REDRIVE_E_IO);
    if (rc == 0) {
        const uint64_t token = ts_start(a, seq);
        ts_commit(a);
        assert_int_equal(cancel_as_seen(&b, &seen), REDRIVE_E_CANCELLED);
        assert_int_equal(ts_state(a, seq), REDRIVE_STATE_RUNNING);

        seen = begin_and_see(&b, "x");
        check_move(ts_settle(a, seq, token, decision_retrying(1000)), 0, REDRIVE_STATE_RETRYING);
        assert_int_equal(cancel_as_seen(&b, &seen), REDRIVE_E_CANCELLED);
        assert_int_equal(ts_state(a, seq), REDRIVE_STATE_RETRYING);
        seen = begin_and_see(&b, "x");
    }
    assert_int_equal(cancel_as_seen(&b, &seen), 0);
    ts_close(&b);
}

/* Rule 5: of two who saw the same version, one hands out the probe or makes the tick. */
STORE_TEST(of_two_puts_at_the_same_version_one_wins)
{
    struct test_store *a = ts, b;
    ts_join(&b, a);
    struct shared_row tick = {
        .kind = SHARED_CRON, .tenant = STR("acme"), .key = STR("nightly"), .value = STR("last=0")};
    assert_int_equal(ts_shared_put(a, &tick), 0);
    tick.version = ts_shared(&b, SHARED_CRON, STR("acme"))->rows[0].version;

    ts_begin(a);
    tick.value = STR("a made it");
    assert_int_equal(ts_shared_put(a, &tick), 0);
    PUT(a, .id = STR("nightly-1"));
    ts_commit(a);

    /* It is refused at once, or at the latest by the commit. */
    ts_begin(&b);
    tick.value = STR("b made it");
    int rc = ts_shared_put(&b, &tick);
    if (rc == 0)
        rc = store_ops(b.store)->commit(b.store, NULL);
    assert_true(rc == REDRIVE_E_STATE || rc == REDRIVE_E_CANCELLED);
    ts_rollback(&b);
    check_str(ts_shared(&b, SHARED_CRON, STR("acme"))->rows[0].value, "a made it");
    ts_close(&b);
}

STORE_TEST(of_two_submits_of_a_key_one_wins)
{
    struct test_store *a = ts, b;
    ts_join(&b, a);
    int64_t first = PUT(a, .id = STR("a"), .unique_key = STR("k"));
    struct submit_result second = TRY_PUT(&b, .id = STR("b"), .unique_key = STR("k"));
    assert_int_equal(second.code, REDRIVE_E_EXISTS);
    assert_int_equal(second.seq, first);
    ts_close(&b);
}

STORE_TEST(what_was_rolled_back_can_be_done_by_another)
{
    struct test_store *a = ts, b;
    ts_join(&b, a);
    int64_t seq = PUT(a, .id = STR("x"));
    ts_begin(a);
    PUT(a, .id = STR("y"), .unique_key = STR("k"));
    ts_start(a, seq);
    ts_rollback(a);
    PUT(&b, .id = STR("y"), .unique_key = STR("k"));
    ts_start(&b, seq);
    assert_int_equal(ts_job(a, seq)->status.attempts, 1);
    ts_close(&b);
}

STORE_TEST(two_who_promote_move_a_job_once)
{
    struct test_store *a = ts, b;
    ts_join(&b, a);
    int64_t next_ms;
    PUT(a, .process_after_ms = a->now_ms + 10);
    a->now_ms += 10;
    b.now_ms = a->now_ms;
    assert_int_equal(ts_promote(a, 10, &next_ms) + ts_promote(&b, 10, &next_ms), 1);
    ts_close(&b);
}

STORE_TEST(the_store_is_there_as_long_as_somebody_has_it)
{
    struct test_store *a = ts, b, c;
    ts_join(&b, a);
    int64_t seq = PUT(&b, .id = STR("x"));
    ts_close(&b);
    ts_join(&c, a);
    assert_int_equal(ts_state(&c, seq), REDRIVE_STATE_QUEUED);
    ts_close(&c);
}

/* Neither by the one that has removed the job, nor by one that has never seen it, nor by one that
 * has rolled a number back. */
STORE_TEST(a_number_is_given_once_by_all)
{
    struct test_store *a = ts, b, c;
    ts_join(&b, a);
    int64_t last = 0;
    for (int i = 0; i < 6; i++) {
        struct test_store *one = i % 2 ? a : &b, *other = i % 2 ? &b : a;
        char removed[16], kept[16];
        (void)snprintf(removed, sizeof removed, "removed-%d", i);
        (void)snprintf(kept, sizeof kept, "kept-%d", i);
        const struct job_spec spec = {.id = str_of(removed)};
        ts_begin(one);
        assert_true(PUT(one, .id = STR("rolled back")) > last);
        ts_rollback(one);
        const int64_t seq = ts_put_in(one, REDRIVE_STATE_CANCELLED, &spec);
        assert_true(seq > last);
        check_move(CHANGE(other, .seq = seq, .kind = MOVE_REMOVE), 0, REDRIVE_STATE_CANCELLED);
        ts_join(&c, a);
        last = PUT(&c, .id = str_of(kept));
        assert_true(last > seq);
        ts_close(&c);
    }
    ts_close(&b);
}

/* Jobs come, go and come in one transaction. */
STORE_TEST(a_number_is_given_once_in_a_transaction)
{
    struct test_store *a = ts, b;
    ts_join(&b, a);
    ts_begin(a);
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t seq = ts_put_in(a, REDRIVE_STATE_CANCELLED, NULL);
        assert_true(seq > last);
        check_move(CHANGE(a, .seq = seq, .kind = MOVE_REMOVE), 0, REDRIVE_STATE_CANCELLED);
        last = seq;
    }
    ts_commit(a);
    assert_true(PUT(&b, .id = STR("new")) > last);
    ts_close(&b);
}
