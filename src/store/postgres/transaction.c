/* transaction.c - begin, commit and rollback, and the outcome of a commit whose answer was lost. */
#include <poll.h>
#include <stdio.h>
#include <time.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/postgres/private.h"

/* Rows of counts that are summed up in one statement at most. */
#define COMPACT_MAX 4096

/* How often the connection is read before a transaction: a server that closes it sends the reason
 * first. */
#define READS_MAX 4

int pg_transaction_needed(struct store *store, struct redrive_err *err)
{
    if (!store->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "no transaction is open");
    if (store->is_lost)
        return err_set(err, REDRIVE_E_CANCELLED,
                       "the transaction has failed, and can only be rolled back");
    return 0;
}

/* ---- Time and shared version ----------------------------------------------------------------- */

/* The answers to claims and commits carry the server's time and the shared version. While the last
 * answer is fresh, a transaction begins without asking, at a time between the bounds that the
 * answer gives. If a clock was set, or a machine slept, the commit notices it: it compares the
 * transaction's time with the server's. */

/* Two columns of a result of the pipeline that was waited for have the shared version and the
 * server's time. */
static void note_answer(struct store *store, const PGresult *result, int column)
{
    store->answer.shared_version = pg_get_int(result, 0, column);
    server_time_hear(&store->answer.time, pg_get_int(result, 0, column + 1), store->asked_ns,
                     clock_monotonic_ns());
}

int pg_answer_check(struct store *store, const PGresult *result, int column,
                    struct redrive_err *err)
{
    note_answer(store, result, column);
    if (store->answer.shared_version == store->shared_version)
        return 0;
    store->is_lost = true;
    return err_set(err, REDRIVE_E_CANCELLED, "what processes share has changed meanwhile");
}

void pg_time_passes(struct store *store)
{
    if (store->in_transaction && !store->is_lost && !store->caller_time)
        store->base.unsure_ms =
            server_time_at(&store->answer.time, clock_monotonic_ns()).latest_ms - store->now_ms;
}

/* ---- Begin ----------------------------------------------------------------------------------- */

/* Notices a connection that the server has closed since the last transaction. */
static void check_connection(struct store *store)
{
    for (int i = 0; i < READS_MAX && pg_is_connected(store); i++) {
        struct pollfd fd = {.fd = PQsocket(store->conn), .events = POLLIN};
        if (poll(&fd, 1, 0) <= 0)
            return;
        if (!PQconsumeInput(store->conn))
            pg_disconnect(store);
    }
}

/* Begins the transaction on the server, whose first answer has time and version. */
static int ask_once(struct store *store, struct redrive_err *err)
{
    int rc =
        pg_send(store, store->is_snapshot ? STATEMENT_BEGIN_SNAPSHOT : STATEMENT_BEGIN, false, err);
    if (rc == 0)
        rc = pg_send(store, STATEMENT_TRANSACTION, true, err);
    if (rc == 0)
        rc = pg_sync(store, err);
    if (rc != 0)
        return rc;
    if (PQntuples(store->results[0]) != 1)
        return pg_damaged(store, 0, "the row of the shared version is gone", err);
    note_answer(store, store->results[0], 0);
    return 0;
}

static int ask_server(struct store *store, struct redrive_err *err)
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

/* Sends a statement that sets how long locks are waited for. */
static int send_lock_wait(struct store *store, enum statement which, int64_t ms,
                          struct redrive_err *err)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%lld", (long long)ms);
    pg_args_name(&store->args, str_of(text));
    return pg_send(store, which, false, err);
}

/* Before BEGIN, in a pipeline of its own: a rollback would take a setting of the session back. */
static void set_lock_wait(struct store *store)
{
    const int64_t ms = pg_lock_wait_ms(store);
    if (ms == store->lock_wait_ms)
        return;
    pg_ahead_drop(store);
    if (!pg_is_connected(store))
        return;
    if (send_lock_wait(store, STATEMENT_LOCK_WAIT, ms, NULL) == 0) {
        pg_send_off(store);
        store->lock_wait_ms = ms;
    } else {
        pg_disconnect(store);
    }
}

int64_t postgres_set_time(struct store *store, int64_t now_ms)
{
    if (!store->in_transaction)
        return now_ms;
    const struct store_time time = store->caller_time
                                       ? (struct store_time){now_ms, now_ms}
                                       : server_time_at(&store->answer.time, clock_monotonic_ns());
    store->now_ms = time.now_ms;
    store->base.unsure_ms = time.latest_ms - time.now_ms;
    return store->now_ms;
}

int postgres_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                   int64_t *ret_shared_version, struct redrive_err *err)
{
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "a transaction is already open");
    check_connection(store);
    set_lock_wait(store);
    store->base.is_blocked = false;
    const bool is_ahead = pg_ahead_take(store);
    const int64_t age_ms = server_time_age_ms(&store->answer.time, clock_monotonic_ns());
    const bool asks = store_must_ask(&store->base, age_ms) || !pg_is_connected(store);
    int rc = asks ? ask_server(store, err) : 0;
    if (rc != 0)
        return rc;
    store->in_transaction = true;
    store->has_asked = asks;
    store->is_begun = asks || is_ahead;
    store->is_timed = !asks && !store->caller_time;
    store->is_lost = store->is_stale = store->writes = false;
    store->shared_version = store->answer.shared_version;
    *ret_now_ms = postgres_set_time(store, now_ms);
    *ret_shared_version = store->is_renewed ? STORE_VERSION_UNKNOWN : store->shared_version;
    store->is_renewed = false;
    store_notify(store, STORE_NOTIFY_ALL);
    return 0;
}

/* ---- The outcome of a lost commit ------------------------------------------------------------ */

/* Each handle that commits has a row of redrive.handles. Every commit raises its number, in the
 * same transaction and only if the number is the one that the handle expects. When the answer to a
 * COMMIT is lost, the handle connects again and sets the number to one of two that no commit sets:
 * which one says whether the transaction was committed. A COMMIT that the server has not read yet
 * then finds another number than it expects, and fails. So the answer is final, and asking again
 * gives the same one, in case this answer is lost, too. */

/* The server is asked for this many times the busy time; then the outcome is unknown. */
#define PATIENCE_BUSY_TIMES 4
#define PAUSE_MS            50

/* Sends the statement that raises the handle's marker, and returns shared version and time. It
 * fails the transaction if the outcome of this commit was asked for already, or if the
 * transaction's time is wrong. */
static int raise_marker(struct store *store, struct redrive_err *err)
{
    struct marker *marker = &store->marker;
    const bool is_new = marker->commits == 0;
    if (is_new) {
        marker->handle = (int64_t)(rng_next(&store->rng) >> 1);
        int rc = pg_send(store, STATEMENT_MARKERS_SWEEP, false, err);
        if (rc != 0)
            return rc;
    }
    pg_args_int8(&store->args, marker->handle);
    if (store->is_timed)
        pg_args_int8(&store->args, store->now_ms);
    else
        pg_args_null(&store->args);
    if (!is_new)
        pg_args_int8(&store->args, marker->commits);
    return pg_send(store, is_new ? STATEMENT_MARKER_NEW : STATEMENT_MARKER_RAISE, true, err);
}

void pg_marker_remove(struct store *store)
{
    if (store->marker.commits == 0 || !pg_is_connected(store))
        return;
    pg_args_int8(&store->args, store->marker.handle);
    (void)pg_run(store, STATEMENT_MARKER_REMOVE, NULL, NULL);
}

/* Sets the marker, which is added if it is not there, and returns it. */
static int ask_marker(struct store *store, int64_t *ret_commits, struct redrive_err *err)
{
    const PGresult *result;
    int rc = pg_is_connected(store) ? 0 : pg_connect(store, true, err);
    if (rc != 0)
        return rc;
    pg_args_int8(&store->args, store->marker.handle);
    pg_args_int8(&store->args, store->marker.commits);
    rc = pg_run(store, STATEMENT_MARKER_ASK, &result, err);
    if (rc == 0)
        *ret_commits = pg_get_int(result, 0, 0);
    return rc;
}

/* The server may come back, or the lost session may still lock the marker's row. */
static bool is_worth_asking_again(int rc)
{
    return rc == REDRIVE_E_IO || rc == REDRIVE_E_CANCELLED;
}

static int ask_patiently(struct store *store, int64_t *ret_commits)
{
    const int64_t until_ms = clock_monotonic_ms() + PATIENCE_BUSY_TIMES * store->busy_wait_ms;
    for (;;) {
        struct redrive_err ignored;
        int rc = ask_marker(store, ret_commits, &ignored);
        if (rc == 0 || !is_worth_asking_again(rc) || clock_monotonic_ms() >= until_ms)
            return rc;
        const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
        nanosleep(&pause, NULL);
    }
}

/* Outside of a transaction, after the answer to a commit was lost: 0 if it was made,
 * REDRIVE_E_CANCELLED if it was not and never will be, REDRIVE_E_IO if that cannot be found out. */
static int learn_outcome(struct store *store, struct redrive_err *err)
{
    const int64_t expected = store->marker.commits;
    int64_t commits = 0;
    const bool is_answered = ask_patiently(store, &commits) == 0;
    store->marker.commits = is_answered ? commits : 0;
    const int64_t answer = commits - expected;
    if (is_answered && answer == MARKER_MADE)
        return 0;
    /* A server with fewer commits than this handle has made took over from one that had more: it
     * does not have this one either. If the marker was not there, the outcome is unknown, unless
     * this would have been the first commit. */
    if (is_answered && (answer == MARKER_NOT_MADE || expected == 0)) {
        err_set(err, REDRIVE_E_CANCELLED,
                "the connection to the server was lost before the commit");
        err_detail(err, "%s: none of the transaction's moves was made", store->shown);
        err_hint(err, "do it again");
        return REDRIVE_E_CANCELLED;
    }
    err_set(err, REDRIVE_E_IO, "the connection was lost in a commit");
    err_detail(err, "%s: the outcome is unknown: all of the transaction's moves were made, or none",
               store->shown);
    return REDRIVE_E_IO;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Forgets all that belongs to the transaction. */
static void end_transaction(struct store *store, bool is_committed)
{
    store->in_transaction = store->is_begun = store->is_lost = store->is_snapshot = false;
    store->bumps = 0;
    store->n_appended = 0;
    store->ends = NULL;
    store->n_ends = 0;
    store->next.is_asked = false;
    pg_ahead_end(store);
    pg_gates_learn(store, is_committed);
    pg_shared_forget(store);
    pg_scanned_forget(store);
    pg_rows_forget(store);
    arena_release(&store->arena);
    arena_init(&store->arena);
}

/* Sends what can be done after the transaction, without waiting for the answer. */
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
    pg_args_int4(&store->args, COMPACT_MAX);
    int rc = pg_send(store, STATEMENT_COUNTS_COMPACT, false, err);
    if (rc == 0) {
        pg_args_int4(&store->args, COMPACT_MAX);
        rc = pg_send(store, STATEMENT_COUNTERS_COMPACT, false, err);
    }
    return rc;
}

/* What follows locks rows of breakers and limits, which only processes lock, and only while they
 * commit: they wait for their turn, however long a disk takes, and do not make the transaction
 * again for the sake of other callers. */
static int wait_for_gates(struct store *store, struct redrive_err *err)
{
    if ((store->n_puts == 0 && store->bumps == 0) || store->lock_wait_ms == store->busy_wait_ms)
        return 0;
    return send_lock_wait(store, STATEMENT_LOCK_WAIT_LOCAL, store->busy_wait_ms, err);
}

/* The row of the shared version, which all transactions may change, is locked last. */
static int raise_shared_version(struct store *store, struct redrive_err *err)
{
    if (store->bumps == 0)
        return 0;
    pg_args_int8(&store->args, store->bumps);
    return pg_send(store, STATEMENT_BUMP, false, err);
}

/* Sends all that the transaction has changed; COMMIT follows: after the first failure the server
 * skips the rest. */
static int send_changes(struct store *store, struct redrive_err *err)
{
    static int (*const PARTS[])(struct store * store, struct redrive_err * err) = {
        pg_rows_flush,   pg_partitions_flush,  compact,      wait_for_gates,
        pg_gates_commit, raise_shared_version, raise_marker,
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof PARTS / sizeof PARTS[0]; i++)
        rc = PARTS[i](store, err);
    return rc;
}

/* If the server has rolled the transaction back, it answers a COMMIT with ROLLBACK. */
static int check_committed(struct store *store, struct redrive_err *err)
{
    const size_t at = pg_gates_answered(store);
    if (store->n_results == at + 2 && strcmp(PQcmdStatus(store->results[at + 1]), "COMMIT") == 0) {
        note_answer(store, store->results[at], 0);
        return 0;
    }
    return err_set(err, REDRIVE_E_CANCELLED, "the transaction has failed, and was rolled back");
}

/* The answer to the commit was lost. The rows of the transaction point to partitions, which a new
 * connection forgets: so the transaction is ended before it connects. */
static int end_by_outcome(struct store *store, struct redrive_err *err)
{
    pg_kept_forget(store);
    pg_gates_forget(store);
    partitions_forget(&store->partitions);
    end_transaction(store, false);
    int rc = learn_outcome(store, err);
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
        rc = send_changes(store, err);
    if (rc == 0) {
        rc = pg_send(store, STATEMENT_COMMIT, true, err);
        if (rc == 0)
            rc = pg_ahead_sync(store, err);
        if (rc != 0 && !pg_is_connected(store))
            return end_by_outcome(store, err);
        if (rc == 0)
            rc = check_committed(store, err);
    }
    if (rc != 0) {
        pg_ahead_void(store);
        postgres_rollback(store);
        return rc;
    }
    store->marker.commits++;
    store->partitions.added = false;
    pg_kept_learn(store);
    end_transaction(store, true);
    if (!store->next.is_open) { /* else the notification was sent with the commit */
        pg_notify_commit(store);
        tidy_up(store);
    }
    return 0;
}

/* Waits for the answer only if the transaction holds locks. */
static void send_rollback(struct store *store)
{
    const bool is_waited_for = store->writes || store->is_lost || store->rows.n > 0;
    /* A statement that was sent before may fail, and must not take the ROLLBACK with it. */
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
    end_transaction(store, false);
    tidy_up(store);
}

/* ---- Reading as of one moment ---------------------------------------------------------------- */

int postgres_snapshot(struct store *store, bool on, struct redrive_err *err)
{
    int64_t now_ms, version;
    if (!on) {
        if (store->is_snapshot)
            postgres_rollback(store);
        return 0;
    }
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "a transaction is already open");
    /* The first read chooses the moment: begin asks the server. */
    store_ask(store);
    store->is_snapshot = true;
    int rc = postgres_begin(store, 0, &now_ms, &version, err);
    store->is_snapshot = rc == 0;
    /* What is read may go to a slow reader. */
    if (rc == 0)
        rc = pg_run(store, STATEMENT_SNAPSHOT_WAITS, NULL, err);
    if (rc != 0)
        postgres_rollback(store);
    return rc;
}
