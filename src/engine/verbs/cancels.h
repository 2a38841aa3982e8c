/* cancels.h - cancels that were left in the store.
 *
 * Whoever has the store and no engine, an application in its own transaction, cannot give back what
 * a running job holds of a limit and of a breaker. It leaves a row of SHARED_CANCEL: its tenant is
 * that of the job, its key the job's id, its value the life of the job that is meant,
 *
 *     {"created_ms":…,"epoch":…}
 *
 * so that one that was redriven since, or another one of the same id, is left alone. A tick carries
 * it out as any other cancel, and the row goes in the same transaction. So it does when the job has
 * ended before, or is gone.
 */
#ifndef ENGINE_VERBS_CANCELS_H
#define ENGINE_VERBS_CANCELS_H

#include "redrive.h"

struct engine;

/* Looks for them, every 100 ms at the most, and carries some hundred of them out. */
int cancels_carry_out(struct engine *engine, struct redrive_err *err);

#endif
