#include "check.h"

#include <stdio.h>

#include "server/remote_workers.h"

#define NOW INT64_C(1800000000000)

static struct remote_workers *all;
static struct arena arena;
static struct remote_worker *rows;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena);
    all = remote_workers_new();
    return all ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    remote_workers_free(all);
    arena_release(&arena);
    return 0;
}

static size_t collect(int64_t now_ms)
{
    return remote_workers_collect(all, now_ms, false, &arena, &rows);
}

static void event(enum engine_event_kind kind, bool ran, const char *worker)
{
    const struct engine_event e = {
        .kind = kind, .tenant = STR("t"), .worker = str_of(worker), .ran = ran};
    remote_workers_event(&e, all);
}

#define FIXTURE_TEST(test) TEST_AROUND(test, setup, teardown)

FIXTURE_TEST(a_worker_that_was_seen_gets_a_row)
{
    assert_int_equal(collect(NOW), 0);
    remote_workers_seen(all, STR("t"), STR("w"), NOW - 5, 0);
    assert_int_equal(collect(NOW), 1);
    check_str(rows[0].name, "w");
    check_str(rows[0].tenant, "t");
    assert_int_equal(rows[0].started_ms, NOW - 5);
    assert_int_equal(rows[0].running, 0);
    assert_false(rows[0].gone);
}

FIXTURE_TEST(rows_of_a_worker_are_seldom)
{
    remote_workers_seen(all, STR("t"), STR("w"), NOW, 0);
    assert_int_equal(collect(NOW), 1);
    for (int64_t ms = 0; ms < REMOTE_EVERY_MS; ms += 1000) {
        remote_workers_seen(all, STR("t"), STR("w"), NOW + ms, 0);
        event(ENGINE_EVENT_STARTED, false, "w");
        assert_int_equal(collect(NOW + ms), 0);
    }
    assert_int_equal(collect(NOW + REMOTE_EVERY_MS), 1);
    /* Nothing has changed since. */
    assert_int_equal(collect(NOW + 2 * REMOTE_EVERY_MS), 0);
    assert_int_equal(collect(NOW + REMOTE_EVERY_MS + REMOTE_REFRESH_MS), 1);
}

FIXTURE_TEST(jobs_in_hand_are_counted)
{
    event(ENGINE_EVENT_STARTED, false, "w"); /* nobody has heard of it */
    remote_workers_seen(all, STR("t"), STR("w"), NOW, 0);
    remote_workers_seen(all, STR("other"), STR("w"), NOW, 0);
    for (int i = 0; i < 4; i++)
        event(ENGINE_EVENT_STARTED, false, "w");
    event(ENGINE_EVENT_COMPLETED, true, "w");
    event(ENGINE_EVENT_RETRYING, true, "w");
    event(ENGINE_EVENT_CANCELLED, false, "w");
    event(ENGINE_EVENT_PARKED, false, "w");
    assert_int_equal(collect(NOW), 2);
    assert_int_equal(rows[0].running, 1);
    assert_int_equal(rows[0].slots, 4);
    assert_int_equal(rows[0].runs, 2);
    assert_int_equal(rows[0].failed, 1);
    assert_int_equal(rows[1].running, 0);
}

FIXTURE_TEST(a_silent_worker_goes_unless_it_waits_or_works)
{
    const int64_t later_ms = NOW + WORKER_GONE_MS;
    remote_workers_seen(all, STR("t"), STR("idle"), NOW, 0);
    remote_workers_seen(all, STR("t"), STR("polls"), NOW, NOW + 30000);
    remote_workers_seen(all, STR("t"), STR("works"), NOW, 0);
    event(ENGINE_EVENT_STARTED, false, "works");
    assert_int_equal(collect(NOW), 3);
    assert_int_equal(collect(later_ms), 3);
    assert_true(rows[0].gone);
    check_str(rows[0].name, "idle");
    assert_false(rows[1].gone || rows[2].gone);
    assert_int_equal(collect(later_ms + 30000), 2);
    assert_true(rows[0].gone);
    assert_false(rows[1].gone);
    event(ENGINE_EVENT_COMPLETED, true, "works");
    assert_int_equal(collect(later_ms + 60000), 1);
    assert_true(rows[0].gone);
    assert_int_equal(collect(later_ms + 90000), 0);
}

FIXTURE_TEST(one_that_says_so_is_gone_at_once)
{
    remote_workers_seen(all, STR("t"), STR("shown"), NOW, 0);
    assert_int_equal(collect(NOW), 1);
    remote_workers_seen(all, STR("t"), STR("hidden"), NOW, 0);
    remote_workers_gone(all, STR("t"), STR("shown"));
    remote_workers_gone(all, STR("t"), STR("hidden"));
    remote_workers_gone(all, STR("t"), STR("nobody"));
    /* Of the one without a row there is nothing to tell. */
    assert_int_equal(collect(NOW + 1), 1);
    assert_true(rows[0].gone);
    check_str(rows[0].name, "shown");
    remote_workers_seen(all, STR("t"), STR("shown"), NOW + 2, 0);
    assert_int_equal(collect(NOW + 2), 1);
    assert_false(rows[0].gone);
}

FIXTURE_TEST(there_is_a_limit_and_all_get_their_turn)
{
    char name[24];
    size_t total = 0, n;
    for (int i = 0; i < REMOTE_WORKERS_MAX + 50; i++) {
        (void)snprintf(name, sizeof name, "w%d", i);
        remote_workers_seen(all, STR("t"), str_of(name), NOW, 0);
    }
    while ((n = collect(NOW)) > 0) {
        assert_in_range(n, 1, REMOTE_BATCH_MAX);
        total += n;
    }
    assert_int_equal(total, REMOTE_WORKERS_MAX);
    total = 0;
    while ((n = remote_workers_collect(all, NOW, true, &arena, &rows)) > 0)
        total += n;
    assert_int_equal(total, REMOTE_WORKERS_MAX);
    assert_true(rows == NULL || rows[0].gone);
}
