#include <poll.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/postgres/private.h"

/* Takes what has arrived; whether another session has told of a change. */
static bool was_told(struct store *store)
{
    bool told = false;
    if (!PQconsumeInput(store->conn))
        return true;
    for (PGnotify *notice = PQnotifies(store->conn); notice; notice = PQnotifies(store->conn)) {
        told |= notice->be_pid != PQbackendPID(store->conn);
        PQfreemem(notice);
    }
    return told;
}

/* Whoever waits tells a change from the end of his time by how long it took. What is noticed late,
 * or took long, is told again by the next wait, which then returns at once. */
#define LATE_MS 20

/* What came before it listened was not heard, and is news. */
static int start_listening(struct store *store, struct redrive_err *err)
{
    const PGresult *ignored;
    int rc = pg_read(store, STATEMENT_LISTEN, NULL, &ignored, err);
    store->is_listening = store->has_news = rc == 0;
    return rc;
}

int postgres_wait(struct store *store, int64_t timeout_ms, struct redrive_err *err)
{
    if (store->in_unit)
        return err_set(err, REDRIVE_E_STATE, "a unit is open: nobody is heard before it ends");
    if (!pg_is_connected(store) || !store->is_listening)
        return start_listening(store, err);
    const int64_t until_ms = clock_monotonic_ms() + (timeout_ms > 0 ? timeout_ms : 0);
    for (;;) {
        const bool told = was_told(store);
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        if (told || store->has_news || !pg_is_connected(store)) {
            store->has_news = told && left_ms < LATE_MS;
            return 0;
        }
        if (left_ms <= 0)
            return 0;
        struct pollfd fd = {.fd = PQsocket(store->conn), .events = POLLIN};
        (void)poll(&fd, 1, left_ms < 60000 ? (int)left_ms : 60000);
    }
}
