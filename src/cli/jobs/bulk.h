/* bulk.h - one verb over all jobs that the options of a command select: counted, paced, with a bar
 * that shows how far it is, and stopped between two chunks when a signal asks for it. */
#ifndef CLI_JOBS_BULK_H
#define CLI_JOBS_BULK_H

#include "api/bulk.h"
#include "cli/jobs/select.h"
#include "cli/shared/session.h"

struct bulk_run {
    const char *label; /* of the progress bar */
    enum bulk_verb verb;
    const struct job_select *select;
    uint32_t states;  /* mask of the states that are meant; 0: those of the options */
    struct rate rate; /* count 0: as fast as it goes */
    bool dry_run;     /* count only */

    /* The answer. */
    uint64_t matched; /* as counted at the start, refusals included */
    bool is_at_least; /* a server has counted so many, and there are more */
    uint64_t changed; /* or would be */
    uint64_t refused;
    bool interrupted; /* by SIGINT or SIGTERM */
};

/* Runs it to its end, or until it is interrupted, which is no failure here: by chunks in a store,
 * or as a run of a server, which is followed and stopped (docs/http.md). */
int bulk_run(struct cli *cli, struct session *session, struct bulk_run *run,
             struct redrive_err *err);

/* The failure of a run that was interrupted: how far it came. `done` is "redriven" or "removed". */
int bulk_run_interrupted(const struct bulk_run *run, const char *done, struct redrive_err *err);

#endif
