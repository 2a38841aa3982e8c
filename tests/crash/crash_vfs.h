/* crash_vfs.h - SQLite on a disk whose power can be cut (disk.h).
 *
 * A VFS that is made SQLite's default one, before the first store is opened: the store's own VFS
 * (store/sqlite/vfs.c) takes the default one for its files, so that nothing in the store knows of
 * this. It asks the disk for what SQLite's VFS for Unix asks the operating system for: the folder
 * is synced with the first sync of a journal or log that was opened, and after a deletion for which
 * SQLite wants it.
 *
 * One connection at a time: locks are always granted, and shared memory is that of this process,
 * new for each connection. One thread.
 */
#ifndef TESTS_CRASH_CRASH_VFS_H
#define TESTS_CRASH_CRASH_VFS_H

#include "disk.h"

/* Disks that do not do what they were told to; for tests that must notice it. */
struct disk_faults {
    bool skips_sync;        /* of files: the answer is that it was done */
    bool skips_sync_folder; /* the same of the folder */
    size_t failing_sync;    /* the number of the sync of a file, from 1, that fails; 0: none */
    size_t failing_write;   /* the same of the write; the first half of it is done */
};

/* Makes it the default VFS, once for the process. */
void crash_vfs_install(void);

/* The disk that files are opened on from here on, borrowed; NULL: none, opening fails. All files of
 * the last one are closed. The randomness of SQLite begins anew from `seed`. */
void crash_vfs_mount(struct disk *disk, struct disk_faults faults, uint64_t seed);

/* How often files have been synced and written to since the disk was mounted, failures included. */
size_t crash_vfs_syncs(void);
size_t crash_vfs_writes(void);

#endif
