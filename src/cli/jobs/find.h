/* find.h - finds a job by its id. */
#ifndef CLI_JOBS_FIND_H
#define CLI_JOBS_FIND_H

#include "store/store.h"

/* Reads it into `ret`, which then has one job and belongs to the caller. Without a tenant (NULL) it
 * is looked for in all. REDRIVE_E_NOT_FOUND; REDRIVE_E_USAGE when several tenants have the id. */
int job_find(struct store *store, const char *tenant, const char *id, struct job_page *ret,
             struct redrive_err *err);

/* The same for a dead letter: REDRIVE_E_STATE when the job is something else. */
int job_find_dead(struct store *store, const char *tenant, const char *id, struct job_page *ret,
                  struct redrive_err *err);

#endif
