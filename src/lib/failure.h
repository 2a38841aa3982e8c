/* failure.h - the outcome that a function of the program reports. */
#ifndef LIB_FAILURE_H
#define LIB_FAILURE_H

#include <stddef.h>

#include "redrive.h"

/* What redrive_run_fail and redrive_task_run_fail return. Not negative: it could be taken for an
 * errno. */
#define FAILURE_RETURNED 1

/* Copies the facts, as failed, with text cut at its limits. Returns the block that holds the
 * strings of `ret`, which the caller frees; NULL when there is no text, or no memory: the numbers
 * are kept. `failure` may be NULL, and may point into an earlier block. */
char *failure_keep(const struct redrive_failure *failure, struct redrive_failure *ret);

/* What a returned value other than 0 says by itself. The message is written to `said`, and not yet
 * put into `ret`. */
#define FAILURE_SAID_MAX 128
void failure_of_return(int code, struct redrive_failure *ret, char *said, size_t size);

#endif
