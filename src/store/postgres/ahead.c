/* ahead.c - the claim of the next transaction, sent right after the COMMIT of this one.
 *
 * The pipeline that ends with COMMIT is followed by one with BEGIN and the claim. The commit does
 * not wait for the latter: the server looks for jobs while the callers are answered and come back.
 * If the next transaction looks for jobs, its begin takes the open transaction over. If it does
 * not, if it comes too late, or if the handle is used for anything else before, the open
 * transaction is rolled back. After a COMMIT that fails the server refuses the BEGIN, or there is
 * no transaction; the rollback that follows a failed commit covers both.
 */
#include "base/time/clock.h"
#include "store/postgres/private.h"

/* How long the jobs stay locked for the next transaction. Idle workers could take them otherwise.
 */
#define AHEAD_MS 20
#define NS_IN_MS INT64_C(1000000)

/* If jobs were locked in vain several times in a row, up to this many commits do not look ahead. */
#define SKIPS_MAX 16

/* The arguments of the claim are built before the commit, and sent after it. */
static void swap_args(struct store *store)
{
    const struct args args = store->next.args;
    store->next.args = store->args;
    store->args = args;
}

/* Does not wait for the answer. */
static void send_off_rollback(struct store *store)
{
    if (pg_send_bare(store, STATEMENT_ROLLBACK, NULL) == 0)
        pg_send_off(store);
    else
        pg_disconnect(store);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

void postgres_look_ahead(struct store *store, const struct claim_filter *filter)
{
    struct ahead *next = &store->next;
    next->is_asked = false;
    if (pg_transaction_needed(store, NULL) != 0 || store->lease_checks_ms != 0)
        return;
    if (next->skips > 0) {
        next->skips--;
        return;
    }
    next->is_asked = pg_claim_ahead(store, filter);
    swap_args(store);
    pg_args_reset(&store->args);
}

/* The notification of the commit is sent between the COMMIT and the claim. If the commit fails, the
 * server refuses the notification too, or other processes look in vain. */
static void send_next(struct store *store)
{
    struct ahead *next = &store->next;
    pg_notify_commit(store);
    int rc = pg_is_connected(store) ? pg_send_bare(store, STATEMENT_BEGIN, NULL) : REDRIVE_E_IO;
    swap_args(store);
    if (rc == 0)
        rc = pg_send(store, next->statement, true, NULL);
    if (rc == 0 && PQpipelineSync(store->conn)) {
        store->n_open = 0;
        next->is_open = true;
    } else {
        pg_args_reset(&store->args);
        pg_disconnect(store);
    }
}

int pg_ahead_sync(struct store *store, struct redrive_err *err)
{
    const bool is_asked = store->next.is_asked;
    store->next.is_asked = false;
    int rc = pg_sync_then(store, is_asked ? send_next : NULL, err);
    store->next.sent_ns = clock_monotonic_ns();
    store->base.wants_upkeep = store->next.is_open;
    store->base.idle_ms = AHEAD_MS;
    return rc;
}

/* ---- The next transaction -------------------------------------------------------------------- */

bool pg_ahead_take(struct store *store)
{
    struct ahead *next = &store->next;
    const bool is_wanted = store->base.looks && !store->base.asks &&
                           clock_monotonic_ns() - next->sent_ns <= AHEAD_MS * NS_IN_MS;
    if (!next->is_open || !is_wanted) {
        pg_ahead_drop(store);
        return false;
    }
    next->is_open = store->base.wants_upkeep = false;
    /* The locks belong to the connection: without it the answer is worth nothing. */
    const bool is_there =
        pg_take_next(store, NULL) == 0 && store->n_results == 1 && pg_is_connected(store);
    if (is_there) {
        next->result = store->results[0];
        store->n_results = 0;
        store->answer.shared_version = pg_claim_version(next);
    } else {
        pg_forget_results(store);
        if (pg_is_connected(store))
            send_off_rollback(store);
    }
    return is_there;
}

/* ---- Letting go ------------------------------------------------------------------------------ */

/* Other processes may have looked in vain while the jobs were locked, and are notified again. A
 * single miss is ignored: a transaction without a claim came in between. */
static void note_miss(struct store *store)
{
    struct ahead *next = &store->next;
    store->untold |= STORE_NOTIFY_READY;
    next->skips = next->misses;
    next->misses = next->misses == 0 ? 1 : next->misses < SKIPS_MAX ? next->misses * 2 : SKIPS_MAX;
}

void pg_ahead_void(struct store *store)
{
    store->n_unheard += store->next.is_open;
    store->next.is_open = store->base.wants_upkeep = false;
}

void pg_ahead_drop(struct store *store)
{
    if (!store->next.is_open)
        return;
    pg_ahead_void(store);
    send_off_rollback(store);
    note_miss(store);
    /* The server gets to the rollback only when the answer before it has been read to its end. */
    store->base.wants_upkeep = pg_is_connected(store);
}

void pg_ahead_end(struct store *store)
{
    if (!store->next.result)
        return;
    PQclear(store->next.result);
    store->next.result = NULL;
    note_miss(store);
}

void pg_ahead_forget(struct store *store)
{
    store->next.is_open = store->base.wants_upkeep = false;
}

void postgres_upkeep(struct store *store)
{
    pg_ahead_drop(store);
    store_notify(store, 0);
    if (pg_is_connected(store))
        pg_notify_commit(store);
    pg_drain(store);
    store->base.wants_upkeep = false;
}
