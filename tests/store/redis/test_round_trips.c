/* How often the server is asked, which is what a transaction costs where the server is far away. */
#include "handles.h"
#include "store_for_test.h"
#include "scans.h"
#include "server.h"

static const struct claim_filter ANY = {.limit = 4};

/* A store with two jobs that run, as this handle has started them, and two that wait. */
static struct store *set_out(struct server *s)
{
    server_start(s, NULL);
    struct store *store = open_at(s);
    put_committed(store, "a");
    put_committed(store, "b");
    put_committed(store, "c");
    start_committed(store, 1, 7);
    start_committed(store, 2, 7);
    return store;
}

static void end(struct server *s, struct store *store)
{
    assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
    store_close(store);
    server_stop(s);
}

TEST(a_settle_takes_one)
{
    struct server s;
    struct store *store = set_out(&s);
    const long before = calls(&s);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(settle(store, 1, 7), 0);
    assert_int_equal(settle(store, 2, 7), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(calls(&s) - before, 1);
    end(&s, store);
}

TEST(a_settle_with_a_claim_takes_two)
{
    struct server s;
    struct job_page page = {0};
    struct store *store = set_out(&s);
    const long before = calls(&s);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(settle(store, 1, 7), 0);
    assert_int_equal(store_ops(store)->ready(store, &ANY, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    assert_int_equal(start(store, page.jobs[0].status.seq, 8), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(calls(&s) - before, 2);
    job_page_release(&page);
    end(&s, store);
}

/* A limit that the claim goes by is compared by the commit, and not read before. */
TEST(a_claim_with_a_gate_takes_two)
{
    struct server s;
    struct store *store = set_out(&s);
    struct shared_row row = {.kind = SHARED_LIMIT, .tenant = STR("acme"), .key = STR("l")};
    struct move_result result;
    for (int i = 0; i < 3; i++) {
        const long before = calls(&s);
        assert_int_equal(begin(store, NULL), 0);
        assert_int_equal(count_ready(store), 1);
        row.version = i;
        assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &result, NULL), 0);
        assert_int_equal(result.code, 0);
        assert_int_equal(store_ops(store)->commit(store, NULL), 0);
        assert_int_equal(calls(&s) - before, i == 0 ? 3 : 2);
    }
    const long before = calls(&s);
    row = (struct shared_row){.kind = SHARED_LIMIT,
                              .tenant = STR("acme"),
                              .key = STR("l"),
                              .is_delta = true,
                              .add = {1, 0},
                              .max_used = 1};
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->shared_put(store, &row, 1, &result, NULL), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(calls(&s) - before, 1);
    end(&s, store);
}

TEST(a_submit_takes_two)
{
    struct server s;
    struct store *store = set_out(&s);
    const long before = calls(&s);
    put_committed(store, "d");
    assert_int_equal(calls(&s) - before, 2);
    end(&s, store);
}

TEST(a_claim_that_finds_nothing_takes_one)
{
    struct server s;
    struct store *store = set_out(&s);
    start_committed(store, 3, 7);
    const long before = calls(&s);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(count_ready(store), 0);
    rollback(store);
    assert_int_equal(calls(&s) - before, 1);
    end(&s, store);
}

TEST(heartbeats_take_one)
{
    struct server s;
    struct store *store = set_out(&s);
    const struct extend_move moves[] = {{1, 7, INT64_MAX / 2}, {2, 7, INT64_MAX / 2}};
    struct move_result results[2];
    const long before = calls(&s);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(store_ops(store)->move(store, EXTENDS(moves, 2), results, NULL), 0);
    assert_int_equal(results[0].code, 0);
    assert_int_equal(results[1].code, 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(calls(&s) - before, 1);
    end(&s, store);
}

/* The jobs of a state, and the commit that removes them. */
TEST(a_sweep_takes_two)
{
    struct server s;
    struct scan scan = {
        .limit = 10, .states = 1u << REDRIVE_STATE_COMPLETED, .before_ms = INT64_MAX};
    size_t removed;
    bool more;
    struct store *store = set_out(&s);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(settle(store, 1, 7), 0);
    assert_int_equal(settle(store, 2, 7), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    const long before = calls(&s);
    assert_int_equal(begin(store, NULL), 0);
    assert_int_equal(scan_remove(store, &scan, (struct str){0}, &removed, &more, NULL), 0);
    assert_int_equal(removed, 2);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(calls(&s) - before, 2);
    end(&s, store);
}

/* All that is shared is read with one question, however many kinds there are. */
TEST(what_is_shared_takes_one)
{
    struct server s;
    struct store *store = set_out(&s);
    const long before = calls(&s);
    assert_int_equal(begin(store, NULL), 0);
    for (int kind = 0; shared_is_cached((enum shared_kind)kind); kind++) {
        struct shared_page page = {0};
        assert_int_equal(store_ops(store)->shared_list(store, (enum shared_kind)kind,
                                                       (struct str){0}, &page, NULL),
                         0);
        shared_page_release(&page);
    }
    rollback(store);
    assert_int_equal(calls(&s) - before, 1);
    end(&s, store);
}

/* A job that goes from one state to another between two questions would be missed by both. */
TEST(the_plan_of_a_listing_takes_one)
{
    struct server s;
    struct job_page page = {0};
    struct store *store = set_out(&s);
    const struct job_filter filter = {
        .states = 1u << REDRIVE_STATE_RUNNING | 1u << REDRIVE_STATE_COMPLETED |
                  1u << REDRIVE_STATE_DEAD_LETTER | 1u << REDRIVE_STATE_CANCELLED,
        .limit = 10};
    assert_int_equal(settle_committed(store, 1, 7), 0);
    const long before = calls(&s);
    assert_int_equal(store_ops(store)->list(store, &filter, &page, NULL), 0);
    assert_int_equal(page.n, 2);
    assert_int_equal(calls(&s) - before, 2); /* which jobs, and their rows */
    job_page_release(&page);
    end(&s, store);
}
