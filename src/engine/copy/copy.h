/* copy.h - copies everything from one store into another.
 *
 * Jobs with their history, breakers, limits, pauses, definitions of tasks, the cron entries,
 * alerts, cancels that are asked for, counters, and the keys that are remembered without a job. Not
 * the rows of workers: those are processes.
 *
 * The source is only read, as of one moment if it can be (source.h). Its records go into the
 * destination in whole transactions (load.h), and the next run goes on after one that was
 * interrupted. At the end the source is read again and compared with the destination (compare.h).
 *
 * No worker should use either store meanwhile; that is checked, and refused unless forced.
 */
#ifndef ENGINE_COPY_COPY_H
#define ENGINE_COPY_COPY_H

#include "engine/copy/compare.h"
#include "store/store.h"

struct copy_options {
    struct store *from;
    struct store *to;     /* NULL with dry_run: there is none yet */
    const char *name;     /* of the source, the same each time; no secrets in it */
    int64_t now_ms;       /* for a store that has no clock */
    bool dry_run;         /* look at both, count the source, write nothing */
    bool despite_workers; /* even if some are alive */
    bool into_existing;   /* even if the destination has jobs that the source has not */

    /* Called after each page, if not NULL: what it is about ("look", "copy", "check")
     * and how many jobs of how many are done. False: stop with REDRIVE_E_CANCELLED. */
    bool (*progress)(void *ctx, const char *phase, uint64_t done, uint64_t total);
    void *ctx;
};

/* What there was, and how it went. A dry run fills in only what the source has. */
struct copy_report {
    struct findings findings;
    uint64_t copied; /* jobs that were added by this run */
};

/* REDRIVE_E_STATE when workers are alive on a store, which is called the `side` in the error: the
 * store must not change during a transfer. The hint names the `flag` that goes on all the same. */
int copy_check_idle(struct store *store, const char *side, const char *flag, int64_t now_ms,
                    struct redrive_err *err);

/* Whether both are the same store, whatever they are called: a row is put through `b`, looked for
 * through `a`, and taken away again. Should a crash leave it behind: it is that of a worker that
 * has gone, which the next tick of a process removes. */
int copy_is_same_store(struct store *a, struct store *b, int64_t now_ms, bool *ret,
                       struct redrive_err *err);

/* Looks, copies and checks; a transaction that conflicts with another process is tried again for a
 * while. 0 when it came to an end, whether the stores are then the same or not; REDRIVE_E_STATE
 * when it was refused before anything was written. */
int copy_run(const struct copy_options *options, struct copy_report *ret, struct redrive_err *err);

#endif
