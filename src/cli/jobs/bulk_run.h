/* bulk_run.h - carries a bulk (engine/verbs/bulk.h) out: counts, paces, shows how far it is, and
 * stops between two chunks when it is asked to.
 */
#ifndef CLI_JOBS_BULK_RUN_H
#define CLI_JOBS_BULK_RUN_H

#include "cli/shared/session.h"
#include "engine/verbs/bulk.h"

struct bulk_run {
    const char *label; /* of the progress bar */
    struct rate rate;  /* count 0: as fast as it goes */
    bool dry_run;      /* count only */

    /* The answer. */
    uint64_t matched; /* as counted at the start, refusals included */
    uint64_t changed; /* or would be */
    uint64_t refused;
    bool interrupted; /* by SIGINT or SIGTERM */
};

/* Runs it to its end, or until it is interrupted, which is no failure here. */
int bulk_run(struct cli *cli, struct session *session, struct bulk *bulk, struct bulk_run *run,
             struct redrive_err *err);

/* The failure of a run that was interrupted: how far it came. `done` is "redriven" or "removed". */
int bulk_run_interrupted(const struct bulk_run *run, const char *done, struct redrive_err *err);

#endif
