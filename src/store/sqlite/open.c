/* open.c - opening and setting up the file, and the table of slots. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/time/clock.h"
#include "store/sqlite/private.h"

#define APPLICATION_ID  0x52647276 /* "Rdrv", in the header of the file */
#define BUSY_DEFAULT_MS 5000
#define SCRATCH_MAX     ((size_t)1 << 20)

/* ---- Opening --------------------------------------------------------------------------------- */

/* The cache has room for the upper levels of every index. */
static const char PREPARE[] = "PRAGMA cache_size = -16384;"
                              "PRAGMA temp_store = MEMORY;"
                              "PRAGMA mmap_size = 0;"
                              "PRAGMA cell_size_check = ON;"
                              "PRAGMA trusted_schema = OFF;"
                              "PRAGMA foreign_keys = ON;";
static const char AFTER_WAL[] = "PRAGMA synchronous = FULL;";
/* For versions of SQLite whose own checkpoints are sound; see checkpoint.h. */
static const char AUTOMATIC[] = "PRAGMA wal_autocheckpoint = 4000;";

/* Some names are no files to SQLite (":memory:", "file:…"); a path with a slash always is one. */
static char *path_of(struct str place)
{
    char *path = malloc(place.len + 3);
    if (!path)
        return NULL;
    const bool plain = memchr(place.ptr, '/', place.len) == NULL || place.ptr[0] != '/';
    snprintf(path, place.len + 3, "%s%.*s", plain ? "./" : "", (int)place.len, place.ptr);
    return path;
}

static int no_folder(const char *path, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_STATE, "cannot open the store: its folder is not there");
    err_detail(err, "path %s", path);
    err_hint(err, "is the path right? If so, make its folder first");
    return REDRIVE_E_STATE;
}

static bool has_folder(const char *path)
{
    char folder[PATH_MAX];
    struct stat st;
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return true;
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return stat(folder, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Makes the file, for its owner only whatever the umask says; SQLite gives the log and the shared
 * memory the mode of the file. A file that is there must not be opened and closed here: that
 * would drop the locks of every other handle that this process has on it. */
static int make_file(const char *path, struct redrive_err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return 0;
    if (fd < 0 || fchmod(fd, 0600) != 0) {
        int error = errno;
        int code =
            error == EACCES || error == EROFS || error == EPERM ? REDRIVE_E_DENIED : REDRIVE_E_IO;
        if (fd >= 0)
            close(fd);
        err_set(err, code, "cannot create the store: %s", strerror(error));
        err_detail(err, "path %s", path);
        err_hint(err, "may this user write to its folder?");
        return code;
    }
    close(fd);
    return 0;
}

static int check_file(const char *path, const struct store_options *options,
                      struct redrive_err *err)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        int error = errno;
        if ((error == ENOENT || error == ENOTDIR) && !has_folder(path))
            return no_folder(path, err);
        if (error == ENOENT && options->create)
            return make_file(path, err);
        int code = error == ENOENT   ? REDRIVE_E_NOT_FOUND
                   : error == EACCES ? REDRIVE_E_DENIED
                                     : REDRIVE_E_IO;
        err_set(err, code, "cannot open the store: %s", strerror(error));
        err_detail(err, "path %s", path);
        if (code == REDRIVE_E_NOT_FOUND)
            err_hint(err, "is the path right? " STORE_SET_UP_HINT);
        return code;
    }
    if (S_ISDIR(st.st_mode)) {
        err_set(err, REDRIVE_E_INVALID, "the store is a directory");
        err_detail(err, "path %s", path);
        err_hint(err, "name a file in it, such as sqlite:%s/redrive.db", path);
        return REDRIVE_E_INVALID;
    }
    if (access(path, R_OK | W_OK) != 0) {
        int error = errno;
        err_set(err, REDRIVE_E_DENIED, "the store cannot be %s: %s",
                access(path, R_OK) != 0 ? "read" : "written", strerror(error));
        err_detail(err, "path %s", path);
        err_hint(err, "run as the owner of the file, or make it readable and writable");
        return REDRIVE_E_DENIED;
    }
    return 0;
}

static int run_script(struct store *store, const char *sql, struct redrive_err *err)
{
    int rc = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : sql_error(store, rc, err);
}

/* The version of the store, 0 for an empty file, or an error for a file of another program. */
static int read_any_version(struct store *store, int64_t *ret, struct redrive_err *err)
{
    int64_t application = 0, tables = 0;
    *ret = 0;
    /* All three in one transaction: another process may set the store up in between. */
    const bool is_own_look = sqlite3_get_autocommit(store->db);
    int rc = is_own_look ? run_script(store, "BEGIN", err) : 0;
    if (rc == 0)
        rc = sql_number(store, "PRAGMA application_id", &application, err);
    if (rc == 0)
        rc = sql_number(store, "PRAGMA user_version", ret, err);
    if (rc == 0)
        rc = sql_number(store, "SELECT count(*) FROM sqlite_schema", &tables, err);
    if (is_own_look && !sqlite3_get_autocommit(store->db)) {
        const int ended = run_script(store, "ROLLBACK", rc == 0 ? err : NULL);
        rc = rc == 0 ? ended : rc;
    }
    if (rc != 0)
        return rc;
    if (application != APPLICATION_ID && (application != 0 || *ret != 0 || tables != 0)) {
        err_set(err, REDRIVE_E_STATE, "this is a database of another program");
        err_detail(err, "path %s", store->path);
        err_hint(err, "name a file of its own for the store");
        return REDRIVE_E_STATE;
    }
    return 0;
}

/* The same; a newer one is an error. */
static int read_version(struct store *store, int64_t *ret, struct redrive_err *err)
{
    int rc = read_any_version(store, ret, err);
    if (rc != 0)
        return rc;
    if (*ret > STORE_SCRIPTS_COUNT) {
        err_set(err, REDRIVE_E_STATE,
                "the store has schema version %lld, this program knows version %d", (long long)*ret,
                STORE_SCRIPTS_COUNT);
        err_detail(err, "path %s", store->path);
        err_hint(err, "a newer redrive has set it up: use that one, or another file");
        return REDRIVE_E_STATE;
    }
    return 0;
}

/* Turning the log on needs an exclusive lock, for which SQLite's busy timeout does not wait. */
static int use_wal(struct store *store, int64_t busy_wait_ms, struct redrive_err *err)
{
    const int64_t until_ms = clock_monotonic_ms() + busy_wait_ms;
    for (;;) {
        int rc = sqlite3_exec(store->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            return 0;
        if ((rc & 0xff) != SQLITE_BUSY || clock_monotonic_ms() >= until_ms)
            return sql_error(store, rc, err);
        sqlite3_sleep(5);
    }
}

/* Several processes may get here at once: the first one migrates, the others find it done. */
static int migrate(struct store *store, struct redrive_err *err)
{
    int64_t version;
    char sql[64];
    int rc = sql_exec(store, STATEMENT_BEGIN, err);
    if (rc != 0)
        return rc;
    rc = read_version(store, &version, err);
    for (int64_t i = version; rc == 0 && i < STORE_SCRIPTS_COUNT; i++)
        rc = run_script(store, STORE_SCRIPTS[i], err);
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             APPLICATION_ID, STORE_SCRIPTS_COUNT);
    if (rc == 0)
        rc = run_script(store, sql, err);
    if (rc == 0)
        rc = sql_exec(store, STATEMENT_COMMIT, err);
    if (rc != 0 && !sqlite3_get_autocommit(store->db))
        (void)sql_exec(store, STATEMENT_ROLLBACK, NULL);
    return rc;
}

static int set_up(struct store *store, const struct store_options *options, int64_t busy_wait_ms,
                  struct redrive_err *err)
{
    int64_t version;
    int rc = run_script(store, PREPARE, err);
    if (rc == 0 && options->as_is)
        return read_any_version(store, &store->version_found, err);
    if (rc == 0)
        rc = read_version(store, &version, err);
    if (rc != 0)
        return rc;
    store->version_found = version;
    if (version == 0 && !options->create) {
        err_set(err, REDRIVE_E_NOT_FOUND, "the store is empty");
        err_detail(err, "path %s", store->path);
        err_hint(err, "%s", STORE_SET_UP_HINT);
        return REDRIVE_E_NOT_FOUND;
    }
    rc = use_wal(store, busy_wait_ms, err);
    if (rc == 0)
        rc = run_script(store, AFTER_WAL, err);
    if (rc == 0 && !checkpoint_has_bug(sqlite3_libversion_number()))
        rc = run_script(store, AUTOMATIC, err);
    if (rc == 0 && version < STORE_SCRIPTS_COUNT)
        rc = migrate(store, err);
    return rc;
}

/* Statistics of memory cost a lock for each allocation, and are not used. Has no effect once SQLite
 * has been used. */
static void own_process(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

/* SQLite opens a file for reading when it cannot be opened for writing. This one may be written to,
 * so that there was a shortage, of descriptors for instance, and it would be read-only until the
 * process ends. */
static int not_writable(const char *path, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_IO, "the store cannot be opened for writing");
    err_detail(err, "path %s", path);
    err_hint(err, "has the process too many open files?");
    return REDRIVE_E_IO;
}

int sqlite_open(struct str place, const struct store_options *options, struct store **ret,
                struct redrive_err *err)
{
    if (place.len == 0 || memchr(place.ptr, '\0', place.len)) {
        err_set(err, REDRIVE_E_INVALID, "the store has no path");
        err_hint(err, "write sqlite:PATH, such as sqlite:redrive.db");
        return REDRIVE_E_INVALID;
    }
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return err_nomem(err);
    store->base = (struct store_base){&STORE_SQLITE, STORE_SURVIVES_POWER};
    store->pauses_version = -1;
    store->narrow = options->narrow > 0 ? options->narrow : LIST_NARROW;
    row_cache_init(&store->kept, sizeof(struct row));
    map_init(&store->pauses, rng_system_seed());
    partitions_init(&store->partitions);
    buf_init(&store->scratch, SCRATCH_MAX);
    store->path = path_of(place);
    int rc = store->path ? check_file(store->path, options, err) : err_nomem(err);
    if (rc == 0) {
        const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
        const int64_t busy_wait_ms =
            options->busy_wait_ms > 0 ? options->busy_wait_ms : BUSY_DEFAULT_MS;
        int opened = sqlite3_open_v2(store->path, &store->db, flags, vfs_name());
        if (opened != SQLITE_OK) {
            rc = sql_error(store, opened, err);
        } else if (sqlite3_db_readonly(store->db, "main") != 0) {
            rc = not_writable(store->path, err);
        } else {
            sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
            opened =
                checkpoint_init(&store->checkpoint, store->db, busy_wait_ms, options->log_frames);
            rc = opened == SQLITE_OK ? set_up(store, options, busy_wait_ms, err)
                                     : sql_error(store, opened, err);
        }
    }
    if (rc != 0) {
        sqlite_close(store);
        return rc;
    }
    *ret = store;
    return 0;
}

void sqlite_close(struct store *store)
{
    if (!store)
        return;
    sqlite_rollback(store);
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(store->statements[i]);
    for (size_t i = 0; i < store->n_cursors; i++)
        sqlite3_finalize(store->cursors[i]);
    checkpoint_release(&store->checkpoint, store->db);
    sqlite3_close(store->db);
    free(store->cursors);
    row_cache_release(&store->kept);
    partitions_release(&store->partitions);
    map_release(&store->pauses);
    buf_release(&store->scratch);
    free(store->path);
    free(store);
}

const struct store_ops STORE_SQLITE = {
    STORE_SLOTS(sqlite),

    .capabilities = STORE_SHARED | STORE_SQL | STORE_NOTIFIES | STORE_INDEXED,
    .own_process = own_process,
    .snapshot = sqlite_snapshot,
    .repair = sqlite_repair,
    .backup = sqlite_backup,
    .upkeep = sqlite_upkeep,
};
