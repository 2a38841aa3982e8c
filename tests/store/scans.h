/* scans.h - a scan, and a move of what it gives: what the engine does when time asks for it, in the
 * shape of a slot. */
#ifndef TESTS_STORE_SCANS_H
#define TESTS_STORE_SCANS_H

#include "store/store.h"

/* Promotes up to `limit` jobs that are due. */
int scan_promote(struct store *store, size_t limit, size_t *ret_moved, int64_t *ret_next_ms,
                 struct redrive_err *err);

/* Credits a pause to jobs of a queue, up to `scan->limit` at a time; *ret_more: there are others.
 */
int scan_credit(struct store *store, struct scan *scan, struct pause_time pause, bool *ret_more,
                struct redrive_err *err);

/* Removes the jobs that a SCAN_FINISHED gives: those of a task, or all if it is absent. */
int scan_remove(struct store *store, struct scan *scan, struct str task, size_t *ret_removed,
                bool *ret_more, struct redrive_err *err);

#endif
