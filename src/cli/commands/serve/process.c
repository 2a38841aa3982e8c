/* process.c - takes a server's lock, sends datagrams to systemd, raises RLIMIT_NOFILE. */
#include "cli/commands/serve/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "run/exec/spawn.h"

#define SCHEME "sqlite:"
#define SUFFIX ".serve-lock"

/* ---- The lock -------------------------------------------------------------------------------- */

static int cannot(const char *path, const char *what, struct redrive_err *err)
{
    const int error = errno;
    err_set(err, REDRIVE_E_IO, "cannot %s the server's lock: %s", what, strerror(error));
    err_detail(err, "path %s", path);
    return REDRIVE_E_IO;
}

static int refuse(int fd, const char *file, struct redrive_err *err)
{
    char text[32] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    long pid = n > 0 ? strtol(text, NULL, 10) : 0;
    if (pid > 0)
        err_set(err, REDRIVE_E_STATE, "process %ld serves this store already", pid);
    else
        err_set(err, REDRIVE_E_STATE, "another process serves this store already");
    err_detail(err, "store %s", file);
    err_hint(err, "stop it first, or run more workers beside it with redrive work");
    return REDRIVE_E_STATE;
}

/* The lock belongs to the process, and not to the open file as with flock: between fork and exec a
 * child has a copy of the descriptor, which would keep the lock of a server that was killed. */
static int lock_now(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &whole);
}

int serve_lock_take(const char *store_url, int *ret, struct redrive_err *err)
{
    char file[PATH_MAX], path[PATH_MAX + sizeof SUFFIX];
    *ret = -1;
    if (strncmp(store_url, SCHEME, strlen(SCHEME)) != 0)
        return 0;
    /* Two spellings of one file are one file. */
    if (!realpath(store_url + strlen(SCHEME), file))
        return cannot(store_url, "find the file of", err);
    (void)snprintf(path, sizeof path, "%s" SUFFIX, file);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return cannot(path, "open", err);
    int rc = 0;
    if (lock_now(fd) < 0)
        rc = errno == EAGAIN || errno == EACCES ? refuse(fd, file, err) : cannot(path, "take", err);
    if (rc == 0 && (ftruncate(fd, 0) < 0 || dprintf(fd, "%ld\n", (long)getpid()) < 0))
        rc = cannot(path, "write", err);
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    *ret = fd;
    return 0;
}

void serve_lock_release(int lock)
{
    if (lock >= 0)
        (void)close(lock);
}

/* ---- systemd --------------------------------------------------------------------------------- */

static void tell_supervisor(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;
    if (len < 2 || (path[0] != '/' && path[0] != '@') || len >= sizeof to.sun_path)
        return;
    memcpy(to.sun_path, path, len);
    if (path[0] == '@')
        to.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&to,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    (void)close(fd);
}

void supervisor_ready(void)
{
    tell_supervisor("READY=1\nSTATUS=serving");
}

void supervisor_reloading(void)
{
    char text[96];
    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
                   clock_monotonic_ns() / 1000);
    tell_supervisor(text);
}

void supervisor_stopping(void)
{
    tell_supervisor("STOPPING=1\nSTATUS=letting jobs end");
}

void supervisor_alive(void)
{
    tell_supervisor("WATCHDOG=1");
}

int64_t supervisor_watchdog_ms(void)
{
    const char *allowed = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!allowed || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    int64_t ms = strtoll(allowed, NULL, 10) / 2000;
    return ms > 0 ? ms : 0;
}

/* ---- Open files ------------------------------------------------------------------------------ */

/* Left for the store, for child processes and for the rest. */
#define FILES_KEPT_BACK 200

void open_files_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    spawn_with_open_files(&limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

uint32_t open_files_clients(uint32_t wanted, unsigned n_servers)
{
    struct rlimit limit;
    if (n_servers == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return wanted;
    const rlim_t left = limit.rlim_cur > 2 * FILES_KEPT_BACK ? limit.rlim_cur - FILES_KEPT_BACK
                                                             : limit.rlim_cur / 2;
    const rlim_t each = left / n_servers > 0 ? left / n_servers : 1;
    return wanted < each ? wanted : (uint32_t)each;
}
