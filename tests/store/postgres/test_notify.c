/* Waiting for others, who tell. */
#include <pthread.h>
#include <time.h>

#include "base/time/clock.h"
#include "kit.h"
#include "stores_postgres.h"

/* Longer than any of this takes, shorter than a test may last. */
#define LONG_MS 60000

struct later {
    void (*what)(struct kit *kit);
    struct kit *kit;
};

static void *do_later(void *arg)
{
    const struct later *later = arg;
    const struct timespec nap = {.tv_nsec = 50000000};
    nanosleep(&nap, NULL);
    later->what(later->kit);
    return NULL;
}

/* A connection has to listen first, and cannot know what it has missed until then. */
static void start_listening(struct kit *k)
{
    for (int i = 0; i < 3; i++)
        assert_int_equal(store_ops(k->store)->wait(k->store, 100, NULL, NULL), 0);
}

/* How long a wait lasts while something else is done by another session. */
static int64_t wait_while(struct kit *k, struct kit *other, void (*what)(struct kit *kit),
                          int64_t limit_ms)
{
    pthread_t thread;
    struct later later = {what, other};
    start_listening(k);
    const int64_t start_ms = clock_monotonic_ms();
    assert_int_equal(pthread_create(&thread, NULL, do_later, &later), 0);
    assert_int_equal(store_ops(k->store)->wait(k->store, limit_ms, NULL, NULL), 0);
    const int64_t took_ms = clock_monotonic_ms() - start_ms;
    pthread_join(thread, NULL);
    return took_ms;
}

static void submit_one(struct kit *kit)
{
    PUT(kit, .queue = STR("main"));
}

static void submit_in_sql(struct kit *kit)
{
    stores_postgres_sql(kit->url, "SELECT redrive.submit('mail', '{}')", NULL, 0);
}

static void roll_back_in_sql(struct kit *kit)
{
    stores_postgres_sql(kit->url, "BEGIN; SELECT redrive.submit('mail', '{}'); ROLLBACK", NULL, 0);
}

static void pause_queue(struct kit *kit)
{
    kit_pause(kit, STR("acme"), STR("main"));
}

KIT_TEST(a_submit_ends_a_wait)
{
    struct kit other;
    kit_join(&other, k);
    assert_true(wait_while(k, &other, submit_one, LONG_MS) < LONG_MS / 2);
    kit_close(&other);
}

KIT_TEST(a_submit_in_sql_ends_a_wait_when_it_commits)
{
    assert_true(wait_while(k, k, submit_in_sql, LONG_MS) < LONG_MS / 2);
    assert_true(wait_while(k, k, roll_back_in_sql, 400) >= 400);
}

KIT_TEST(what_processes_share_ends_a_wait_too)
{
    struct kit other;
    kit_join(&other, k);
    assert_true(wait_while(k, &other, pause_queue, LONG_MS) < LONG_MS / 2);
    kit_close(&other);
}

KIT_TEST(what_was_told_while_nobody_waited_is_not_lost)
{
    struct kit other;
    kit_join(&other, k);
    start_listening(k);
    submit_one(&other);
    assert_int_equal(LIST(k, .limit = 5)->n, 1);
    const int64_t start_ms = clock_monotonic_ms();
    assert_int_equal(store_ops(k->store)->wait(k->store, LONG_MS, NULL, NULL), 0);
    assert_true(clock_monotonic_ms() - start_ms < LONG_MS / 2);
    kit_close(&other);
}

/* All that is heard until nothing is, for a moment. */
static uint32_t notification_of(struct kit *k)
{
    uint32_t all = 0, notification = 0;
    do {
        assert_int_equal(
            store_ops(k->store)->wait(k->store, all ? 100 : LONG_MS, &notification, NULL), 0);
        all |= notification;
    } while (notification != 0);
    return all;
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

static void commit_and_tell(struct kit *k, uint32_t notification)
{
    kit_begin(k);
    submit_one(k);
    store_notify(k->store, notification);
    kit_commit(k);
}

KIT_TEST(an_end_soon_after_another_is_told_with_a_later_transaction)
{
    struct kit other;
    kit_join(&other, k);
    start_listening(k);
    int64_t took_ms = INT64_MAX;
    for (int i = 0; i < 100 && took_ms >= 20; i++) {
        const int64_t start_ms = clock_monotonic_ms();
        commit_and_tell(&other, STORE_NOTIFY_END);
        commit_and_tell(&other, STORE_NOTIFY_END);
        took_ms = clock_monotonic_ms() - start_ms;
        assert_int_equal(notification_of(k), STORE_NOTIFY_END);
    }
    assert_true(took_ms < 20); /* the machine is not that slow */
    commit_and_tell(&other, 0);
    assert_int_equal(notification_of(k), STORE_NOTIFY_END);
    commit_and_tell(&other, 0);
    commit_and_tell(&other, STORE_NOTIFY_TIME);
    assert_int_equal(notification_of(k), STORE_NOTIFY_TIME);
    kit_close(&other);
}

KIT_TEST(nobody_is_woken_by_himself)
{
    start_listening(k);
    submit_one(k);
    const int64_t start_ms = clock_monotonic_ms();
    assert_int_equal(store_ops(k->store)->wait(k->store, 100, NULL, NULL), 0);
    assert_true(clock_monotonic_ms() - start_ms >= 100);
}

KIT_TEST(an_open_transaction_cannot_wait)
{
    kit_begin(k);
    assert_int_equal(store_ops(k->store)->wait(k->store, 0, NULL, NULL), REDRIVE_E_STATE);
    kit_rollback(k);
}
