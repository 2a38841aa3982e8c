/* retention.h - ended jobs are kept for a while and then removed, in small steps.
 *
 * Completed and cancelled jobs by the configuration's retention; dead and failed ones by the
 * dlq_retention_days of their own policy if that has it, else of their task, declared here or
 * published by another process. Jobs of tasks that no process has declared are kept as long as the
 * longest of all tasks says, so that none is removed before its time. 0 days are for ever, and
 * longer than any other. Rows of workers that are gone go too, and breakers and limits that are
 * spent (gates/gate.h).
 *
 * A step is one batch of each kind that is due. Steps of a kind follow each other at a pace of its
 * own, which goes by how full they are: some milliseconds apart while there is a backlog, and
 * RETENTION_EVERY_MS when there is nothing to remove, or a RETENTION_LATE_PART of the time that
 * jobs are kept if that is shorter, though never less than a second. Between two steps other
 * transactions have at least twice the time that a step takes. A pause is never longer than
 * RETENTION_EVERY_MS, also when the clock was set forward during a step; the first tick after it
 * was set back makes one. So a completed or cancelled job is removed that much late at most, and
 * twice as much when many become old at once after a quiet time, as long as the store removes jobs
 * faster than they end.
 *
 * The dead of all tasks stand in one order, that of their end. For each length of time that tasks
 * have there is a mark in it, up to which nothing of those tasks is left; a sweep goes on from
 * there, so that it looks at each dead job once for each length, however long other tasks keep
 * theirs. Marks start anew once a day, and when a task is published.
 *
 * Jobs with a policy of their own are passed over by all of these. One further mark is theirs: it
 * goes over all dead jobs of more than a day, a page a sweep while there is nothing to remove, and
 * starts anew a day after it has begun, or when it has come to the end. So they go up to a day
 * after their time, or a day for each 700 000 dead jobs that there are.
 */
#ifndef ENGINE_CLOCK_RETENTION_H
#define ENGINE_CLOCK_RETENTION_H

#include "redrive.h"

#define RETENTION_EVERY_MS  (60 * 1000)
#define RETENTION_LATE_PART 4

struct engine;

/* The transaction is lost, or it has come to its end: the marks go back to where they were before
 * it, or stay where they are. */
void retention_undo(struct engine *e);
void retention_keep(struct engine *e);

/* Sweeps if it is time, and asks to be woken for the next time. */
int retention_sweep(struct engine *e, struct redrive_err *err);

#endif
