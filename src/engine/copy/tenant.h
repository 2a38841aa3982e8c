/* tenant.h - moves one tenant from one shard to another, while other tenants go on.
 *
 * What has been done so far is in the rows of both shards (store/shards/tenants.h), so that a move
 * which was interrupted, however hard, goes on with the same call:
 *
 *   1. The old shard says that the tenant is leaving, the new one that it is arriving. From here on
 *      what is asked of the tenant is refused, and may be tried again (engine/fence.h). Its queues
 *      are paused on both.
 *   2. Jobs that run are waited for. If they take too long, all of this is taken back.
 *   3. All jobs are put into the new shard, and then taken from the old one if they are as they
 *      were. Until the end they are held on both, so that one which is on both after an
 *      interruption runs on neither. A copy that is not as good any more is made again.
 *   4. Then breakers, limits, pauses, cron entries and keys that are unique for ever. Counters stay
 *      where they were counted.
 *   5. The old shard says that the tenant has left, which is when it is moved. A moment later, when
 *      every reader knows it, the new shard lets the jobs go.
 *
 * A job is started by at most one shard: while it is on the old one the new one holds it, and a
 * claim that began on the old one before the move finds the job gone, or makes it stay.
 */
#ifndef ENGINE_COPY_TENANT_H
#define ENGINE_COPY_TENANT_H

#include "store/shards/shards.h"

/* Every engine and every reader knows a row after a second (store_must_ask, shards_at). */
#define TENANT_KNOWN_MS 1500

struct tenant_move {
    struct store *const *stores; /* of all shards; used for transactions */
    size_t n;
    size_t n_hashed; /* as of struct shard_set */
    struct str tenant;
    size_t to;        /* which shard, from 0; SIZE_MAX: the one of a move that was interrupted */
    int64_t now_ms;   /* for a store that has no clock */
    int64_t wait_ms;  /* for jobs that run; without a bound in a move that goes on */
    int64_t known_ms; /* after which every process knows a row; 0: TENANT_KNOWN_MS */

    /* Called before each step and each batch, if not NULL, with the jobs that were moved so far.
     * False: stop with REDRIVE_E_CANCELLED. */
    bool (*progress)(void *ctx, const char *step, uint64_t moved);
    void *ctx;

    /* The answer. */
    size_t from;     /* the same as `to`: the tenant was there already */
    uint64_t moved;  /* jobs, by this call */
    int64_t held_ms; /* how long this call has held the tenant */
};

/* REDRIVE_E_STATE: jobs of the tenant still run after wait_ms, and nothing has been moved; or it is
 * being moved to another shard; or the new shard refuses a job, which the error names, and the
 * tenant is still held. */
int tenant_move_run(struct tenant_move *move, struct redrive_err *err);

#endif
