/* change.h - verbs for the jobs that are named by their ids.
 *
 * Each id is tried, even if one before it was refused. What was done is data: a line for each job,
 * or {"items":[…],"next":null} with what the operations answer. What was refused is reported, and
 * the first refusal is the command's own.
 */
#ifndef CLI_JOBS_CHANGE_H
#define CLI_JOBS_CHANGE_H

#include "cli/jobs/select.h"
#include "cli/shared/remote.h"
#include "cli/shared/answer.h"
#include "cli/shared/session.h"
#include "store/store.h"

/* What a command does to the jobs of its arguments. */
enum job_verb {
    JOB_CANCEL,
    JOB_RETRY,
    LETTER_RETRY, /* of dead letters, and no other job */
    LETTER_REMOVE,
};

/* The options of commands that name jobs by id. */
struct job_by_id {
    struct job_select select; /* the tenant only */
};
extern const struct field JOB_BY_ID_OPTIONS[];

/* Asks an operation about a job. Without a tenant (NULL) it is looked for in all.
 * REDRIVE_E_NOT_FOUND; REDRIVE_E_USAGE when several tenants have the id. */
int job_ask(const struct session *session, const struct operation *operation, const char *tenant,
            const char *id, struct answer *ret, struct redrive_err *err);
/* The same of a change; `body` is absent where it has none. */
int job_change(struct session *session, const struct operation *operation, const char *tenant,
               const char *id, struct str body, struct answer *ret, struct redrive_err *err);

/* A command that does it to the jobs of its arguments. Its options are JOB_BY_ID_OPTIONS, its
 * variant is the verb. */
int job_change_run(struct cli *cli, struct session *session, struct redrive_err *err);

/* Does it to the jobs that the arguments name. */
int job_change_args(struct cli *cli, struct session *session, enum job_verb verb,
                    const char *tenant, struct redrive_err *err);

#endif
