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
        told |= notice->be_pid != store->session_pid;
        PQfreemem(notice);
    }
    return told;
}

/* What came before it listened was not heard, and is news. */
static int start_listening(struct store *store, uint32_t *ret_news, struct redrive_err *err)
{
    const PGresult *ignored;
    int rc = pg_read(store, STATEMENT_LISTEN, NULL, &ignored, err);
    store->is_listening = rc == 0;
    *ret_news = STORE_NEWS_ALL;
    return rc;
}

int postgres_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_news,
                  struct redrive_err *err)
{
    if (store->in_unit)
        return err_set(err, REDRIVE_E_STATE, "a unit is open: nobody is heard before it ends");
    uint32_t ignored, *news = ret_news ? ret_news : &ignored;
    *news = 0;
    if (!pg_is_connected(store) || !store->is_listening)
        return start_listening(store, news, err);
    const int64_t until_ms = clock_monotonic_ms() + (timeout_ms > 0 ? timeout_ms : 0);
    for (;;) {
        if (was_told(store) || !pg_is_connected(store))
            *news = STORE_NEWS_ALL;
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        if (*news != 0 || left_ms <= 0)
            return 0;
        struct pollfd fd = {.fd = PQsocket(store->conn), .events = POLLIN};
        (void)poll(&fd, 1, left_ms < 60000 ? (int)left_ms : 60000);
    }
}
