/* cron.h - periodic tasks: each tick once, however many processes run.
 *
 * The last tick of an entry is a shared row. A tick compares and sets it in the unit that submits
 * the job: both happen or neither, and only one process wins. Of ticks that were missed only the
 * last is made up for; an entry that is seen for the first time starts with its next tick.
 *
 * overlap   allow      every tick makes a job
 *           skip       none while the last one's job has not ended
 *           queue_one  one job at most waits for the one that runs, and starts when that has ended
 */
#ifndef ENGINE_CRON_H
#define ENGINE_CRON_H

#include "redrive.h"

struct engine;

/* Reads the marks of all entries. */
int cron_load(struct engine *e, struct redrive_err *err);

/* Makes the ticks that are due and asks to be woken for the next. */
int cron_ticks(struct engine *e, struct redrive_err *err);

#endif
