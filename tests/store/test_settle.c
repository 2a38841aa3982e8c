#include "store_for_test.h"

#include "dump.h"

/* A job that has been started at TS_START_MS + 100. */
static int64_t started(struct test_store *ts, uint64_t *ret_token)
{
    int64_t seq = PUT(ts, .breaker_key = STR("b"));
    ts->now_ms += 100;
    const struct start_move move = {.seq = seq,
                                    .token = 500 + (uint64_t)seq,
                                    .lease_until_ms = ts->now_ms + 30000,
                                    .worker = STR("w1"),
                                    .permit = {.generation = 2, .probe = 9}};
    check_move(ts_try_start(ts, &move), 0, REDRIVE_STATE_RUNNING);
    *ret_token = move.token;
    return seq;
}

static void check_no_lease(const struct job_status *s)
{
    assert_int_equal(s->token, 0);
    assert_int_equal(s->lease_until_ms, 0);
    assert_int_equal(s->permit.generation, 0);
    assert_int_equal(s->permit.probe, 0);
    check_str(s->worker, "w1");
}

STORE_TEST(success_completes)
{
    uint64_t token;
    int64_t seq = started(ts, &token);
    ts->now_ms += 50;
    struct decision d = decision_completed();
    const struct settle_move move = {
        .seq = seq, .token = token, .decision = &d, .result = STR("{\"sent\":true}")};
    check_move(ts_settle_with(ts, &move), 0, REDRIVE_STATE_COMPLETED);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(s->attempts, 1);
    assert_int_equal(s->finished_ms, ts->now_ms);
    assert_int_equal(s->updated_ms, ts->now_ms);
    assert_int_equal(s->started_ms, TS_START_MS + 100);
    check_str(s->result, "{\"sent\":true}");
    check_no_lease(s);
}

STORE_TEST(failure_waits_for_its_retry)
{
    uint64_t token;
    int64_t seq = started(ts, &token);
    ts->now_ms += 50;
    struct decision d = decision_retrying(9000);
    d.crashes = 2;
    const struct settle_move move = {
        .seq = seq,
        .token = token,
        .decision = &d,
        .error = {REDRIVE_CLASS_NETWORK, STR("ConnectError"), STR("refused"), STR("at f()"), 111},
        .fingerprint = UINT64_MAX};
    check_move(ts_settle_with(ts, &move), 0, REDRIVE_STATE_RETRYING);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->state, REDRIVE_STATE_RETRYING);
    assert_int_equal(s->process_after_ms, ts->now_ms + 9000);
    assert_int_equal(s->attempts, 1);
    assert_int_equal(s->crashes, 2);
    assert_int_equal(s->finished_ms, 0);
    assert_int_equal(s->reason, REDRIVE_REASON_NONE);
    assert_int_equal(s->error.class_, REDRIVE_CLASS_NETWORK);
    check_str(s->error.type, "ConnectError");
    check_str(s->error.message, "refused");
    check_str(s->error.stacktrace, "at f()");
    assert_int_equal(s->error.code, 111);
    assert_true(s->fingerprint == UINT64_MAX);
    assert_int_equal(s->result.len, 0);
    check_no_lease(s);
}

STORE_TEST(a_delay_without_end_does_not_overflow)
{
    uint64_t token;
    int64_t seq = started(ts, &token);
    ts_settle(ts, seq, token, decision_retrying(INT64_MAX));
    assert_int_equal(ts_job(ts, seq)->status.process_after_ms, INT64_MAX);
}

/* Invariant 9: a dead letter is a job in that state, and knows why. */
STORE_TEST(the_end_without_success_has_a_reason)
{
    static const enum redrive_state ENDS[] = {REDRIVE_STATE_DEAD_LETTER, REDRIVE_STATE_FAILED};
    for (int i = 0; i < 2; i++) {
        uint64_t token;
        int64_t seq = started(ts, &token);
        struct decision d = decision_ended(ENDS[i], REDRIVE_REASON_NOT_RETRIABLE);
        check_move(ts_settle(ts, seq, token, d), 0, ENDS[i]);
        const struct job_status *s = &ts_job(ts, seq)->status;
        assert_int_equal(s->state, ENDS[i]);
        assert_int_equal(s->reason, REDRIVE_REASON_NOT_RETRIABLE);
        assert_int_equal(s->finished_ms, ts->now_ms);
        assert_int_equal(s->error.class_, REDRIVE_CLASS_PERMANENT);
        check_no_lease(s);
    }
}

STORE_TEST(a_release_takes_the_attempt_back)
{
    uint64_t token;
    int64_t seq = started(ts, &token);
    check_move(ts_settle(ts, seq, token, decision_released()), 0, REDRIVE_STATE_QUEUED);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->state, REDRIVE_STATE_QUEUED);
    assert_int_equal(s->attempts, 0);
    assert_int_equal(s->deferrals, 1);
    assert_int_equal(s->first_started_ms, 0);
    assert_int_equal(s->process_after_ms, TS_START_MS);
    check_no_lease(s);
    check_seqs(READY(ts, .tenant = STR("acme")), seq);
}

STORE_TEST(a_release_of_a_later_attempt_keeps_the_first_start)
{
    uint64_t token;
    int64_t seq = started(ts, &token), next_ms;
    ts_settle(ts, seq, token, decision_retrying(10));
    ts->now_ms += 10;
    ts_promote(ts, 1, &next_ms);
    token = ts_start(ts, seq);
    ts_settle(ts, seq, token, decision_released());
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->attempts, 1);
    assert_int_equal(s->first_started_ms, TS_START_MS + 100);
}

STORE_TEST(a_snooze_takes_the_attempt_back_and_waits)
{
    uint64_t token;
    int64_t seq = started(ts, &token);
    check_move(ts_settle(ts, seq, token, decision_snoozed(5000)), 0, REDRIVE_STATE_SCHEDULED);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->state, REDRIVE_STATE_SCHEDULED);
    assert_int_equal(s->attempts, 0);
    assert_int_equal(s->deferrals, 1);
    assert_int_equal(s->process_after_ms, ts->now_ms + 5000);
    check_no_lease(s);
}

STORE_TEST(a_cancelled_run_ends_the_job)
{
    uint64_t token;
    int64_t seq = started(ts, &token);
    check_move(ts_settle(ts, seq, token, decision_cancelled()), 0, REDRIVE_STATE_CANCELLED);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->finished_ms, ts->now_ms);
    check_no_lease(s);
}

STORE_TEST(success_leaves_the_last_error_alone)
{
    uint64_t token;
    int64_t seq = started(ts, &token), next_ms;
    ts_settle(ts, seq, token, decision_retrying(0));
    assert_int_equal(ts_promote(ts, 1, &next_ms), 1);
    token = ts_start(ts, seq);
    ts_settle(ts, seq, token, decision_completed());
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->error.class_, REDRIVE_CLASS_NETWORK);
    check_str(s->error.message, "no answer");
    assert_int_equal(s->fingerprint, 77);
}

STORE_TEST(a_new_error_replaces_the_whole_of_the_old_one)
{
    uint64_t token;
    int64_t seq = started(ts, &token), next_ms;
    ts_settle(ts, seq, token, decision_retrying(0));
    ts_promote(ts, 1, &next_ms);
    token = ts_start(ts, seq);
    struct decision d = decision_retrying(0);
    const struct settle_move move = {
        .seq = seq, .token = token, .decision = &d, .error = {.class_ = REDRIVE_CLASS_SYSTEM}};
    ts_settle_with(ts, &move);
    const struct job_status *s = &ts_job(ts, seq)->status;
    assert_int_equal(s->error.class_, REDRIVE_CLASS_SYSTEM);
    assert_int_equal(s->error.type.len + s->error.message.len + s->error.stacktrace.len, 0);
    assert_int_equal(s->error.code, 0);
    assert_int_equal(s->fingerprint, 0);
}

/* Invariant 8. */
STORE_TEST(a_stale_token_changes_nothing)
{
    struct buf before, after;
    buf_init(&before, 1 << 16);
    buf_init(&after, 1 << 16);
    uint64_t token;
    int64_t seq = started(ts, &token);
    dump_store(ts->store, &before);
    ts->now_ms += 5;
    const struct decision all[] = {
        decision_completed(),
        decision_retrying(5),
        decision_released(),
        decision_snoozed(5),
        decision_cancelled(),
        decision_ended(REDRIVE_STATE_FAILED, REDRIVE_REASON_POISON),
        decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_POISON)};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        check_move(ts_settle(ts, seq, token + 1, all[i]), REDRIVE_E_STATE, REDRIVE_STATE_RUNNING);
        check_move(ts_settle(ts, seq, 0, all[i]), REDRIVE_E_STATE, REDRIVE_STATE_RUNNING);
    }
    check_move(ts_extend(ts, seq, token + 1, INT64_MAX), REDRIVE_E_STATE, REDRIVE_STATE_RUNNING);
    dump_store(ts->store, &after);
    assert_string_equal(buf_cstr(&before), buf_cstr(&after));
    buf_release(&before);
    buf_release(&after);
}

STORE_TEST(a_token_is_good_for_one_settle)
{
    uint64_t token;
    int64_t seq = started(ts, &token);
    ts_settle(ts, seq, token, decision_completed());
    check_move(ts_settle(ts, seq, token, decision_retrying(5)), REDRIVE_E_STATE,
               REDRIVE_STATE_COMPLETED);
    check_move(ts_settle(ts, seq, 0, decision_retrying(5)), REDRIVE_E_STATE,
               REDRIVE_STATE_COMPLETED);
}

STORE_TEST(only_a_running_job_can_be_settled)
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++) {
        if (s == REDRIVE_STATE_RUNNING)
            continue;
        int64_t seq = ts_put_in(ts, (enum redrive_state)s, NULL);
        check_move(ts_settle(ts, seq, 0, decision_completed()), REDRIVE_E_STATE,
                   (enum redrive_state)s);
    }
}

/* Only the moves of core/state.h are made. */
STORE_TEST(a_decision_that_is_no_move_is_refused)
{
    uint64_t token;
    int64_t seq = started(ts, &token);
    static const enum redrive_state WRONG[] = {REDRIVE_STATE_PARKED, REDRIVE_STATE_RUNNING};
    for (int i = 0; i < 2; i++) {
        struct decision d = {.state = WRONG[i], .uses_attempt = true};
        check_move(ts_settle(ts, seq, token, d), REDRIVE_E_STATE, REDRIVE_STATE_RUNNING);
    }
    check_move(ts_settle(ts, seq, token, decision_completed()), 0, REDRIVE_STATE_COMPLETED);
}
