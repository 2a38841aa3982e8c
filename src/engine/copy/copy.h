/* copy.h - copies everything from one store into another.
 *
 * Jobs with their history, breakers, limits, pauses, definitions of tasks, the cron entries,
 * alerts, cancels that are asked for, counters, and the keys that are remembered without a job. Not
 * the rows of workers: those are processes.
 *
 * The source is only read. Jobs go over in the order of their seq, some hundred a transaction, each
 * transaction whole: a copy that is interrupted, however hard, has lost nothing, and the next
 * one passes over what is there. Nothing in the destination is ever overwritten, except shared rows
 * of one that holds no job yet. At the end both stores are read again and compared.
 *
 * What makes a repetition harmless
 *   - jobs and keys are known by their names, and refused by the store the second time
 *   - shared rows go with the first transaction of jobs, so that a destination without jobs has
 *     none
 *   - counters go last, in one transaction, up to the value of the source. When the destination has
 *     jobs of its own they are added to, once: a counter named COPY_COUNTER, with the source as
 *     its label, says that it has been done. Such marks go along when the store is moved on, and
 *     are no part of its content: neither counted nor compared
 *
 * No worker should use either store meanwhile; that is checked, and refused unless forced.
 */
#ifndef ENGINE_COPY_COPY_H
#define ENGINE_COPY_COPY_H

#include "engine/copy/content.h"
#include "store/store.h"

#define COPY_COUNTER "moved_from"

struct copy_options {
    struct store *from;
    struct store *to;     /* NULL with dry_run: there is none yet */
    const char *name;     /* of the source, the same each time; no secrets in it */
    int64_t now_ms;       /* for a store that has no clock */
    bool dry_run;         /* look at both, count the source, write nothing */
    bool despite_workers; /* even if some are alive */
    bool into_existing;   /* even if the destination has jobs that the source has not */

    /* Called after each page, if not NULL: what it is about ("look", "copy", "check", "compare")
     * and how many jobs of how many are done. False: stop with REDRIVE_E_CANCELLED. */
    bool (*progress)(void *ctx, const char *phase, uint64_t done, uint64_t total);
    void *ctx;
};

/* What there was, and how it went. */
struct copy_report {
    /* In the source. */
    uint64_t jobs;
    uint64_t attempts;
    uint64_t by_state[REDRIVE_STATE_COUNT];
    uint64_t rows[SHARED_KIND_COUNT]; /* by kind */
    uint64_t counters;
    uint64_t remembered_keys;
    struct content_sum from; /* over all of it */

    /* In the destination. */
    uint64_t copied;       /* jobs that were added by this run */
    uint64_t differing;    /* jobs that are there and are not the same */
    uint64_t missing;      /* jobs that are not there: another one holds their key */
    uint64_t others;       /* differences in anything else */
    struct content_sum to; /* over what should be as in the source */
    char difference[256];  /* the first one; "" when there is none */
};

static inline bool copy_is_same(const struct copy_report *report)
{
    return report->difference[0] == '\0';
}

/* REDRIVE_E_STATE when workers are alive on a store, which is called the `side` in the error: the
 * store must not change during a transfer. */
int copy_check_idle(struct store *store, const char *side, int64_t now_ms, struct redrive_err *err);

/* Whether both are the same store, whatever they are called: a row is put through `b`, looked for
 * through `a`, and taken away again. Should a crash leave it behind: it is that of a worker that
 * has gone, which the next tick of a process removes. */
int copy_is_same_store(struct store *a, struct store *b, int64_t now_ms, bool *ret,
                       struct redrive_err *err);

/* Looks, copies and checks; a transaction that conflicts with another process is tried again for a
 * while. 0 when it came to an end, whether the stores are then the same or not; REDRIVE_E_STATE
 * when it was refused before anything was written. */
int copy_run(const struct copy_options *options, struct copy_report *ret, struct redrive_err *err);

/* ---- Between transfer.c and check.c ---------------------------------------------------------- */

struct transfer {
    const struct copy_options *options;
    struct copy_report *report;
    uint64_t total;    /* jobs of the source */
    bool starts_empty; /* the destination had no job */
    struct buf a, b;   /* contents that are compared */
};

/* A counter that says what has been moved: no part of the content of a store. */
static inline bool is_mark(const struct counter *counter)
{
    return str_eq(counter->name, STR(COPY_COUNTER));
}

/* What an error says when transactions have been made. */
#define COPY_GOES_ON "what was copied is whole: the same command goes on with the rest"

/* How many jobs a store counts. */
int copy_count(struct store *store, uint64_t *ret, struct redrive_err *err);

/* REDRIVE_E_CANCELLED when the caller wants no more. */
int copy_progress(const struct transfer *t, const char *phase, uint64_t done, uint64_t total,
                  struct redrive_err *err);

/* check.c: fills in all that the report says of the source, and, unless it is a dry run, of the
 * comparison. */
int copy_check(struct transfer *t, struct redrive_err *err);

#endif
