/* store_status.h - how the store is doing, as far as units have shown.
 *
 * The thread that owns the engine tells of each unit; any thread may look, and never waits for the
 * store. The log is told when units begin to fail, now and then while they do, and when they work
 * again; each failure is counted by the kind of its error.
 *
 * A unit that only looks proves that a store answers, and not that it can be written to: after a
 * failure in writing it takes a commit, or PULSE_QUIET_MS without another failure, to be well
 * again. What is the fault of whoever asked (too big, out of range) is counted, and no more.
 */
#ifndef ENGINE_STORE_STATUS_H
#define ENGINE_STORE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sys/log.h"
#include "redrive.h"

#define PULSE_QUIET_MS 60000
/* Error codes are -1 … -(PULSE_KINDS - 1); what is beyond counts as REDRIVE_E_INTERNAL. */
#define PULSE_KINDS 32

struct pulse;

/* What is known of the store. */
struct pulse_state {
    bool is_failing;
    bool is_away;           /* a server that no unit can reach: who needs it waits in vain */
    int64_t since_ms;       /* wall time of the first failure in a row; 0: it is not failing */
    int64_t heard_ms;       /* wall time of the last unit that went well; 0: there was none */
    int64_t busy_ms;        /* how long the unit in hand has taken so far; 0: there is none */
    struct redrive_err err; /* the last failure */
    uint64_t errors[PULSE_KINDS]; /* by code: errors[-code] */
};

/* NULL when there is no memory. `log` is borrowed and may be NULL. Only of a store behind a server
 * is it said that it is away: one that others lock can still be read. */
struct pulse *pulse_new(const struct log *log, bool has_server);
void pulse_free(struct pulse *pulse);

/* ---- For the engine -------------------------------------------------------------------------- */

void pulse_begins(struct pulse *pulse);
/* `wrote`: it has committed something. */
void pulse_worked(struct pulse *pulse, bool wrote);
/* `began`: the store had answered before it failed. */
void pulse_failed(struct pulse *pulse, bool began, const struct redrive_err *err);

/* ---- For everybody --------------------------------------------------------------------------- */

void pulse_read(struct pulse *pulse, struct pulse_state *ret);
/* Whether the store is known to be away; then `err` says why. */
bool pulse_is_away(struct pulse *pulse, struct redrive_err *err);

/* "io", "denied": a short word for an error code, as metrics have it. */
const char *pulse_kind_name(int code, char out[32]);

#endif
