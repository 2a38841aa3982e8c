/* transaction.c - begin, commit, rollback, and waiting for other connections. */
#include <time.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/sqlite/private.h"

/* How often a wait looks. PRAGMA data_version compares a number in the shared memory of the
 * log: some microseconds and no disk, so that a process which waits all day costs a few hundredths
 * of a percent of a core. Watching the log with inotify would wake at every page that is written,
 * before its commit, and need the same look; it also runs out of watches. */
#define LOOK_EVERY_MS 20

int transaction_needed(struct store *store, struct redrive_err *err)
{
    return store->in_transaction ? 0 : err_set(err, REDRIVE_E_STATE, "no transaction is open");
}

static int read_one(struct store *store, enum statement which, int64_t *ret,
                    struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    int rc = sql_step(store, st, err);
    if (rc < 0)
        return rc;
    *ret = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return 0;
}

/* Whether another connection has committed since the last look; if so, what is kept is forgotten.
 */
static int look(struct store *store, bool *ret_changed, struct redrive_err *err)
{
    int64_t version = 0;
    int rc = read_one(store, STATEMENT_DATA_VERSION, &version, err);
    if (rc != 0)
        return rc;
    *ret_changed = version != store->data_version;
    if (*ret_changed) {
        row_cache_forget(&store->kept);
        store->meta_is_known = false;
        store->next_seq = 0;
    }
    store->data_version = version;
    return 0;
}

static int read_meta(struct store *store, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_META_READ, err);
    if (!st)
        return store->last_error;
    int rc = sql_step(store, st, err);
    if (rc == 0)
        return sql_damaged(store, 0, "the row about the store is gone", err);
    if (rc < 0)
        return rc;
    store->seq_floor = sqlite3_column_int64(st, 0);
    store->shared_version = sqlite3_column_int64(st, 1);
    store->meta_is_known = true;
    sqlite3_reset(st);
    return 0;
}

/* More jobs than this there never are: the file is damaged. */
#define SEQ_MAX (INT64_MAX / 2)

int seq_needed(struct store *store, struct redrive_err *err)
{
    int64_t last = 0;
    if (store->next_seq > 0)
        return 0;
    int rc = read_one(store, STATEMENT_LAST_SEQ, &last, err);
    if (rc != 0)
        return rc;
    if (last > SEQ_MAX || store->seq_floor > SEQ_MAX)
        return sql_damaged(store, last, "the number of the next job cannot be found", err);
    store->next_seq = last < store->seq_floor ? store->seq_floor : last + 1;
    return 0;
}

/* A file that was removed, or replaced by another, can still be written to, but no other process
 * would see what is written, and it would be lost when this process ends. */
static bool has_moved(struct store *store)
{
    int moved = 0;
    return sqlite3_file_control(store->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK &&
           moved != 0;
}

static int file_is_gone(const struct store *store, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_IO, "the store's file has been removed or replaced");
    err_detail(err, "path %s", store->path);
    err_hint(err, "put it back, or start this process again");
    return REDRIVE_E_IO;
}

/* A transaction is open that nothing here knows of: memory ran out as it was to end. It would lock
 * all other processes out. */
static int end_left_open(struct store *store, struct redrive_err *err)
{
    return sqlite3_get_autocommit(store->db) ? 0 : sql_exec(store, STATEMENT_ROLLBACK, err);
}

int sqlite_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                 int64_t *ret_shared_version, struct redrive_err *err)
{
    bool changed;
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "a transaction is already open");
    if (store->in_snapshot)
        return err_set(err, REDRIVE_E_STATE, "the store is being read as of one moment");
    if (has_moved(store))
        return file_is_gone(store, err);
    /* What ends the transaction is at hand before it begins. */
    if (!sql_use(store, STATEMENT_ROLLBACK, err))
        return store->last_error;
    int rc = end_left_open(store, err);
    if (rc == 0)
        rc = sql_exec(store, STATEMENT_BEGIN, err);
    if (rc != 0)
        return rc;
    store->in_transaction = true;
    store->meta_moved = false;
    store->deadlines = DEADLINES_UNKNOWN;
    store->ready.is_known = false;
    store->now_ms = now_ms;
    /* No other connection can commit before this transaction ends; what they commit later is new to
     * the next wait. */
    rc = look(store, &changed, err);
    if (rc == 0 && !store->meta_is_known)
        rc = read_meta(store, err);
    if (rc != 0) {
        sqlite_rollback(store);
        return rc;
    }
    if (ret_now_ms)
        *ret_now_ms = now_ms;
    if (ret_shared_version)
        *ret_shared_version = store->shared_version;
    return 0;
}

int64_t sqlite_set_time(struct store *store, int64_t now_ms)
{
    if (store->in_transaction)
        store->now_ms = now_ms;
    return now_ms;
}

static int write_meta(struct store *store, struct redrive_err *err)
{
    if (!store->meta_moved)
        return 0;
    sqlite3_stmt *st = sql_use(store, STATEMENT_META_WRITE, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, store->seq_floor);
    bind_int(st, 2, store->shared_version);
    return sql_run(store, st, err);
}

/* On a full disk, or without the lock, SQLite has not written the end of the transaction, or has
 * undone it. After other errors of the disk the outcome is unknown. */
static bool has_no_room(struct store *store)
{
    const int code = sqlite3_errcode(store->db) & 0xff;
    return code == SQLITE_FULL || code == SQLITE_BUSY;
}

int sqlite_commit(struct store *store, struct redrive_err *err)
{
    int rc = transaction_needed(store, err);
    if (rc != 0)
        return rc;
    store->base.is_rolled_back = true;
    rc = partitions_flush(store, err);
    if (rc == 0)
        rc = write_meta(store, err);
    if (rc == 0) {
        vfs_gather(store->db, true);
        rc = sql_exec(store, STATEMENT_COMMIT, err);
        store->base.is_rolled_back = rc != 0 && has_no_room(store);
        vfs_gather(store->db, false);
    }
    if (rc != 0) {
        sqlite_rollback(store);
        return rc;
    }
    store->in_transaction = false;
    store->partitions.added = false;
    /* The transaction is durable, whatever becomes of this. */
    if (checkpoint_is_due(&store->checkpoint))
        (void)checkpoint_run(&store->checkpoint, store->db);
    store->base.wants_upkeep = checkpoint_is_due_when_idle(&store->checkpoint);
    return 0;
}

void sqlite_upkeep(struct store *store)
{
    store->base.wants_upkeep = false;
    if (!store->in_transaction && checkpoint_is_due_when_idle(&store->checkpoint))
        (void)checkpoint_run(&store->checkpoint, store->db);
}

void sqlite_rollback(struct store *store)
{
    if (!store->in_transaction)
        return;
    /* After some errors (no space, no memory) SQLite has already done it. */
    if (!sqlite3_get_autocommit(store->db))
        (void)sql_exec(store, STATEMENT_ROLLBACK, NULL);
    store->in_transaction = false;
    store->meta_is_known = false;
    store->next_seq = 0;
    store->pauses_version = -1;
    row_cache_forget(&store->kept);
    partitions_forget(&store->partitions);
}

int view_begin(struct store *store, struct redrive_err *err)
{
    if (store->in_transaction || store->in_snapshot)
        return 0;
    int rc = end_left_open(store, err);
    return rc == 0 ? sql_exec(store, STATEMENT_BEGIN_READ, err) : rc;
}

void view_end(struct store *store)
{
    if (!store->in_transaction && !store->in_snapshot && !sqlite3_get_autocommit(store->db))
        (void)sql_exec(store, STATEMENT_COMMIT, NULL);
}

int sqlite_snapshot(struct store *store, bool on, struct redrive_err *err)
{
    if (!on) {
        store->in_snapshot = false;
        view_end(store);
        return 0;
    }
    if (store->in_transaction || store->in_snapshot)
        return err_set(err, REDRIVE_E_STATE, "a transaction is already open");
    int rc = view_begin(store, err);
    /* The first read chooses the moment. */
    if (rc == 0)
        rc = read_meta(store, err);
    store->in_snapshot = rc == 0;
    if (rc != 0)
        view_end(store);
    return rc;
}

int sqlite_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                struct redrive_err *err)
{
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE,
                       "a transaction is open: no other process can change anything");
    const int64_t until_ms = clock_monotonic_ms() + (timeout_ms > 0 ? timeout_ms : 0);
    uint32_t ignored = 0, *notification = ret_notification ? ret_notification : &ignored;
    for (;;) {
        bool changed = false;
        int rc = look(store, &changed, err);
        if (rc == 0 && !store->told_of_move && has_moved(store))
            changed = store->told_of_move = true; /* once: the next begin returns the error */
        *notification = changed ? STORE_NOTIFY_ALL : 0;
        int64_t left_ms = until_ms - clock_monotonic_ms();
        if (rc != 0 || changed || left_ms <= 0)
            return rc;
        int64_t nap_ms = left_ms < LOOK_EVERY_MS ? left_ms : LOOK_EVERY_MS;
        struct timespec nap = {.tv_nsec = nap_ms * 1000000};
        nanosleep(&nap, NULL);
    }
}
