/* retention.h - ended jobs are kept for a while and then removed, in small batches.
 *
 * Completed and cancelled jobs by the configuration's retention; dead and failed ones by the
 * dlq_retention_days of their task. Those of tasks that nobody declared go with the longest of all
 * tasks, so that a task is never swept before its time. Rows of workers that are gone go too.
 */
#ifndef ENGINE_RETENTION_H
#define ENGINE_RETENTION_H

#include "redrive.h"

struct engine;

/* Sweeps if it is time, and asks to be woken for the next time. */
int retention_sweep(struct engine *e, struct redrive_err *err);

#endif
