/* Jobs that were given to a claim are given to no other until its transaction ends, or a second is
 * over; what is true of them only their rows say. */
#include "handles.h"
#include "store_for_test.h"
#include "server.h"

#include <stdio.h>

#include "base/time/clock.h"

#define SOON_OVER_MS 1300

static void begin_both(struct store *a, struct store *b)
{
    assert_int_equal(begin(a, NULL), 0);
    assert_int_equal(begin(b, NULL), 0);
}

SERVER_TEST(a_job_is_reserved_until_the_transaction_ends, NULL)
{
    struct store *store = open_at(s), *other = open_at(s);
    put_committed(store, "a");
    begin_both(store, other);
    assert_int_equal(count_ready(store), 1);
    assert_int_equal(count_ready(store), 0); /* nor is it given to the same transaction twice */
    assert_int_equal(count_ready(other), 0);
    rollback(store);
    assert_int_equal(count_jobs(store), 1); /* by now the server has heard of it */
    assert_int_equal(count_ready(other), 1);
    assert_int_equal(start(other, 1, 7), 0);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    assert_string_equal(server_call(s, "EXISTS {redrive}:reserved"), "0");
    begin_both(store, other);
    assert_int_equal(count_ready(store), 0);
    rollback(store);
    rollback(other);
    store_close(store);
    store_close(other);
}

/* Whoever has it may be dead. */
SERVER_TEST(a_reservation_ends_by_itself, NULL)
{
    struct store *store = open_at(s), *other = open_at(s);
    put_committed(store, "a");
    begin_both(store, other);
    assert_int_equal(count_ready(store), 1);
    pass_ms(SOON_OVER_MS);
    assert_int_equal(count_ready(other), 1);
    rollback(other);
    /* Nobody has moved the job: the late commit is as good as any. */
    assert_int_equal(start(store, 1, 7), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(settle_committed(store, 1, 7), 0);
    store_close(store);
    store_close(other);
}

SERVER_TEST(who_comes_too_late_is_refused_and_goes_on_with_the_rest, NULL)
{
    struct redrive_err err = {0};
    struct store *store = open_at(s), *other = open_at(s);
    put_committed(store, "a");
    put_committed(store, "b");
    begin_both(store, other);
    assert_int_equal(count_ready(store), 2);
    pass_ms(SOON_OVER_MS);
    assert_int_equal(count_ready(other), 2);
    assert_int_equal(start(other, 1, 8), 0);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    assert_int_equal(start(store, 1, 7), 0);
    assert_int_equal(start(store, 2, 7), 0);
    assert_int_equal(store_ops(store)->commit(store, &err), REDRIVE_E_CANCELLED);
    assert_true(store_base(store)->is_rolled_back);
    assert_non_null(strstr(err.detail, "none"));
    rollback(store);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(start(store, 1, 7), REDRIVE_E_STATE);
    assert_int_equal(start(store, 2, 7), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(settle_committed(other, 1, 8), 0);
    assert_int_equal(settle_committed(store, 2, 7), 0);
    assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
    store_close(store);
    store_close(other);
}

#define MANY        1300
#define RESERVED_MS 1000

/* Whether each job was given once. On a busy machine the first reservations may be over before the
 * last job is given: *ret_in_time says that they were not. */
static bool are_given_once(bool *ret_in_time)
{
    static struct job_spec specs[MANY];
    static struct submit_result results[MANY];
    static char ids[MANY][8];
    struct server s;
    struct arena arena;
    struct job_page page = {0};
    server_start(&s, NULL);
    struct store *store = open_at(&s), *other = open_at(&s);
    arena_init(&arena);
    for (int i = 0; i < MANY; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", i);
        specs[i] = (struct job_spec){
            .tenant = STR("acme"), .id = str_of(ids[i]), .task = STR("mail"), .queue = STR("main")};
    }
    begin_both(store, other);
    assert_int_equal(store_ops(store)->submit(store, specs, MANY, results, &arena, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(begin(store, NULL), 0);
    int64_t given = 0;
    bool is_once = true;
    const int64_t began_ms = clock_monotonic_ms();
    for (int i = 0; i < 5; i++) {
        struct store *both[] = {store, other};
        const struct claim_filter filter = {.limit = 300};
        assert_int_equal(store_ops(both[i % 2])->ready(both[i % 2], &filter, &page, NULL), 0);
        for (size_t k = 0; k < page.n; k++)
            is_once &= page.jobs[k].status.seq == ++given;
        is_once &= page.more == (i < 4);
    }
    is_once &= given == MANY && count_ready(other) == 0;
    *ret_in_time = clock_monotonic_ms() - began_ms < RESERVED_MS;
    job_page_release(&page);
    arena_release(&arena);
    store_close(store);
    store_close(other);
    server_stop(&s);
    return is_once;
}

/* They are known at once, or asked for. */
TEST(many_that_are_reserved_are_passed_over)
{
    bool in_time = false, is_once = false;
    for (int tries = 0; tries < 20 && !in_time; tries++)
        is_once = are_given_once(&in_time);
    assert_true(is_once);
}

/* A clock that was an hour ahead. */
SERVER_TEST(a_reservation_that_lasts_too_long_is_none, NULL)
{
    struct store *store = open_at(s);
    put_committed(store, "a");
    server_call(s, "ZADD {redrive}:reserved 9000000000000 1");
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(count_ready(store), 1);
    rollback(store);
    store_close(store);
}

/* The log has heard nothing of the reservation, and all of the start, or neither. */
TEST(a_server_that_dies_in_between_has_the_job_once)
{
    for (int commits = 0; commits < 2; commits++) {
        struct server s;
        server_start(&s, DURABLE);
        struct store *store = open_at(&s), *other = open_at(&s);
        put_committed(store, "a");
        assert_int_equal(begin(store, NULL), 0);
        assert_int_equal(count_ready(store), 1);
        assert_int_equal(start(store, 1, 7), 0);
        if (commits)
            assert_int_equal(store_ops(store)->commit(store, NULL), 0);
        server_restart(&s);
        if (!commits) {
            assert_int_equal(store_ops(store)->commit(store, NULL), REDRIVE_E_CANCELLED);
            rollback(store);
        }
        assert_int_equal(begin(other, NULL), 0);
        assert_int_equal(count_ready(other), commits ? 0 : 1);
        rollback(other);
        assert_int_equal(settle_committed(store, 1, 7), commits ? 0 : REDRIVE_E_STATE);
        if (!commits)
            start_committed(other, 1, 8);
        assert_int_equal(store_ops(other)->verify(other, NULL, NULL, NULL), 0);
        server_restart(&s);
        assert_int_equal(begin(other, NULL), 0);
        assert_int_equal(count_ready(other), 0);
        rollback(other);
        store_close(store);
        store_close(other);
        server_stop(&s);
    }
}
