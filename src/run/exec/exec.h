/* exec.h - a program for each job.
 *
 * argv without a shell; the payload on standard input, the facts of the job in the environment, a
 * process group of its own that dies with this process (exec/spawn.h). What the program says:
 *
 *   standard output   the result, up to RUN_RESULT_MAX_BYTES; the rest is read and dropped. The
 *                     newline at its end is not part of it
 *   standard error    the last 64 KiB: the message is the last line or, of a traceback, the
 *                     exception's; the whole is the stacktrace (exec/failure_from_stderr.h)
 *   exit code         0 is success, all else is classified: sysexits, 126 and 127
 *   signal            likewise
 *
 * A program that does not read its input has not failed by that. At its time-out the group gets
 * SIGTERM and, after `kill_grace_ms`, SIGKILL.
 */
#ifndef RUN_EXEC_EXEC_H
#define RUN_EXEC_EXEC_H

#include "run/runner.h"

struct exec_options {
    const char *const *argv; /* borrowed, ends with NULL */
    char *const *environ;    /* borrowed; what may be passed on, see exec/spawn.h */
    const char *const *pass; /* borrowed; names to pass on besides; may be NULL */
    int64_t kill_grace_ms;   /* 0: CHILD_GRACE_MS */
};

/* NOMEM, or INVALID when argv is empty. */
int exec_runner_new(uv_loop_t *loop, const struct log *log, const struct exec_options *options,
                    struct runner **ret, struct redrive_err *err);

#endif
