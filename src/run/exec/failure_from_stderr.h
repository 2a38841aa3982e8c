/* failure_from_stderr.h - how a child ended, as the facts of a failure. */
#ifndef RUN_EXEC_FAILURE_FROM_STDERR_H
#define RUN_EXEC_FAILURE_FROM_STDERR_H

#include "run/exec/child.h"

/* The strings that a failure points to. */
struct failure_from_stderr {
    char *stacktrace;
    char *message;
    char *error_type;
};

/* Sets exit code, signal and what standard error says. If standard error is empty, the message says
 * how it ended: "exited with code 3", "killed by SIGSEGV". */
void failure_from_stderr_read(struct failure_from_stderr *words, const struct child *child,
                              struct redrive_failure *failure);
void failure_from_stderr_release(struct failure_from_stderr *words);

#endif
