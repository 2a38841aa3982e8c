/* change.h - verbs for jobs that are named by their ids.
 *
 * Each id is tried, even if one before it was refused. What was done is data: a line for each job,
 * or {"items":[{"id":…,"tenant":…,"state":…}],"next":null}. What was refused is reported, and the
 * first refusal is the command's own.
 */
#ifndef CLI_JOBS_CHANGE_H
#define CLI_JOBS_CHANGE_H

#include "cli/shared/session.h"

enum job_verb {
    JOB_CANCEL, /* any live job */
    JOB_RETRY,  /* a waiting job runs now, a dead or failed one is redriven */
    JOB_REMOVE, /* an ended job is gone */
};

/* Does it to the jobs that the arguments name. `dead_only`: to dead letters, and nothing else. */
int job_change_args(struct cli *cli, enum job_verb verb, const char *tenant, bool dead_only,
                    struct redrive_err *err);

/* Does it to one job that has been read. */
int job_change_one(struct engine *engine, enum job_verb verb, const struct job *job,
                   enum redrive_state *ret_state, struct redrive_err *err);

#endif
