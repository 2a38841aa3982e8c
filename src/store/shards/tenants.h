/* tenants.h - tenants that are on another shard than the one which their name says.
 *
 * A tenant is on the shard of its name (shard_of_tenant) until it is moved
 * (engine/copy/tenant/move.h). Each shard that has to do with a move keeps a row of SHARED_TENANT
 * for the tenant:
 *
 *     leaving   its jobs are being moved from here to another shard; they are held
 *     arriving  its jobs are being moved to here; they are held
 *     returning the move is being taken back: what has gone to the other shard comes back here
 *     left      it is on the other shard
 *     here      it is on this shard, whatever its name says
 *
 * The rows of a tenant are found from the shard of its name on: `left` says where to go next. A put
 * raises the shared version, so that every engine of the shard sees the row with its next
 * transaction, and refuses what is asked of a tenant that is not here (engine/shards/fence.h).
 */
#ifndef STORE_SHARDS_TENANTS_H
#define STORE_SHARDS_TENANTS_H

#include "base/mem/map.h"
#include "store/shards/shards.h"

/* Keys of the rows: one that says where the tenant is, and one for each queue that is held. */
#define TENANT_PLACE STR("place")
#define TENANT_HELD  "held/"

enum tenant_phase {
    TENANT_HERE,
    TENANT_ARRIVING,
    TENANT_LEAVING,
    TENANT_LEFT,
    TENANT_RETURNING,
};
#define TENANT_PHASE_COUNT (TENANT_RETURNING + 1)

struct tenant_place {
    enum tenant_phase phase;
    size_t shard; /* the other one, from 0 */
    int64_t by;   /* a number of the call that has put the row: see engine/copy/tenant/move.h */
};
#define TENANT_PLACE_MAX 96

/* What a row says; false: it is another row, or damaged. */
bool tenant_place_read(const struct shared_row *row, struct tenant_place *ret);
/* The value of a row. */
void tenant_place_write(const struct tenant_place *place, char ret[TENANT_PLACE_MAX]);

/* Which tenants have been moved, as a handle of shards knows it. A shard is asked again after a
 * second, and only about the tenants that lead to it: others need not wait for one that is away. */
struct moved_tenants {
    struct map
        shards[SHARDS_MAX]; /* by shard and tenant: what its row says, see tenant_place_number */
    int64_t read_ms[SHARDS_MAX]; /* monotonic; 0: never */
};
void moved_tenants_release(struct moved_tenants *moved);

/* Phase and shard as a number that is not 0, and back; false for 0. */
int64_t tenant_place_number(const struct tenant_place *place);
bool tenant_place_numbered(int64_t number, struct tenant_place *ret);

/* On which shard a tenant is, as far as is known. */
size_t shards_at(struct sharded *s, struct str tenant);
/* The same for reads of its jobs: REDRIVE_E_IO while they are being moved, and are on two shards.
 */
int shards_reach(struct sharded *s, struct str tenant, size_t *ret, struct redrive_err *err);
/* Whether it was ever moved, as far as is known. */
bool shards_was_moved(struct sharded *s, struct str tenant);

/* Follows the rows from the shard of the name on, `next` gives for a shard where a tenant that has
 * left it is, from 1, or 0. Ends also if the rows lead in a circle. */
size_t tenant_follow(struct str tenant, size_t n_hashed, size_t n,
                     size_t (*next)(void *ctx, size_t shard, struct str tenant), void *ctx);

#endif
