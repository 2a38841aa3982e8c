/* bulk_runs.h - dead letters that are redriven at a rate, long after the request was answered.
 *
 * A run is a bulk (engine/bulk.h) whose chunks a bell paces. It holds no thread. When it is stopped
 * between two chunks nothing is half done: what has not come back is still dead.
 */
#ifndef DOORS_BULK_RUNS_H
#define DOORS_BULK_RUNS_H

#include "base/log.h"
#include "doors/bell.h"
#include "engine/bulk.h"
#include "engine/committer.h"

/* More at one time are refused. */
#define BULK_RUNS_MAX 16

struct bulk_runs;

int bulk_runs_new(struct committer *committer, struct bells *bells, const struct log *log,
                  struct bulk_runs **ret, struct redrive_err *err);

/* Starts one; copies everything. REDRIVE_E_STATE: there are too many. */
int bulk_runs_start(struct bulk_runs *all, const struct bulk *bulk, const struct rate *rate,
                    struct redrive_err *err);

/* Stops all of them, and waits for the chunks that the committer has in hand; from now on none is
 * started. */
void bulk_runs_stop(struct bulk_runs *all);

/* After the bells are gone. NULL does nothing. */
void bulk_runs_free(struct bulk_runs *all);

#endif
