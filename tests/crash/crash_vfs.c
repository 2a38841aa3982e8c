#include "crash_vfs.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "check.h"

#define SHARED_REGIONS_MAX 16
#define SECTOR_SIZE        4096

/* What SQLite has as a file. */
struct handle {
    sqlite3_file base;
    int file;
    bool syncs_folder; /* at its next sync */
    bool is_temporary; /* it is deleted when it is closed */
    char name[DISK_NAME_MAX];
};

static struct {
    struct disk *disk;
    struct disk_faults faults;
    struct rng rng;
    int n_open;
    size_t n_syncs;
    size_t n_writes;
    void *regions[SHARED_REGIONS_MAX]; /* of shared memory */
} mounted;

static struct handle *handle_of(sqlite3_file *file)
{
    return (struct handle *)(void *)file;
}

/* All files are in one folder: what follows the last slash is the name. */
static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void sync_folder(void)
{
    if (!mounted.faults.skips_sync_folder)
        disk_sync_folder(mounted.disk);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int file_close(sqlite3_file *file)
{
    if (handle_of(file)->is_temporary)
        disk_delete(mounted.disk, handle_of(file)->name);
    mounted.n_open--;
    return SQLITE_OK;
}

static int file_read(sqlite3_file *file, void *bytes, int n, sqlite3_int64 at)
{
    const size_t got = disk_read(mounted.disk, handle_of(file)->file, (size_t)at, bytes, (size_t)n);
    if (got == (size_t)n)
        return SQLITE_OK;
    memset((char *)bytes + got, 0, (size_t)n - got);
    return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    const bool fails = ++mounted.n_writes == mounted.faults.failing_write;
    const int done = fails ? n / 2 : n;
    disk_write(mounted.disk, handle_of(file)->file, (size_t)at, bytes, (size_t)done);
    return fails ? SQLITE_IOERR_WRITE : SQLITE_OK;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    disk_truncate(mounted.disk, handle_of(file)->file, (size_t)size);
    return SQLITE_OK;
}

static int file_sync(sqlite3_file *file, int flags)
{
    struct handle *handle = handle_of(file);
    (void)flags;
    if (++mounted.n_syncs == mounted.faults.failing_sync) {
        disk_fail_sync(mounted.disk, handle->file);
        return SQLITE_IOERR_FSYNC;
    }
    if (!mounted.faults.skips_sync)
        disk_sync(mounted.disk, handle->file);
    if (handle->syncs_folder)
        sync_folder();
    handle->syncs_folder = false;
    return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    *ret = (sqlite3_int64)disk_size(mounted.disk, handle_of(file)->file);
    return SQLITE_OK;
}

static int file_lock(sqlite3_file *file, int level)
{
    (void)file, (void)level;
    return SQLITE_OK;
}

static int file_check_reserved(sqlite3_file *file, int *ret)
{
    (void)file;
    *ret = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
    (void)file, (void)op, (void)arg;
    return SQLITE_NOTFOUND;
}

static int file_sector_size(sqlite3_file *file)
{
    (void)file;
    return SECTOR_SIZE;
}

/* As SQLite's VFS for Unix says of every disk. */
static int file_characteristics(sqlite3_file *file)
{
    (void)file;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int shared_map(sqlite3_file *file, int region, int size, int extend, void volatile **ret)
{
    (void)file;
    assert_true(region < SHARED_REGIONS_MAX);
    if (!mounted.regions[region] && extend) {
        mounted.regions[region] = calloc(1, (size_t)size);
        assert_non_null(mounted.regions[region]);
    }
    *ret = mounted.regions[region];
    return SQLITE_OK;
}

static int shared_lock(sqlite3_file *file, int offset, int n, int flags)
{
    (void)file, (void)offset, (void)n, (void)flags;
    return SQLITE_OK;
}

static void shared_barrier(sqlite3_file *file)
{
    (void)file;
}

static int shared_unmap(sqlite3_file *file, int deletes)
{
    (void)file, (void)deletes;
    for (int i = 0; i < SHARED_REGIONS_MAX; i++) {
        free(mounted.regions[i]);
        mounted.regions[i] = NULL;
    }
    return SQLITE_OK;
}

static const sqlite3_io_methods METHODS = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_lock,
    .xCheckReservedLock = file_check_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = shared_map,
    .xShmLock = shared_lock,
    .xShmBarrier = shared_barrier,
    .xShmUnmap = shared_unmap,
};

/* ---- The VFS --------------------------------------------------------------------------------- */

/* The store makes its file by itself, before it calls SQLite, and does not sync the folder: here it
 * is made when the database is opened. */
static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags,
                    int *ret_flags)
{
    const int synced_kinds = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
    struct handle *handle = handle_of(file);
    (void)vfs;
    handle->base.pMethods = NULL;
    if (!mounted.disk || !path)
        return SQLITE_CANTOPEN;
    const char *name = name_of(path);
    const bool may_create = flags & (SQLITE_OPEN_CREATE | SQLITE_OPEN_MAIN_DB);
    int number = disk_find(mounted.disk, name);
    if (number < 0 && !may_create)
        return SQLITE_CANTOPEN;
    if (number < 0)
        number = disk_create(mounted.disk, name);
    *handle = (struct handle){
        .base.pMethods = &METHODS,
        .file = number,
        .syncs_folder = (flags & SQLITE_OPEN_CREATE) && (flags & synced_kinds),
        .is_temporary = flags & SQLITE_OPEN_DELETEONCLOSE,
    };
    (void)snprintf(handle->name, sizeof handle->name, "%s", name);
    mounted.n_open++;
    if (ret_flags)
        *ret_flags = flags;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int syncs_folder)
{
    (void)vfs;
    if (disk_find(mounted.disk, name_of(path)) < 0)
        return SQLITE_IOERR_DELETE_NOENT;
    disk_delete(mounted.disk, name_of(path));
    if (syncs_folder)
        sync_folder();
    return SQLITE_OK;
}

/* For SQLite's VFS for Unix an empty file is as good as none here. */
static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *ret)
{
    (void)vfs;
    const int number = disk_find(mounted.disk, name_of(path));
    *ret = number >= 0 && (flags != SQLITE_ACCESS_EXISTS || disk_size(mounted.disk, number) > 0);
    return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *path, int size, char *ret)
{
    (void)vfs;
    const int n = snprintf(ret, (size_t)size, "%s", path);
    return n < size ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int vfs_randomness(sqlite3_vfs *vfs, int n, char *ret)
{
    (void)vfs;
    for (int i = 0; i < n; i++)
        ret[i] = (char)rng_next(&mounted.rng);
    return n;
}

static int vfs_sleep(sqlite3_vfs *vfs, int microseconds)
{
    (void)vfs;
    return microseconds;
}

static int vfs_last_error(sqlite3_vfs *vfs, int n, char *ret)
{
    (void)vfs, (void)n, (void)ret;
    return 0;
}

/* In milliseconds since noon of a day in 4714 BC, as SQLite wants it. */
static int vfs_time(sqlite3_vfs *vfs, sqlite3_int64 *ret)
{
    (void)vfs;
    *ret = INT64_C(210866760000000) + (sqlite3_int64)time(NULL) * 1000;
    return SQLITE_OK;
}

static int vfs_time_in_days(sqlite3_vfs *vfs, double *ret)
{
    sqlite3_int64 ms;
    (void)vfs_time(vfs, &ms);
    *ret = (double)ms / 86400000.0;
    return SQLITE_OK;
}

void crash_vfs_install(void)
{
    static sqlite3_vfs vfs = {
        .iVersion = 2,
        .szOsFile = sizeof(struct handle),
        .mxPathname = 512,
        .zName = "crash",
        .xOpen = vfs_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_path,
        .xRandomness = vfs_randomness,
        .xSleep = vfs_sleep,
        .xCurrentTime = vfs_time_in_days,
        .xGetLastError = vfs_last_error,
        .xCurrentTimeInt64 = vfs_time,
    };
    assert_int_equal(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
}

void crash_vfs_mount(struct disk *disk, struct disk_faults faults, uint64_t seed)
{
    assert_int_equal(mounted.n_open, 0);
    mounted.disk = disk;
    mounted.faults = faults;
    mounted.n_syncs = mounted.n_writes = 0;
    rng_seed(&mounted.rng, seed);
    sqlite3_randomness(0, NULL);
}

size_t crash_vfs_syncs(void)
{
    return mounted.n_syncs;
}

size_t crash_vfs_writes(void)
{
    return mounted.n_writes;
}
