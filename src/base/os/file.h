/* file.h - reads a whole file up to a size that the caller gives. */
#ifndef BASE_OS_FILE_H
#define BASE_OS_FILE_H

#include <stddef.h>

#include "base/text/buf.h"
#include "redrive.h"

/* Replaces the contents of `ret` (which buf_init has seen) by those of the file. The file may
 * hold at most `max_bytes`; the buffer's own maximum applies as well. Pipes and devices are read
 * to their end under the same limit; a pipe without a writer blocks as it would any reader.
 *
 * Fails with REDRIVE_E_NOT_FOUND, _DENIED, _TOO_BIG, _NOMEM, or _IO for all else (a directory, a
 * broken disk); the error's detail has the path, and `ret` is empty. */
int file_read(const char *path, size_t max_bytes, struct buf *ret, struct redrive_err *err);

/* The same from a descriptor that is open, from where it stands; errors name it so. Standard input
 * is read like this: /dev/stdin cannot be opened when it is a socket, or a pipe of another user. */
int file_read_open(int fd, const char *name, size_t max_bytes, struct buf *ret,
                   struct redrive_err *err);

#endif
