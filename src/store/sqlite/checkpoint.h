/* checkpoint.h - when the log is moved into the file, and what is locked meanwhile.
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
 * a RESTART that does not get the lock into a passive one. Here it fails instead: see checkpoint.c;
 *   3. only one process is in a checkpoint: SQLite's lock for checkpoints sees to it;
 *   4. the checkpoint of the last connection that closes stays: SQLite makes it only with the
 *      exclusive lock of the whole file, under which no other connection can read or write.
 *
 * Versions with the fix keep SQLite's automatic checkpoints.
 *
 * A log of CHECKPOINT_FRAMES pages is moved by the commit that made it so long, a shorter one when
 * its owner has nothing else to do (store_ops.upkeep). Readers that are slower than a checkpoint is
 * patient keep the log from starting again; then it is tried again when the log is half as long
 * again, at the latest after another CHECKPOINT_STEP_MAX pages.
 */
#ifndef STORE_SQLITE_CHECKPOINT_H
#define STORE_SQLITE_CHECKPOINT_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define CHECKPOINT_FRAMES   1000
#define CHECKPOINT_STEP_MAX 16000
/* Of a log that is shorter an idle owner takes no notice. */
#define CHECKPOINT_IDLE_FRAMES 64
/* How long it waits for the writer or for readers: the longer the log, the longer, up to the
 * maximum. The writer's lock is held while it waits for readers. */
#define CHECKPOINT_PATIENCE_MS     20
#define CHECKPOINT_PATIENCE_MAX_MS 150
/* What is left of a log that has become longer, once it has started again. */
#define CHECKPOINT_LOG_BYTES_MAX "67108864"

/* Whether a version of SQLite, as sqlite3_libversion_number() gives it, has the bug. */
bool checkpoint_has_bug(int version);

struct checkpoint {
    /* First: SQLite's pointer to the methods of the file leads here. */
    sqlite3_io_methods methods; /* the file's own, but for xShmLock */
    const sqlite3_io_methods *original;
    sqlite3_file *file;    /* NULL: this version has no bug, nothing here is used */
    bool is_under_way;     /* a checkpoint of this connection */
    bool waits_for_writer; /* the lock that it could not get last was the writer's */
    int64_t give_up_ms;    /* by the monotonic clock */
    int64_t busy_wait_ms;  /* of the connection, outside of checkpoints */
    int64_t limit;         /* frames after which it is time for one */
    int64_t next;          /* the same, after one that could not be completed */
    int64_t frames;        /* in the log, after the last commit of this connection */
    int64_t failed_at;     /* frames in the log when a checkpoint could not be completed */
};

/* Takes checkpoints of a connection into its own hands, if this version of SQLite has the bug.
 * `frames`: the length of the log that is moved; 0: CHECKPOINT_FRAMES. SQLITE_OK or a code of
 * SQLite. The struct stays where it is until checkpoint_release. */
int checkpoint_init(struct checkpoint *checkpoint, sqlite3 *db, int64_t busy_wait_ms,
                    int64_t frames);

/* Before the connection is closed; harmless without an init. */
void checkpoint_release(struct checkpoint *checkpoint, sqlite3 *db);

/* True when the log has grown long enough for a checkpoint by a busy owner, or by an idle one. */
bool checkpoint_is_due(const struct checkpoint *checkpoint);
bool checkpoint_is_due_when_idle(const struct checkpoint *checkpoint);

/* Moves the log into the file. Outside of transactions. SQLITE_OK when all of it is there and the
 * next commit starts the log again; another code when that is for later, and nothing is lost. */
int checkpoint_run(struct checkpoint *checkpoint, sqlite3 *db);

#endif
