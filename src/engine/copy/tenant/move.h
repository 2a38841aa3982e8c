/* move.h - moves one tenant from one shard to another, while other tenants go on.
 *
 * What has been done so far is in the rows of both shards (store/shards/tenants.h), so that a move
 * which was interrupted, however hard, goes on with the same call:
 *
 *   1. The old shard says that the tenant is leaving, the new one that it is arriving. From here on
 *      what is asked of the tenant is refused, and may be tried again (shards/fence.h). Its queues
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
 * Until step 5 a move may be taken back (tenant_move_back), for instance because the new shard
 * refuses a job: what was taken from the old shard is put there again, and what was copied is taken
 * from the new one. The old shard says meanwhile that the tenant is returning; the call may be
 * interrupted and repeated like the move itself. The command calls it --back: --cancel would read
 * as if the tenant's jobs were cancelled.
 *
 * Of several calls at the same time the one that came last goes on, and the others end with
 * REDRIVE_E_STATE. So does a process that was frozen at any moment, for as long as other calls took
 * to do whatever they did: each transaction of a call is refused unless the row of its shard is as
 * this call has left it (struct tenant_shard).
 *
 * A job is started by at most one shard: while it is on the old one the new one holds it, and a
 * claim that began on the old one before the move finds the job gone, or makes it stay.
 */
#ifndef ENGINE_COPY_TENANT_MOVE_H
#define ENGINE_COPY_TENANT_MOVE_H

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
    int64_t wait_ms;  /* for jobs that run, each time that they are waited for */
    int64_t known_ms; /* after which every process knows a row; 0: TENANT_KNOWN_MS */

    /* Called before each step and each batch, if not NULL, with the jobs that were moved so far.
     * False: stop with REDRIVE_E_CANCELLED. */
    bool (*progress)(void *ctx, const char *step, uint64_t moved);
    void *ctx;

    /* The answer. */
    bool is_back;     /* of tenant_move_back */
    size_t from;      /* the same as `to`: the tenant was there already */
    uint64_t running; /* jobs that are waited for */
    uint64_t moved;   /* jobs, by this call */
    int64_t held_ms;  /* how long this call has held the tenant */

    /* Of tenant_move_back: jobs that stay on the new shard, since the move has not copied them, and
     * why the old shard refuses one; code 0: it does not. */
    uint64_t kept;
    struct redrive_err refusal;
};

/* REDRIVE_E_STATE: jobs of the tenant still run after wait_ms, and nothing has been moved, or the
 * move goes on and the tenant is still held; or it is being moved to another shard, or back; or the
 * new shard refuses a job, which the error names, and the tenant is still held. */
int tenant_move_run(struct tenant_move *move, struct redrive_err *err);

/* Takes a move back that was interrupted, or is under way in another process; sets `to`. moved: the
 * jobs that were taken from the new shard. REDRIVE_E_STATE: there is none, or the new shard has
 * taken over. */
int tenant_move_back(struct tenant_move *move, struct redrive_err *err);

#endif
