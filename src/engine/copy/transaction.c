#include "engine/copy/private.h"

#include "base/err.h"
#include "base/rng.h"
#include "engine/conflict.h"

static int try_once(struct store *store, int64_t now_ms, copy_moves_fn moves, void *ctx,
                    struct redrive_err *err)
{
    int64_t transaction_ms, version;
    int rc = store_ops(store)->begin(store, now_ms, &transaction_ms, &version, err);
    if (rc == 0)
        rc = moves(ctx, err);
    if (rc == 0)
        rc = store_ops(store)->commit(store, err);
    if (rc < 0)
        store_ops(store)->rollback(store);
    return rc;
}

int copy_transaction(struct store *store, int64_t now_ms, copy_moves_fn moves, void *ctx,
                     struct redrive_err *err)
{
    struct conflict conflict;
    struct rng rng;
    rng_seed(&rng, rng_system_seed());
    conflict_init(&conflict, &rng);
    while (conflict_try(&conflict)) {
        int rc = try_once(store, now_ms, moves, ctx, err);
        if (rc != REDRIVE_E_CANCELLED)
            return rc;
    }
    err_set(err, REDRIVE_E_IO, "other processes are in the way all the time");
    err_hint(err, COPY_GOES_ON);
    return REDRIVE_E_IO;
}
