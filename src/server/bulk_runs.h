/* bulk_runs.h - dead letters that are redriven at a rate, long after the request was answered.
 *
 * A run is a bulk (engine/verbs/change.h) whose chunks a timer paces. It holds no thread. When it
 * is stopped between two chunks nothing is half done: a job that was not redriven is still dead.
 * Each has a number; numbers go on rising when the process is restarted, so that none means two
 * runs.
 */
#ifndef SERVER_BULK_RUNS_H
#define SERVER_BULK_RUNS_H

#include "base/json/writer.h"
#include "base/os/log.h"
#include "engine/committer.h"
#include "engine/verbs/change.h"
#include "server/timer.h"

/* More at one time are refused. */
#define BULK_RUNS_MAX 16

struct bulk_runs;

int bulk_runs_new(struct committer *committer, struct timers *timers, const struct log *log,
                  struct bulk_runs **ret, struct redrive_err *err);

/* What was asked for; copied. */
struct bulk_run_spec {
    const struct bulk *bulk;
    const struct rate *rate;
    uint64_t matched;
    struct str filter; /* JSON, as it was sent; absent: all */
};

/* Starts one, and gives its number. REDRIVE_E_STATE: there are too many. */
int bulk_runs_start(struct bulk_runs *all, const struct bulk_run_spec *spec, int64_t *ret_id,
                    struct redrive_err *err);

/* Writes those of a tenant that are under way, one object each. */
void bulk_runs_write(struct bulk_runs *all, struct str tenant, struct json_writer *w);

/* Stops one: nothing more is redriven than a chunk that the committer is working on. False: the
 * tenant has none of that number. */
bool bulk_runs_cancel(struct bulk_runs *all, struct str tenant, int64_t id);

/* Stops all of them, and waits for the chunks that the committer is working on; from now on none is
 * started. */
void bulk_runs_stop(struct bulk_runs *all);

/* After the timers are gone. NULL does nothing. */
void bulk_runs_free(struct bulk_runs *all);

#endif
