/* environ.h - the environment that a handler is given.
 *
 * Built from nothing: what the handler needs to be a normal program, and the facts of its job. The
 * rest of our own environment (tokens, passwords of stores) is not passed on.
 *
 *     kept    PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_* TZ TMPDIR SSL_CERT_FILE SSL_CERT_DIR,
 *             and what `pass` names
 *     set     REDRIVE_JOB_ID REDRIVE_TASK REDRIVE_QUEUE REDRIVE_TENANT REDRIVE_ATTEMPT
 *             REDRIVE_MAX_ATTEMPTS
 */
#ifndef RUN_EXEC_ENVIRON_H
#define RUN_EXEC_ENVIRON_H

#include "run/runner.h"

/* One block of malloc'ed memory, or NULL when there is none. `inherited` is NAME=VALUE strings that
 * end with NULL, as is `pass` of names; both may be NULL. Without a request no facts are set. */
char **environ_new(char *const *inherited, const char *const *pass,
                   const struct run_request *request);

#endif
