/* store_status.h - how the store is doing, as far as transactions have shown.
 *
 * The thread that owns the engine tells of each transaction; any thread may look, and never waits
 * for the store. The log is told when transactions begin to fail, now and then while they do, and
 * when they work again; each failure is counted by the kind of its error.
 *
 * A transaction that only looks proves that a store answers, and not that it can be written to:
 * after a failure in writing it takes a commit, or STORE_STATUS_QUIET_MS without another failure,
 * to be well again. What is the fault of whoever asked (too big, out of range) is counted, and no
 * more.
 */
#ifndef ENGINE_STORE_STATUS_H
#define ENGINE_STORE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/os/log.h"
#include "redrive.h"

#define STORE_STATUS_QUIET_MS 60000
/* Error codes are -1 … -(STORE_STATUS_KINDS - 1); what is beyond counts as REDRIVE_E_INTERNAL. */
#define STORE_STATUS_KINDS 32

struct store_status;

/* What is known of the store. */
struct store_status_view {
    bool is_failing;
    bool is_away;     /* a server that no transaction can reach: who needs it waits in vain */
    int64_t since_ms; /* wall time of the first failure in a row; 0: it is not failing */
    int64_t heard_ms; /* wall time of the last transaction that went well; 0: there was none */
    int64_t busy_ms;  /* how long the transaction in hand has taken so far; 0: there is none */
    struct redrive_err err;              /* the last failure */
    uint64_t errors[STORE_STATUS_KINDS]; /* by code: errors[-code] */
};

/* NULL when there is no memory. `log` is borrowed and may be NULL. Only of a store behind a server
 * is it said that it is away: one that others lock can still be read. */
struct store_status *store_status_new(const struct log *log, bool has_server);
void store_status_free(struct store_status *store_status);

/* ---- For the engine -------------------------------------------------------------------------- */

void store_status_begins(struct store_status *store_status);
/* `wrote`: it has committed something. */
void store_status_worked(struct store_status *store_status, bool wrote);
/* `began`: the store had answered before it failed. */
void store_status_failed(struct store_status *store_status, bool began,
                         const struct redrive_err *err);

/* ---- For everybody --------------------------------------------------------------------------- */

void store_status_read(struct store_status *store_status, struct store_status_view *ret);
/* Whether the store is known to be away; then `err` says why. */
bool store_status_is_away(struct store_status *store_status, struct redrive_err *err);

/* "io", "denied": a short word for an error code, as metrics have it. */
const char *store_status_kind_name(int code, char out[32]);

#endif
