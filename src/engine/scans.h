/* scans.h - what is made of the jobs that an index of the store gives (store/scan.h).
 *
 * Reads first, writes last: a scan gives jobs as they are, and the move is made of those that may
 * make it. One that the store refuses all the same, because it has moved since, is passed over.
 */
#ifndef ENGINE_SCANS_H
#define ENGINE_SCANS_H

#include "store/store.h"

struct engine;

/* What has become of a scan. */
struct scan_outcome {
    size_t moved; /* or removed */
    bool more;    /* the index has further jobs */
};

/* Makes one move of all jobs that the scan gives. `how` has its kind, and what that needs beside
 * the seqs. */
int scan_and_move(struct engine *e, struct scan *scan, struct move_list how,
                  struct scan_outcome *ret, struct redrive_err *err);

/* Removes those jobs of a SCAN_FINISHED that `goes` says, or all of them if it is NULL. */
int scan_and_remove(struct engine *e, struct scan *scan,
                    bool (*goes)(void *ctx, const struct job *job), void *ctx,
                    struct scan_outcome *ret, struct redrive_err *err);

#endif
