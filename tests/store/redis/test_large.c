/* Jobs with large payloads: what a handle has in memory after them, and how much is read at once.
 */
#include "handles.h"
#include "store_for_test.h"
#include "server.h"
#include "store/redis/private.h"

#include <stdio.h>

#define MIB ((size_t)1 << 20)

static char payload[1 << 20];

/* Submits jobs with a payload of a megabyte each, in the open transaction. */
static void put_large(struct store *store, int first, int n)
{
    struct arena arena;
    arena_init(&arena);
    for (int i = first; i < first + n; i++) {
        char id[24];
        snprintf(id, sizeof id, "large-%d", i);
        const struct job_spec spec = {.tenant = STR("acme"),
                                      .id = str_of(id),
                                      .task = STR("mail"),
                                      .queue = STR("main"),
                                      .payload = {payload, sizeof payload}};
        struct submit_result result;
        assert_int_equal(store_ops(store)->submit(store, &spec, 1, &result, &arena, NULL), 0);
        assert_int_equal(result.code, 0);
    }
    arena_release(&arena);
}

static struct store *set_out(struct server *s)
{
    memset(payload, 'x', sizeof payload);
    server_start(s, NULL);
    return open_at(s);
}

static void end(struct server *s, struct store *store)
{
    assert_int_equal(store_ops(store)->verify(store, NULL, NULL, NULL), 0);
    store_close(store);
    server_stop(s);
}

/* What stays with the handle from one transaction to the next. */
static size_t kept_bytes(const struct store *store)
{
    return store->arena.bytes + store->words.capacity + store->ahead.words.capacity +
           store->row.capacity;
}

TEST(payloads_are_not_kept_after_their_commit)
{
    struct server s;
    struct store *store = set_out(&s);
    for (int i = 0; i < 40; i += 4) {
        assert_int_equal(begin(store, NULL), 0);
        put_large(store, i, 4);
        assert_int_equal(store_ops(store)->commit(store, NULL), 0);
        assert_in_range(kept_bytes(store), 0, 10 * MIB);
    }
    assert_int_equal(begin(store, NULL), 0);
    put_large(store, 40, 12);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_in_range(kept_bytes(store), 0, MIB);
    assert_int_equal(begin(store, NULL), 0);
    put_large(store, 60, 12);
    rollback(store);
    assert_in_range(kept_bytes(store), 0, MIB);
    end(&s, store);
}

TEST(rows_of_running_jobs_outlive_large_payloads)
{
    struct server s;
    struct store *store = set_out(&s);
    put_committed(store, "small");
    start_committed(store, 1, 7);
    assert_int_equal(begin(store, NULL), 0);
    put_large(store, 0, 12);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(begin(store, NULL), 0);
    const long before = calls(&s);
    assert_int_equal(settle(store, 1, 7), 0);
    assert_int_equal(calls(&s), before);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    end(&s, store);
}

/* The request of the commit and that which looks ahead change places with each other. */
TEST(a_commit_after_one_that_looked_ahead_may_be_as_large)
{
    static const struct claim_filter ONE = {.limit = 1};
    struct server s;
    struct store *store = set_out(&s);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(begin(store, NULL), 0);
        store_ops(store)->look_ahead(store, &ONE);
        put_large(store, 20 * i, 17);
        assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    }
    end(&s, store);
}

/* A handle whose last answer is old asks for the server's time once more: on a machine that stands
 * still the first looks may be dearer. */
static void check_claim(struct server *s, struct store *store, size_t max_bytes, size_t n,
                        long n_requests)
{
    const struct claim_filter filter = {.limit = 100, .max_bytes = max_bytes};
    struct job_page page = {0};
    long asked = 0;
    for (int i = 0; i < 20 && asked != n_requests; i++) {
        if (i > 0)
            rollback(store);
        const long before = calls(s);
        assert_int_equal(begin(store, NULL), 0);
        assert_int_equal(store_ops(store)->ready(store, &filter, &page, NULL), 0);
        asked = calls(s) - before;
    }
    assert_int_equal(asked, n_requests);
    assert_int_equal(page.n, n);
    for (size_t i = 0; i < page.n; i++) {
        assert_int_equal(page.jobs[i].status.seq, i + 1);
        assert_int_equal(page.jobs[i].spec.payload.len, sizeof payload);
    }
    job_page_release(&page);
    rollback(store);
}

TEST(a_claim_of_many_bytes_is_read_in_several_replies)
{
    struct server s;
    struct store *store = set_out(&s);
    for (int i = 0; i < 40; i += 8) {
        assert_int_equal(begin(store, NULL), 0);
        put_large(store, i, 8);
        assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    }
    check_claim(&s, store, 16 * MIB, 15, 1); /* a job counts for a little more than its payload */
    check_claim(&s, store, 64 * MIB, 40, 3);
    check_claim(&s, store, 20 * MIB, 19, 2);
    check_claim(&s, store, 0, 40, 1);
    end(&s, store);
}
