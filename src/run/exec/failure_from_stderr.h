/* failure_from_stderr.h - how a program ended, and what its standard error says about the cause. */
#ifndef RUN_EXEC_FAILURE_FROM_STDERR_H
#define RUN_EXEC_FAILURE_FROM_STDERR_H

#include <stdbool.h>

#include "base/text/str.h"
#include "redrive.h"
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

/* ---- Tracebacks ------------------------------------------------------------------------------ */

/* Slices of the text that was read. */
struct trace {
    struct str message;    /* a line: the exception's, or else the last that is not empty */
    struct str error_type; /* absent when there is no traceback */
};

/* Knows the tracebacks of Python, Java, Node, Ruby and Go. Of several the last counts, and of
 * Java's the innermost cause, because that is what the policies know by name. */
struct trace trace_read(struct str text);

/* ---- Programs that could not be loaded ------------------------------------------------------- */

/* Whether a program ended as one does that could not be loaded. The interpreter, the script or a
 * module that it imports is missing or broken: a fault of the deployment that every job would meet.
 * The facts are those of one run, and a job can bring about the same ones (a handler that starts a
 * program named in the payload), so the answer is "likely"; struct suspects (run/pool/private.h)
 * tells the two apart. */
bool load_fault_is_likely(const struct redrive_failure *failure);

#endif
