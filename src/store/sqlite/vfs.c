/* vfs.c - files as SQLite's default VFS has them, but for two things.
 *
 * Read errors. SQLite takes EIO for a damaged file system (SQLITE_IOERR_CORRUPTFS) and then reports
 * SQLITE_CORRUPT, the code of a damaged database. Here it is SQLITE_IOERR_READ: temporary, to be
 * tried again.
 *
 * The pages of a commit. SQLite writes each of them to the log with two calls, a header of 24 bytes
 * and the page. Here the frames of a commit are gathered and written with one call. Invariants:
 *   1. Frames are gathered only between vfs_gather(db, true) and vfs_gather(db, false), which the
 *      store calls around its COMMIT. All other writes are made at once: pages that a transaction
 *      spills before its commit, which a rollback leaves behind, and those of checkpoints.
 *   2. The last frame of a commit says so in its header. When its page comes, everything is
 *      written, and the gathering is over. SQLite writes the index of the log, by which other
 *      connections and processes find a frame, after this write has returned. So they never look
 *      for a frame that is not in the file, whatever PRAGMA synchronous says, and a process that
 *      ends in between leaves a log without the end of the commit, as it did with single writes.
 *   3. A write that fails fails the call that made it. That call is always one of the same commit,
 *      and SQLite then returns the error from COMMIT and takes the transaction back.
 *   4. All that was gathered is in the file before the log is read, measured, cut or synced, and
 *      before anything that is not the next part of a frame is written.
 *   5. Frames that are still gathered when COMMIT has returned are of a commit that has failed.
 * They are dropped, as SQLite forgets them: the next commit writes at the same place.
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

/* More than the pages of a small commit; a large one is written in pieces of this size. SQLite's
 * VFS for Unix takes only the last 17 bits of a size. */
#define GATHER_BYTES ((size_t)64 * 1024)
_Static_assert(GATHER_BYTES < 1 << 17, "a write that is cut off");

/* Part of the format of the log: the header of a frame, and in it the size of the database after a
 * commit, which is not 0 in the last frame of one. */
#define FRAME_HEADER_BYTES   24
#define FRAME_HEADER_SIZE_AT 4

/* What is kept of a log, behind the struct of the default VFS. */
struct log_file {
    unsigned char *bytes; /* GATHER_BYTES; NULL: no memory, nothing is gathered */
    size_t n;
    sqlite3_int64 offset; /* of the first of them */
    bool is_gathering;
    bool in_frame;    /* a header has come, its page has not */
    bool ends_commit; /* it is the header of the last frame */
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
    bool is_log;
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

/* ---- The log --------------------------------------------------------------------------------- */

static void stop_gathering(struct log_file *log)
{
    log->n = 0;
    log->is_gathering = log->in_frame = false;
}

/* After an error nothing more of this commit is gathered. */
static int write_gathered(sqlite3_file *file)
{
    struct log_file *log = log_of(file);
    if (log->n == 0)
        return SQLITE_OK;
    const int rc = original_of(file)->xWrite(file, log->bytes, (int)log->n, log->offset);
    log->offset += (sqlite3_int64)log->n;
    log->n = 0;
    if (rc != SQLITE_OK)
        stop_gathering(log);
    return rc;
}

static bool has_size(const unsigned char *header)
{
    static const unsigned char NONE[4];
    return memcmp(header + FRAME_HEADER_SIZE_AT, NONE, sizeof NONE) != 0;
}

/* Whether it is the next part of a frame. */
static bool is_next(const struct log_file *log, size_t n, sqlite3_int64 offset)
{
    const bool follows = offset == log->offset + (sqlite3_int64)log->n;
    if (log->in_frame)
        return follows && n <= GATHER_BYTES;
    return n == FRAME_HEADER_BYTES && (follows || log->n == 0);
}

static int gather(sqlite3_file *file, const void *bytes, size_t n, sqlite3_int64 offset)
{
    struct log_file *log = log_of(file);
    const int rc = log->n + n > GATHER_BYTES ? write_gathered(file) : SQLITE_OK;
    if (rc != SQLITE_OK)
        return rc;
    if (log->n == 0)
        log->offset = offset;
    memcpy(log->bytes + log->n, bytes, n);
    log->n += n;
    if (!log->in_frame)
        log->ends_commit = has_size(bytes);
    log->in_frame = !log->in_frame;
    if (log->in_frame || !log->ends_commit)
        return SQLITE_OK;
    log->is_gathering = false;
    return write_gathered(file);
}

static int write_log(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 offset)
{
    struct log_file *log = log_of(file);
    if (log->is_gathering && is_next(log, (size_t)n, offset))
        return gather(file, bytes, (size_t)n, offset);
    const int rc = write_gathered(file);
    log->in_frame = false;
    return rc == SQLITE_OK ? original_of(file)->xWrite(file, bytes, n, offset) : rc;
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

static int measure_log(sqlite3_file *file, sqlite3_int64 *ret)
{
    const int rc = write_gathered(file);
    return rc == SQLITE_OK ? original_of(file)->xFileSize(file, ret) : rc;
}

static int close_log(sqlite3_file *file)
{
    free(log_of(file)->bytes);
    return original_of(file)->xClose(file);
}

void vfs_gather(sqlite3 *db, bool on)
{
    sqlite3_file *file = NULL;
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file) != SQLITE_OK ||
        !file || !file->pMethods || file->pMethods->xWrite != write_log)
        return;
    stop_gathering(log_of(file));
    log_of(file)->is_gathering = on && log_of(file)->bytes;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static void fill_methods(struct file_methods *entry, const sqlite3_io_methods *methods, bool is_log)
{
    *entry = (struct file_methods){.methods = *methods, .original = methods, .is_log = is_log};
    entry->methods.xRead = read_file;
    if (!is_log)
        return;
    entry->methods.xRead = read_log;
    entry->methods.xWrite = write_log;
    entry->methods.xSync = sync_log;
    entry->methods.xTruncate = cut_log;
    entry->methods.xFileSize = measure_log;
    entry->methods.xClose = close_log;
}

/* A file with another xRead keeps its methods; false. */
static bool replace_methods(sqlite3_file *file, bool is_log)
{
    size_t i = 0;
    HOLD(&vfs_mutex);
    if (!original_read)
        original_read = file->pMethods->xRead;
    while (i < n_vfs_methods &&
           (vfs_methods[i].original != file->pMethods || vfs_methods[i].is_log != is_log))
        i++;
    if (i == n_vfs_methods && i < MAX_METHODS && file->pMethods->xRead == original_read)
        fill_methods(&vfs_methods[n_vfs_methods++], file->pMethods, is_log);
    const bool is_known = i < n_vfs_methods;
    if (is_known)
        file->pMethods = &vfs_methods[i].methods;
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
    if (replace_methods(file, is_log) && is_log)
        *log_of(file) = (struct log_file){.bytes = malloc(GATHER_BYTES)};
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
