#include "check.h"

#include <stdio.h>

#include "server/remote_workers.h"

#define NOW INT64_C(1800000000000)

static struct remote_workers *all;
static struct arena arena;

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

static struct job_name named(const char *id)
{
    return (struct job_name){STR("t"), str_of(id)};
}

static void claim(const char *id, uint64_t token, int64_t until_ms)
{
    const struct lease lease = {named(id), token, until_ms};
    remote_jobs_add(all, &lease, NOW);
}

static void event(enum engine_event_kind kind, const char *id)
{
    const struct engine_event e = {.kind = kind, .tenant = STR("t"), .id = str_of(id)};
    remote_workers_event(&e, all);
}

#define FIXTURE_TEST(test) TEST_AROUND(test, setup, teardown)

FIXTURE_TEST(a_job_is_held_until_something_happens_to_it)
{
    claim("a", 1, NOW + 1000);
    claim("b", 2, NOW + 1000);
    event(ENGINE_EVENT_STARTED, "a");
    event(ENGINE_EVENT_COMPLETED, "other");
    assert_int_equal(remote_jobs_count(all, NOW), 2);
    event(ENGINE_EVENT_COMPLETED, "a");
    assert_int_equal(remote_jobs_count(all, NOW), 1);
    event(ENGINE_EVENT_CANCELLED, "b");
    assert_int_equal(remote_jobs_count(all, NOW), 0);
}

FIXTURE_TEST(a_lease_that_has_ended_is_not_held)
{
    const struct job_name a = named("a"), b = named("b");
    claim("a", 1, NOW + 1000);
    claim("b", 2, NOW + 1000);
    remote_jobs_extend(all, &a, 7, 60000, NOW); /* another lease */
    remote_jobs_extend(all, &b, 2, 5000, NOW);
    assert_int_equal(remote_jobs_count(all, NOW + 999), 2);
    assert_int_equal(remote_jobs_count(all, NOW + 1000), 1);
    assert_int_equal(remote_jobs_count(all, NOW + 4999), 1);
    assert_int_equal(remote_jobs_count(all, NOW + 5000), 0);
}

FIXTURE_TEST(only_the_lease_that_is_meant_is_dropped)
{
    const struct job_name a = named("a");
    claim("a", 1, NOW + 1000);
    claim("a", 2, NOW + 2000);
    remote_jobs_drop(all, &a, 1);
    assert_int_equal(remote_jobs_count(all, NOW + 1500), 1);
    remote_jobs_drop(all, &a, 2);
    assert_int_equal(remote_jobs_count(all, NOW), 0);
}

FIXTURE_TEST(the_store_has_the_last_word)
{
    struct lease *leases;
    claim("a", 1, NOW + 1000);
    claim("b", 2, NOW + 1000);
    assert_int_equal(remote_jobs_ask(all, &arena, &leases), 2);
    check_str(leases[0].job.id, "a");
    check_str(leases[1].job.tenant, "t");
    leases[0].until_ms = 0;
    leases[1].until_ms = NOW + 9000;
    claim("a", 3, NOW + 1000); /* again, while the store was asked */
    remote_jobs_answer(all, leases, 2);
    assert_int_equal(remote_jobs_count(all, NOW), 2);
    assert_int_equal(remote_jobs_count(all, NOW + 1000), 1);
    assert_int_equal(remote_jobs_count(all, NOW + 9000), 0);
}

FIXTURE_TEST(all_are_asked_for_in_turn)
{
    struct lease *leases;
    char id[16];
    for (int i = 0; i < HELD_ASK_MAX + 5; i++) {
        (void)snprintf(id, sizeof id, "j%d", i);
        claim(id, 1, NOW + 1000);
    }
    assert_int_equal(remote_jobs_ask(all, &arena, &leases), HELD_ASK_MAX);
    check_str(leases[0].job.id, "j0");
    assert_int_equal(remote_jobs_ask(all, &arena, &leases), HELD_ASK_MAX);
    (void)snprintf(id, sizeof id, "j%d", HELD_ASK_MAX);
    check_str(leases[0].job.id, id);
}

FIXTURE_TEST(ended_leases_take_no_room_for_ever)
{
    struct lease *leases;
    char id[16];
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(id, sizeof id, "j%d", i);
        const struct lease lease = {named(id), 1, NOW + i + 10};
        remote_jobs_add(all, &lease, NOW + i);
    }
    /* The oldest one that is left has come since the last sweep, or shortly before. */
    assert_true(remote_jobs_ask(all, &arena, &leases) > 0);
    assert_true(leases[0].until_ms > NOW + 3900);
}
