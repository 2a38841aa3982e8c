#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/postgres/private.h"

/* Others are told no more often that jobs have ended, and nothing else: every NOTIFY wakes all who
 * listen, and who waits for a job looks by himself now and then. */
#define END_EVERY_MS 20

/* ---- Telling: the bits of the notification, and who they are from ---------------------------- */

/* What is to be said now; the rest waits for the next transaction. */
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

/* What a notice says to this handle. Who gives no origin is a stranger, who says nothing, says
 * all. */
static uint32_t notification_in(const struct store *store, const char *said)
{
    char *end;
    const uint32_t notification = (uint32_t)strtoul(said, &end, 10) & STORE_NOTIFY_ALL;
    if (end == said)
        return STORE_NOTIFY_ALL;
    return *end == ' ' && strtoull(end, NULL, 16) == store->origin ? 0 : notification;
}

/* Takes what has arrived. */
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

/* What came before it listened was not received, and may be new. */
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
                       "a transaction is open: nobody is heard before it ends");
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
