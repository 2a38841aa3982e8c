/* bulk_runs.h - one verb over many jobs, long after the request was answered.
 *
 * A run is a bulk (engine/verbs/change.h), or two of them one after the other, whose chunks a timer
 * paces. It holds no thread. When it is stopped between two chunks nothing is half done: a job that
 * it did not come to is as it was. While the store is away it waits, for some minutes at most; then
 * it has failed. Each has a number; numbers go on rising when the process is restarted, so that
 * none means two runs. The last runs that have ended are kept to be looked at.
 */
#ifndef SERVER_BULK_RUNS_H
#define SERVER_BULK_RUNS_H

#include "api/bulk.h"
#include "base/json/writer.h"
#include "base/os/log.h"
#include "engine/committer.h"
#include "server/timer.h"

/* More at one time are refused. */
#define BULK_RUNS_MAX 16
/* So many that have ended are kept, of all tenants together. */
#define BULK_RUNS_KEPT 32

struct bulk_runs;

int bulk_runs_new(struct committer *committer, struct timers *timers, const struct log *log,
                  struct bulk_runs **ret, struct redrive_err *err);

/* Starts what a plan says (copied), and gives its number. REDRIVE_E_STATE: there are too many;
 * REDRIVE_E_STOPPING: after bulk_runs_close. */
int bulk_runs_start(struct bulk_runs *all, const struct bulk_plan *plan, int64_t *ret_id,
                    struct redrive_err *err);

/* Writes the redrives of a tenant that are under way, one object each. A filter is hidden where the
 * text that it looks for may be a secret: it is null then. */
void bulk_runs_write_redrives(struct bulk_runs *all, struct str tenant, bool hides_filter,
                              struct json_writer *w);
/* Writes all runs of a tenant, of every verb: those under way, then those that have ended. */
void bulk_runs_write(struct bulk_runs *all, struct str tenant, bool hides_filter,
                     struct json_writer *w);

/* Writes one of them. False: the tenant has none of that number. */
bool bulk_runs_write_one(struct bulk_runs *all, struct str tenant, int64_t id, bool hides_filter,
                         struct json_writer *w);

/* Stops one: nothing more is changed than a chunk that the committer is working on. False: the
 * tenant has none of that number under way. */
bool bulk_runs_cancel(struct bulk_runs *all, struct str tenant, int64_t id);

/* From now on no run is started, and none hands in another chunk. Does not wait. */
void bulk_runs_close(struct bulk_runs *all);

/* The same, and waits for the chunks that the committer is working on; runs that have not ended are
 * gone. */
void bulk_runs_stop(struct bulk_runs *all);

/* After the timers are gone. NULL does nothing. */
void bulk_runs_free(struct bulk_runs *all);

#endif
