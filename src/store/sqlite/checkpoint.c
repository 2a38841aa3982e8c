/* checkpoint.c - checkpoints under the writer's lock, on versions of SQLite that need it; locks
 * that are given back. */
#include "store/sqlite/checkpoint.h"

#include <time.h>

#include "base/time/clock.h"

/* The writer's lock among the eight of the log's index: part of the format of that file. */
#define WRITER_LOCK 0

#define NAP_NS 500000 /* between two tries to get a lock, or to give it back */

#define UNLOCK_PATIENCE_MS 5000

/* The fix came with 3.51.3, and with the next releases of two older branches. */
bool checkpoint_has_bug(int version)
{
    const int patch = version % 1000;
    if (version / 1000 == 3044)
        return patch < 6;
    if (version / 1000 == 3050)
        return patch < 7;
    return version < 3051003;
}

/* The system may need memory to give a lock back (ENOLCK), as in the middle of a range. SQLite does
 * not look whether it has: the lock would stay until the process ends, and all others would wait
 * for it. */
static int unlock(const sqlite3_io_methods *methods, sqlite3_file *file, int offset, int n,
                  int flags)
{
    int rc = methods->xShmLock(file, offset, n, flags);
    if (rc == SQLITE_OK)
        return rc;
    const int64_t give_up_ms = clock_monotonic_ms() + UNLOCK_PATIENCE_MS;
    while (rc != SQLITE_OK && clock_monotonic_ms() < give_up_ms) {
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        rc = methods->xShmLock(file, offset, n, flags);
    }
    return rc;
}

/* If the writer's lock is taken and the busy handler gives up (SQLITE_BUSY), SQLite goes on with a
 * passive checkpoint. Any other code ends the checkpoint before it has read or changed anything. So
 * the busy handler never gives up while it waits for this lock; when the time is over, the lock
 * function itself returns another code. */
static int lock_shared_memory(sqlite3_file *file, int offset, int n, int flags)
{
    struct checkpoint *checkpoint = (struct checkpoint *)(void *)file->pMethods;
    if (flags & SQLITE_SHM_UNLOCK)
        return unlock(checkpoint->original, file, offset, n, flags);
    const int rc = checkpoint->original->xShmLock(file, offset, n, flags);
    if (!checkpoint->is_under_way || flags != (SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE))
        return rc;
    checkpoint->waits_for_writer = rc == SQLITE_BUSY && offset == WRITER_LOCK;
    if (checkpoint->waits_for_writer && clock_monotonic_ms() >= checkpoint->give_up_ms)
        return SQLITE_INTERRUPT;
    return rc;
}

static int wait_for_lock(void *ctx, int times)
{
    const struct checkpoint *checkpoint = ctx;
    (void)times;
    if (!checkpoint->waits_for_writer && clock_monotonic_ms() >= checkpoint->give_up_ms)
        return 0;
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    return 1;
}

/* SQLite calls it after each commit, instead of an automatic checkpoint. */
static int note_frames(void *ctx, sqlite3 *db, const char *name, int frames)
{
    struct checkpoint *checkpoint = ctx;
    (void)db, (void)name;
    if (frames < checkpoint->frames) /* the log has started again */
        checkpoint->next = checkpoint->limit;
    checkpoint->frames = frames;
    return SQLITE_OK;
}

static int set_busy_wait(const struct checkpoint *checkpoint, sqlite3 *db)
{
    const int64_t ms = checkpoint->busy_wait_ms;
    return sqlite3_busy_timeout(db, ms < INT32_MAX ? (int)ms : INT32_MAX);
}

int checkpoint_init(struct checkpoint *checkpoint, sqlite3 *db, int64_t busy_wait_ms,
                    int64_t frames)
{
    sqlite3_file *file = NULL;
    checkpoint->busy_wait_ms = busy_wait_ms;
    int rc = set_busy_wait(checkpoint, db);
    if (rc == SQLITE_OK)
        rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (rc != SQLITE_OK)
        return rc;
    checkpoint->original = file->pMethods;
    checkpoint->methods = *file->pMethods;
    checkpoint->methods.xShmLock = lock_shared_memory;
    checkpoint->file = file;
    file->pMethods = &checkpoint->methods;
    checkpoint->is_ours = checkpoint_has_bug(sqlite3_libversion_number());
    if (!checkpoint->is_ours)
        return SQLITE_OK;
    checkpoint->limit = frames > 0 ? frames : CHECKPOINT_FRAMES;
    checkpoint->next = checkpoint->limit;
    (void)sqlite3_wal_hook(db, note_frames, checkpoint);
    return sqlite3_exec(db, "PRAGMA journal_size_limit = " CHECKPOINT_LOG_BYTES_MAX, NULL, NULL,
                        NULL);
}

void checkpoint_release(struct checkpoint *checkpoint, sqlite3 *db)
{
    if (!checkpoint->file)
        return;
    if (checkpoint->is_ours)
        (void)sqlite3_wal_hook(db, NULL, NULL);
    checkpoint->file->pMethods = checkpoint->original;
    checkpoint->file = NULL;
}

bool checkpoint_is_due(const struct checkpoint *checkpoint)
{
    return checkpoint->is_ours && checkpoint->frames >= checkpoint->next;
}

bool checkpoint_is_due_when_idle(const struct checkpoint *checkpoint)
{
    return checkpoint->is_ours && checkpoint->frames >= CHECKPOINT_IDLE_FRAMES &&
           checkpoint->frames != checkpoint->failed_at;
}

int checkpoint_run(struct checkpoint *checkpoint, sqlite3 *db)
{
    int64_t patience_ms = CHECKPOINT_PATIENCE_MS * (1 + checkpoint->frames / checkpoint->limit);
    if (patience_ms > CHECKPOINT_PATIENCE_MAX_MS)
        patience_ms = CHECKPOINT_PATIENCE_MAX_MS;
    checkpoint->give_up_ms = clock_monotonic_ms() + patience_ms;
    checkpoint->waits_for_writer = false;
    checkpoint->is_under_way = true;
    (void)sqlite3_busy_handler(db, wait_for_lock, checkpoint);
    int rc = sqlite3_wal_checkpoint_v2(db, "main", SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    (void)set_busy_wait(checkpoint, db);
    checkpoint->is_under_way = false;
    const int64_t half = checkpoint->frames / 2;
    const int64_t step = half < CHECKPOINT_STEP_MAX ? half : CHECKPOINT_STEP_MAX;
    checkpoint->next = rc == SQLITE_OK ? checkpoint->limit : checkpoint->frames + step + 1;
    checkpoint->failed_at = rc == SQLITE_OK ? 0 : checkpoint->frames;
    if (rc == SQLITE_OK)
        checkpoint->frames = 0;
    return rc;
}
