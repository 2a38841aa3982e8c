/* spawn.c - forks and executes a program, and builds its environment. */
#include "run/exec/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "store/job_json.h"

/* The pipes of a start in the order of the child's descriptors; the last reports a failed exec. */
enum {
    PIPE_IN,
    PIPE_OUT,
    PIPE_ERR,
    PIPE_EXEC,
    N_PIPES
};
struct pipes {
    int fd[N_PIPES][2]; /* read, write */
};

static struct rlimit open_files;
static bool has_open_files;

void spawn_with_open_files(const struct rlimit *limit)
{
    open_files = *limit;
    has_open_files = true;
}

static void close_pipes(struct pipes *pipes)
{
    for (int i = 0; i < N_PIPES; i++)
        for (int end = 0; end < 2; end++)
            if (pipes->fd[i][end] >= 0)
                close(pipes->fd[i][end]);
}

/* Takes an end out of the set; the caller closes it. */
static int take(struct pipes *pipes, int i, int end)
{
    int fd = pipes->fd[i][end];
    pipes->fd[i][end] = -1;
    return fd;
}

/* A descriptor of ours that is 0, 1 or 2, because this process was started without them, would be
 * overwritten by the child's dup2: those are moved up. */
static int open_pipe(int fd[2])
{
    if (pipe2(fd, O_CLOEXEC) < 0)
        return -1;
    for (int end = 0; end < 2; end++) {
        if (fd[end] > STDERR_FILENO)
            continue;
        int moved = fcntl(fd[end], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (moved < 0)
            return -1;
        close(fd[end]);
        fd[end] = moved;
    }
    return 0;
}

static int open_pipes(struct pipes *pipes)
{
    memset(pipes, -1, sizeof *pipes);
    for (int i = 0; i < N_PIPES; i++)
        if (open_pipe(pipes->fd[i]) < 0)
            return -1;
    return 0;
}

/* ---- In the child: async-signal-safe from here to exec --------------------------------------- */

static void reset_signals(const sigset_t *mask)
{
    for (int n = 1; n < NSIG; n++) {
        if (n == SIGKILL || n == SIGSTOP)
            continue;
        signal(n, SIG_DFL); /* fails for the two that libc keeps to itself */
    }
    sigprocmask(SIG_SETMASK, mask, NULL);
}

static _Noreturn void run_child(const struct spawn_request *request, const struct pipes *pipes,
                                pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    bool dies_with_us = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    if (dies_with_us && getppid() != parent)
        _exit(127);
    if (dies_with_us && dup2(pipes->fd[PIPE_IN][0], STDIN_FILENO) >= 0 &&
        dup2(pipes->fd[PIPE_OUT][1], STDOUT_FILENO) >= 0 &&
        dup2(pipes->fd[PIPE_ERR][1], STDERR_FILENO) >= 0) {
        reset_signals(&none);
        if (has_open_files)
            (void)setrlimit(RLIMIT_NOFILE, &open_files);
        /* For descriptors of libraries that open theirs without CLOEXEC; kernels before 5.11 refuse
         * it, and then those reach the program. */
        syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
        /* glibc's execvpe works on the stack alone; PATH is that of this copy of the parent. */
        execvpe(request->argv[0], (char *const *)request->argv, request->envp);
    }
    int why = errno;
    ssize_t n;
    do
        n = write(pipes->fd[PIPE_EXEC][1], &why, sizeof why);
    while (n < 0 && errno == EINTR);
    _exit(127);
}

/* ---- In the parent --------------------------------------------------------------------------- */

static pid_t fork_child(const struct spawn_request *request, const struct pipes *pipes)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        run_child(request, pipes, parent);
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return pid;
}

/* The errno of a failed exec, or 0. Waits until the child has got that far. */
static int exec_error(int fd)
{
    int why = 0;
    ssize_t n;
    do
        n = read(fd, &why, sizeof why);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof why ? why : 0;
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static int fail_here(const char *what, struct spawn_failure *ret_why, struct redrive_err *err)
{
    int why = errno;
    *ret_why = (struct spawn_failure){.errnum = why};
    return err_set(err, REDRIVE_E_IO, "cannot %s: %s", what, strerror(why));
}

static int fail_exec(const char *program, int why, struct spawn_failure *ret_why,
                     struct redrive_err *err)
{
    switch (why) {
    case EAGAIN:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EIO:
    case ETXTBSY: *ret_why = (struct spawn_failure){.errnum = why}; break;
    case ENOENT: *ret_why = (struct spawn_failure){.exit_code = 127}; break;
    default: *ret_why = (struct spawn_failure){.exit_code = 126}; break;
    }
    return err_set(err, why == ENOENT ? REDRIVE_E_NOT_FOUND : REDRIVE_E_IO, "cannot run '%s': %s",
                   program, strerror(why));
}

int spawn(const struct spawn_request *request, struct spawned *ret, struct spawn_failure *ret_why,
          struct redrive_err *err)
{
    struct pipes pipes;
    if (open_pipes(&pipes) < 0) {
        int rc = fail_here("open pipes", ret_why, err);
        close_pipes(&pipes);
        return rc;
    }
    pid_t pid = fork_child(request, &pipes);
    if (pid < 0) {
        int rc = fail_here("start a process", ret_why, err);
        close_pipes(&pipes);
        return rc;
    }
    close(take(&pipes, PIPE_EXEC, 1));
    int why = exec_error(pipes.fd[PIPE_EXEC][0]);
    if (why != 0) {
        reap(pid);
        close_pipes(&pipes);
        return fail_exec(request->argv[0], why, ret_why, err);
    }
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        int rc = fail_here("watch a process", ret_why, err);
        kill(-pid, SIGKILL);
        reap(pid);
        close_pipes(&pipes);
        return rc;
    }
    *ret = (struct spawned){
        .pid = pid,
        .pidfd = pidfd,
        .in = take(&pipes, PIPE_IN, 1),
        .out = take(&pipes, PIPE_OUT, 0),
        .err = take(&pipes, PIPE_ERR, 0),
    };
    close_pipes(&pipes);
    return 0;
}

/* ---- The environment ------------------------------------------------------------------------- */

static const char *const KEPT[] = {
    "PATH",     "HOME", "USER",   "LOGNAME",       "SHELL",        "LANG",
    "LANGUAGE", "TZ",   "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", NULL,
};

static bool is_named(struct str name, const char *const *names)
{
    for (; names && *names; names++)
        if (str_is(name, *names))
            return true;
    return false;
}

static bool is_kept(const char *entry, const char *const *pass)
{
    const char *equals = strchr(entry, '=');
    if (!equals)
        return false;
    struct str name = {entry, (size_t)(equals - entry)};
    return is_named(name, KEPT) || str_starts_with(name, STR("LC_")) || is_named(name, pass);
}

#define N_FACTS 8

/* The parents as JSON. False: no memory. */
static bool write_parents(const struct run_request *r, struct buf *out)
{
    size_t max_bytes = 2 * ENVIRON_PARENTS_BYTES;
    buf_init(out, ENVIRON_VARIABLE_BYTES - sizeof "REDRIVE_PARENTS=");
    do {
        struct json_writer w;
        max_bytes /= 2;
        buf_reset(out);
        json_writer_init(&w, out);
        job_write_parents(&w, r->parents, r->n_parents, max_bytes);
    } while (buf_failed(out) == REDRIVE_E_TOO_BIG && max_bytes > 0);
    return buf_failed(out) != REDRIVE_E_NOMEM;
}

/* Writes the facts one after the other, each with its 0; returns the bytes needed. An absent text
 * is an empty one, but for the last two. */
static size_t write_facts(const struct run_request *r, const char *parents, char *out, size_t size)
{
    char numbers[2][16];
    snprintf(numbers[0], sizeof numbers[0], "%" PRIu32, r->attempt);
    snprintf(numbers[1], sizeof numbers[1], "%" PRIu32, r->max_attempts);
    const char *const facts[N_FACTS][2] = {
        {"REDRIVE_JOB_ID", r->job_id},   {"REDRIVE_TASK", r->task},
        {"REDRIVE_QUEUE", r->queue},     {"REDRIVE_TENANT", r->tenant},
        {"REDRIVE_ATTEMPT", numbers[0]}, {"REDRIVE_MAX_ATTEMPTS", numbers[1]},
        {"TRACEPARENT", r->traceparent}, {"REDRIVE_PARENTS", parents},
    };
    size_t used = 0;
    for (int i = 0; i < N_FACTS; i++)
        if (facts[i][1] || i < N_FACTS - 2)
            used +=
                1 + (size_t)snprintf(used < size ? out + used : NULL, used < size ? size - used : 0,
                                     "%s=%s", facts[i][0], facts[i][1] ? facts[i][1] : "");
    return used;
}

static char **make_environ(char *const *inherited, const char *const *pass,
                           const struct run_request *request, const char *parents)
{
    size_t n = 0, bytes = request ? write_facts(request, parents, NULL, 0) : 0;
    for (char *const *entry = inherited; entry && *entry; entry++) {
        if (is_kept(*entry, pass)) {
            n++;
            bytes += strlen(*entry) + 1;
        }
    }
    size_t table_bytes = (n + N_FACTS + 1) * sizeof(char *);
    char **table = malloc(table_bytes + bytes);
    if (!table)
        return NULL;
    char *text = (char *)table + table_bytes;
    char **slot = table;
    if (request) {
        size_t left = write_facts(request, parents, text, bytes);
        for (char *fact = text; fact < text + left; fact += strlen(fact) + 1)
            *slot++ = fact;
        text += left;
    }
    for (char *const *entry = inherited; entry && *entry; entry++) {
        if (is_kept(*entry, pass)) {
            size_t len = strlen(*entry) + 1;
            *slot++ = memcpy(text, *entry, len);
            text += len;
        }
    }
    *slot = NULL;
    return table;
}

char **environ_new(char *const *inherited, const char *const *pass,
                   const struct run_request *request)
{
    struct buf parents = {0};
    char **table = NULL;
    if (!request || !request->parents)
        return make_environ(inherited, pass, request, NULL);
    if (write_parents(request, &parents))
        table = make_environ(inherited, pass, request,
                             buf_failed(&parents) ? NULL : buf_cstr(&parents));
    buf_release(&parents);
    return table;
}
