/* tick.h - what time asks for.
 *
 * Cancels that were left in the store are carried out, jobs whose time has come go to the queue,
 * jobs whose lease has ended are taken back, jobs whose deadline has come end wherever they wait,
 * parked jobs are let go, periodic tasks tick, what has been kept long enough is removed, alerts
 * are looked at: each in a batch. A tick says when it wants to be called next, and until then there
 * is nothing to do, unless other processes use the store: when they have changed it, tick again.
 *
 * Of many processes on one store one is the leader. The others tick when what they
 * have done themselves wants it, or their own configuration does (periodic tasks, retention,
 * alerts), and do not look after what comes then.
 */
#ifndef ENGINE_CLOCK_TICK_H
#define ENGINE_CLOCK_TICK_H

#include <stdbool.h>
#include <stdint.h>

#include "redrive.h"

struct engine;

/* Does what is due now. `ret_next_ms`: when to tick again; INT64_MAX: never. When a part of it
 * fails the others are still done, the first failure is returned, and the next tick is soon. */
int engine_tick(struct engine *engine, int64_t *ret_next_ms, struct redrive_err *err);

/* Writes what the store may lag behind with: successes that breakers count (gates/gates.h). Due at
 * engine_flush_ms, INT64_MAX: never, unless a transaction does it before, and before the process
 * ends. */
void engine_flush(struct engine *engine);
int64_t engine_flush_ms(const struct engine *engine);

/* Whether this one is the leader of all, as it is from engine_open on. One that becomes it wants
 * a tick at once. */
void engine_set_leader(struct engine *engine, bool keeps);

#endif
