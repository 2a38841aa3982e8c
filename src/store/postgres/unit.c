#include "base/err.h"
#include "store/postgres/private.h"

/* Rows of counts are put together after about so many, in pieces of so many. */
#define FOLD_EVERY 512
#define FOLD_MAX   4096

int pg_unit_needed(struct store *store, struct redrive_err *err)
{
    if (!store->in_unit)
        return err_set(err, REDRIVE_E_STATE, "no unit is open");
    if (store->is_lost)
        return err_set(err, REDRIVE_E_CANCELLED,
                       "the unit has failed, and can only be rolled back");
    return 0;
}

static int begin_once(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                      int64_t *ret_shared_version, struct redrive_err *err)
{
    int rc = pg_send(store, STATEMENT_BEGIN, false, err);
    if (rc == 0)
        rc = pg_send(store, STATEMENT_UNIT, true, err);
    if (rc == 0)
        rc = pg_sync(store, err);
    if (rc != 0)
        return rc;
    const PGresult *result = store->results[0];
    if (PQntuples(result) != 1)
        return pg_damaged(store, 0, "the row of the shared version is gone", err);
    *ret_shared_version = pg_get_int(result, 0, 0);
    *ret_now_ms = store->caller_time ? now_ms : pg_get_int(result, 0, 1);
    return 0;
}

int postgres_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                   int64_t *ret_shared_version, struct redrive_err *err)
{
    if (store->in_unit)
        return err_set(err, REDRIVE_E_STATE, "a unit is already open");
    int rc = pg_is_connected(store) ? 0 : pg_connect(store, true, err);
    if (rc == 0)
        rc = begin_once(store, now_ms, ret_now_ms, ret_shared_version, err);
    if (rc != 0 && !pg_is_connected(store)) {
        rc = pg_connect(store, true, err);
        if (rc == 0)
            rc = begin_once(store, now_ms, ret_now_ms, ret_shared_version, err);
    }
    if (rc != 0) {
        pg_disconnect(store);
        return rc;
    }
    store->in_unit = true;
    store->is_lost = false;
    store->now_ms = *ret_now_ms;
    if (store->is_renewed)
        *ret_shared_version = STORE_VERSION_UNKNOWN;
    store->is_renewed = false;
    store_tell(store, STORE_NEWS_ALL);
    return 0;
}

/* Forgets all that belongs to the unit. */
static void end(struct store *store)
{
    store->in_unit = false;
    store->is_lost = false;
    store->is_unsure = false;
    store->bumps = 0;
    store->n_appended = 0;
    store->ends = NULL;
    store->n_ends = 0;
    store->ends_capacity = 0;
    pg_rows_forget(store);
    arena_release(&store->arena);
    arena_init(&store->arena);
}

static int fold(struct store *store, struct redrive_err *err)
{
    store->to_fold += store->n_appended;
    if (store->to_fold < FOLD_EVERY)
        return 0;
    store->to_fold = 0;
    pg_args_int4(&store->args, FOLD_MAX);
    int rc = pg_send(store, STATEMENT_TALLIES_FOLD, false, err);
    if (rc == 0) {
        pg_args_int4(&store->args, FOLD_MAX);
        rc = pg_send(store, STATEMENT_COUNTERS_FOLD, false, err);
    }
    return rc;
}

/* The row of the shared version is the one that all units may want: it comes last. */
static int bump(struct store *store, struct redrive_err *err)
{
    if (store->bumps == 0)
        return 0;
    pg_args_int8(&store->args, store->bumps);
    return pg_send(store, STATEMENT_BUMP, false, err);
}

/* A unit that was rolled back by the server answers a commit with ROLLBACK. */
static int committed(struct store *store, struct redrive_err *err)
{
    if (store->n_results == 1 && strcmp(PQcmdStatus(store->results[0]), "COMMIT") == 0)
        return 0;
    return err_set(err, REDRIVE_E_CANCELLED, "the unit has failed, and was rolled back");
}

/* The answer to the commit was lost. The rows of the unit point to lines, which a new connection
 * forgets: so the unit ends first. */
static int end_by_outcome(struct store *store, struct redrive_err *err)
{
    pg_kept_learn(store, false);
    lines_forget(&store->lines);
    end(store);
    int rc = pg_outcome_learn(store, err);
    store->base.is_undone = rc == REDRIVE_E_CANCELLED;
    if (rc == 0)
        pg_tell(store);
    return rc;
}

int postgres_commit(struct store *store, struct redrive_err *err)
{
    int rc = pg_unit_needed(store, err);
    if (rc == REDRIVE_E_STATE)
        return rc;
    store->base.is_undone = true;
    if (rc == 0)
        rc = pg_rows_flush(store, err);
    if (rc == 0 && store->is_unsure)
        rc = pg_sync(store, err);
    if (rc == 0)
        rc = pg_lines_flush(store, err);
    if (rc == 0)
        rc = fold(store, err);
    if (rc == 0)
        rc = bump(store, err);
    if (rc == 0)
        rc = pg_marker_raise(store, err);
    if (rc == 0)
        rc = pg_send(store, STATEMENT_COMMIT, true, err);
    if (rc == 0) {
        rc = pg_sync(store, err);
        if (rc != 0 && !pg_is_connected(store))
            return end_by_outcome(store, err);
        if (rc == 0)
            rc = committed(store, err);
    }
    if (rc != 0) {
        postgres_rollback(store);
        return rc;
    }
    store->marker.commits++;
    store->lines.added = false;
    pg_kept_learn(store, true);
    end(store);
    pg_tell(store);
    return 0;
}

void postgres_rollback(struct store *store)
{
    if (!store->in_unit)
        return;
    pg_args_reset(&store->args);
    if (store->is_swapped)
        pg_disconnect(store);
    /* What was sent and not yet waited for is answered first. */
    if (pg_is_connected(store) && store->n_sent > 0)
        (void)pg_sync(store, NULL);
    if (pg_is_connected(store) && pg_run(store, STATEMENT_ROLLBACK, NULL, NULL) != 0)
        pg_disconnect(store);
    pg_kept_learn(store, false);
    lines_forget(&store->lines);
    end(store);
}
