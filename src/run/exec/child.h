/* child.h - a program on the loop: its pipes, its end, and ways to bring that about.
 *
 * `ended` is called once, when the process has been reaped, its output read to the end and all
 * handles closed, so that the owner may free the child there. When the process ends, what is left
 * of its group is killed: a handler's work is over when the handler is. A process that has left the
 * group and holds the pipes open is waited for one second.
 */
#ifndef RUN_EXEC_CHILD_H
#define RUN_EXEC_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "run/exec/spawn.h"

/* ---- The last bytes of a stream, however long it is ------------------------------------------ */

#define TAIL_MAX_BYTES (64u * 1024)

/* A ring that is allocated when the first byte comes. All zero: empty. */
struct tail {
    char *ring;
    uint64_t seen; /* bytes in all; seen % TAIL_MAX_BYTES is the place of the next */
};

void tail_release(struct tail *tail);

/* Without memory for the ring the bytes are only counted. */
void tail_add(struct tail *tail, const char *bytes, size_t len);

/* The last bytes as a terminated string in malloc'ed memory, NUL bytes made spaces; NULL when there
 * are none. A cut does not begin inside a line if a line end is near. */
char *tail_text(const struct tail *tail);

/* ---- A child --------------------------------------------------------------------------------- */

#define CHILD_GRACE_MS 5000 /* between SIGTERM and SIGKILL, unless said otherwise */

struct child;

struct child_ops {
    void (*output)(struct child *child, const char *bytes, size_t len);
    void (*ended)(struct child *child);
};

struct child {
    const struct child_ops *ops;
    pid_t pid;
    int pidfd;
    uv_poll_t exit_poll; /* of the pidfd */
    uv_timer_t timer;    /* until SIGKILL; once it has ended, until its pipes are given up */
    uv_pipe_t in;
    uv_pipe_t out;
    uv_pipe_t err;
    unsigned n_open;     /* handles */
    unsigned n_readable; /* of out and err: not at their end */
    bool has_exited;
    int exit_code;    /* either this */
    int signal;       /* or this */
    struct tail tail; /* of standard error */
};

/* As spawn; the child need not be initialized. */
int child_start(struct child *child, uv_loop_t *loop, const struct spawn_request *request,
                const struct child_ops *ops, struct spawn_failure *ret_why,
                struct redrive_err *err);

/* Frees what it holds, after `ended`. */
void child_release(struct child *child);

/* Closes its standard input, after what is being written or instead of it. */
void child_close_input(struct child *child);

/* SIGTERM to the whole group now, and SIGKILL after `grace_ms`. Asking again changes nothing. */
void child_terminate(struct child *child, int64_t grace_ms);

/* SIGKILL to the whole group, now. */
void child_kill(struct child *child);

#endif
