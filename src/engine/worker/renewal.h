/* renewal.h - when a worker extends the leases of its jobs, and when a lease is over by the
 * worker's own clock.
 *
 * A lease is counted from the moment at which its claim or extension was handed in: the store gives
 * it later, never earlier, so a worker does not believe in a lease that the store has ended. (Over
 * the length of a lease the clocks of two machines go at the same rate.)
 *
 * Leases are extended a heartbeat after they were given. An extension that failed is tried again
 * after RENEWAL_PAUSE_MS, twice as long after each further failure, never longer than half a
 * heartbeat. One extension is under way at a time. It may hang with the store, while leases run
 * out: the worker looks at them all the same (renewal_next_ms), and tells a run whose lease is over
 * to end, since another worker may start the job from then on.
 *
 * The run may take its time. No other attempt of the job starts in this worker meanwhile: one that
 * is claimed is snoozed for LEASE_EARLIER_RUN_MS, which costs no attempt.
 *
 * Pure: times are arguments, monotonic milliseconds. Nothing here is locked.
 */
#ifndef ENGINE_WORKER_RENEWAL_H
#define ENGINE_WORKER_RENEWAL_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "store/job.h"

#define RENEWAL_PAUSE_MS     50
#define LEASE_EARLIER_RUN_MS 1000

/* No moment: there is nothing to wait for. */
#define RENEWAL_NEVER INT64_MAX

/* ---- A lease --------------------------------------------------------------------------------- */

/* What a worker knows of the lease of one job. */
struct held_lease {
    int64_t since_ms; /* when the claim or the latest extension was handed in */
    int64_t until_ms; /* its end */
};

/* The store has given a lease of `lease_ms` to what was handed in at `sent_ms`. An extension never
 * makes a lease shorter. */
void held_lease_give(struct held_lease *lease, int64_t sent_ms, int64_t lease_ms);
bool held_lease_is_over(const struct held_lease *lease, int64_t now_ms);

/* Whether an earlier attempt of this job may still run in the worker that has just claimed it: the
 * first attempt of a job that was never redriven has none. */
bool lease_may_have_earlier_run(const struct job *job);

/* ---- Extensions ------------------------------------------------------------------------------ */

/* What an answer says about a lease. */
enum renewal_fate {
    RENEWAL_KEPT,    /* the lease was extended */
    RENEWAL_UNKNOWN, /* the store could not be asked, or could not answer */
    RENEWAL_LOST,    /* the job has another holder, or none */
};
enum renewal_fate renewal_fate(int op_code, int item_code);

/* The extensions of a task's leases. All zero but for `task`: none is under way. */
struct renewal {
    const struct config_task *task; /* lease_ms and heartbeat_ms */
    int64_t sent_ms;                /* when the one that is under way was handed in */
    int64_t pause_ms;               /* after the latest failure; 0: the latest has not failed */
    int64_t not_before_ms;          /* end of that pause */
    bool is_under_way;
};

/* Whether the lease is to be extended now. */
bool renewal_is_due(const struct renewal *renewal, const struct held_lease *lease, int64_t now_ms);
/* Whether to extend it with another one that is due: not if it was given a moment ago. */
bool renewal_takes(const struct renewal *renewal, const struct held_lease *lease, int64_t now_ms);
/* When the lease is to be looked at again: to be extended, or because it is over (it is looked at
 * for that once, not again and again). RENEWAL_NEVER: when the extension under way is answered. */
int64_t renewal_next_ms(const struct renewal *renewal, const struct held_lease *lease,
                        int64_t now_ms);

void renewal_sent(struct renewal *renewal, int64_t now_ms);
/* `has_failed`: the fate of a lease is RENEWAL_UNKNOWN. */
void renewal_answered(struct renewal *renewal, bool has_failed, int64_t now_ms);

#endif
