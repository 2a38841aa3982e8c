/* disk.h - a disk in memory whose power can be cut.
 *
 * One folder of files. Every change is a call on a tape; a disk plays calls from a tape, so that
 * the disk as it was after any number of them can be had again. What a process sees is what it has
 * written. What outlives a power cut is less:
 *
 *   1. Of a file, what was there at its last sync. Of each write and truncation since then, any
 *      part: all of it, nothing, or some of its sectors, in any order; a sector of which the power
 *      was cut in the middle has noise in it. No byte outside of a write changes.
 *   2. Of the folder, the names that were there when the folder was last synced. A file that was
 *      made since may have no name, whether or not its content was synced; one that was deleted may
 *      be there again. Names are independent of each other, changes of one name come in order.
 *
 * Fails the test when memory runs out.
 */
#ifndef TESTS_CRASH_DISK_H
#define TESTS_CRASH_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_NAME_MAX  64
#define DISK_FILES_MAX 64

/* ---- The tape -------------------------------------------------------------------------------- */

enum disk_call_kind {
    DISK_CREATE, /* the name gets a new, empty file */
    DISK_DELETE, /* the name is gone; a file that is open is not */
    DISK_WRITE,
    DISK_TRUNCATE,
    DISK_SYNC,
    DISK_SYNC_FAILED, /* see disk_fail_sync */
    DISK_SYNC_FOLDER,
};

struct disk_call {
    enum disk_call_kind kind;
    int file;                 /* its number; not of DISK_DELETE and DISK_SYNC_FOLDER */
    char name[DISK_NAME_MAX]; /* of DISK_CREATE and DISK_DELETE */
    size_t at;                /* offset, or the new size */
    unsigned char *bytes;     /* owned by the tape */
    size_t n;
};

struct tape {
    struct disk_call *calls;
    size_t n;
    size_t capacity;
};

void tape_release(struct tape *tape);

/* ---- The disk -------------------------------------------------------------------------------- */

struct disk;

/* An empty disk, whose calls are added to the tape, or played from it. */
struct disk *disk_new(struct tape *tape);
void disk_free(struct disk *disk);

/* Does call `i` of the tape, which must be the next one that this disk has not done. */
void disk_play(struct disk *disk, size_t i);

/* The same, of a call that is added to the end of the tape. disk_create gives the file's number. */
int disk_create(struct disk *disk, const char *name);
void disk_delete(struct disk *disk, const char *name);
void disk_write(struct disk *disk, int file, size_t at, const void *bytes, size_t n);
void disk_truncate(struct disk *disk, int file, size_t size);
void disk_sync(struct disk *disk, int file);
/* As Linux does it when a disk fails to write: what was to be synced is still seen, is on the disk
 * in no part, and no later sync will write it. */
void disk_fail_sync(struct disk *disk, int file);
void disk_sync_folder(struct disk *disk);

/* What a process sees. */
int disk_find(const struct disk *disk, const char *name); /* the file's number; -1: none */
size_t disk_size(const struct disk *disk, int file);
/* How many of `n` bytes there are. */
size_t disk_read(const struct disk *disk, int file, size_t at, void *ret, size_t n);

/* ---- The power cut --------------------------------------------------------------------------- */

enum cut_kind {
    CUT_DROPS_ALL, /* nothing outlives it that was not synced */
    CUT_KEEPS_ALL, /* everything does: as if only the process had been killed */
    CUT_IN_ORDER,  /* of each file the first changes, the last of them in part */
    CUT_AT_RANDOM, /* of each change all, nothing or some sectors */
    CUT_KINDS,
};

struct cut {
    enum cut_kind kind;
    size_t sector; /* bytes */
    uint64_t seed;
};

/* The disk after the power has come back, all of it synced. Its calls go to another tape. The disk
 * itself is left as it is. */
struct disk *disk_after_cut(const struct disk *disk, const struct cut *cut, struct tape *tape);

#endif
