/* store_status.h - how the store is doing, and when a transaction that failed is tried again.
 *
 * The thread that owns the engine tells of each transaction; any thread may ask, and never waits
 * for the store. A log line is written when transactions begin to fail, now and then while they do,
 * and when they work again; each failure is counted by the kind of its error.
 *
 * A transaction that only reads proves that a store answers, and not that it can be written to:
 * after a failed write the store counts as failing until a commit has worked, or
 * STORE_STATUS_QUIET_MS have passed without another failure. A small write may still fit where a
 * large one did not: a store counts as full for STORE_STATUS_FULL_MS after the last write that
 * failed for want of space, whatever else is committed. Errors of the caller (too big, out of
 * range) are counted and nothing more.
 */
#ifndef ENGINE_STORE_STATUS_H
#define ENGINE_STORE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/os/log.h"
#include "base/rng.h"
#include "redrive.h"

#define STORE_STATUS_QUIET_MS 60000
#define STORE_STATUS_FULL_MS  10000
/* A store whose transaction has taken so long hangs. Of several stores it counts as away. */
#define STORE_STATUS_HANGS_MS 5000
/* Error codes are -1 … -(STORE_STATUS_KINDS - 1); what is beyond counts as REDRIVE_E_INTERNAL. */
#define STORE_STATUS_KINDS 32

struct store_status;

/* What is known of the store. */
struct store_status_view {
    bool is_failing;
    bool is_full;        /* writes fail for want of space, of several shards on all; `err` is one */
    bool is_away;        /* a server that no transaction can reach */
    bool is_partly_away; /* of several shards some, and not all, are away */
    int64_t since_ms;    /* wall time of the first failure in a row; 0: it is not failing */
    int64_t heard_ms;    /* wall time of the last transaction that went well; 0: there was none */
    int64_t busy_ms;     /* how long the transaction in hand has taken so far; 0: there is none */
    struct redrive_err err;              /* the last failure */
    uint64_t errors[STORE_STATUS_KINDS]; /* by code: errors[-code] */
};

/* NULL when there is no memory. `log` is borrowed and may be NULL. Only a store behind a server can
 * be away: a file that other processes lock can still be read. `shard`: which one of several it is,
 * from 1, for the log; 0: it is none. */
struct store_status *store_status_new(const struct log *log, bool has_server, size_t shard);
void store_status_free(struct store_status *store_status);

/* How several stores are doing together: failing if any is, away if all are; one that hangs counts
 * as both. `names` says which of
 * them the error is about. Both arrays are borrowed. */
struct store_status *store_status_join(struct store_status *const *parts, const char *const *names,
                                       size_t n);

/* ---- For the engine -------------------------------------------------------------------------- */

void store_status_begins(struct store_status *store_status);
/* `wrote`: it has committed something. */
void store_status_worked(struct store_status *store_status, bool wrote);
/* `began`: the store had answered before it failed. */
void store_status_failed(struct store_status *store_status, bool began,
                         const struct redrive_err *err);

/* ---- For any thread -------------------------------------------------------------------------- */

void store_status_read(struct store_status *store_status, struct store_status_view *ret);
/* Whether the store is known to be away; then `err` says why. */
bool store_status_is_away(struct store_status *store_status, struct redrive_err *err);
/* Of several stores: those that are away, by bit. Of one store: 0. */
uint32_t store_status_away_parts(struct store_status *store_status);
/* Of one store: how long the transaction in hand has taken so far; 0: there is none. */
int64_t store_status_busy_ms(struct store_status *store_status);
/* Of one store: whether its transaction has taken STORE_STATUS_HANGS_MS; then `err` says so. */
bool store_status_hangs(struct store_status *store_status, struct redrive_err *err);

/* "io", "denied": a short word for an error code, as metrics have it. */
const char *store_status_kind_name(int code, char out[32]);

/* ---- Trying again ---------------------------------------------------------------------------- */

/* How often a transaction is tried that other processes get in the way of.
 *
 *     struct conflict conflict;
 *     conflict_init(&conflict, rng);
 *     while (conflict_try(&conflict))
 *         … make the transaction; return unless it met another …
 *     … it is given up …
 *
 * A few processes that all change the same row need a few tries; from the third try on they also
 * sleep for a random moment, so that one of them gets through. A try may last as long as a store
 * waits for a lock, and all callers wait with it: then a transaction is given up after about one
 * such wait.
 */
struct conflict {
    struct rng *rng; /* borrowed */
    int tries;
    int64_t started_ms; /* monotonic */
};

void conflict_init(struct conflict *conflict, struct rng *rng);
/* Whether to try, at first or again; sleeps before a later try. */
bool conflict_try(struct conflict *conflict);

/* How long to leave a failing store alone before it is tried again, after a wait of `last_ms` (0:
 * there was none): twice as long, within these bounds. */
#define STORE_WAIT_MIN_MS 100
#define STORE_WAIT_MAX_MS 5000
int64_t store_wait_after_ms(int64_t last_ms);

#endif
