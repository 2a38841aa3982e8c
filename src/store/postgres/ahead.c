/* ahead.c - the claim of the next transaction, sent behind the COMMIT of this one.
 *
 * The pipeline that ends with COMMIT is followed by one with BEGIN and the claim. The commit does
 * not wait for the latter: while callers are answered and come back, the server looks for their
 * jobs. If the next transaction looks for jobs, its begin takes the transaction over. If it does
 * not, if it comes too late, or if anything else is asked of this handle before, the transaction is
 * rolled back. A COMMIT that fails leaves a transaction that has failed, in which the server
 * refuses the BEGIN, or none at all: the rollback that follows a commit that has failed ends
 * either.
 */
#include "base/time/clock.h"
#include "store/postgres/private.h"

/* So long the jobs are locked for the next transaction. Others who have nothing to do would take
 * them. */
#define AHEAD_MS 20
#define NS_IN_MS INT64_C(1000000)

/* After jobs were locked in vain several times in a row, up to so many commits do not look ahead.
 */
#define SKIPS_MAX 16

/* Its arguments are put together before the commit, and sent behind it. */
static void swap_args(struct store *store)
{
    const struct args args = store->next.args;
    store->next.args = store->args;
    store->args = args;
}

/* Its answer matters to nobody. */
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

/* Between the COMMIT and the claim others are told as if it had succeeded. If it has not, the
 * server refuses that as well, or others look in vain. */
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
    /* The locks are the connection's: without it the answer says nothing. */
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

const PGresult *pg_ahead_use(struct store *store)
{
    struct ahead *next = &store->next;
    pg_forget_results(store);
    if (!pg_keep_result(store, next->result))
        return NULL;
    next->result = NULL;
    next->misses = 0;
    return store->results[0];
}

/* ---- Letting go ------------------------------------------------------------------------------ */

/* Others may have looked in vain meanwhile. One miss says nothing: a transaction that does not
 * claim has come between. */
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
    /* A server whose answer is not read to its end does not come to the rollback behind it. */
    store->base.wants_upkeep = pg_is_connected(store);
}

void pg_ahead_set_aside(struct store *store)
{
    PQclear(store->next.result);
    store->next.result = NULL;
}

void pg_ahead_end(struct store *store)
{
    if (!store->next.result)
        return;
    pg_ahead_set_aside(store);
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
