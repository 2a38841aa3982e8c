/* round_trips.h - counts how often the server is waited for, and can stop the clock: the linker
 * puts the counting before the calls that end what was sent and that read an answer, and this clock
 * before the monotonic one. */
#ifndef TESTS_STORE_POSTGRES_ROUND_TRIPS_H
#define TESTS_STORE_POSTGRES_ROUND_TRIPS_H

#include <libpq-fe.h>

#include "base/time/clock.h"
#include "store_for_test.h"
#include "waiting.h"

static unsigned round_trips;
static bool is_sent; /* something whose answer has not been read */

int __real_PQpipelineSync(PGconn *conn);
int __wrap_PQpipelineSync(PGconn *conn);
int __wrap_PQpipelineSync(PGconn *conn)
{
    is_sent = true;
    return __real_PQpipelineSync(conn);
}

PGresult *__real_PQgetResult(PGconn *conn);
PGresult *__wrap_PQgetResult(PGconn *conn);
PGresult *__wrap_PQgetResult(PGconn *conn)
{
    round_trips += is_sent;
    is_sent = false;
    return __real_PQgetResult(conn);
}

static int64_t clock_stands_at_ns; /* 0: it does not stand */

int64_t __real_clock_monotonic_ns(void);
int64_t __wrap_clock_monotonic_ns(void);
int64_t __wrap_clock_monotonic_ns(void)
{
    return clock_stands_at_ns != 0 ? clock_stands_at_ns : __real_clock_monotonic_ns();
}

static void check_round_trips(unsigned expected)
{
    assert_int_equal(round_trips, expected);
}

#endif
