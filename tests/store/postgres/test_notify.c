/* Waiting for others, who tell. */
#include <pthread.h>

#include "base/time/clock.h"
#include "store_for_test.h"
#include "stores_postgres.h"
#include "waiting.h"

static int64_t clock_stands_at_ms; /* 0: it does not stand */

int64_t __real_clock_monotonic_ms(void);
int64_t __wrap_clock_monotonic_ms(void);
int64_t __wrap_clock_monotonic_ms(void)
{
    return clock_stands_at_ms != 0 ? clock_stands_at_ms : __real_clock_monotonic_ms();
}

struct later {
    void (*what)(struct test_store *ts);
    struct test_store *ts;
    pid_t waiter;
};

static void *do_later(void *arg)
{
    const struct later *later = arg;
    WAIT_FOR(thread_rests(later->waiter));
    later->what(later->ts);
    return NULL;
}

/* A connection has to listen first, and cannot know what it has missed until then. */
static void start_listening(struct test_store *ts)
{
    clock_stands_at_ms = 0; /* a test that failed may have left it standing */
    for (int i = 0; i < 3; i++)
        assert_int_equal(store_ops(ts->store)->wait(ts->store, 100, NULL, NULL), 0);
}

/* What a wait is told that has begun before something is done by another session; 0: nothing. */
static uint32_t wait_while(struct test_store *ts, struct test_store *other,
                           void (*what)(struct test_store *ts))
{
    pthread_t thread;
    uint32_t notification;
    struct later later = {what, other, gettid()};
    start_listening(ts);
    assert_int_equal(pthread_create(&thread, NULL, do_later, &later), 0);
    assert_int_equal(store_ops(ts->store)->wait(ts->store, WAIT_LIMIT_MS, &notification, NULL), 0);
    pthread_join(thread, NULL);
    return notification;
}

/* All that one transaction tells, which comes together. */
static uint32_t notification_of(struct test_store *ts)
{
    uint32_t all = 0, notification = 0;
    do {
        assert_int_equal(
            store_ops(ts->store)->wait(ts->store, all ? 0 : WAIT_LIMIT_MS, &notification, NULL), 0);
        all |= notification;
    } while (notification != 0);
    return all;
}

static void submit_one(struct test_store *ts)
{
    PUT(ts, .queue = STR("main"));
}

static void commit_and_tell(struct test_store *ts, uint32_t notification)
{
    ts_begin(ts);
    submit_one(ts);
    store_notify(ts->store, notification);
    ts_commit(ts);
}

/* What was told before another handle now tells STORE_NOTIFY_TIME: the server keeps the order. */
static uint32_t told_until_now(struct test_store *ts)
{
    struct test_store marker;
    uint32_t all = 0, notification = 0;
    ts_join(&marker, ts);
    ts_begin(&marker);
    ts_count(&marker, (struct counter){STR("acme"), STR("marker"), STR(""), 1});
    store_notify(marker.store, STORE_NOTIFY_TIME);
    ts_commit(&marker);
    ts_close(&marker);
    do {
        assert_int_equal(store_ops(ts->store)->wait(ts->store, WAIT_LIMIT_MS, &notification, NULL),
                         0);
        all |= notification;
    } while (notification != 0 && !(all & STORE_NOTIFY_TIME));
    assert_true(all & STORE_NOTIFY_TIME);
    return all & ~STORE_NOTIFY_TIME;
}

static void submit_in_sql(struct test_store *ts)
{
    stores_postgres_sql(ts->url, "SELECT redrive.submit('mail', '{}')", NULL, 0);
}

static void pause_queue(struct test_store *ts)
{
    ts_pause(ts, STR("acme"), STR("main"));
}

STORE_TEST(a_submit_ends_a_wait)
{
    struct test_store other;
    ts_join(&other, ts);
    assert_true(wait_while(ts, &other, submit_one) & STORE_NOTIFY_READY);
    ts_close(&other);
}

STORE_TEST(a_submit_in_sql_ends_a_wait_when_it_commits)
{
    assert_true(wait_while(ts, ts, submit_in_sql) & STORE_NOTIFY_READY);
    (void)told_until_now(ts);
    stores_postgres_sql(ts->url, "BEGIN; SELECT redrive.submit('mail', '{}'); ROLLBACK", NULL, 0);
    assert_int_equal(told_until_now(ts), 0);
}

STORE_TEST(what_processes_share_ends_a_wait_too)
{
    struct test_store other;
    ts_join(&other, ts);
    assert_true(wait_while(ts, &other, pause_queue) != 0);
    ts_close(&other);
}

STORE_TEST(what_was_told_while_nobody_waited_is_not_lost)
{
    uint32_t notification;
    struct test_store other;
    ts_join(&other, ts);
    start_listening(ts);
    submit_one(&other);
    assert_int_equal(LIST(ts, .limit = 5)->n, 1);
    assert_int_equal(store_ops(ts->store)->wait(ts->store, WAIT_LIMIT_MS, &notification, NULL), 0);
    assert_true(notification & STORE_NOTIFY_READY);
    ts_close(&other);
}

STORE_TEST(sql_says_what_is_new)
{
    start_listening(ts);
    stores_postgres_sql(ts->url, "SELECT redrive.submit('mail', '{}', id => 'a')", NULL, 0);
    assert_int_equal(notification_of(ts), STORE_NOTIFY_READY | STORE_NOTIFY_END);
    stores_postgres_sql(
        ts->url, "SELECT redrive.submit('mail', '{}', process_after => now() + '1h')", NULL, 0);
    assert_int_equal(notification_of(ts), STORE_NOTIFY_TIME | STORE_NOTIFY_END);
    stores_postgres_sql(ts->url, "SELECT redrive.submit('mail', '{}', deadline => now() + '1h')",
                        NULL, 0);
    assert_int_equal(notification_of(ts), STORE_NOTIFY_ALL);
    stores_postgres_sql(ts->url, "SELECT redrive.cancel('a')", NULL, 0);
    assert_int_equal(notification_of(ts), STORE_NOTIFY_TIME | STORE_NOTIFY_END);
    stores_postgres_sql(ts->url, "NOTIFY redrive", NULL, 0);
    assert_int_equal(notification_of(ts), STORE_NOTIFY_ALL);
}

/* The leader carries it out. */
STORE_TEST(the_cancel_of_a_running_job_wakes_those_who_tick)
{
    ts_start(ts, PUT(ts, .tenant = STR("default"), .id = STR("a")));
    start_listening(ts);
    stores_postgres_sql(ts->url, "SELECT redrive.cancel('a')", NULL, 0);
    assert_int_equal(notification_of(ts), STORE_NOTIFY_TIME);
}

STORE_TEST(an_end_soon_after_another_is_told_with_a_later_transaction)
{
    struct test_store other;
    ts_join(&other, ts);
    start_listening(ts);
    clock_stands_at_ms = __real_clock_monotonic_ms();
    commit_and_tell(&other, STORE_NOTIFY_END);
    assert_int_equal(notification_of(ts), STORE_NOTIFY_END);
    commit_and_tell(&other, STORE_NOTIFY_END);
    assert_int_equal(told_until_now(ts), 0);
    clock_stands_at_ms += 19;
    commit_and_tell(&other, 0);
    assert_int_equal(told_until_now(ts), 0);
    clock_stands_at_ms += 1;
    commit_and_tell(&other, 0);
    assert_int_equal(notification_of(ts), STORE_NOTIFY_END);
    commit_and_tell(&other, 0);
    commit_and_tell(&other, STORE_NOTIFY_TIME);
    assert_int_equal(notification_of(ts), STORE_NOTIFY_TIME);
    clock_stands_at_ms = 0;
    ts_close(&other);
}

STORE_TEST(nobody_is_woken_by_himself)
{
    start_listening(ts);
    submit_one(ts);
    assert_int_equal(told_until_now(ts), 0);
    submit_in_sql(ts);
    assert_int_equal(notification_of(ts), STORE_NOTIFY_READY | STORE_NOTIFY_END);
}

STORE_TEST(an_open_transaction_cannot_wait)
{
    ts_begin(ts);
    assert_int_equal(store_ops(ts->store)->wait(ts->store, 0, NULL, NULL), REDRIVE_E_STATE);
    ts_rollback(ts);
}
