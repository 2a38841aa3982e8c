/* parked.h - how parked jobs come back to the queue.
 *
 * An open breaker whose time has come gets as many candidates for its probes as it lets through,
 * chosen by core/breaker/probe.h. One that has closed lets its jobs go at the pace of
 * core/breaker/release.h, the oldest first; while the latest of them have failed, from both ends in
 * turn, so that a run of jobs that are bad themselves does not open it again before a good one has
 * had its turn. A limit that has room again gets as many as it has room for.
 */
#ifndef ENGINE_GATES_PARKED_H
#define ENGINE_GATES_PARKED_H

#include "redrive.h"

struct engine;

/* Does what is due and asks to be woken for the rest. */
int parked_release(struct engine *e, struct redrive_err *err);

#endif
