/* state.h - which moves a job may make, and no others.
 *
 *   –                                          → queued, scheduled
 *   scheduled, retrying                        → queued
 *   queued                                     → running, parked
 *   parked                                     → queued
 *   running                                    → completed, retrying, failed, dead_letter
 *   running                                    → queued, scheduled      (released, snoozed)
 *   scheduled, queued, retrying, parked        → dead_letter, failed    (deadline, open breaker)
 *   every state that has not ended             → cancelled
 *   dead_letter, failed                        → queued                 (redrive)
 */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include "redrive.h"

bool state_may_become(enum redrive_state from, enum redrive_state to);

/* completed, failed, dead_letter, cancelled: final but for a redrive. */
bool state_has_ended(enum redrive_state state);

#endif
