/* checkpoint.h - when the log is moved into the file, and what is locked while it is moved.
 *
 * SQLite 3.7.0 to 3.51.2 has the WAL-reset bug (https://www.sqlite.org/wal.html#walresetbug): a
 * checkpoint without the writer's lock reads the header of the log; a commit of another connection
 * then starts the log again from its beginning; the checkpoint compares the old header with the new
 * log, and marks frames as moved that never were. They are lost, which damages the file.
 *
 * On these versions
 *   1. there are no automatic and no passive checkpoints;
 *   2. a checkpoint holds the writer's lock from before it reads the header until its end, so that
 *      no connection can start the log again: it is a RESTART, which takes that lock. SQLite turns
 *      a RESTART that does not get the lock into a passive one. Here it fails instead: see
 *      checkpoint.c;
 *   3. only one process is in a checkpoint: SQLite has a lock for that;
 *   4. the checkpoint of the last connection that closes is left to SQLite: it makes it only with
 *      the exclusive lock of the whole file, under which no other connection can read or write.
 *
 * Versions with the fix keep SQLite's automatic checkpoints.
 *
 * A log of CHECKPOINT_FRAMES pages is moved by the commit that made it that long, a shorter one
 * when the handle is idle (store_ops.upkeep). A reader that lasts longer than the checkpoint waits
 * keeps the log from starting again; the checkpoint is then tried again when the log has grown by
 * half, at the latest after another CHECKPOINT_STEP_MAX pages.
 */
#ifndef STORE_SQLITE_CHECKPOINT_H
#define STORE_SQLITE_CHECKPOINT_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define CHECKPOINT_FRAMES   1000
#define CHECKPOINT_STEP_MAX 16000
/* An idle handle leaves a shorter log alone. */
#define CHECKPOINT_IDLE_FRAMES 64
/* How long a checkpoint waits for the writer or for readers; longer for a longer log, up to the
 * maximum. It holds the writer's lock while it waits for readers. */
#define CHECKPOINT_PATIENCE_MS     20
#define CHECKPOINT_PATIENCE_MAX_MS 150
/* The size that a longer log is cut to when it starts again. */
#define CHECKPOINT_LOG_BYTES_MAX "67108864"

/* Whether a version of SQLite, as sqlite3_libversion_number() gives it, has the bug. */
bool checkpoint_has_bug(int version);

struct checkpoint {
    /* First: SQLite's pointer to the methods of the file leads here. */
    sqlite3_io_methods methods; /* the file's own, but for xShmLock */
    const sqlite3_io_methods *original;
    sqlite3_file *file;    /* NULL: not initialised */
    bool is_ours;          /* this version has the bug; else nothing below is used */
    bool is_under_way;     /* a checkpoint of this connection */
    bool waits_for_writer; /* the lock that it could not get last was the writer's */
    int64_t give_up_ms;    /* by the monotonic clock */
    int64_t busy_wait_ms;  /* of the connection, outside of checkpoints */
    int64_t limit;         /* frames after which it is time for one */
    int64_t next;          /* the same, after one that could not be completed */
    int64_t frames;        /* in the log, after the last commit of this connection */
    int64_t failed_at;     /* frames in the log when a checkpoint could not be completed */
};

/* Replaces the checkpoints of SQLite on a connection, if this version of SQLite has the bug, and
 * sees to it that locks of the log's index are given back, with each version.
 * `frames`: the length of the log that is moved; 0: CHECKPOINT_FRAMES. SQLITE_OK or a code of
 * SQLite. The struct stays where it is until checkpoint_release. */
int checkpoint_init(struct checkpoint *checkpoint, sqlite3 *db, int64_t busy_wait_ms,
                    int64_t frames);

/* Before the connection is closed; harmless without an init. */
void checkpoint_release(struct checkpoint *checkpoint, sqlite3 *db);

/* Whether the log is long enough for a checkpoint by a busy handle, or by an idle one. */
bool checkpoint_is_due(const struct checkpoint *checkpoint);
bool checkpoint_is_due_when_idle(const struct checkpoint *checkpoint);

/* Moves the log into the file; outside of transactions. SQLITE_OK: all of it was moved, and the
 * next commit starts the log again. Another code: it was not, nothing is lost, and it is tried
 * again. */
int checkpoint_run(struct checkpoint *checkpoint, sqlite3 *db);

#endif
