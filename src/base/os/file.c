/* file.c - reads a whole file within a limit. */
#include "base/os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

#define STEP_BYTES 16384

/* The error code for an errno value. */
static int code_of(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR: return REDRIVE_E_NOT_FOUND;
    case EACCES:
    case EPERM: return REDRIVE_E_DENIED;
    default: return REDRIVE_E_IO;
    }
}

/* Reads to the end. One byte more than allowed is asked for: only that byte tells a file that fits
 * exactly from one that is too big. After REDRIVE_E_IO errno says why. */
static int read_all(int fd, size_t max_bytes, struct buf *ret)
{
    char step[STEP_BYTES];

    for (;;) {
        size_t room = max_bytes - ret->len;
        ssize_t n = read(fd, step, room < sizeof step ? room + 1 : sizeof step);
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return REDRIVE_E_IO;
        if ((size_t)n > room)
            return REDRIVE_E_TOO_BIG;
        int code = buf_add(ret, step, (size_t)n);
        if (code < 0)
            return code;
    }
}

/* The table's text says enough, except for REDRIVE_E_IO, where errno does. */
static int refuse(const char *path, int code, int error, struct redrive_err *err)
{
    const char *why = code == REDRIVE_E_IO ? strerror(error) : redrive_err_text(code);
    err_set(err, code, "cannot read file: %s", why);
    err_detail(err, "path %s", path);
    return code;
}

int file_read_open(int fd, const char *name, size_t max_bytes, struct buf *ret,
                   struct redrive_err *err)
{
    buf_reset(ret);
    int code = read_all(fd, max_bytes, ret);
    if (code == 0)
        return 0;
    refuse(name, code, errno, err);
    buf_reset(ret);
    if (code == REDRIVE_E_TOO_BIG)
        err_hint(err, "the limit is %zu bytes", max_bytes < ret->max ? max_bytes : ret->max);
    return code;
}

int file_read(const char *path, size_t max_bytes, struct buf *ret, struct redrive_err *err)
{
    buf_reset(ret);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return refuse(path, code_of(errno), errno, err);
    int code = file_read_open(fd, path, max_bytes, ret, err);
    close(fd);
    return code;
}
