/* Waiting for others, who tell. */
#include <pthread.h>

#include "base/time/clock.h"
#include "kit.h"
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
    void (*what)(struct kit *kit);
    struct kit *kit;
    pid_t waiter;
};

static void *do_later(void *arg)
{
    const struct later *later = arg;
    WAIT_FOR(thread_rests(later->waiter));
    later->what(later->kit);
    return NULL;
}

/* A connection has to listen first, and cannot know what it has missed until then. */
static void start_listening(struct kit *k)
{
    clock_stands_at_ms = 0; /* a test that failed may have left it standing */
    for (int i = 0; i < 3; i++)
        assert_int_equal(store_ops(k->store)->wait(k->store, 100, NULL, NULL), 0);
}

/* What a wait is told that has begun before something is done by another session; 0: nothing. */
static uint32_t wait_while(struct kit *k, struct kit *other, void (*what)(struct kit *kit))
{
    pthread_t thread;
    uint32_t notification;
    struct later later = {what, other, gettid()};
    start_listening(k);
    assert_int_equal(pthread_create(&thread, NULL, do_later, &later), 0);
    assert_int_equal(store_ops(k->store)->wait(k->store, WAIT_LIMIT_MS, &notification, NULL), 0);
    pthread_join(thread, NULL);
    return notification;
}

/* All that one transaction tells, which comes together. */
static uint32_t notification_of(struct kit *k)
{
    uint32_t all = 0, notification = 0;
    do {
        assert_int_equal(
            store_ops(k->store)->wait(k->store, all ? 0 : WAIT_LIMIT_MS, &notification, NULL), 0);
        all |= notification;
    } while (notification != 0);
    return all;
}

static void submit_one(struct kit *kit)
{
    PUT(kit, .queue = STR("main"));
}

static void commit_and_tell(struct kit *k, uint32_t notification)
{
    kit_begin(k);
    submit_one(k);
    store_notify(k->store, notification);
    kit_commit(k);
}

/* What was told before another handle now tells STORE_NOTIFY_TIME: the server keeps the order. */
static uint32_t told_until_now(struct kit *k)
{
    struct kit marker;
    uint32_t all = 0, notification = 0;
    kit_join(&marker, k);
    kit_begin(&marker);
    kit_count(&marker, (struct counter){STR("acme"), STR("marker"), STR(""), 1});
    store_notify(marker.store, STORE_NOTIFY_TIME);
    kit_commit(&marker);
    kit_close(&marker);
    do {
        assert_int_equal(store_ops(k->store)->wait(k->store, WAIT_LIMIT_MS, &notification, NULL),
                         0);
        all |= notification;
    } while (notification != 0 && !(all & STORE_NOTIFY_TIME));
    assert_true(all & STORE_NOTIFY_TIME);
    return all & ~STORE_NOTIFY_TIME;
}

static void submit_in_sql(struct kit *kit)
{
    stores_postgres_sql(kit->url, "SELECT redrive.submit('mail', '{}')", NULL, 0);
}

static void pause_queue(struct kit *kit)
{
    kit_pause(kit, STR("acme"), STR("main"));
}

KIT_TEST(a_submit_ends_a_wait)
{
    struct kit other;
    kit_join(&other, k);
    assert_true(wait_while(k, &other, submit_one) & STORE_NOTIFY_READY);
    kit_close(&other);
}

KIT_TEST(a_submit_in_sql_ends_a_wait_when_it_commits)
{
    assert_true(wait_while(k, k, submit_in_sql) & STORE_NOTIFY_READY);
    (void)told_until_now(k);
    stores_postgres_sql(k->url, "BEGIN; SELECT redrive.submit('mail', '{}'); ROLLBACK", NULL, 0);
    assert_int_equal(told_until_now(k), 0);
}

KIT_TEST(what_processes_share_ends_a_wait_too)
{
    struct kit other;
    kit_join(&other, k);
    assert_true(wait_while(k, &other, pause_queue) != 0);
    kit_close(&other);
}

KIT_TEST(what_was_told_while_nobody_waited_is_not_lost)
{
    uint32_t notification;
    struct kit other;
    kit_join(&other, k);
    start_listening(k);
    submit_one(&other);
    assert_int_equal(LIST(k, .limit = 5)->n, 1);
    assert_int_equal(store_ops(k->store)->wait(k->store, WAIT_LIMIT_MS, &notification, NULL), 0);
    assert_true(notification & STORE_NOTIFY_READY);
    kit_close(&other);
}

KIT_TEST(sql_says_what_is_new)
{
    start_listening(k);
    stores_postgres_sql(k->url, "SELECT redrive.submit('mail', '{}', id => 'a')", NULL, 0);
    assert_int_equal(notification_of(k), STORE_NOTIFY_READY | STORE_NOTIFY_END);
    stores_postgres_sql(
        k->url, "SELECT redrive.submit('mail', '{}', process_after => now() + '1h')", NULL, 0);
    assert_int_equal(notification_of(k), STORE_NOTIFY_TIME | STORE_NOTIFY_END);
    stores_postgres_sql(k->url, "SELECT redrive.submit('mail', '{}', deadline => now() + '1h')",
                        NULL, 0);
    assert_int_equal(notification_of(k), STORE_NOTIFY_ALL);
    stores_postgres_sql(k->url, "SELECT redrive.cancel('a')", NULL, 0);
    assert_int_equal(notification_of(k), STORE_NOTIFY_TIME | STORE_NOTIFY_END);
    stores_postgres_sql(k->url, "NOTIFY redrive", NULL, 0);
    assert_int_equal(notification_of(k), STORE_NOTIFY_ALL);
}

/* The leader carries it out. */
KIT_TEST(the_cancel_of_a_running_job_wakes_those_who_tick)
{
    kit_start(k, PUT(k, .tenant = STR("default"), .id = STR("a")));
    start_listening(k);
    stores_postgres_sql(k->url, "SELECT redrive.cancel('a')", NULL, 0);
    assert_int_equal(notification_of(k), STORE_NOTIFY_TIME);
}

KIT_TEST(an_end_soon_after_another_is_told_with_a_later_transaction)
{
    struct kit other;
    kit_join(&other, k);
    start_listening(k);
    clock_stands_at_ms = __real_clock_monotonic_ms();
    commit_and_tell(&other, STORE_NOTIFY_END);
    assert_int_equal(notification_of(k), STORE_NOTIFY_END);
    commit_and_tell(&other, STORE_NOTIFY_END);
    assert_int_equal(told_until_now(k), 0);
    clock_stands_at_ms += 19;
    commit_and_tell(&other, 0);
    assert_int_equal(told_until_now(k), 0);
    clock_stands_at_ms += 1;
    commit_and_tell(&other, 0);
    assert_int_equal(notification_of(k), STORE_NOTIFY_END);
    commit_and_tell(&other, 0);
    commit_and_tell(&other, STORE_NOTIFY_TIME);
    assert_int_equal(notification_of(k), STORE_NOTIFY_TIME);
    clock_stands_at_ms = 0;
    kit_close(&other);
}

KIT_TEST(nobody_is_woken_by_himself)
{
    start_listening(k);
    submit_one(k);
    assert_int_equal(told_until_now(k), 0);
    submit_in_sql(k);
    assert_int_equal(notification_of(k), STORE_NOTIFY_READY | STORE_NOTIFY_END);
}

KIT_TEST(an_open_transaction_cannot_wait)
{
    kit_begin(k);
    assert_int_equal(store_ops(k->store)->wait(k->store, 0, NULL, NULL), REDRIVE_E_STATE);
    kit_rollback(k);
}
