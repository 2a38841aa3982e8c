/* state.h - which moves a job may make, and no others.
 *
 *   –                                          → queued, scheduled, waiting
 *   waiting                                    → queued, scheduled      (all parents have ended)
 *   scheduled, retrying                        → queued
 *   queued                                     → running, parked
 *   parked                                     → queued
 *   running                                    → completed, retrying, failed, dead_letter
 *   running                                    → queued, scheduled      (released, snoozed)
 *   scheduled, queued, retrying, parked,
 *   waiting                                    → dead_letter, failed    (deadline, open breaker)
 *   every state that has not ended             → cancelled
 *   dead_letter, failed                        → queued, waiting        (redrive)
 */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include "redrive.h"

bool state_may_become(enum redrive_state from, enum redrive_state to);

/* completed, failed, dead_letter, cancelled: final but for a redrive. */
static inline bool state_has_ended(enum redrive_state state)
{
    return state >= REDRIVE_STATE_COMPLETED && state <= REDRIVE_STATE_CANCELLED;
}

#endif
