/* repair.h - sets jobs aside whose rows cannot be read, on a store without an engine.
 *
 * What a store does by itself is in store_ops.repair. Added here is what becomes of others: jobs
 * that wait for one that is set aside are told that it was removed before it succeeded, and the
 * slots that it had under its limit are free again. Processes that work on the store go on.
 */
#ifndef ENGINE_VERBS_REPAIR_H
#define ENGINE_VERBS_REPAIR_H

#include "store/store.h"

/* `leave` of the repair is not used. Of a store with shards all are repaired, and `ret` is their
 * sum. A store whose rows cannot be damaged has nothing to repair. `ret` is set after a failure as
 * well. */
int repair_store(struct store *store, bool is_sharded, const struct store_repair *repair,
                 struct store_repaired *ret, struct redrive_err *err);

#endif
