/* fence.h - tenants that are not on this shard, or whose jobs are being moved.
 *
 * An engine of a shard keeps a copy of the rows that say so (store/shards/tenants.h), as of the
 * shared version of its transaction. What is asked of such a tenant is refused with REDRIVE_E_IO,
 * which callers try again; if the tenant is on another shard, op.moved_to says on which, and the
 * router sends the operation there. A process that does not know of a move is so told by the shard
 * that the tenant has left.
 *
 * Jobs that run while their tenant leaves are settled as always. What is asked of a job by its
 * number is not sent on, since the job has another number there: it is not found.
 */
#ifndef ENGINE_SHARDS_FENCE_H
#define ENGINE_SHARDS_FENCE_H

#include "base/mem/map.h"
#include "base/text/buf.h"
#include "engine/op.h"
#include "redrive.h"

struct engine;

struct fence {
    struct map places; /* by tenant: numbers of struct tenant_place */
    struct buf shards; /* the addresses of all; read if a tenant is on one that is not known here */
};

void fence_init(struct fence *fence, uint64_t seed);
void fence_release(struct fence *fence);

/* Reads the rows again. */
int fence_load(struct engine *e, struct redrive_err *err);

/* Whether the tenant's jobs are here and not held. */
bool fence_has(const struct engine *e, struct str tenant);

/* Refuses the operation if a tenant of it is not here, or is held. */
bool fence_refuses(const struct engine *e, struct op *op);

#endif
