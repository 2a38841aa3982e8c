/* retention.h - ended jobs are kept for a while and then removed, in small batches.
 *
 * Completed and cancelled jobs by the configuration's retention; dead and failed ones by the
 * dlq_retention_days of their task, declared here or published by another process. Those of tasks
 * that nobody has declared go with the longest of all tasks, so that a task is never swept before
 * its time. Rows of workers that are gone go too.
 *
 * The dead of all tasks stand in one order, that of their end. For each length of time that tasks
 * have there is a mark in it, up to which nothing of those tasks is left; a sweep goes on from
 * there, so that it looks at each dead job once for each length, however long others keep theirs.
 * Marks start anew once a day, when a task is published, and after a failure.
 */
#ifndef ENGINE_RETENTION_H
#define ENGINE_RETENTION_H

#include "redrive.h"

struct engine;

/* The marks start anew. */
void retention_forget(struct engine *e);

/* Sweeps if it is time, and asks to be woken for the next time. */
int retention_sweep(struct engine *e, struct redrive_err *err);

#endif
