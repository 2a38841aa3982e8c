/* transitions_for_test.c - rows and moves for tests of the state machine. */
#include "transitions_for_test.h"

const int STATES[REDRIVE_STATE_COUNT] = {SCHEDULED, RETRYING, QUEUED, RUNNING,   PARKED,
                                         COMPLETED, FAILED,   DEAD,   CANCELLED, WAITING};

struct job_status row_in(int state)
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

struct move move_of(struct all_moves *m, enum move_kind kind)
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

void check_same_error(const struct job_error *is, const struct job_error *expected)
{
    SAME(class_);
    SAME_STR(type);
    SAME_STR(message);
    SAME_STR(stacktrace);
    SAME(code);
}

void check_same_row(const struct job_status *is, const struct job_status *expected)
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

void check_same_attempt(const struct job_attempt *is, const struct job_attempt *expected)
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

struct transition make(struct job_status *s, const struct move *move)
{
    struct transition t;
    memset(&t, 0x5a, sizeof t); /* whatever is not set shows */
    transition(s, move, AT(NOW), &t);
    assert_int_equal(t.code, 0);
    return t;
}

void check_leaves(const struct transition *t, enum key_move key, bool adds_attempt)
{
    assert_int_equal(t->key, key);
    assert_int_equal(t->adds_attempt, adds_attempt);
}

void check_replaces(const struct transition *t, bool error, bool result, bool payload)
{
    assert_int_equal(t->replaces_error, error);
    assert_int_equal(t->replaces_result, result);
    assert_int_equal(t->replaces_payload, payload);
}
