/* The state machine of all stores, alone: every state × every move, and every rule of
 * transition.h. The tables are those of docs/architecture.md, written out by hand. */
#include "transitions_for_test.h"

/* ---- Which moves may be made from which states ----------------------------------------------- */

#define NO (-1)

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

TEST(every_state_makes_the_moves_of_the_table_and_no_others)
{
    struct all_moves m;
    for (int kind = 0; kind < MOVE_KIND_COUNT; kind++) {
        for (size_t i = 0; i < REDRIVE_STATE_COUNT; i++) {
            const struct move move = move_of(&m, (enum move_kind)kind);
            const struct job_status old = row_in(STATES[i]);
            struct job_status s = old;
            struct transition t;
            const int to = LEADS_TO[kind][i];
            transition(&s, &move, AT(NOW), &t);
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

TEST(a_running_job_settles_to_the_states_of_the_table)
{
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
        transition(&s, &move, AT(NOW), &t);
        assert_int_equal(t.code, MAY[STATES[i]] ? 0 : REDRIVE_E_STATE);
        assert_int_equal(s.state, MAY[STATES[i]] ? STATES[i] : RUNNING);
    }
}

TEST(an_unstarted_job_ends_dead_or_failed_and_no_other_way)
{
    static const int UNSTARTED[] = {SCHEDULED, RETRYING, QUEUED, PARKED, WAITING};
    struct all_moves m;
    for (size_t from = 0; from < 5; from++) {
        for (size_t i = 0; i < REDRIVE_STATE_COUNT; i++) {
            const struct move move = move_of(&m, MOVE_END);
            const struct job_status old = row_in(UNSTARTED[from]);
            struct job_status s = old;
            struct transition t;
            m.change.to = (enum redrive_state)STATES[i];
            transition(&s, &move, AT(NOW), &t);
            const bool may = STATES[i] == DEAD || STATES[i] == FAILED;
            assert_int_equal(t.code, may ? 0 : REDRIVE_E_INVALID);
            if (!may)
                check_same_row(&s, &old);
        }
    }
}

TEST(a_stale_token_changes_nothing)
{
    struct all_moves m;
    const enum move_kind kinds[] = {MOVE_SETTLE, MOVE_EXTEND};
    for (int i = 0; i < 2; i++) {
        const struct move move = move_of(&m, kinds[i]);
        const struct job_status old = row_in(RUNNING);
        struct job_status s = old;
        struct transition t;
        m.settle.token = m.extend.token = 76;
        transition(&s, &move, AT(NOW), &t);
        assert_int_equal(t.code, REDRIVE_E_STATE);
        check_same_row(&s, &old);
    }
}

TEST(a_change_of_no_known_kind_is_refused)
{
    const struct change_move change = {.seq = 41, .kind = (enum move_kind)MOVE_KIND_COUNT};
    const struct move_list list = {MOVE_CANCEL, .n = 1, .changes = &change};
    const struct move move = move_at(&list, 0);
    struct job_status s = row_in(DEAD);
    struct transition t;
    transition(&s, &move, AT(NOW), &t);
    assert_int_equal(t.code, REDRIVE_E_INVALID);
    assert_int_equal(move_at(CHANGES(&(struct change_move){.kind = MOVE_START}, 1), 0).kind,
                     MOVE_KIND_COUNT);
}

/* ---- Lists of moves -------------------------------------------------------------------------- */

TEST(a_list_gives_its_moves_one_by_one)
{
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
