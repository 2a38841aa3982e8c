/* vfs.c - files as SQLite's default VFS has them, but for two things.
 *
 * Read errors. SQLite takes EIO for a damaged file system (SQLITE_IOERR_CORRUPTFS) and then reports
 * SQLITE_CORRUPT, the code of a damaged database. Here it is SQLITE_IOERR_READ: temporary, to be
 * tried again.
 *
 * Writes to the log. SQLite writes each page of a commit with two calls, 24 bytes that name it and
 * the page. Here writes that follow each other are gathered and made with one call when the log is
 * synced, before anything is read from it, and when the buffer is full. Invariants:
 *   1. All that was written is in the file before it is synced, read, measured, cut or closed.
 *      Other connections read only what a commit has synced: their index of the log is written
 *      after that (PRAGMA synchronous = FULL).
 *   2. A write that fails when it is made fails the call that made it; what was gathered is then
 *      forgotten, as SQLite forgets the pages of a commit that has failed.
 *
 * Other databases that the process may have open are left alone.
 */
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "store/sqlite/private.h"

#define VFS_NAME "redrive"

/* More than the pages of a small commit; a large one is written in pieces of this size. */
#define GATHER_BYTES ((size_t)64 * 1024)

/* What is kept of a log, behind the struct of the default VFS. */
struct log_file {
    unsigned char *bytes; /* GATHER_BYTES; NULL: no memory, nothing is gathered */
    size_t n;
    sqlite3_int64 offset; /* of the first of them */
};

/* Guards what follows; files that are open read it without. */
static pthread_mutex_t vfs_mutex = PTHREAD_MUTEX_INITIALIZER;
static sqlite3_vfs vfs;             /* the default one, but for xOpen and the size of a file */
static const sqlite3_vfs *original; /* NULL: not set up yet */
static size_t log_file_at;          /* where the struct log_file of a file is */

/* The methods of its files, but for those below. Databases and logs have different ones. Entries
 * are added and never change, so that open files may use them without the mutex. */
#define MAX_METHODS 8
struct file_methods {
    sqlite3_io_methods methods; /* first: leads from a file to this */
    const sqlite3_io_methods *original;
    bool gathers;
};
static struct file_methods vfs_methods[MAX_METHODS];
static size_t n_vfs_methods;
static int (*original_read)(sqlite3_file *, void *, int, sqlite3_int64); /* of all of them */

/* Of a log. The methods of a database are replaced once more, by checkpoint.c. */
static const sqlite3_io_methods *original_of(const sqlite3_file *file)
{
    return ((const struct file_methods *)(const void *)file->pMethods)->original;
}

static struct log_file *log_of(sqlite3_file *file)
{
    return (struct log_file *)(void *)((char *)file + log_file_at);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int read_file(sqlite3_file *file, void *bytes, int n, sqlite3_int64 offset)
{
    const int rc = original_read(file, bytes, n, offset);
    return rc == SQLITE_IOERR_CORRUPTFS ? SQLITE_IOERR_READ : rc;
}

/* ---- Writing to the log ---------------------------------------------------------------------- */

static int write_gathered(sqlite3_file *file)
{
    struct log_file *log = log_of(file);
    const size_t n = log->n;
    log->n = 0;
    return n == 0 ? SQLITE_OK : original_of(file)->xWrite(file, log->bytes, (int)n, log->offset);
}

static int write_log(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 offset)
{
    struct log_file *log = log_of(file);
    const bool follows = log->n > 0 && offset == log->offset + (sqlite3_int64)log->n;
    if (!follows || log->n + (size_t)n > GATHER_BYTES) {
        const int rc = write_gathered(file);
        if (rc != SQLITE_OK)
            return rc;
        log->offset = offset;
    }
    if (!log->bytes || (size_t)n > GATHER_BYTES)
        return original_of(file)->xWrite(file, bytes, n, offset);
    memcpy(log->bytes + log->n, bytes, (size_t)n);
    log->n += (size_t)n;
    return SQLITE_OK;
}

static int read_log(sqlite3_file *file, void *bytes, int n, sqlite3_int64 offset)
{
    const int rc = write_gathered(file);
    return rc == SQLITE_OK ? read_file(file, bytes, n, offset) : rc;
}

static int sync_log(sqlite3_file *file, int flags)
{
    const int rc = write_gathered(file);
    return rc == SQLITE_OK ? original_of(file)->xSync(file, flags) : rc;
}

static int cut_log(sqlite3_file *file, sqlite3_int64 size)
{
    const int rc = write_gathered(file);
    return rc == SQLITE_OK ? original_of(file)->xTruncate(file, size) : rc;
}

static int log_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    const int rc = write_gathered(file);
    return rc == SQLITE_OK ? original_of(file)->xFileSize(file, ret) : rc;
}

static int close_log(sqlite3_file *file)
{
    const sqlite3_io_methods *methods = original_of(file);
    const int written = write_gathered(file);
    free(log_of(file)->bytes);
    const int rc = methods->xClose(file);
    return written == SQLITE_OK ? rc : written;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void fill_methods(struct file_methods *entry, const sqlite3_io_methods *methods,
                         bool gathers)
{
    *entry = (struct file_methods){*methods, methods, gathers};
    entry->methods.xRead = read_file;
    if (!gathers)
        return;
    entry->methods.iVersion = methods->iVersion < 2 ? methods->iVersion : 2; /* no xFetch */
    entry->methods.xRead = read_log;
    entry->methods.xWrite = write_log;
    entry->methods.xSync = sync_log;
    entry->methods.xTruncate = cut_log;
    entry->methods.xFileSize = log_size;
    entry->methods.xClose = close_log;
}

/* A file with another xRead keeps its methods; false. */
static bool replace_methods(sqlite3_file *file, bool gathers)
{
    size_t i = 0;
    pthread_mutex_lock(&vfs_mutex);
    if (!original_read)
        original_read = file->pMethods->xRead;
    while (i < n_vfs_methods &&
           (vfs_methods[i].original != file->pMethods || vfs_methods[i].gathers != gathers))
        i++;
    if (i == n_vfs_methods && i < MAX_METHODS && file->pMethods->xRead == original_read)
        fill_methods(&vfs_methods[n_vfs_methods++], file->pMethods, gathers);
    const bool is_known = i < n_vfs_methods;
    if (is_known)
        file->pMethods = &vfs_methods[i].methods;
    pthread_mutex_unlock(&vfs_mutex);
    return is_known;
}

static int open_file(sqlite3_vfs *self, const char *name, sqlite3_file *file, int flags,
                     int *ret_flags)
{
    (void)self;
    const int rc = original->xOpen((sqlite3_vfs *)original, name, file, flags, ret_flags);
    if (rc != SQLITE_OK || !file->pMethods)
        return rc;
    const bool is_log = (flags & SQLITE_OPEN_WAL) != 0;
    if (is_log)
        *log_of(file) = (struct log_file){.bytes = malloc(GATHER_BYTES)};
    if (!replace_methods(file, is_log) && is_log)
        free(log_of(file)->bytes);
    return rc;
}

const char *vfs_name(void)
{
    pthread_mutex_lock(&vfs_mutex);
    if (!original) {
        const sqlite3_vfs *found = sqlite3_vfs_find(NULL);
        if (found) {
            const size_t align = _Alignof(struct log_file);
            vfs = *found;
            log_file_at = ((size_t)found->szOsFile + align - 1) / align * align;
            vfs.szOsFile = (int)(log_file_at + sizeof(struct log_file));
            vfs.pNext = NULL;
            vfs.zName = VFS_NAME;
            vfs.xOpen = open_file;
            original = found;
        }
    }
    /* If SQLite was shut down and started again, the VFS is no longer registered. */
    const bool is_there = original && (sqlite3_vfs_find(VFS_NAME) == &vfs ||
                                       sqlite3_vfs_register(&vfs, 0) == SQLITE_OK);
    pthread_mutex_unlock(&vfs_mutex);
    return is_there ? VFS_NAME : NULL;
}
