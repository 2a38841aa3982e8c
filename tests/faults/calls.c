/* calls.c - system calls that fail, and calls of the C library that make them. Those that the C
 * library makes for itself (in printf, getaddrinfo, …) are not seen. The error is one that Linux
 * has for the call, of which nothing needs to be wrong in the program. */
#undef _FILE_OFFSET_BITS /* pread and pread64 are two names here */
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "control.h"

/* A function that answers `failure` with `error` when `fails` is true, and else is the one of the C
 * library. */
#define FAILS_IF(fails, type, failure, error, name, parameters, arguments) \
    type name parameters                                                   \
    {                                                                      \
        static type(*real) parameters;                                     \
        if (fails) {                                                       \
            errno = error;                                                 \
            return failure;                                                \
        }                                                                  \
        if (!real)                                                         \
            real = (__typeof__(real))(uintptr_t)dlsym(RTLD_NEXT, #name);   \
        return real arguments;                                             \
    }
#define FAILS(kind, ...) FAILS_IF(call_fails(kind), __VA_ARGS__)

/* ---- Files ----------------------------------------------------------------------------------- */

/* The mode is there only if a file may be made. */
#define MODE_OF(flags, last)               \
    mode_t mode = 0;                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest;                      \
        va_start(rest, last);              \
        mode = va_arg(rest, mode_t);       \
        va_end(rest);                      \
    }

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
    static int (*real)(int, const char *, int, ...);
    if (call_fails(CALL_OPEN)) {
        errno = EMFILE;
        return -1;
    }
    if (!real)
        real = (__typeof__(real))(uintptr_t)dlsym(RTLD_NEXT, "openat64");
    return real(folder, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_at(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...)
{
    MODE_OF(flags, flags)
    return open_at(folder, path, flags, mode);
}

/* As the checks of the compiler call them. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
ssize_t __read_chk(int fd, void *bytes, size_t n, size_t size);
ssize_t __pread64_chk(int fd, void *bytes, size_t n, off64_t offset, size_t size);

int __open_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0);
}

FAILS(CALL_OPEN, FILE *, NULL, EMFILE, fopen, (const char *path, const char *mode), (path, mode))
FAILS(CALL_OPEN, FILE *, NULL, EMFILE, fopen64, (const char *path, const char *mode), (path, mode))
FAILS(CALL_OPEN, FILE *, NULL, ENOMEM, fdopen, (int fd, const char *mode), (fd, mode))
FAILS(CALL_OPEN, DIR *, NULL, EMFILE, opendir, (const char *path), (path))
FAILS(CALL_OPEN, int, -1, EMFILE, mkostemp, (char *path, int flags), (path, flags))
FAILS(CALL_OPEN, int, -1, EMFILE, mkostemp64, (char *path, int flags), (path, flags))

/* Of a regular file or a socket. No device fails below a pipe or an eventfd. */
static bool transfer_fails(int fd, enum call_kind kind, int on_file, int on_socket)
{
    struct stat about;
    const int before = errno;
    const bool is_known = fstat(fd, &about) == 0;
    errno = before;
    if (!is_known || (!S_ISREG(about.st_mode) && !S_ISSOCK(about.st_mode)) || !call_fails(kind))
        return false;
    errno = S_ISREG(about.st_mode) ? on_file : on_socket;
    return true;
}

/* Reads of a store's file, for as long as the test says so. */
static bool read_fails(int fd)
{
    char link[64], path[4096];
    if (transfer_fails(fd, CALL_READ, EIO, ECONNRESET))
        return true;
    if (!control || control->reads == 0)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = '\0';
    if (!strstr(path, ".db"))
        return false;
    errno = EIO;
    return true;
}

static bool write_fails(int fd)
{
    return transfer_fails(fd, CALL_WRITE, ENOSPC, EPIPE);
}

/* errno is set by what has failed. */
FAILS_IF(read_fails(fd), ssize_t, -1, errno, read, (int fd, void *to, size_t n), (fd, to, n))
FAILS_IF(read_fails(fd), ssize_t, -1, errno, pread, (int fd, void *to, size_t n, off_t at),
         (fd, to, n, at))
FAILS_IF(read_fails(fd), ssize_t, -1, errno, pread64, (int fd, void *to, size_t n, off64_t at),
         (fd, to, n, at))
FAILS_IF(read_fails(fd), ssize_t, -1, errno, readv, (int fd, const struct iovec *to, int n),
         (fd, to, n))
FAILS_IF(read_fails(fd), ssize_t, -1, errno, __read_chk, (int fd, void *to, size_t n, size_t size),
         (fd, to, n, size))
FAILS_IF(read_fails(fd), ssize_t, -1, errno, __pread64_chk,
         (int fd, void *to, size_t n, off64_t at, size_t size), (fd, to, n, at, size))
FAILS_IF(write_fails(fd), ssize_t, -1, errno, write, (int fd, const void *from, size_t n),
         (fd, from, n))
FAILS_IF(write_fails(fd), ssize_t, -1, errno, pwrite,
         (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
FAILS_IF(write_fails(fd), ssize_t, -1, errno, pwrite64,
         (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at))
FAILS_IF(write_fails(fd), ssize_t, -1, errno, writev, (int fd, const struct iovec *from, int n),
         (fd, from, n))

FAILS(CALL_SYNC, int, -1, EIO, fsync, (int fd), (fd))
FAILS(CALL_SYNC, int, -1, EIO, fdatasync, (int fd), (fd))

FAILS(CALL_TRUNCATE, int, -1, ENOSPC, ftruncate, (int fd, off_t size), (fd, size))
FAILS(CALL_TRUNCATE, int, -1, ENOSPC, ftruncate64, (int fd, off64_t size), (fd, size))
FAILS(CALL_TRUNCATE, int, ENOSPC, errno, posix_fallocate, (int fd, off_t at, off_t size),
      (fd, at, size))
FAILS(CALL_TRUNCATE, int, ENOSPC, errno, posix_fallocate64, (int fd, off64_t at, off64_t size),
      (fd, at, size))

FAILS(CALL_NAME, int, -1, ENOSPC, rename, (const char *from, const char *to), (from, to))
FAILS(CALL_NAME, int, -1, ENOSPC, renameat2,
      (int folder, const char *from, int other, const char *to, unsigned flags),
      (folder, from, other, to, flags))
FAILS(CALL_NAME, int, -1, ENOSPC, link, (const char *from, const char *to), (from, to))
FAILS(CALL_NAME, int, -1, EIO, unlink, (const char *path), (path))
FAILS(CALL_NAME, int, -1, ENOSPC, mkdir, (const char *path, mode_t mode), (path, mode))
FAILS(CALL_NAME, int, -1, EIO, chmod, (const char *path, mode_t mode), (path, mode))
FAILS(CALL_NAME, int, -1, EIO, fchmod, (int fd, mode_t mode), (fd, mode))

/* The locks of a file; what else the call is for does not fail. */
static int control_file(const char *name, int fd, int command, void *arg)
{
    static int (*real)(int, int, ...);
    const bool is_lock = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK ||
                         command == F_OFD_SETLKW;
    if (is_lock && call_fails(CALL_LOCK)) {
        errno = ENOLCK;
        return -1;
    }
    if (!real)
        real = (__typeof__(real))(uintptr_t)dlsym(RTLD_NEXT, name);
    return real(fd, command, arg);
}

int fcntl(int fd, int command, ...)
{
    va_list rest;
    va_start(rest, command);
    void *arg = va_arg(rest, void *);
    va_end(rest);
    return control_file("fcntl64", fd, command, arg);
}

int fcntl64(int fd, int command, ...)
{
    va_list rest;
    va_start(rest, command);
    void *arg = va_arg(rest, void *);
    va_end(rest);
    return control_file("fcntl64", fd, command, arg);
}

FAILS(CALL_LOCK, int, -1, ENOLCK, flock, (int fd, int operation), (fd, operation))

FAILS(CALL_MAP, void *, MAP_FAILED, ENOMEM, mmap,
      (void *address, size_t size, int protection, int flags, int fd, off_t offset),
      (address, size, protection, flags, fd, offset))
FAILS(CALL_MAP, void *, MAP_FAILED, ENOMEM, mmap64,
      (void *address, size_t size, int protection, int flags, int fd, off64_t offset),
      (address, size, protection, flags, fd, offset))

/* ---- Sockets --------------------------------------------------------------------------------- */

FAILS(CALL_SOCKET, int, -1, EMFILE, socket, (int domain, int type, int protocol),
      (domain, type, protocol))
FAILS(CALL_SOCKET, int, -1, EMFILE, socketpair, (int domain, int type, int protocol, int pair[2]),
      (domain, type, protocol, pair))
FAILS(CALL_SOCKET, int, -1, EADDRINUSE, bind, (int fd, const struct sockaddr *to, socklen_t size),
      (fd, to, size))
FAILS(CALL_SOCKET, int, -1, EADDRINUSE, listen, (int fd, int n), (fd, n))
FAILS(CALL_SOCKET, int, -1, EMFILE, accept, (int fd, struct sockaddr *from, socklen_t *size),
      (fd, from, size))
FAILS(CALL_SOCKET, int, -1, EMFILE, accept4,
      (int fd, struct sockaddr *from, socklen_t *size, int flags), (fd, from, size, flags))
FAILS(CALL_SOCKET, int, -1, ECONNREFUSED, connect,
      (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size))
FAILS(CALL_SOCKET, int, -1, ENOBUFS, getsockname, (int fd, struct sockaddr *to, socklen_t *size),
      (fd, to, size))
FAILS(CALL_SOCKET, int, -1, ENOBUFS, setsockopt,
      (int fd, int level, int name, const void *value, socklen_t size),
      (fd, level, name, value, size))
FAILS(CALL_SOCKET, int, EAI_MEMORY, ENOMEM, getaddrinfo,
      (const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **ret),
      (host, service, hints, ret))

FAILS(CALL_TRANSFER, ssize_t, -1, ECONNRESET, send, (int fd, const void *from, size_t n, int flags),
      (fd, from, n, flags))
FAILS(CALL_TRANSFER, ssize_t, -1, ECONNRESET, sendto,
      (int fd, const void *from, size_t n, int flags, const struct sockaddr *to, socklen_t size),
      (fd, from, n, flags, to, size))
FAILS(CALL_TRANSFER, ssize_t, -1, ECONNRESET, sendmsg,
      (int fd, const struct msghdr *message, int flags), (fd, message, flags))
FAILS(CALL_TRANSFER, ssize_t, -1, ECONNRESET, sendfile64,
      (int to, int from, off64_t *offset, size_t n), (to, from, offset, n))
FAILS(CALL_TRANSFER, ssize_t, -1, ECONNRESET, recv, (int fd, void *to, size_t n, int flags),
      (fd, to, n, flags))
FAILS(CALL_TRANSFER, ssize_t, -1, ECONNRESET, recvfrom,
      (int fd, void *to, size_t n, int flags, struct sockaddr *from, socklen_t *size),
      (fd, to, n, flags, from, size))
FAILS(CALL_TRANSFER, ssize_t, -1, ECONNRESET, recvmsg, (int fd, struct msghdr *message, int flags),
      (fd, message, flags))

/* ---- Loops, threads, processes --------------------------------------------------------------- */

FAILS(CALL_POLL, int, -1, EMFILE, epoll_create, (int size), (size))
FAILS(CALL_POLL, int, -1, EMFILE, epoll_create1, (int flags), (flags))
/* Only what is new needs memory. */
FAILS_IF(operation == EPOLL_CTL_ADD && call_fails(CALL_POLL), int, -1, ENOSPC, epoll_ctl,
         (int poll, int operation, int fd, struct epoll_event *event), (poll, operation, fd, event))
FAILS(CALL_POLL, int, -1, EMFILE, eventfd, (unsigned n, int flags), (n, flags))
FAILS(CALL_POLL, int, -1, EMFILE, timerfd_create, (int clock, int flags), (clock, flags))
FAILS(CALL_POLL, int, -1, EMFILE, pipe, (int pair[2]), (pair))
FAILS(CALL_POLL, int, -1, EMFILE, pipe2, (int pair[2], int flags), (pair, flags))

FAILS(CALL_THREAD, int, EAGAIN, errno, pthread_create,
      (pthread_t * ret, const pthread_attr_t *with, void *(*run)(void *), void *arg),
      (ret, with, run, arg))

FAILS(CALL_PROCESS, pid_t, -1, EAGAIN, fork, (void), ())
FAILS(CALL_PROCESS, int, -1, ENOMEM, execve,
      (const char *path, char *const words[], char *const environment[]),
      (path, words, environment))
FAILS(CALL_PROCESS, int, -1, ENOMEM, execv, (const char *path, char *const words[]), (path, words))
FAILS(CALL_PROCESS, int, -1, ENOMEM, execvp, (const char *path, char *const words[]), (path, words))
FAILS(CALL_PROCESS, int, -1, ENOMEM, execvpe,
      (const char *path, char *const words[], char *const environment[]),
      (path, words, environment))
FAILS(CALL_PROCESS, int, EAGAIN, errno, posix_spawn,
      (pid_t * ret, const char *path, const posix_spawn_file_actions_t *actions,
       const posix_spawnattr_t *with, char *const words[], char *const environment[]),
      (ret, path, actions, with, words, environment))
FAILS(CALL_PROCESS, int, EAGAIN, errno, posix_spawnp,
      (pid_t * ret, const char *path, const posix_spawn_file_actions_t *actions,
       const posix_spawnattr_t *with, char *const words[], char *const environment[]),
      (ret, path, actions, with, words, environment))
