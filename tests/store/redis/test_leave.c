/* Of several servers, when one is left for another. */
#include "handles.h"
#include "store_for_test.h"
#include "replica.h"
#include "server.h"

#include <signal.h>
#include <stdio.h>

#include "base/time/clock.h"

TEST(a_handle_leaves_a_primary_that_has_become_a_replica)
{
    struct server a, b;
    struct redrive_err err = {0};
    server_start(&a, PRIMARY);
    server_start(&b, PRIMARY);
    struct server both = a;
    snprintf(both.url, sizeof both.url, "redis://127.0.0.1:%d,127.0.0.1:%d", a.port, b.port);
    server_call(&b, "REPLICAOF 127.0.0.1 %d", a.port);
    struct store *store = open_at(&both), *other = open_at(&both);
    put_committed(store, "one");
    WAIT_FOR(strstr(server_call(&b, "HGET {redrive}:root commits"), "1"));
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(put(store, "lost", NULL), 0);
    server_call(&b, "REPLICAOF NO ONE");
    server_call(&a, "REPLICAOF 127.0.0.1 %d", b.port);
    assert_int_equal(store_ops(store)->commit(store, &err), REDRIVE_E_CANCELLED);
    store_ops(store)->rollback(store);
    put_committed(store, "two");
    assert_int_equal(count_jobs(store), 2);

    /* Nor does one stay where it may not even load its functions. */
    server_call(&b, "FUNCTION FLUSH");
    WAIT_FOR(strstr(server_call(&a, "INFO memory"), "number_of_libraries:0"));
    put_committed(other, "three");
    assert_int_equal(count_jobs(store), 3);
    store_close(store);
    store_close(other);
    server_stop(&a);
    server_stop(&b);
}

/* It takes connections, as the system does that for it, and never answers. */
TEST(a_handle_leaves_a_server_that_hangs)
{
    struct server a, b;
    server_start(&a, PRIMARY);
    server_start(&b, PRIMARY);
    struct server both = a;
    snprintf(both.url, sizeof both.url, "redis://127.0.0.1:%d,127.0.0.1:%d", a.port, b.port);
    server_call(&b, "REPLICAOF 127.0.0.1 %d", a.port);
    struct store *store = open_at(&both);
    put_committed(store, "one");
    wait_for_replica(&b, &a);
    kill(a.pid, SIGSTOP);
    server_call(&b, "REPLICAOF NO ONE");
    const int64_t since_ms = clock_monotonic_ms();
    put_committed(store, "two");
    assert_true(clock_monotonic_ms() - since_ms < 25000);
    assert_int_equal(count_jobs(store), 2);
    store_close(store);
    server_stop(&a);
    server_stop(&b);
}
