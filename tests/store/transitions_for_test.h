/* transitions_for_test.h - rows and moves for tests of the state machine, and comparisons. */
#ifndef TESTS_STORE_TRANSITIONS_FOR_TEST_H
#define TESTS_STORE_TRANSITIONS_FOR_TEST_H

#include "check.h"

#include "core/state.h"
#include "store/transition.h"

#define NOW INT64_C(1700000000000)

/* A time that is known. */
#define AT(ms) ((struct store_time){(ms), (ms)})

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

extern const int STATES[REDRIVE_STATE_COUNT];

/* A row in which every field says something, as far as its state allows. */
struct job_status row_in(int state);

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

struct move move_of(struct all_moves *m, enum move_kind kind);

void check_same_error(const struct job_error *is, const struct job_error *expected);
void check_same_row(const struct job_status *is, const struct job_status *expected);
void check_same_attempt(const struct job_attempt *is, const struct job_attempt *expected);

/* Makes a move that must be possible. */
struct transition make(struct job_status *s, const struct move *move);
void check_leaves(const struct transition *t, enum key_move key, bool adds_attempt);
void check_replaces(const struct transition *t, bool error, bool result, bool payload);

#endif
