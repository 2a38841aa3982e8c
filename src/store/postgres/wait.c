/* wait.c - what processes tell each other: notifications, and which one is the leader. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/postgres/private.h"

/* A notification that only says that jobs have ended is sent no more often than this: every NOTIFY
 * wakes all processes that listen, and a client that waits for a job also polls. */
#define END_EVERY_MS 20

/* ---- Notifying: the bits of the notification, and its origin ---------------------------- */

/* The bits to be sent now; the rest waits for the next transaction. */
static uint32_t due_notification(struct store *store)
{
    const uint32_t notification = store_base(store)->notification | store->untold;
    const int64_t now_ms = clock_monotonic_ms();
    store->untold = 0;
    if (notification == STORE_NOTIFY_END && now_ms - store->end_told_ms < END_EVERY_MS) {
        store->untold = notification;
        return 0;
    }
    if (notification & STORE_NOTIFY_END)
        store->end_told_ms = now_ms;
    return notification;
}

void pg_notify_commit(struct store *store)
{
    char said[32];
    const uint32_t notification = due_notification(store);
    if (notification == 0)
        return;
    (void)snprintf(said, sizeof said, "%" PRIu32 " %016" PRIx64, notification, store->origin);
    pg_args_name(&store->args, str_of(said));
    if (pg_send(store, STATEMENT_NOTIFY, false, NULL) == 0)
        pg_send_off(store);
    else
        pg_disconnect(store);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* What a notice means for this handle: nothing if it is of the same origin. One without bits, from
 * another program, means all. */
static uint32_t notification_in(const struct store *store, const char *said)
{
    char *end;
    const uint32_t notification = (uint32_t)strtoul(said, &end, 10) & STORE_NOTIFY_ALL;
    if (end == said)
        return STORE_NOTIFY_ALL;
    return *end == ' ' && strtoull(end, NULL, 16) == store->origin ? 0 : notification;
}

/* Reads the notices that have arrived. */
static uint32_t receive(struct store *store)
{
    uint32_t notification = 0;
    pg_drain(store);
    if (!pg_is_connected(store) || !PQconsumeInput(store->conn))
        return STORE_NOTIFY_ALL;
    for (PGnotify *notice = PQnotifies(store->conn); notice; notice = PQnotifies(store->conn)) {
        notification |= notification_in(store, notice->extra);
        PQfreemem(notice);
    }
    return pg_is_connected(store) ? notification : STORE_NOTIFY_ALL;
}

/* Notices from before it listened were not received: anything may be new. */
static int start_listening(struct store *store, uint32_t *ret_notification, struct redrive_err *err)
{
    const PGresult *ignored;
    int rc = pg_read(store, STATEMENT_LISTEN, NULL, &ignored, err);
    store->is_listening = rc == 0;
    *ret_notification = rc == 0 ? STORE_NOTIFY_ALL : 0;
    return rc;
}

int postgres_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                  struct redrive_err *err)
{
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE,
                       "a transaction is open: no notification comes before it ends");
    uint32_t ignored = 0, *notification = ret_notification ? ret_notification : &ignored;
    *notification = 0;
    pg_ahead_drop(store);
    if (!pg_is_connected(store) || !store->is_listening)
        return start_listening(store, notification, err);
    const int64_t until_ms = clock_monotonic_ms() + (timeout_ms > 0 ? timeout_ms : 0);
    for (;;) {
        *notification = receive(store);
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        if (*notification != 0 || left_ms <= 0)
            return 0;
        struct pollfd fd = {.fd = PQsocket(store->conn), .events = POLLIN};
        (void)poll(&fd, 1, left_ms < 60000 ? (int)left_ms : 60000);
    }
}

/* ---- Elections ------------------------------------------------------------------------------- */

/* A process that claims takes part in an election, which counts the claimers, no more often than
 * this: to count them is to look at every connection of the server. */
#define COUNT_EVERY_MS 500

/* The name of this handle. */
static void add_me(struct store *store)
{
    pg_args_bytes(&store->args, (struct str){(const char *)&store->me, sizeof store->me});
}

static int hold_election(struct store *store, int64_t keep_ms, bool claims, struct redrive_err *err)
{
    const PGresult *result;
    add_me(store);
    pg_args_int8(&store->args, keep_ms);
    int rc = pg_read(store, claims ? STATEMENT_ELECT_CLAIMER : STATEMENT_ELECT, NULL, &result, err);
    if (rc != 0)
        return rc;
    store->election = (struct store_election){.is_leader = pg_get_bool(result, 0, 0),
                                              .has_ready = pg_get_bool(result, 0, 1),
                                              .claimers = (size_t)pg_get_int(result, 0, 2)};
    store->election_ms = clock_monotonic_ms();
    return 0;
}

static int look_for_ready(struct store *store, struct redrive_err *err)
{
    const PGresult *result;
    int rc = pg_read(store, STATEMENT_ANY_READY, NULL, &result, err);
    if (rc == 0)
        store->election.has_ready = pg_get_bool(result, 0, 0);
    return rc;
}

static int resign(struct store *store, struct redrive_err *err)
{
    const PGresult *ignored;
    add_me(store);
    store->election.is_leader = false;
    return pg_read(store, STATEMENT_RESIGN, NULL, &ignored, err);
}

int postgres_elect(struct store *store, int64_t keep_ms, bool claims, struct store_election *ret,
                   struct redrive_err *err)
{
    int rc = 0;
    *ret = (struct store_election){0};
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE,
                       "a transaction is open: a leader is elected outside of one");
    if (keep_ms <= 0 && store->election.is_leader)
        rc = resign(store, err);
    if (rc != 0)
        return rc;
    const bool is_fresh = claims && store->election_ms != 0 &&
                          clock_monotonic_ms() - store->election_ms < COUNT_EVERY_MS;
    rc = is_fresh ? look_for_ready(store, err) : hold_election(store, keep_ms, claims, err);
    if (rc == 0)
        *ret = store->election;
    return rc;
}

void pg_resign(struct store *store)
{
    /* If that fails, its time as the leader is over soon. */
    if (store->election.is_leader && pg_is_connected(store))
        (void)resign(store, NULL);
}
