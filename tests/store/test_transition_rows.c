/* The state machine of all stores, alone: what each move leaves in the row, by the rules of
 * transition.h. */
#include "transitions_for_test.h"

/* ---- What a move leaves in the row ------------------------------------------------------------
 *
 * Each test says what the row must be as a whole: what it does not name must stay.
 */

TEST(a_submit_is_queued_or_scheduled_by_its_time)
{
    const struct {
        int64_t spec_ms, row_ms;
        int state;
    } CASES[] = {{0, NOW, QUEUED},
                 {NOW - 5, NOW - 5, QUEUED},
                 {NOW, NOW, QUEUED},
                 {NOW + 1, NOW + 1, SCHEDULED}};
    for (size_t i = 0; i < 4; i++) {
        const struct job_spec spec = {.process_after_ms = CASES[i].spec_ms, .priority = 7};
        const struct job_status s = transition_submit(&spec, 12, NOW);
        struct job_status expected = {0};
        expected.seq = 12;
        expected.state = (enum redrive_state)CASES[i].state;
        expected.process_after_ms = CASES[i].row_ms;
        expected.created_ms = expected.updated_ms = NOW;
        check_same_row(&s, &expected);
    }
}

TEST(a_submit_with_open_parents_waits)
{
    const struct job_spec spec = {
        .process_after_ms = NOW + 1, .parents = 4, .open_parents = 2, .children = 5};
    const struct job_status s = transition_submit(&spec, 12, NOW);
    assert_int_equal(s.state, WAITING);
    assert_int_equal(s.parents, 4);
    assert_int_equal(s.open_parents, 2);
    assert_int_equal(s.children, 5);
    assert_int_equal(s.process_after_ms, NOW + 1);
}

TEST(the_last_release_lets_a_job_go)
{
    static const struct {
        uint32_t open, n;
        int64_t after_ms;
        int from, to;
    } CASES[] = {
        {3, 2, 0, WAITING, WAITING},  {3, 3, 0, WAITING, QUEUED},
        {1, 5, NOW, WAITING, QUEUED}, {1, 1, NOW + 1, WAITING, SCHEDULED},
        {2, 2, 0, DEAD, DEAD},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const struct edge_move edge = {41, CASES[i].n};
        const struct move move = {41, MOVE_RELEASE, .edge = &edge};
        struct job_status s = row_in(CASES[i].from), expected;
        s.open_parents = CASES[i].open;
        s.process_after_ms = CASES[i].after_ms;
        expected = s;
        const struct transition t = make(&s, &move);
        expected.open_parents = CASES[i].open > CASES[i].n ? CASES[i].open - CASES[i].n : 0;
        expected.state = (enum redrive_state)CASES[i].to;
        if (CASES[i].to != CASES[i].from)
            expected.updated_ms = NOW;
        check_same_row(&s, &expected);
        check_leaves(&t, KEY_STAYS, false);
    }
}

TEST(an_adoption_changes_only_the_number_of_children)
{
    for (size_t i = 0; i < REDRIVE_STATE_COUNT; i++) {
        const struct edge_move edge = {41, 7};
        const struct move move = {41, MOVE_ADOPT, .edge = &edge};
        struct job_status s = row_in(STATES[i]), expected = s;
        const struct transition t = make(&s, &move);
        expected.children += 7;
        check_same_row(&s, &expected);
        check_leaves(&t, KEY_STAYS, false);
    }
}

TEST(a_skip_cancels_and_says_why)
{
    const struct change_move change = {
        .seq = 41,
        .kind = MOVE_SKIP,
        .reason = REDRIVE_REASON_SKIPPED,
        .error = {.class_ = REDRIVE_CLASS_PERMANENT, .type = STR("P"), .message = STR("m")},
        .fingerprint = 5};
    const struct move move = {41, MOVE_SKIP, .change = &change};
    struct job_status s = row_in(WAITING), expected = s;
    const struct transition t = make(&s, &move);
    expected.state = REDRIVE_STATE_CANCELLED;
    expected.reason = REDRIVE_REASON_SKIPPED;
    expected.finished_ms = expected.updated_ms = NOW;
    expected.error = change.error;
    expected.fingerprint = 5;
    check_same_row(&s, &expected);
    check_leaves(&t, KEY_IS_FREED, true);
    assert_int_equal(t.attempt.outcome, REDRIVE_STATE_CANCELLED);
}

TEST(a_redrive_waits_for_parents_that_are_open)
{
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_REDRIVE);
    struct job_status s = row_in(DEAD);
    s.open_parents = 1;
    (void)make(&s, &move);
    assert_int_equal(s.state, WAITING);
}

TEST(a_start_counts_and_takes_the_lease)
{
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_START);
    for (int first = 0; first < 2; first++) {
        struct job_status s = row_in(QUEUED), expected;
        if (first)
            s.first_started_ms = 0;
        expected = s;
        const struct transition t = make(&s, &move);
        expected.state = REDRIVE_STATE_RUNNING;
        expected.attempts = 3;
        expected.started_ms = expected.updated_ms = NOW;
        expected.first_started_ms = first ? NOW : NOW - 8000;
        expected.token = 78;
        expected.lease_until_ms = NOW + 1000;
        expected.worker = m.start.worker;
        expected.permit = (struct breaker_permit){8, 9};
        check_same_row(&s, &expected);
        check_leaves(&t, KEY_STAYS, false);
        check_replaces(&t, false, false, false);
    }
}

TEST(a_park_counts_as_a_deferral)
{
    struct all_moves m;
    for (int by_limit = 0; by_limit < 2; by_limit++) {
        struct move move = move_of(&m, MOVE_PARK);
        struct job_status s = row_in(QUEUED), expected = s;
        move.by_limit = by_limit;
        const struct transition t = make(&s, &move);
        expected.state = REDRIVE_STATE_PARKED;
        expected.deferrals = 6;
        expected.parked_by_limit = by_limit;
        expected.paused_since_ms = expected.updated_ms = NOW;
        check_same_row(&s, &expected);
        check_leaves(&t, KEY_STAYS, false);
    }
}

/* Unpark, cancel and end: however it leaves. */
TEST(leaving_parked_adds_up_the_time_since_if_it_has_started)
{
    static const enum move_kind KINDS[] = {MOVE_UNPARK, MOVE_CANCEL, MOVE_END};
    struct all_moves m;
    for (size_t i = 0; i < 3; i++) {
        const struct move move = move_of(&m, KINDS[i]);
        struct job_status s = row_in(PARKED);
        make(&s, &move);
        assert_int_equal(s.paused_ms, 250);
        assert_int_equal(s.paused_since_ms, 0);
        assert_false(s.parked_by_limit);

        s = row_in(PARKED);
        s.first_started_ms = 0;
        make(&s, &move);
        assert_int_equal(s.paused_ms, 50);
        assert_int_equal(s.paused_since_ms, 0);

        s = row_in(PARKED);
        s.paused_since_ms = NOW + 1; /* the clock was set back */
        make(&s, &move);
        assert_int_equal(s.paused_ms, 50);
    }
}

TEST(an_unpark_changes_nothing_else)
{
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_UNPARK);
    struct job_status s = row_in(PARKED), expected = s;
    const struct transition t = make(&s, &move);
    expected.state = REDRIVE_STATE_QUEUED;
    expected.paused_ms = 250;
    expected.paused_since_ms = 0;
    expected.parked_by_limit = false;
    expected.updated_ms = NOW;
    check_same_row(&s, &expected);
    check_leaves(&t, KEY_STAYS, false);
}

TEST(a_job_is_promoted_when_its_time_has_come)
{
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_PROMOTE);
    for (int64_t early_ms = 0; early_ms < 2; early_ms++) {
        struct job_status s = row_in(RETRYING), expected;
        struct transition t;
        s.process_after_ms = NOW + early_ms;
        expected = s;
        transition(&s, &move, AT(NOW), &t);
        assert_int_equal(t.code, early_ms ? REDRIVE_E_STATE : 0);
        if (!early_ms) {
            expected.state = REDRIVE_STATE_QUEUED;
            expected.updated_ms = NOW;
            check_leaves(&t, KEY_STAYS, false);
        }
        check_same_row(&s, &expected);
    }
}

TEST(run_now_makes_the_time_come)
{
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_RUN_NOW);
    struct job_status s = row_in(SCHEDULED), expected;
    s.process_after_ms = NOW + 5000;
    expected = s;
    const struct transition t = make(&s, &move);
    expected.state = REDRIVE_STATE_QUEUED;
    expected.process_after_ms = expected.updated_ms = NOW;
    check_same_row(&s, &expected);
    check_leaves(&t, KEY_STAYS, false);
}

TEST(a_lease_is_never_made_shorter)
{
    struct all_moves m;
    const int64_t until_ms[] = {NOW + 499, NOW + 500, NOW + 501};
    for (int i = 0; i < 3; i++) {
        const struct move move = move_of(&m, MOVE_EXTEND);
        struct job_status s = row_in(RUNNING), expected = s;
        m.extend.lease_until_ms = until_ms[i];
        const struct transition t = make(&s, &move);
        expected.lease_until_ms = i == 2 ? NOW + 501 : NOW + 500;
        expected.updated_ms = NOW;
        check_same_row(&s, &expected);
        check_leaves(&t, KEY_STAYS, false);
    }
}

/* ---- A time that is known within bounds ------------------------------------------------------ */

#define LATEST (NOW + 40)

static void make_within_bounds(struct job_status *s, const struct move *move)
{
    struct transition t;
    transition(s, move, (struct store_time){NOW, LATEST}, &t);
    assert_int_equal(t.code, 0);
}

TEST(a_start_is_not_before_the_time_that_may_have_come)
{
    static const struct {
        int64_t after_ms, started_ms;
    } CASES[] = {
        {NOW - 7, NOW},   {NOW, NOW},        {NOW + 1, NOW + 1},
        {LATEST, LATEST}, {LATEST + 1, NOW}, /* the clock was set back since: nothing is known of
                                                that time */
        {INT64_MAX, NOW},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct all_moves m;
        const struct move move = move_of(&m, MOVE_START);
        struct job_status s = row_in(QUEUED);
        s.process_after_ms = CASES[i].after_ms;
        s.first_started_ms = 0;
        make_within_bounds(&s, &move);
        assert_int_equal(s.started_ms, CASES[i].started_ms);
        assert_int_equal(s.first_started_ms, CASES[i].started_ms);
        assert_int_equal(s.updated_ms, NOW);
    }
}

TEST(a_delay_counts_from_the_upper_bound_and_all_else_is_at_the_lower)
{
    static const int64_t DELAYS_MS[] = {0, 1, 500}, AFTER_MS[] = {NOW, LATEST + 1, LATEST + 500};
    for (size_t i = 0; i < 3; i++) {
        struct all_moves m;
        const struct move move = move_of(&m, MOVE_SETTLE);
        struct job_status s = row_in(RUNNING);
        struct transition t;
        m.decision.state = REDRIVE_STATE_RETRYING;
        m.decision.delay_ms = DELAYS_MS[i];
        transition(&s, &move, (struct store_time){NOW, LATEST}, &t);
        assert_int_equal(s.process_after_ms, AFTER_MS[i]);
        assert_int_equal(t.attempt.next_ms, AFTER_MS[i]);
        assert_int_equal(t.attempt.ended_ms, NOW);
        assert_int_equal(s.updated_ms, NOW);
    }
}

TEST(nothing_is_promoted_before_the_lower_bound)
{
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_PROMOTE);
    struct transition t;
    struct job_status s = row_in(SCHEDULED);
    s.process_after_ms = NOW + 1;
    transition(&s, &move, (struct store_time){NOW, LATEST}, &t);
    assert_int_equal(t.code, REDRIVE_E_STATE);
    s.process_after_ms = NOW;
    make_within_bounds(&s, &move);
    assert_int_equal(s.state, QUEUED);
}
