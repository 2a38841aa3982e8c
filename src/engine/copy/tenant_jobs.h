/* tenant_jobs.h - what a tenant has, from one shard to another: for tenant*.c alone. */
#ifndef ENGINE_COPY_TENANT_JOBS_H
#define ENGINE_COPY_TENANT_JOBS_H

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

struct tenant_batch {
    struct store *from, *to;
    size_t from_shard, to_shard; /* which they are */
    struct str tenant;
    int64_t now_ms; /* for a store that has no clock */

    /* The move is taken back: `from` is the new shard, and a job that is on both stays on the old
     * one as it is there. */
    bool is_back;

    struct tenant_refusals *refusals; /* of copies */
};

/* In tenant_place.c: where a tenant is, as the row of a shard says. */
struct place_row {
    bool is_there;
    struct tenant_place place;
    int64_t version; /* of a row that was read; each put has another */
};
static inline struct place_row place_said(enum tenant_phase phase, size_t shard)
{
    return (struct place_row){.is_there = true, .place = {phase, shard}};
}
int tenant_place_find(struct store *store, struct str tenant, struct place_row *ret,
                      struct redrive_err *err);
/* REDRIVE_E_STATE unless the row is this one, or says this if it has no version: another process
 * has changed it. */
int tenant_place_expect(struct store *store, struct str tenant, const struct place_row *row,
                        struct redrive_err *err);
/* That error. */
int tenant_place_changed(struct redrive_err *err);
/* Says of a shard to which the tenant was being moved that it is on the other
 * one. It takes no copy any more from a process that is still at the move, since each looks at the
 * row in the transaction that puts them. The row is put also if it says so already: a process that
 * has read it before, and is about to say that the tenant arrives, finds another version.
 * REDRIVE_E_STATE: the tenant is on the shard. */
int tenant_place_close(struct store *store, struct str tenant, size_t shard, int64_t now_ms,
                       struct redrive_err *err);

/* In a transaction: puts a row of the tenant, or takes it away if the value is absent. Does nothing
 * if it is so already. REDRIVE_E_CANCELLED: another process has put it meanwhile. */
int tenant_row_put(struct store *store, enum shared_kind kind, struct str tenant, struct str key,
                   struct str value, struct redrive_err *err);

/* The next jobs after *after_seq, which is -1 after the last: puts them into the new shard, or with
 * `takes` takes those that are there from the old one. All are put there before the first is taken:
 * a job that waits for others is copied together with what it waits for. `ret_kept` counts those
 * that are still on the old shard; those that the new shard refuses are added to batch->refusals.
 * REDRIVE_E_STATE: another process has taken the move back. */
int tenant_move_batch(const struct tenant_batch *batch, bool takes, int64_t *after_seq,
                      uint64_t *ret_moved, uint64_t *ret_kept, struct redrive_err *err);

/* A job of the new shard that was removed there and put again, with another number. */
struct remade_job {
    int64_t was, seq;
    struct str id;
};
#define REMADE_MAX 100

/* In tenant_edges.c, in the transaction that has made them again, up to REMADE_MAX of them: the
 * jobs that have waited for the former ones wait for these. If these have ended, the jobs are
 * released or skipped as the engine does it, and so are those that wait for the skipped ones. */
int tenant_reattach(struct store *store, const struct remade_job *remade, size_t n,
                    struct redrive_err *err);

/* Breakers, limits, pauses, cron entries and cancels: the new shard has them as the old one. */
int tenant_copy_rows(const struct tenant_batch *batch, struct redrive_err *err);
/* Keys that are unique for ever, and whose jobs are gone. */
int tenant_copy_keys(const struct tenant_batch *batch, struct redrive_err *err);
/* Takes the rows, and what was held, away from `from`. */
int tenant_drop_rows(const struct tenant_batch *batch, struct redrive_err *err);
/* The same in a transaction. */
int tenant_drop_rows_in(const struct tenant_batch *batch, struct redrive_err *err);

#endif
