/* picture.c - writes a drawing into a file. */
#include "cli/output/picture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

static int cannot_write(const char *path, int error, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_IO, "cannot write the chart: %s", strerror(error));
    err_detail(err, "file %s", path);
    return REDRIVE_E_IO;
}

int picture_open(const char *path, FILE **ret, struct redrive_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    *ret = fd < 0 ? NULL : fdopen(fd, "w");
    if (*ret)
        return 0;
    int error = errno;
    if (fd >= 0)
        close(fd);
    return cannot_write(path, error, err);
}

int picture_write(const struct buf *svg, FILE *file, const char *path, struct redrive_err *err)
{
    /* A pipe or a device cannot be cut and need not be. */
    bool written = ftruncate(fileno(file), 0) == 0 || errno == EINVAL;
    written = written && fwrite(svg->data, 1, svg->len, file) == svg->len;
    int error = errno;
    if (fclose(file) != 0 && written) {
        written = false;
        error = errno;
    }
    return written ? 0 : cannot_write(path, error, err);
}
