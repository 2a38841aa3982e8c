/* vfs.h - SQLite's way to the operating system, with read errors that stay read errors.
 *
 * SQLite takes EIO for a damaged file system (SQLITE_IOERR_CORRUPTFS) and then reports
 * SQLITE_CORRUPT, the code of a damaged database. Here it is SQLITE_IOERR_READ: temporary, to be
 * tried again. Files are opened by SQLite's default VFS; only their xRead is replaced. Other
 * databases that the process may have open are left alone.
 */
#ifndef STORE_SQLITE_VFS_H
#define STORE_SQLITE_VFS_H

/* The name of the VFS for sqlite3_open_v2, registered if need be; NULL (the default VFS) when that
 * is impossible. Any thread. */
const char *vfs_name(void);

#endif
