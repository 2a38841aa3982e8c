/* state.c - the table of allowed moves. */
#include "core/state.h"

#define TO(state) (1u << REDRIVE_STATE_##state)

static const unsigned MOVES[REDRIVE_STATE_COUNT] = {
    [REDRIVE_STATE_SCHEDULED] = TO(QUEUED) | TO(DEAD_LETTER) | TO(FAILED) | TO(CANCELLED),
    [REDRIVE_STATE_RETRYING] = TO(QUEUED) | TO(DEAD_LETTER) | TO(FAILED) | TO(CANCELLED),
    [REDRIVE_STATE_QUEUED] =
        TO(RUNNING) | TO(PARKED) | TO(DEAD_LETTER) | TO(FAILED) | TO(CANCELLED),
    [REDRIVE_STATE_RUNNING] = TO(COMPLETED) | TO(RETRYING) | TO(FAILED) | TO(DEAD_LETTER) |
                              TO(QUEUED) | TO(SCHEDULED) | TO(CANCELLED),
    [REDRIVE_STATE_PARKED] = TO(QUEUED) | TO(DEAD_LETTER) | TO(FAILED) | TO(CANCELLED),
    [REDRIVE_STATE_COMPLETED] = 0,
    [REDRIVE_STATE_FAILED] = TO(QUEUED) | TO(WAITING),
    [REDRIVE_STATE_DEAD_LETTER] = TO(QUEUED) | TO(WAITING),
    [REDRIVE_STATE_CANCELLED] = 0,
    [REDRIVE_STATE_WAITING] =
        TO(QUEUED) | TO(SCHEDULED) | TO(DEAD_LETTER) | TO(FAILED) | TO(CANCELLED),
};

bool state_may_become(enum redrive_state from, enum redrive_state to)
{
    return MOVES[from] >> to & 1;
}
