/* lock.c - takes and releases the lock of a server. */
#include "cli/commands/serve/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

#define SCHEME "sqlite:"
#define SUFFIX ".serve-lock"

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
