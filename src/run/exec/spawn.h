/* spawn.h - starts a program so that it cannot outlive this process, with an environment of its
 * own.
 *
 * uv_spawn has no place between fork and exec where a parent-death signal could be asked for, so
 * this forks by itself. The other way, a small program of our own in between that asks and then
 * execs, would need to know its own path, costs a second exec for every job, and still must check
 * for a parent that died first. Forking needs care instead, all of it in exec/spawn.c:
 *
 *   - between fork and exec the child makes only async-signal-safe calls: other threads of the
 *     parent may have held any lock;
 *   - signals are blocked around fork, so that no handler of ours runs in the child; there they are
 *     all set to their defaults, then unblocked;
 *   - every descriptor is made with CLOEXEC, the child's own three are dup2'ed, and whatever else
 *     is open by then is marked with close_range;
 *   - PR_SET_PDEATHSIG is lost if the parent dies before it is set: the child compares its parent
 *     with the one it should have. The kernel sends the signal when the *thread* that forked ends,
 *     so spawn from a thread that ends with the process, such as the loop's;
 *   - a failed exec is reported through a pipe that closes by itself when exec succeeds;
 *   - the child is watched through a pidfd: no SIGCHLD handler, which would be the whole process's.
 *
 * The program leads a process group of its own. SIGKILL at our death reaches the program only, not
 * what it has started in turn; as long as this process runs, it kills the whole group.
 */
#ifndef RUN_EXEC_SPAWN_H
#define RUN_EXEC_SPAWN_H

#include <sys/types.h>

#include "redrive.h"
#include "run/runner.h"

struct spawn_request {
    const char *const *argv; /* ends with NULL; the program is looked for in PATH of this process */
    char *const *envp;
};

struct rlimit;

/* Programs are started with this limit of open files, whatever this process has given itself.
 * Before the first one is. */
void spawn_with_open_files(const struct rlimit *limit);

struct spawned {
    pid_t pid; /* also the group's */
    int pidfd; /* readable when it has ended */
    int in;    /* our ends, to be closed by the caller */
    int out;
    int err;
};

/* Why a program did not start; one of the two is set. */
struct spawn_failure {
    int errnum;    /* this machine is short of something: processes, memory, descriptors */
    int exit_code; /* what a shell would say: 127 there is no such program, 126 it cannot be run */
};

/* Returns when the program runs or has failed to; nothing is left behind on failure. */
int spawn(const struct spawn_request *request, struct spawned *ret, struct spawn_failure *ret_why,
          struct redrive_err *err);

/* ---- The environment that a handler is given ---------------------------------------------------
 *
 * Built from nothing: what the handler needs to be a normal program, and the facts of its job. The
 * rest of our own environment (tokens, passwords of stores) is not passed on.
 *
 *     kept    PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_* TZ TMPDIR SSL_CERT_FILE SSL_CERT_DIR,
 *             and what `pass` names
 *     set     REDRIVE_JOB_ID REDRIVE_TASK REDRIVE_QUEUE REDRIVE_TENANT REDRIVE_ATTEMPT
 *             REDRIVE_MAX_ATTEMPTS; TRACEPARENT if the job is part of a trace; REDRIVE_PARENTS,
 *             as JSON (store/job_json.h), if it has waited for others
 *
 * Linux takes no variable of 128 KiB or more. So a handler is given the results of parents up to
 * ENVIRON_PARENTS_BYTES together, and fewer if they are longer than that as JSON.
 */
#define ENVIRON_PARENTS_BYTES  ((size_t)64 * 1024)
#define ENVIRON_VARIABLE_BYTES ((size_t)128 * 1024) /* with its name, `=` and 0 */

/* One block of malloc'ed memory, or NULL when there is none. `inherited` is NAME=VALUE strings that
 * end with NULL, as is `pass` of names; both may be NULL. Without a request no facts are set. */
char **environ_new(char *const *inherited, const char *const *pass,
                   const struct run_request *request);

#endif
