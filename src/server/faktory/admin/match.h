/* match.h - whether a pattern of MUTATE fits a job. Pure. */
#ifndef SERVER_FAKTORY_ADMIN_MATCH_H
#define SERVER_FAKTORY_ADMIN_MATCH_H

#include "base/text/buf.h"
#include "server/faktory/format/pattern.h"
#include "store/job.h"

/* The pattern goes over the job as faktory_job_write has it, in its normal form. */
bool faktory_job_fits(const struct faktory_pattern *pattern, const struct job *job);

/* Appends a job's JSON without blanks and needless escapes, its members in Faktory's order, those
 * that Faktory does not know at the end. */
void faktory_normalise(struct str job, struct buf *out);

#endif
