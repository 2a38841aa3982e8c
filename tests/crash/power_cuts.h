/* power_cuts.h - cuts the power of a SQLite store at every call to the disk, and looks at what is
 * left.
 *
 * A workload runs twice. First on the memory store, of which the text of all that it keeps
 * (store/dump.h) is taken after each commit. Then on SQLite, on a disk
 * in memory (crash_vfs.h): every call to the disk is recorded, and between which of them a commit
 * began and was acknowledged.
 *
 * For each point n of the recording the disk is made anew as it was after n calls, the power is
 * cut in several ways, and the store is opened on what is left, by the same code as ever:
 *
 *   1. It opens; its own check (verify) and SQLite's (integrity_check) find nothing.
 *   2. It holds what the memory store held after the last commit that was acknowledged before the
 * cut, or, if a commit was under way, after that one: wholly or not at all.
 *   3. The power is cut a second time, at a random call of the recovery or of the close that
 *      follows: it still opens, is whole, holds the same, and takes a new job.
 */
#ifndef TESTS_CRASH_POWER_CUTS_H
#define TESTS_CRASH_POWER_CUTS_H

#include "workload.h"

/* Bugs that power cuts must find. */
enum plant {
    PLANT_NOTHING,
    PLANT_NORMAL,         /* PRAGMA synchronous = NORMAL */
    PLANT_OFF,            /* PRAGMA synchronous = OFF */
    PLANT_NO_SYNC,        /* the disk answers a sync and does not do it */
    PLANT_NO_FOLDER_SYNC, /* names of files are never synced */
    PLANT_HALVES,         /* an operation is two transactions */
};

struct power_cuts_options {
    uint64_t seed;
    size_t points; /* about so many of all points, by chance; 0: each of them */
    size_t cuts;   /* at each point */
};

enum complaint {
    COMPLAINT_CLOSED,  /* the store cannot be opened, or takes no job */
    COMPLAINT_DAMAGED, /* it is not whole */
    COMPLAINT_LOST,    /* it is as it was before a commit that was acknowledged */
    COMPLAINT_TORN,    /* it is as it never was */
    COMPLAINT_KINDS,
};

struct findings {
    size_t calls;   /* to the disk, by the workload */
    size_t commits; /* of the workload */
    size_t points;  /* at which the power was cut */
    size_t cuts;    /* in all, without the second ones */
    size_t second_cuts;
    size_t complaints[COMPLAINT_KINDS];
    char first[512]; /* the first complaint */
};

/* Fails the test when the two runs of the workload differ. */
void power_cuts_run(const struct workload *workload, enum plant plant,
                    const struct power_cuts_options *options, struct findings *ret);

/* All complaints together. */
size_t findings_total(const struct findings *findings);

#endif
