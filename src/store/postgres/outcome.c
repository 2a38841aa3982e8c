/* outcome.c - what became of a commit whose answer was lost.
 *
 * Each handle that commits has a row of redrive.handles. Every commit raises its number, in the
 * same transaction and only if the number is the one that the handle expects. When the answer to a
 * COMMIT is lost, the handle connects again and sets the number to one that no commit gives: which
 * one says whether the transaction was committed, and a COMMIT that the server has not read yet
 * finds another number than it expects and fails. So the answer is final, and asking again gives
 * the same one: the answer to a question may be lost too.
 */
#include <time.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/postgres/private.h"

/* The server is asked for so many times the busy time: what is not known by then is unknown. */
#define PATIENCE_BUSY_TIMES 4
#define PAUSE_MS            50

int pg_marker_raise(struct store *store, struct redrive_err *err)
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

/* Fences the marker, made if it is not there, and gives what it then is. */
static int ask(struct store *store, int64_t *ret_commits, struct redrive_err *err)
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

/* The server may be back in a moment, or the lost session may still hold the marker's row. */
static bool is_worth_asking_again(int rc)
{
    return rc == REDRIVE_E_IO || rc == REDRIVE_E_CANCELLED;
}

static int ask_patiently(struct store *store, int64_t *ret_commits)
{
    const int64_t until_ms = clock_monotonic_ms() + PATIENCE_BUSY_TIMES * store->busy_wait_ms;
    for (;;) {
        struct redrive_err ignored;
        int rc = ask(store, ret_commits, &ignored);
        if (rc == 0 || !is_worth_asking_again(rc) || clock_monotonic_ms() >= until_ms)
            return rc;
        const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
        nanosleep(&pause, NULL);
    }
}

int pg_outcome_learn(struct store *store, struct redrive_err *err)
{
    const int64_t expected = store->marker.commits;
    int64_t commits = 0;
    const bool is_answered = ask_patiently(store, &commits) == 0;
    store->marker.commits = is_answered ? commits : 0;
    const int64_t answer = commits - expected;
    if (is_answered && answer == MARKER_MADE)
        return 0;
    /* A server that has fewer commits than this handle has made took over from one that had more:
     * it does not have this one either. A marker that was not there does not tell why, unless this
     * would have been its first commit. */
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
