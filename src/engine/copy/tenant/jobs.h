/* jobs.h - what a tenant has, from one shard to another: for the files of this folder alone. */
#ifndef ENGINE_COPY_TENANT_JOBS_H
#define ENGINE_COPY_TENANT_JOBS_H

#include "engine/copy/load.h"
#include "store/shards/tenants.h"
#include "store/store.h"

/* Jobs that were not copied. One that waits for a job which is not on the new shard is refused,
 * too: the other one may come later, or is itself refused. */
struct tenant_refusals {
    uint64_t n;
    uint64_t skipped; /* they run, or their queue is not held */
    bool has_cause;   /* `first` is refused for what it is itself */
    struct redrive_err first;
};

/* In place.c: a shard as a call sees it, and the transactions that the call makes there.
 *
 * Between two transactions any other call may have ended the move, taken it back or begun another
 * one, also if this process was only frozen for a while. So each transaction looks whether the row
 * of the tenant is the one that this call has read or put last, and puts it again, with a number
 * of its own (tenant_place.by): of two calls one is refused, by the store if not before. The put is
 * the last move: a store that holds locks until the commit holds this one for no time. */
struct tenant_shard {
    struct store *store;
    struct str tenant;
    int64_t now_ms; /* for a store that has no clock */
    int64_t by;
    bool has_row;
    struct tenant_place place; /* what the row says */
};

/* Reads the row. */
int tenant_shard_read(struct tenant_shard *shard, struct redrive_err *err);
static inline bool tenant_shard_says(const struct tenant_shard *shard, enum tenant_phase phase)
{
    return shard->has_row && shard->place.phase == phase;
}
/* Makes `moves`, which may be NULL, and has the row say `next`. A row is never taken away: a call
 * that has found none would not notice. REDRIVE_E_STATE: another call has put the row, and nothing
 * was changed. */
int tenant_shard_put(struct tenant_shard *shard, const struct tenant_place *next,
                     load_moves_fn moves, void *ctx, struct redrive_err *err);
/* The same, and the row says what it has said. */
int tenant_shard_move(struct tenant_shard *shard, load_moves_fn moves, void *ctx,
                      struct redrive_err *err);

struct tenant_batch {
    struct tenant_shard *from, *to;

    /* The move is taken back: `from` is the new shard, and a job that is on both stays on the old
     * one as it is there. */
    bool is_back;
    /* One that waits there for a job which the old shard has not got back is taken away: it stays
     * on the new one, where that job is. */
    bool drops_orphans;

    struct tenant_refusals *refusals; /* of copies */
};

/* In a transaction: puts a row of the tenant, or takes it away if the value is absent. Does nothing
 * if it is so already. REDRIVE_E_CANCELLED: another process has put it meanwhile. */
int tenant_row_put(struct store *store, enum shared_kind kind, struct str tenant, struct str key,
                   struct str value, struct redrive_err *err);

/* The next jobs after *after_seq, which is -1 after the last: puts them into the new shard, or with
 * `takes` takes those that are there from the old one. All are put there before the first is taken:
 * a job that waits for others is copied together with what it waits for. `ret_kept` counts those
 * that are still on the old shard; those that the new shard refuses are added to batch->refusals.
 * REDRIVE_E_STATE: another call has ended the move, or taken it back. */
int tenant_move_batch(const struct tenant_batch *batch, bool takes, int64_t *after_seq,
                      uint64_t *ret_moved, uint64_t *ret_kept, struct redrive_err *err);

/* A job of the new shard that was removed there and put again, with another number. */
struct remade_job {
    int64_t was, seq;
    struct str id;
};
#define REMADE_MAX 100

/* In edges.c, in the transaction that has made them again, up to REMADE_MAX of them: the
 * jobs that have waited for the former ones wait for these. If these have ended, the jobs are
 * released or skipped as the engine does it, and so are those that wait for the skipped ones. */
int tenant_reattach(struct store *store, const struct remade_job *remade, size_t n,
                    struct redrive_err *err);

/* Breakers, limits, pauses, cron entries and cancels: the new shard has them as the old one. */
int tenant_copy_rows(const struct tenant_batch *batch, struct redrive_err *err);
/* Keys that are unique for ever, and whose jobs are gone. */
int tenant_copy_keys(const struct tenant_batch *batch, struct redrive_err *err);
/* In a transaction, with a struct tenant_shard as `ctx`: takes the rows, and what was held, away.
 */
int tenant_drop_rows(void *ctx, struct redrive_err *err);

#endif
