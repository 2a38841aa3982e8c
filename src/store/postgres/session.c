#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/postgres/private.h"

/* Another connection whose turn does not come in this time waits for a session of its own. */
#define TURN_MS 1000
/* This one has a session, or gets one: whether it is patient enough is up to the pool. */
#define PATIENT_MS INT32_MAX

/* The process of the server that answers; 0: none does in time. */
static int answering(PGconn *conn, int64_t limit_ms)
{
    const int64_t until_ms = clock_monotonic_ms() + limit_ms;
    int pid = 0;
    if (!PQsendQuery(conn, "SELECT pg_catalog.pg_backend_pid()"))
        return 0;
    while (PQisBusy(conn)) {
        struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        const int n = left_ms > 0 ? poll(&fd, 1, (int)left_ms) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || !PQconsumeInput(conn))
            return 0;
    }
    for (PGresult *result = PQgetResult(conn); result; result = PQgetResult(conn)) {
        if (PQresultStatus(result) == PGRES_TUPLES_OK)
            pid = (int)strtol(PQgetvalue(result, 0, 0), NULL, 10);
        PQclear(result);
    }
    return pid;
}

/* A pool that keeps sessions gives each connection a process of its own, the same every time. One
 * that does not gives the next transaction a process that is free: as a rule that of the last one,
 * or each in its turn. So the order is this one, other, other, this one. */
static bool keeps_sessions(struct store *store, PGconn *conn)
{
    PGconn *other = pg_dial(store, true);
    bool is_kept = true;
    if (other && PQstatus(other) == CONNECTION_OK) {
        const int first = answering(other, TURN_MS);
        const int second = first ? answering(other, TURN_MS) : 0;
        const int again = answering(conn, PATIENT_MS);
        /* A connection that has broken meanwhile says so to whoever uses it next. */
        is_kept = first != store->session_pid && (!second || second == first) &&
                  (!again || again == store->session_pid);
    }
    PQfinish(other);
    return is_kept;
}

int pg_session_learn(struct store *store, PGconn *conn, bool look, struct redrive_err *err)
{
    store->session_pid = answering(conn, PATIENT_MS);
    if (store->session_pid == 0)
        return pg_connection_error(store, err);
    /* A pool makes up the number that it gives to a client. */
    const bool is_pooled = store->session_pid != PQbackendPID(conn);
    if (!look || !is_pooled || keeps_sessions(store, conn))
        return 0;
    err_set(err, REDRIVE_E_STATE, POOL_MESSAGE);
    err_detail(err, "%s: two connections were given the same session, or one was given two",
               store->shown);
    err_hint(err, POOL_HINT);
    return REDRIVE_E_STATE;
}
