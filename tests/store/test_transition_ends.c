/* The state machine of all stores, alone: what the end of a run leaves in the row, and what people
 * and the clock do to a job. */
#include "transitions_for_test.h"

/* ---- Settle ---------------------------------------------------------------------------------- */

/* What every settle of row_in(RUNNING) leaves, but for the state and what goes with it. */
static struct job_status settled(enum redrive_state to)
{
    struct job_status s = row_in(RUNNING);
    s.state = to;
    s.token = 0;
    s.lease_until_ms = 0;
    s.permit = (struct breaker_permit){0};
    s.reason = REDRIVE_REASON_NONE;
    s.crashes = 0;
    s.updated_ms = NOW;
    return s;
}

TEST(a_failure_that_is_retried_leaves_error_time_and_history)
{
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_SETTLE);
    struct job_status s = row_in(RUNNING), expected = settled(REDRIVE_STATE_RETRYING);
    m.decision = (struct decision){.state = REDRIVE_STATE_RETRYING,
                                   .uses_attempt = true,
                                   .delay_ms = 400,
                                   .why = DELAY_BACKOFF,
                                   .crashes = 2};
    m.settle.error = (struct job_error){REDRIVE_CLASS_NETWORK, STR("N"), STR("cut"), STR("y"), 7};
    m.settle.fingerprint = 123;
    const struct transition t = make(&s, &move);
    expected.process_after_ms = NOW + 400;
    expected.crashes = 2;
    expected.error = m.settle.error;
    expected.fingerprint = 123;
    check_same_row(&s, &expected);
    check_leaves(&t, KEY_STAYS, true);
    check_replaces(&t, true, false, false);
    const struct job_attempt attempt = {.epoch = 3,
                                        .number = 2,
                                        .started_ms = NOW - 700,
                                        .ended_ms = NOW,
                                        .worker = STR("w-old"),
                                        .outcome = REDRIVE_STATE_RETRYING,
                                        .error = m.settle.error,
                                        .delay_ms = 400,
                                        .why = STR("backoff"),
                                        .next_ms = NOW + 400};
    check_same_attempt(&t.attempt, &attempt);
}

TEST(a_delay_without_end_is_as_late_as_can_be)
{
    struct all_moves m;
    const enum redrive_state states[] = {REDRIVE_STATE_RETRYING, REDRIVE_STATE_SCHEDULED};
    for (int i = 0; i < 2; i++) {
        const struct move move = move_of(&m, MOVE_SETTLE);
        struct job_status s = row_in(RUNNING);
        m.decision.state = states[i];
        m.decision.delay_ms = INT64_MAX - NOW + 1;
        const struct transition t = make(&s, &move);
        assert_true(s.process_after_ms == INT64_MAX);
        assert_true(t.attempt.next_ms == INT64_MAX);
    }
}

TEST(an_end_has_the_transactions_time)
{
    static const int ENDS[] = {COMPLETED, FAILED, DEAD, CANCELLED};
    struct all_moves m;
    for (int i = 0; i < 4; i++) {
        const struct move move = move_of(&m, MOVE_SETTLE);
        struct job_status s = row_in(RUNNING), expected;
        m.decision = (struct decision){.state = (enum redrive_state)ENDS[i],
                                       .delay_ms = 400,
                                       .reason = REDRIVE_REASON_POISON,
                                       .uses_attempt = true};
        const struct transition t = make(&s, &move);
        expected = settled((enum redrive_state)ENDS[i]);
        expected.reason = REDRIVE_REASON_POISON;
        expected.finished_ms = NOW;
        check_same_row(&s, &expected); /* no error, no result: the last ones stay */
        check_leaves(&t, KEY_IS_FREED, true);
        check_replaces(&t, false, false, false);
        assert_int_equal(t.attempt.ended_ms, expected.finished_ms);
        assert_int_equal(t.attempt.next_ms, 0);
    }
}

TEST(a_first_attempt_that_succeeds_leaves_no_history)
{
    struct all_moves m;
    for (uint32_t attempts = 1; attempts <= 2; attempts++) {
        const struct move move = move_of(&m, MOVE_SETTLE);
        struct job_status s = row_in(RUNNING);
        s.attempts = attempts;
        const struct transition t = make(&s, &move);
        check_leaves(&t, KEY_IS_FREED, attempts > 1);
        assert_int_equal(transition_attempt_in_row(&s, NULL), attempts == 1);
    }
    /* A first attempt that fails does. */
    const struct move move = move_of(&m, MOVE_SETTLE);
    struct job_status s = row_in(RUNNING);
    s.attempts = 1;
    m.decision.state = REDRIVE_STATE_DEAD_LETTER;
    assert_true(make(&s, &move).adds_attempt);
}

TEST(the_row_itself_tells_of_the_attempt_that_runs_and_of_a_success_at_once)
{
    for (size_t i = 0; i < REDRIVE_STATE_COUNT; i++) {
        struct job_attempt a = {0};
        struct job_status s = row_in(STATES[i]);
        assert_int_equal(transition_attempt_in_row(&s, &a), STATES[i] == RUNNING);
        s.attempts = 1;
        const bool tells = STATES[i] == RUNNING || STATES[i] == COMPLETED;
        assert_int_equal(transition_attempt_in_row(&s, &a), tells);
        if (!tells)
            continue;
        const struct job_attempt attempt = {.epoch = 3,
                                            .number = 1,
                                            .started_ms = NOW - 700,
                                            .ended_ms = STATES[i] == RUNNING ? 0 : NOW - 200,
                                            .worker = STR("w-old"),
                                            .outcome = (enum redrive_state)STATES[i],
                                            .why = STR("none")};
        check_same_attempt(&a, &attempt);
    }
}

TEST(a_result_is_kept_unless_there_is_none)
{
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_SETTLE);
    struct job_status s = row_in(RUNNING);
    m.settle.result = STR("");
    const struct transition t = make(&s, &move);
    check_replaces(&t, false, true, false);
    assert_ptr_equal(s.result.ptr, m.settle.result.ptr);
    assert_int_equal(s.result.len, 0);
}

TEST(a_start_that_is_taken_back_does_not_count)
{
    struct all_moves m;
    const enum redrive_state states[] = {REDRIVE_STATE_QUEUED, REDRIVE_STATE_SCHEDULED};
    for (int i = 0; i < 4; i++) {
        const struct move move = move_of(&m, MOVE_SETTLE);
        struct job_status s = row_in(RUNNING), expected = settled(states[i % 2]);
        const bool was_first = i >= 2;
        if (was_first)
            s.attempts = 1;
        m.decision = (struct decision){.state = states[i % 2], .delay_ms = 30, .why = DELAY_SNOOZE};
        const struct transition t = make(&s, &move);
        expected.attempts = was_first ? 0 : 1;
        expected.deferrals = 6;
        if (was_first)
            expected.first_started_ms = expected.paused_ms = 0;
        if (i % 2)
            expected.process_after_ms = NOW + 30;
        check_same_row(&s, &expected);
        check_leaves(&t, KEY_STAYS, true);
        assert_int_equal(t.attempt.number, 0);
        assert_int_equal(t.attempt.started_ms, NOW - 700);
        assert_int_equal(t.attempt.delay_ms, 30);
        assert_int_equal(t.attempt.next_ms, i % 2 ? NOW + 30 : 0);
        check_str(t.attempt.why, "snooze");
    }
}

/* ---- By hand or by the clock ----------------------------------------------------------------- */

TEST(a_cancel_ends_the_attempt_that_is_running)
{
    static const int LIVE[] = {SCHEDULED, RETRYING, QUEUED, RUNNING, PARKED};
    struct all_moves m;
    for (int i = 0; i < 5; i++) {
        const struct move move = move_of(&m, MOVE_CANCEL);
        struct job_status s = row_in(LIVE[i]), expected = s;
        const struct transition t = make(&s, &move);
        expected.state = REDRIVE_STATE_CANCELLED;
        expected.finished_ms = expected.updated_ms = NOW;
        expected.token = 0;
        expected.lease_until_ms = 0;
        expected.permit = (struct breaker_permit){0};
        expected.paused_ms = LIVE[i] == PARKED ? 250 : 50;
        expected.paused_since_ms = 0;
        expected.parked_by_limit = false;
        check_same_row(&s, &expected);
        check_leaves(&t, KEY_IS_FREED, LIVE[i] == RUNNING);
        check_replaces(&t, false, false, false);
        if (LIVE[i] != RUNNING)
            continue;
        const struct job_attempt attempt = {.epoch = 3,
                                            .number = 2,
                                            .started_ms = NOW - 700,
                                            .ended_ms = NOW,
                                            .worker = STR("w-old"),
                                            .outcome = REDRIVE_STATE_CANCELLED,
                                            .why = STR("none")};
        check_same_attempt(&t.attempt, &attempt);
    }
}

TEST(an_end_with_an_error_leaves_a_row_without_a_start)
{
    struct all_moves m;
    for (int has_error = 0; has_error < 2; has_error++) {
        const struct move move = move_of(&m, MOVE_END);
        struct job_status s = row_in(QUEUED), expected = s;
        m.change.fingerprint = 31;
        m.change.to = REDRIVE_STATE_FAILED;
        if (has_error)
            m.change.error =
                (struct job_error){REDRIVE_CLASS_TRANSIENT, STR("D"), STR("late"), STR(""), 3};
        const struct transition t = make(&s, &move);
        expected.state = REDRIVE_STATE_FAILED;
        expected.reason = REDRIVE_REASON_DEADLINE;
        expected.finished_ms = expected.updated_ms = NOW;
        if (has_error) {
            expected.error = m.change.error;
            expected.fingerprint = 31;
        }
        check_same_row(&s, &expected);
        check_leaves(&t, KEY_IS_FREED, has_error);
        check_replaces(&t, has_error, false, false);
        if (!has_error)
            continue;
        const struct job_attempt attempt = {.epoch = 3,
                                            .ended_ms = NOW,
                                            .worker = STR("w-old"),
                                            .outcome = REDRIVE_STATE_FAILED,
                                            .error = m.change.error,
                                            .why = STR("none")};
        check_same_attempt(&t.attempt, &attempt);
    }
}

TEST(a_redrive_begins_a_new_epoch_and_takes_the_key)
{
    struct all_moves m;
    const int ends[] = {DEAD, FAILED};
    for (int i = 0; i < 2; i++) {
        const struct move move = move_of(&m, MOVE_REDRIVE);
        struct job_status s = row_in(ends[i]), expected = s;
        const struct transition t = make(&s, &move);
        expected.state = REDRIVE_STATE_QUEUED;
        expected.epoch = 4;
        expected.attempts = expected.crashes = 0;
        expected.reason = REDRIVE_REASON_NONE;
        expected.process_after_ms = expected.updated_ms = NOW;
        expected.first_started_ms = expected.paused_ms = expected.finished_ms = 0;
        check_same_row(&s, &expected);
        check_leaves(&t, KEY_IS_TAKEN, false);
        check_replaces(&t, false, false, false);
    }
}

TEST(an_edit_replaces_the_payload_alone)
{
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_EDIT);
    struct job_status s = row_in(DEAD), expected = s;
    const struct transition t = make(&s, &move);
    expected.updated_ms = NOW;
    check_same_row(&s, &expected);
    check_leaves(&t, KEY_STAYS, false);
    check_replaces(&t, false, false, true);
    assert_false(t.removes_job);
}

TEST(an_edit_is_later_than_the_end_whatever_the_clock_says)
{
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_EDIT);
    struct job_status s = row_in(DEAD);
    s.finished_ms = NOW;
    (void)make(&s, &move);
    assert_int_equal(s.updated_ms, NOW + 1);
    s.finished_ms = NOW + 60000; /* the clock was set back */
    (void)make(&s, &move);
    assert_int_equal(s.updated_ms, NOW + 60001);
}

TEST(a_job_that_is_removed_keeps_its_last_state)
{
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_REMOVE);
    struct job_status s = row_in(CANCELLED), expected = s;
    const struct transition t = make(&s, &move);
    assert_true(t.removes_job);
    check_same_row(&s, &expected);
    check_leaves(&t, KEY_STAYS, false);
}

TEST(time_in_a_paused_queue_is_credited_once)
{
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_CREDIT); /* from NOW - 1000 to NOW - 10 */
    struct job_status s = row_in(QUEUED), expected = s;
    const struct transition t = make(&s, &move);
    expected.paused_ms = 50 + 190; /* from its last update on */
    expected.updated_ms = NOW;
    check_same_row(&s, &expected);
    check_leaves(&t, KEY_STAYS, false);

    s = row_in(QUEUED);
    s.updated_ms = NOW - 5000;
    make(&s, &move);
    assert_int_equal(s.paused_ms, 50 + 990); /* from the pause's start on */
}

TEST(no_pause_is_credited_to_a_job_that_did_not_wait_in_it)
{
    struct all_moves m;
    for (int i = 0; i < 3; i++) {
        const struct move move = move_of(&m, MOVE_CREDIT);
        struct job_status s = row_in(QUEUED), expected;
        struct transition t;
        if (i == 0)
            s.first_started_ms = 0;
        else if (i == 1)
            s.updated_ms = NOW - 10; /* when the pause ended */
        else
            m.pause.since_ms = m.pause.until_ms;
        expected = s;
        transition(&s, &move, AT(NOW), &t);
        assert_int_equal(t.code, REDRIVE_E_STATE);
        check_same_row(&s, &expected);
    }
}

TEST(a_job_that_has_ended_anew_is_not_removed_for_its_former_end)
{
    struct all_moves m;
    struct move move = move_of(&m, MOVE_REMOVE);
    struct job_status s = row_in(DEAD);
    struct transition t;
    m.change.finished_ms = s.finished_ms - 1;
    transition(&s, &move, AT(NOW), &t);
    assert_int_equal(t.code, REDRIVE_E_STATE);
    m.change.finished_ms = s.finished_ms;
    transition(&s, &move, AT(NOW), &t);
    assert_int_equal(t.code, 0);
    assert_true(t.removes_job);
}
