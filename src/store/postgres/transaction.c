#include <poll.h>

#include "base/err.h"
#include "store/postgres/private.h"

/* Rows of counts are put together after about so many, in pieces of so many. */
#define COMPACT_EVERY 512
#define FOLD_MAX      4096

/* As often is the connection read before a transaction: a server that has closed it says why, and
 * goes. */
#define GLANCES 4

int pg_transaction_needed(struct store *store, struct redrive_err *err)
{
    if (!store->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "no transaction is open");
    if (store->is_lost)
        return err_set(err, REDRIVE_E_CANCELLED,
                       "the transaction has failed, and can only be rolled back");
    return 0;
}

/* ---- Begin ----------------------------------------------------------------------------------- */

/* Notices a connection that the server has closed since the last transaction, as far as that has
 * come. */
static void look_at_connection(struct store *store)
{
    for (int i = 0; i < GLANCES && pg_is_connected(store); i++) {
        struct pollfd fd = {.fd = PQsocket(store->conn), .events = POLLIN};
        if (poll(&fd, 1, 0) <= 0)
            return;
        if (!PQconsumeInput(store->conn))
            pg_disconnect(store);
    }
}

/* The transaction begins at once, and its first answer has time and version. */
static int ask_once(struct store *store, struct redrive_err *err)
{
    int rc = pg_send(store, STATEMENT_BEGIN, false, err);
    if (rc == 0)
        rc = pg_send(store, STATEMENT_TRANSACTION, true, err);
    if (rc == 0)
        rc = pg_sync(store, err);
    if (rc != 0)
        return rc;
    if (PQntuples(store->results[0]) != 1)
        return pg_damaged(store, 0, "the row of the shared version is gone", err);
    pg_answer_note(store, store->results[0], 0);
    return 0;
}

static int ask(struct store *store, struct redrive_err *err)
{
    int rc = pg_is_connected(store) ? 0 : pg_connect(store, true, err);
    if (rc == 0)
        rc = ask_once(store, err);
    if (rc != 0 && !pg_is_connected(store)) {
        rc = pg_connect(store, true, err);
        if (rc == 0)
            rc = ask_once(store, err);
    }
    if (rc != 0)
        pg_disconnect(store);
    return rc;
}

int postgres_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                   int64_t *ret_shared_version, struct redrive_err *err)
{
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "a transaction is already open");
    look_at_connection(store);
    const bool is_ahead = pg_ahead_take(store);
    const bool asks =
        store_must_ask(&store->base, pg_answer_age_ms(store)) || !pg_is_connected(store);
    int rc = asks ? ask(store, err) : 0;
    if (rc != 0)
        return rc;
    store->in_transaction = true;
    store->has_asked = asks;
    store->is_begun = asks || is_ahead;
    store->is_timed = !asks && !store->caller_time;
    store->is_lost = store->is_stale = store->writes = false;
    store->shared_version = store->answer.shared_version;
    store->now_ms = store->caller_time ? now_ms : pg_answer_time_ms(store);
    *ret_now_ms = store->now_ms;
    *ret_shared_version = store->is_renewed ? STORE_VERSION_UNKNOWN : store->shared_version;
    store->is_renewed = false;
    store_notify(store, STORE_NOTIFY_ALL);
    return 0;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Forgets all that belongs to the transaction. */
static void end(struct store *store, bool is_committed)
{
    store->in_transaction = store->is_begun = store->is_lost = false;
    store->bumps = 0;
    store->n_appended = 0;
    store->ends = NULL;
    store->n_ends = 0;
    store->ends_capacity = 0;
    store->next.is_asked = false;
    pg_ahead_end(store);
    pg_gates_learn(store, is_committed);
    pg_shared_forget(store);
    pg_rows_forget(store);
    arena_release(&store->arena);
    arena_init(&store->arena);
}

/* What is better done after the transaction, and waited for by nobody. */
static void tidy_up(struct store *store)
{
    const int64_t until_ms = store->lease_checks_ms;
    store->lease_checks_ms = 0;
    if (until_ms == 0 || !pg_is_connected(store))
        return;
    pg_args_int8(&store->args, until_ms);
    if (pg_send(store, STATEMENT_LEASE_CHECKS, false, NULL) == 0)
        pg_send_off(store);
}

static int compact(struct store *store, struct redrive_err *err)
{
    store->to_compact += store->n_appended;
    if (store->to_compact < COMPACT_EVERY)
        return 0;
    store->to_compact = 0;
    pg_args_int4(&store->args, FOLD_MAX);
    int rc = pg_send(store, STATEMENT_TALLIES_FOLD, false, err);
    if (rc == 0) {
        pg_args_int4(&store->args, FOLD_MAX);
        rc = pg_send(store, STATEMENT_COUNTERS_FOLD, false, err);
    }
    return rc;
}

/* The row of the shared version is the one that all transactions may want: it comes last. */
static int bump(struct store *store, struct redrive_err *err)
{
    if (store->bumps == 0)
        return 0;
    pg_args_int8(&store->args, store->bumps);
    return pg_send(store, STATEMENT_BUMP, false, err);
}

/* All that the transaction has changed, and its COMMIT: the first that fails makes what follows
 * void. */
static int send_commit(struct store *store, struct redrive_err *err)
{
    static int (*const PARTS[])(struct store * store, struct redrive_err * err) = {
        pg_rows_flush, pg_partitions_flush, compact, pg_gates_commit, bump, pg_marker_raise,
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof PARTS / sizeof PARTS[0]; i++)
        rc = PARTS[i](store, err);
    return rc == 0 ? pg_send(store, STATEMENT_COMMIT, true, err) : rc;
}

/* A transaction that was rolled back by the server answers a commit with ROLLBACK. */
static int committed(struct store *store, struct redrive_err *err)
{
    const size_t at = pg_gates_answered(store);
    if (store->n_results == at + 2 && strcmp(PQcmdStatus(store->results[at + 1]), "COMMIT") == 0) {
        pg_answer_note(store, store->results[at], 0);
        return 0;
    }
    return err_set(err, REDRIVE_E_CANCELLED, "the transaction has failed, and was rolled back");
}

/* The answer to the commit was lost. The rows of the transaction point to partitions, which a new
 * connection forgets: so the transaction ends first. */
static int end_by_outcome(struct store *store, struct redrive_err *err)
{
    pg_kept_forget(store);
    pg_gates_forget(store);
    partitions_forget(&store->partitions);
    end(store, false);
    int rc = pg_outcome_learn(store, err);
    store->base.is_rolled_back = rc == REDRIVE_E_CANCELLED;
    if (rc == 0)
        pg_notify_commit(store);
    return rc;
}

int postgres_commit(struct store *store, struct redrive_err *err)
{
    int rc = pg_transaction_needed(store, err);
    if (rc == REDRIVE_E_STATE)
        return rc;
    store->base.is_rolled_back = true;
    if (rc == 0)
        rc = send_commit(store, err);
    if (rc == 0) {
        rc = pg_ahead_sync(store, err);
        if (rc != 0 && !pg_is_connected(store))
            return end_by_outcome(store, err);
        if (rc == 0)
            rc = committed(store, err);
    }
    if (rc != 0) {
        pg_ahead_void(store);
        postgres_rollback(store);
        return rc;
    }
    store->marker.commits++;
    store->partitions.added = false;
    pg_kept_learn(store);
    end(store, true);
    if (!store->next.is_open) { /* else they were told on the way */
        pg_notify_commit(store);
        tidy_up(store);
    }
    return 0;
}

/* One that holds no locks is waited for by nobody. */
static void send_rollback(struct store *store)
{
    const bool is_waited_for = store->writes || store->is_lost || store->rows.n > 0;
    /* What was sent and not yet waited for may fail: ROLLBACK is not part of it. */
    if (store->n_open > 0)
        pg_send_off(store);
    if (!pg_is_connected(store))
        return;
    if (pg_send(store, STATEMENT_ROLLBACK, false, NULL) != 0)
        pg_disconnect(store);
    else if (!is_waited_for)
        pg_send_off(store);
    else if (pg_sync(store, NULL) != 0)
        pg_disconnect(store);
}

void postgres_rollback(struct store *store)
{
    if (!store->in_transaction)
        return;
    pg_args_reset(&store->args);
    if (store->is_swapped)
        pg_disconnect(store);
    if (store->is_begun && pg_is_connected(store))
        send_rollback(store);
    if (store->is_stale) {
        pg_kept_forget(store);
        pg_gates_forget(store);
    }
    partitions_forget(&store->partitions);
    end(store, false);
    tidy_up(store);
}
