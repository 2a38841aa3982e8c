/* The state machine of all stores, alone: every state × every move, and every rule of
 * transition.h. The tables are those of docs/architecture.md, written out by hand. */
#include "check.h"

#include "core/state.h"
#include "store/transition.h"

#define NOW INT64_C(1700000000000)

/* ---- Which moves may be made from which states ----------------------------------------------- */

#define NO (-1)

enum {
    SCHEDULED = REDRIVE_STATE_SCHEDULED,
    RETRYING = REDRIVE_STATE_RETRYING,
    QUEUED = REDRIVE_STATE_QUEUED,
    RUNNING = REDRIVE_STATE_RUNNING,
    PARKED = REDRIVE_STATE_PARKED,
    COMPLETED = REDRIVE_STATE_COMPLETED,
    FAILED = REDRIVE_STATE_FAILED,
    DEAD = REDRIVE_STATE_DEAD_LETTER,
    CANCELLED = REDRIVE_STATE_CANCELLED,
    WAITING = REDRIVE_STATE_WAITING,
};

static const int STATES[] = {SCHEDULED, RETRYING, QUEUED, RUNNING,   PARKED,
                             COMPLETED, FAILED,   DEAD,   CANCELLED, WAITING};

/* Where a move leads from each state, in the order of STATES. An end leads to dead_letter here. */
static const int LEADS_TO[MOVE_KIND_COUNT][REDRIVE_STATE_COUNT] = {
    /* scheduled, retrying, queued, running, parked, completed, failed, dead_letter, cancelled,
     * waiting */
    [MOVE_START] = {NO, NO, RUNNING, NO, NO, NO, NO, NO, NO, NO},
    [MOVE_PARK] = {NO, NO, PARKED, NO, NO, NO, NO, NO, NO, NO},
    [MOVE_UNPARK] = {NO, NO, NO, NO, QUEUED, NO, NO, NO, NO, NO},
    [MOVE_PROMOTE] = {QUEUED, QUEUED, NO, NO, NO, NO, NO, NO, NO, NO},
    [MOVE_SETTLE] = {NO, NO, NO, COMPLETED, NO, NO, NO, NO, NO, NO},
    [MOVE_EXTEND] = {NO, NO, NO, RUNNING, NO, NO, NO, NO, NO, NO},
    [MOVE_CREDIT] = {NO, NO, QUEUED, NO, NO, NO, NO, NO, NO, NO},
    [MOVE_CANCEL] = {CANCELLED, CANCELLED, CANCELLED, CANCELLED, CANCELLED, NO, NO, NO, NO,
                     CANCELLED},
    [MOVE_RUN_NOW] = {QUEUED, QUEUED, NO, NO, NO, NO, NO, NO, NO, NO},
    [MOVE_REDRIVE] = {NO, NO, NO, NO, NO, NO, QUEUED, QUEUED, NO, NO},
    [MOVE_END] = {DEAD, DEAD, DEAD, NO, DEAD, NO, NO, NO, NO, DEAD},
    [MOVE_REMOVE] = {NO, NO, NO, NO, NO, COMPLETED, FAILED, DEAD, CANCELLED, NO},
    [MOVE_EDIT] = {NO, NO, NO, NO, NO, NO, NO, DEAD, NO, NO},
    [MOVE_SKIP] = {NO, NO, NO, NO, NO, NO, NO, NO, NO, CANCELLED},
    [MOVE_ADOPT] = {SCHEDULED, RETRYING, QUEUED, RUNNING, PARKED, COMPLETED, FAILED, DEAD,
                    CANCELLED, WAITING},
    [MOVE_RELEASE] = {NO, NO, NO, NO, NO, NO, FAILED, DEAD, NO, QUEUED},
};

/* A row in which every field says something, as far as its state allows. */
static struct job_status row_in(int state)
{
    return (struct job_status){
        .seq = 41,
        .state = (enum redrive_state)state,
        .reason = REDRIVE_REASON_EXHAUSTED,
        .parked_by_limit = state == PARKED,
        .epoch = 3,
        .attempts = 2,
        .deferrals = 5,
        .crashes = 1,
        .process_after_ms = NOW - 300,
        .created_ms = NOW - 9000,
        .updated_ms = NOW - 200,
        .first_started_ms = NOW - 8000,
        .started_ms = NOW - 700,
        .finished_ms = state_has_ended((enum redrive_state)state) ? NOW - 200 : 0,
        .paused_ms = 50,
        .paused_since_ms = state == PARKED ? NOW - 200 : 0,
        .token = state == RUNNING ? 77 : 0,
        .lease_until_ms = state == RUNNING ? NOW + 500 : 0,
        .worker = STR("w-old"),
        .permit = state == RUNNING ? (struct breaker_permit){4, 6} : (struct breaker_permit){0},
        .error = {REDRIVE_CLASS_TRANSIENT, STR("T"), STR("slow"), STR("at x"), 504},
        .result = STR("[1]"),
        .fingerprint = 99,
        .parents = 3,
        .open_parents = state == WAITING ? 1 : 0,
        .children = 2,
    };
}

/* Moves with arguments that are as good as any. */
struct all_moves {
    struct decision decision;
    struct start_move start;
    struct settle_move settle;
    struct extend_move extend;
    struct change_move change;
    struct pause_time pause;
    struct edge_move edge;
};

static struct move move_of(struct all_moves *m, enum move_kind kind)
{
    struct move move = {.seq = 41, .kind = kind};
    m->decision = (struct decision){.state = REDRIVE_STATE_COMPLETED, .uses_attempt = true};
    m->start = (struct start_move){41, 78, NOW + 1000, STR("w-new"), {8, 9}};
    m->settle = (struct settle_move){.seq = 41, .token = 77, .decision = &m->decision};
    m->extend = (struct extend_move){41, 77, NOW + 2000};
    m->change = (struct change_move){.seq = 41,
                                     .to = REDRIVE_STATE_DEAD_LETTER,
                                     .reason = REDRIVE_REASON_DEADLINE,
                                     .payload = STR("{}")};
    m->pause = (struct pause_time){.since_ms = NOW - 1000, .until_ms = NOW - 10};
    m->edge = (struct edge_move){41, 1};
    switch (kind) {
    case MOVE_ADOPT:
    case MOVE_RELEASE: move.edge = &m->edge; break;
    case MOVE_START: move.start = &m->start; break;
    case MOVE_SETTLE: move.settle = &m->settle; break;
    case MOVE_EXTEND: move.extend = &m->extend; break;
    case MOVE_CREDIT: move.pause = &m->pause; break;
    default: move.change = &m->change; break;
    }
    return move;
}

#define SAME(field)     assert_true(is->field == expected->field)
#define SAME_STR(field) assert_true(str_eq(is->field, expected->field))

static void check_same_error(const struct job_error *is, const struct job_error *expected)
{
    SAME(class_);
    SAME_STR(type);
    SAME_STR(message);
    SAME_STR(stacktrace);
    SAME(code);
}

static void check_same_row(const struct job_status *is, const struct job_status *expected)
{
    SAME(seq);
    SAME(state);
    SAME(reason);
    SAME(parked_by_limit);
    SAME(epoch);
    SAME(attempts);
    SAME(deferrals);
    SAME(crashes);
    SAME(process_after_ms);
    SAME(created_ms);
    SAME(updated_ms);
    SAME(first_started_ms);
    SAME(started_ms);
    SAME(finished_ms);
    SAME(paused_ms);
    SAME(paused_since_ms);
    SAME(token);
    SAME(lease_until_ms);
    SAME_STR(worker);
    SAME(permit.generation);
    SAME(permit.probe);
    check_same_error(&is->error, &expected->error);
    SAME_STR(result);
    SAME(fingerprint);
    SAME(parents);
    SAME(open_parents);
    SAME(children);
}

static void check_same_attempt(const struct job_attempt *is, const struct job_attempt *expected)
{
    SAME(epoch);
    SAME(number);
    SAME(started_ms);
    SAME(ended_ms);
    SAME_STR(worker);
    SAME(outcome);
    check_same_error(&is->error, &expected->error);
    SAME(delay_ms);
    SAME_STR(why);
    SAME(next_ms);
}

static void every_state_makes_the_moves_of_the_table_and_no_others(void **state)
{
    (void)state;
    struct all_moves m;
    for (int kind = 0; kind < MOVE_KIND_COUNT; kind++) {
        for (size_t i = 0; i < REDRIVE_STATE_COUNT; i++) {
            const struct move move = move_of(&m, (enum move_kind)kind);
            const struct job_status old = row_in(STATES[i]);
            struct job_status s = old;
            struct transition t;
            const int to = LEADS_TO[kind][i];
            transition(&s, &move, NOW, &t);
            assert_int_equal(t.code, to == NO ? REDRIVE_E_STATE : 0);
            assert_int_equal(s.state, to == NO ? STATES[i] : to);
            if (to == NO)
                check_same_row(&s, &old);
            else if (to != STATES[i])
                assert_true(state_may_become(old.state, (enum redrive_state)to));
            assert_int_equal(transition_from((enum move_kind)kind) >> STATES[i] & 1, to != NO);
        }
    }
}

static void a_running_job_settles_to_the_states_of_the_table(void **state)
{
    (void)state;
    static const bool MAY[] = {
        [COMPLETED] = true, [RETRYING] = true,  [FAILED] = true,    [DEAD] = true,
        [QUEUED] = true,    [SCHEDULED] = true, [CANCELLED] = true, [RUNNING] = false,
        [PARKED] = false,   [WAITING] = false};
    struct all_moves m;
    for (size_t i = 0; i < REDRIVE_STATE_COUNT; i++) {
        const struct move move = move_of(&m, MOVE_SETTLE);
        struct job_status s = row_in(RUNNING);
        struct transition t;
        m.decision.state = (enum redrive_state)STATES[i];
        transition(&s, &move, NOW, &t);
        assert_int_equal(t.code, MAY[STATES[i]] ? 0 : REDRIVE_E_STATE);
        assert_int_equal(s.state, MAY[STATES[i]] ? STATES[i] : RUNNING);
    }
}

static void an_unstarted_job_ends_dead_or_failed_and_no_other_way(void **state)
{
    (void)state;
    static const int UNSTARTED[] = {SCHEDULED, RETRYING, QUEUED, PARKED, WAITING};
    struct all_moves m;
    for (size_t from = 0; from < 5; from++) {
        for (size_t i = 0; i < REDRIVE_STATE_COUNT; i++) {
            const struct move move = move_of(&m, MOVE_END);
            const struct job_status old = row_in(UNSTARTED[from]);
            struct job_status s = old;
            struct transition t;
            m.change.to = (enum redrive_state)STATES[i];
            transition(&s, &move, NOW, &t);
            const bool may = STATES[i] == DEAD || STATES[i] == FAILED;
            assert_int_equal(t.code, may ? 0 : REDRIVE_E_INVALID);
            if (!may)
                check_same_row(&s, &old);
        }
    }
}

static void a_stale_token_changes_nothing(void **state)
{
    (void)state;
    struct all_moves m;
    const enum move_kind kinds[] = {MOVE_SETTLE, MOVE_EXTEND};
    for (int i = 0; i < 2; i++) {
        const struct move move = move_of(&m, kinds[i]);
        const struct job_status old = row_in(RUNNING);
        struct job_status s = old;
        struct transition t;
        m.settle.token = m.extend.token = 76;
        transition(&s, &move, NOW, &t);
        assert_int_equal(t.code, REDRIVE_E_STATE);
        check_same_row(&s, &old);
    }
}

static void a_change_of_no_known_kind_is_refused(void **state)
{
    (void)state;
    const struct change_move change = {.seq = 41, .kind = (enum move_kind)MOVE_KIND_COUNT};
    const struct move_list list = {MOVE_CANCEL, .n = 1, .changes = &change};
    const struct move move = move_at(&list, 0);
    struct job_status s = row_in(DEAD);
    struct transition t;
    transition(&s, &move, NOW, &t);
    assert_int_equal(t.code, REDRIVE_E_INVALID);
    assert_int_equal(move_at(CHANGES(&(struct change_move){.kind = MOVE_START}, 1), 0).kind,
                     MOVE_KIND_COUNT);
}

/* ---- What a move leaves in the row ------------------------------------------------------------
 *
 * Each test says what the row must be as a whole: what it does not name must stay.
 */

static struct transition make(struct job_status *s, const struct move *move)
{
    struct transition t;
    memset(&t, 0x5a, sizeof t); /* whatever is not set shows */
    transition(s, move, NOW, &t);
    assert_int_equal(t.code, 0);
    return t;
}

static void check_leaves(const struct transition *t, enum key_move key, bool adds_attempt)
{
    assert_int_equal(t->key, key);
    assert_int_equal(t->adds_attempt, adds_attempt);
}

static void check_replaces(const struct transition *t, bool error, bool result, bool payload)
{
    assert_int_equal(t->replaces_error, error);
    assert_int_equal(t->replaces_result, result);
    assert_int_equal(t->replaces_payload, payload);
}

static void a_submit_is_queued_or_scheduled_by_its_time(void **state)
{
    (void)state;
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

static void a_submit_with_open_parents_waits(void **state)
{
    (void)state;
    const struct job_spec spec = {
        .process_after_ms = NOW + 1, .parents = 4, .open_parents = 2, .children = 5};
    const struct job_status s = transition_submit(&spec, 12, NOW);
    assert_int_equal(s.state, WAITING);
    assert_int_equal(s.parents, 4);
    assert_int_equal(s.open_parents, 2);
    assert_int_equal(s.children, 5);
    assert_int_equal(s.process_after_ms, NOW + 1);
}

static void the_last_release_lets_a_job_go(void **state)
{
    (void)state;
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

static void an_adoption_changes_only_the_number_of_children(void **state)
{
    (void)state;
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

static void a_skip_cancels_and_says_why(void **state)
{
    (void)state;
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

static void a_redrive_waits_for_parents_that_are_open(void **state)
{
    (void)state;
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_REDRIVE);
    struct job_status s = row_in(DEAD);
    s.open_parents = 1;
    (void)make(&s, &move);
    assert_int_equal(s.state, WAITING);
}

static void a_start_counts_and_takes_the_lease(void **state)
{
    (void)state;
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

static void a_park_counts_as_a_deferral(void **state)
{
    (void)state;
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
static void leaving_parked_adds_up_the_time_since_if_it_has_started(void **state)
{
    (void)state;
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

static void an_unpark_changes_nothing_else(void **state)
{
    (void)state;
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

static void a_job_is_promoted_when_its_time_has_come(void **state)
{
    (void)state;
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_PROMOTE);
    for (int64_t early_ms = 0; early_ms < 2; early_ms++) {
        struct job_status s = row_in(RETRYING), expected;
        struct transition t;
        s.process_after_ms = NOW + early_ms;
        expected = s;
        transition(&s, &move, NOW, &t);
        assert_int_equal(t.code, early_ms ? REDRIVE_E_STATE : 0);
        if (!early_ms) {
            expected.state = REDRIVE_STATE_QUEUED;
            expected.updated_ms = NOW;
            check_leaves(&t, KEY_STAYS, false);
        }
        check_same_row(&s, &expected);
    }
}

static void run_now_makes_the_time_come(void **state)
{
    (void)state;
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

static void a_lease_is_never_made_shorter(void **state)
{
    (void)state;
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

static void a_failure_that_is_retried_leaves_error_time_and_history(void **state)
{
    (void)state;
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

static void a_delay_without_end_is_as_late_as_can_be(void **state)
{
    (void)state;
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

static void an_end_has_the_transactions_time(void **state)
{
    (void)state;
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

static void a_first_attempt_that_succeeds_leaves_no_history(void **state)
{
    (void)state;
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

static void the_row_itself_tells_of_the_attempt_that_runs_and_of_a_success_at_once(void **state)
{
    (void)state;
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

static void a_result_is_kept_unless_there_is_none(void **state)
{
    (void)state;
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_SETTLE);
    struct job_status s = row_in(RUNNING);
    m.settle.result = STR("");
    const struct transition t = make(&s, &move);
    check_replaces(&t, false, true, false);
    assert_ptr_equal(s.result.ptr, m.settle.result.ptr);
    assert_int_equal(s.result.len, 0);
}

static void a_start_that_is_taken_back_does_not_count(void **state)
{
    (void)state;
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

static void a_cancel_ends_the_attempt_that_is_running(void **state)
{
    (void)state;
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

static void an_end_with_an_error_leaves_a_row_without_a_start(void **state)
{
    (void)state;
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

static void a_redrive_begins_a_new_epoch_and_takes_the_key(void **state)
{
    (void)state;
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

static void an_edit_replaces_the_payload_alone(void **state)
{
    (void)state;
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

static void an_edit_is_later_than_the_end_whatever_the_clock_says(void **state)
{
    (void)state;
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

static void a_job_that_is_removed_keeps_its_last_state(void **state)
{
    (void)state;
    struct all_moves m;
    const struct move move = move_of(&m, MOVE_REMOVE);
    struct job_status s = row_in(CANCELLED), expected = s;
    const struct transition t = make(&s, &move);
    assert_true(t.removes_job);
    check_same_row(&s, &expected);
    check_leaves(&t, KEY_STAYS, false);
}

static void time_in_a_paused_queue_is_credited_once(void **state)
{
    (void)state;
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

static void no_pause_is_credited_to_a_job_that_did_not_wait_in_it(void **state)
{
    (void)state;
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
        transition(&s, &move, NOW, &t);
        assert_int_equal(t.code, REDRIVE_E_STATE);
        check_same_row(&s, &expected);
    }
}

static void a_job_that_has_ended_anew_is_not_removed_for_its_former_end(void **state)
{
    (void)state;
    struct all_moves m;
    struct move move = move_of(&m, MOVE_REMOVE);
    struct job_status s = row_in(DEAD);
    struct transition t;
    m.change.finished_ms = s.finished_ms - 1;
    transition(&s, &move, NOW, &t);
    assert_int_equal(t.code, REDRIVE_E_STATE);
    m.change.finished_ms = s.finished_ms;
    transition(&s, &move, NOW, &t);
    assert_int_equal(t.code, 0);
    assert_true(t.removes_job);
}

/* ---- Lists of moves -------------------------------------------------------------------------- */

static void a_list_gives_its_moves_one_by_one(void **state)
{
    (void)state;
    const struct change_move changes[] = {
        {.seq = 1, .kind = MOVE_CANCEL},  {.seq = 2, .kind = MOVE_RUN_NOW},
        {.seq = 3, .kind = MOVE_REDRIVE}, {.seq = 4, .kind = MOVE_END},
        {.seq = 5, .kind = MOVE_REMOVE},  {.seq = 6, .kind = MOVE_EDIT}};
    static const enum move_kind KINDS[] = {MOVE_CANCEL, MOVE_RUN_NOW, MOVE_REDRIVE,
                                           MOVE_END,    MOVE_REMOVE,  MOVE_EDIT};
    const struct move_list list = {MOVE_CANCEL, .n = 6, .changes = changes};
    for (size_t i = 0; i < list.n; i++) {
        const struct move move = move_at(&list, i);
        assert_int_equal(move.kind, KINDS[i]);
        assert_int_equal(move.seq, (int64_t)i + 1);
        assert_ptr_equal(move.change, &changes[i]);
    }
    const int64_t seqs[] = {8, 9};
    const struct move park = move_at(&(struct move_list){MOVE_PARK, true, 2, .seqs = seqs}, 1);
    assert_int_equal(park.seq, 9);
    assert_true(park.by_limit);
    const struct move_list credit = {MOVE_CREDIT, .n = 2, .pause = {1, 2}, .seqs = seqs};
    assert_int_equal(move_at(&credit, 0).seq, 8);
    assert_ptr_equal(move_at(&credit, 1).pause, &credit.pause);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(every_state_makes_the_moves_of_the_table_and_no_others),
        T(a_running_job_settles_to_the_states_of_the_table),
        T(an_unstarted_job_ends_dead_or_failed_and_no_other_way),
        T(a_stale_token_changes_nothing),
        T(a_change_of_no_known_kind_is_refused),
        T(a_submit_is_queued_or_scheduled_by_its_time),
        T(a_submit_with_open_parents_waits),
        T(the_last_release_lets_a_job_go),
        T(an_adoption_changes_only_the_number_of_children),
        T(a_skip_cancels_and_says_why),
        T(a_redrive_waits_for_parents_that_are_open),
        T(a_start_counts_and_takes_the_lease),
        T(a_park_counts_as_a_deferral),
        T(leaving_parked_adds_up_the_time_since_if_it_has_started),
        T(an_unpark_changes_nothing_else),
        T(a_job_is_promoted_when_its_time_has_come),
        T(run_now_makes_the_time_come),
        T(a_lease_is_never_made_shorter),
        T(a_failure_that_is_retried_leaves_error_time_and_history),
        T(a_delay_without_end_is_as_late_as_can_be),
        T(an_end_has_the_transactions_time),
        T(a_first_attempt_that_succeeds_leaves_no_history),
        T(the_row_itself_tells_of_the_attempt_that_runs_and_of_a_success_at_once),
        T(a_result_is_kept_unless_there_is_none),
        T(a_start_that_is_taken_back_does_not_count),
        T(a_cancel_ends_the_attempt_that_is_running),
        T(an_end_with_an_error_leaves_a_row_without_a_start),
        T(a_redrive_begins_a_new_epoch_and_takes_the_key),
        T(an_edit_replaces_the_payload_alone),
        T(an_edit_is_later_than_the_end_whatever_the_clock_says),
        T(a_job_that_is_removed_keeps_its_last_state),
        T(time_in_a_paused_queue_is_credited_once),
        T(no_pause_is_credited_to_a_job_that_did_not_wait_in_it),
        T(a_job_that_has_ended_anew_is_not_removed_for_its_former_end),
        T(a_list_gives_its_moves_one_by_one),
    };
    return cmocka_run_group_tests_name("transition", tests, NULL, NULL);
}
