/* cron.h - periodic tasks: each tick once, however many processes run.
 *
 * Which entries there are is in clock/cron_entries.h. The last tick of an entry is in its shared
 * row. A tick compares and sets it in the transaction that submits the job: both happen or neither,
 * and only one process wins. Of ticks that were missed only the last is made up for; an entry that
 * is seen for the first time starts with its next tick.
 *
 * overlap   allow      every tick makes a job
 *           skip       none while the last one's job has not ended
 *           queue_one  one job at most waits for the one that runs, and starts when that has ended
 */
#ifndef ENGINE_CLOCK_CRON_H
#define ENGINE_CLOCK_CRON_H

#include "base/text/str.h"
#include "engine/transaction.h"
#include "redrive.h"

struct engine;

/* Makes the ticks that are due and asks to be woken for the next. */
int cron_ticks(struct engine *e, struct redrive_err *err);

/* A tick by hand: the job of an entry, now, under its rule of overlap. The cron_entries goes on as
 * if nothing had been. REDRIVE_E_NOT_FOUND: there is no such entry; REDRIVE_E_STATE: the rule
 * allows no further job; `id` and `state` are then those of the job that is in the way. Any other
 * refusal is that of the job. */
#define CRON_ID_MAX 256
struct cron_op {
    struct op op;
    struct str tenant;
    struct str name;
    char id[CRON_ID_MAX]; /* the answer */
    enum redrive_state state;
};
void cron_op_init(struct cron_op *op, struct str tenant, struct str name);

#endif
