/* claim_pace.h - how many jobs a worker claims before it has a free slot for them.
 *
 * A worker that claims only for free slots leaves them idle for a turn: the round trip to the store
 * and its fsync. So it claims as many more jobs as its slots will probably run during a turn, up
 * to a maximum that the worker gives. They wait here about as long as a turn takes. Of jobs that
 * run much longer than a turn none are claimed ahead: they would wait here while another process is
 * idle.
 *
 * A long run counts soon, short ones bit by bit.
 *
 * Times are microseconds that the caller has measured. Nothing here is locked.
 */
#ifndef ENGINE_WORKER_CLAIM_PACE_H
#define ENGINE_WORKER_CLAIM_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

#define CLAIM_AHEAD_PER_SLOT 4
#define CLAIM_AHEAD_MAX      256

struct claim_pace {
    uint32_t n_slots;
    uint32_t max;    /* jobs that are ever claimed ahead */
    int64_t turn_us; /* what a turn takes; 0: there was none yet */
    int64_t run_us;  /* what the longer of the latest runs took; 0: there was none yet */
};

/* Whether jobs of a task may be claimed ahead at all. One that waits has its slot of a limit, and
 * one whose worker is killed has lost an attempt: for some tasks that is too much. */
bool claim_ahead_is_allowed(const struct config_task *task);

/* CLAIM_AHEAD_PER_SLOT for each slot, or CLAIM_AHEAD_MAX, if that is less: the maximum of a worker
 * that has memory for each. */
uint32_t claim_ahead_max(uint32_t n_slots);

void claim_pace_init(struct claim_pace *pace, uint32_t n_slots, uint32_t max);

/* A claim was asked for and answered. */
void claim_pace_turn(struct claim_pace *pace, int64_t us);

/* A job has run. */
void claim_pace_run(struct claim_pace *pace, int64_t us);

/* How many jobs to have claimed beside those for free slots. */
uint32_t claim_pace_ahead(const struct claim_pace *pace);

/* Whether to take a turn although `n_claimed` jobs have not started: they keep the slots busy for
 * a good part of it. If not, they are run first and settled with the others. */
bool claim_pace_is_due(const struct claim_pace *pace, uint32_t n_claimed);

#endif
