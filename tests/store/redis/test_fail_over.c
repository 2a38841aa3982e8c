/* Transactions that are open when a server dies, or a replica takes over. Commits whose answer is
 * lost are in test_server.c, test_known.c and tests/shared/test_redis_outcome.py. */
#include "handles.h"
#include "store_for_test.h"
#include "proxy.h"
#include "replica.h"
#include "server.h"

#include <stdio.h>

SERVER_TEST(a_transaction_that_commits_nothing_leaves_the_log_alone, DURABLE)
{
    struct store *store = open_at(s);
    put_committed(store, "before");
    const long bytes = server_number(s, "persistence", "aof_current_size:");
    assert_true(bytes > 0);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(count_ready(store), 1);
    assert_int_equal(put(store, "never", NULL), 0);
    rollback(store);
    assert_int_equal(count_jobs(store), 1);
    assert_int_equal(server_number(s, "persistence", "aof_current_size:"), bytes);
    put_committed(store, "after");
    assert_true(server_number(s, "persistence", "aof_current_size:") > bytes);
    store_close(store);
}

static void rewrite_log(const struct server *s)
{
    server_call(s, "BGREWRITEAOF");
    WAIT_FOR(server_number(s, "persistence", "aof_rewrite_in_progress:") == 0 &&
             server_number(s, "persistence", "aof_rewrite_scheduled:") == 0);
}

/* The one whose transaction it was is told so, though another's job may have the seq that it was
 * given. */
static void check_gone(struct store *store, struct store *other)
{
    put_committed(other, "after");
    assert_int_equal(store_ops(store)->commit(store, NULL), REDRIVE_E_CANCELLED);
    rollback(store);
    put_committed(store, "of the same handle");
    assert_int_equal(count_jobs(store), 3);
    assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
}

TEST(a_server_that_dies_in_mid_transaction_knows_nothing_of_it)
{
    for (int way = 0; way < 4; way++) {
        struct server s;
        server_start(&s, DURABLE);
        struct store *store = open_at(&s), *other = open_at(&s);
        put_committed(store, "before");
        begin_half(store, way & 1);
        if (way & 2)
            rewrite_log(&s);
        server_restart(&s);
        check_gone(store, other);
        server_restart(&s);
        assert_int_equal(count_jobs(other), 3);
        store_close(store);
        store_close(other);
        server_stop(&s);
    }
}

/* The replica takes over with what it has: copied before the transaction, or in the middle of it.
 */
TEST(a_replica_that_takes_over_in_mid_transaction_knows_nothing_of_it)
{
    for (int way = 0; way < 4; way++) {
        struct server primary, replica;
        struct proxy proxy;
        server_start(&primary, PRIMARY);
        server_start(&replica, NULL);
        proxy_start(&proxy, primary.port);
        struct server through = primary;
        snprintf(through.url, sizeof through.url, "redis://127.0.0.1:%d", proxy.port);
        struct store *store = open_at(&through), *other = open_at(&through);
        put_committed(store, "before");
        if (way & 2)
            begin_half(store, way & 1);
        server_call(&replica, "REPLICAOF 127.0.0.1 %d", primary.port);
        wait_for_replica(&replica, &primary);
        if (!(way & 2))
            begin_half(store, way & 1);
        wait_for_replica(&replica, &primary);
        server_kill(&primary);
        server_call(&replica, "REPLICAOF NO ONE");
        atomic_store(&proxy.to_port, replica.port);
        check_gone(store, other);
        store_close(store);
        store_close(other);
        proxy_stop(&proxy);
        server_stop(&replica);
        server_stop(&primary);
    }
}
