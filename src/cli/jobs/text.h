/* text.h - the facts of a job in a few words, for tables. */
#ifndef CLI_JOBS_TEXT_H
#define CLI_JOBS_TEXT_H

#include "base/text/buf.h"
#include "cli/output/term.h"
#include "store/job.h"

/* A span in its largest unit: 45s, 3m, 2h, 12d. */
#define AGE_TEXT_MAX 24
const char *age_text(int64_t ms, char out[AGE_TEXT_MAX]);

/* What it waits for, or why it is where it is: `in 40s`, `now`, `breaker`, `exhausted`. */
void job_add_next(struct buf *out, const struct job *job, int64_t now_ms);

/* The error in one line: its type, or its class, and the message; of at most JOB_ERROR_COLUMNS,
 * with `…` at the end if there is more. Nothing when there was none. */
#define JOB_ERROR_COLUMNS 200
void job_add_error(struct buf *out, const struct job_error *error);

/* How a state is coloured. */
enum style job_state_style(enum redrive_state state);

#endif
