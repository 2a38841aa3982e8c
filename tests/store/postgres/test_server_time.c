/* The server's time, which a transaction knows without waiting for the server. */
#include "round_trips.h"

#include <stdlib.h>

#include "stores_postgres.h"

/* A handle that goes by the server's time, and has just heard of it. */
static void join_by_server_time(struct test_store *ts, const struct test_store *other)
{
    ts_join(ts, other);
    store_close(ts->store);
    assert_int_equal(store_open(ts->url, &(struct store_options){0}, &ts->store, NULL), 0);
    PUT(ts, .id = STR("first"));
}

static int64_t begin_and_tell_time(struct test_store *ts)
{
    int64_t now_ms, version;
    assert_int_equal(store_ops(ts->store)->begin(ts->store, 0, &now_ms, &version, NULL), 0);
    return now_ms;
}

static int64_t server_ms(const struct test_store *ts)
{
    char text[32];
    stores_postgres_sql(ts->url, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
                        text, sizeof text);
    return strtoll(text, NULL, 10);
}

STORE_TEST(the_time_of_a_transaction_is_a_lower_bound_that_never_goes_back)
{
    struct test_store own;
    int64_t last_ms = 0;
    const int64_t since_ns = __real_clock_monotonic_ns();
    join_by_server_time(&own, ts);
    for (int i = 0; i < 20; i++) {
        round_trips = 0;
        const int64_t now_ms = begin_and_tell_time(&own);
        /* The answer is relied upon for a second, and this machine may be slow. */
        if (__real_clock_monotonic_ns() - since_ns < 900000000)
            check_round_trips(0);
        store_ops(own.store)->rollback(own.store);
        const int64_t there_ms = server_ms(&own);
        assert_true(now_ms >= last_ms && now_ms <= there_ms);
        assert_true(there_ms - now_ms < 1000);
        last_ms = now_ms;
        pass_ms(3);
    }
    ts_close(&own);
}

STORE_TEST(an_answer_is_relied_upon_for_a_second)
{
    PUT(ts, .id = STR("x"));
    clock_stands_at_ns = __real_clock_monotonic_ns() + 1100000000;
    round_trips = 0;
    ts_begin(ts);
    check_round_trips(1);
    ts_rollback(ts);
    clock_stands_at_ns = 0;
}

/* As after a machine has slept: its monotonic clock has not moved. */
STORE_TEST(a_commit_whose_time_is_off_is_refused_and_made_again)
{
    struct test_store off;
    struct redrive_err err = {0};
    join_by_server_time(&off, ts);
    clock_stands_at_ns = __real_clock_monotonic_ns();
    pass_ms(1500);
    round_trips = 0;
    (void)begin_and_tell_time(&off);
    check_round_trips(0);
    off.in_transaction = true;
    PUT(&off, .id = STR("x"));
    assert_int_equal(store_ops(off.store)->commit(off.store, &err), REDRIVE_E_CANCELLED);
    assert_true(store_base(off.store)->is_rolled_back);
    off.in_transaction = false;
    assert_int_equal(LIST(ts, .limit = 10)->n, 1);
    const int64_t now_ms = begin_and_tell_time(&off);
    assert_true(server_ms(ts) - now_ms < 1000);
    off.in_transaction = true;
    PUT(&off, .id = STR("x"));
    ts_commit(&off);
    assert_int_equal(LIST(ts, .limit = 10)->n, 2);
    clock_stands_at_ns = 0;
    ts_close(&off);
}
