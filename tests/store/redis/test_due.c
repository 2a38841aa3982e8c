/* Jobs whose time has come, in many partitions: the earliest are found, however many there are. */
#include "handles.h"
#include "store_for_test.h"
#include "scans.h"
#include "server.h"

#include <stdio.h>

#define PARTITIONS   6
#define IN_PARTITION 20
#define JOBS         (PARTITIONS * IN_PARTITION)
#define AT_ONCE      ((size_t)7)

/* Job n is due as the nth, and stands in one line or another. */
static void lock_all(struct store *store, int64_t now_ms)
{
    struct arena arena;
    arena_init(&arena);
    assert_int_equal(begin(store, NULL), 0);
    for (int n = 0; n < JOBS; n++) {
        char id[16], queue[16];
        struct submit_result result;
        snprintf(id, sizeof id, "%d", n);
        snprintf(queue, sizeof queue, "q%d", n * 7 % PARTITIONS);
        const struct job_spec spec = {.tenant = STR("acme"),
                                      .id = str_of(id),
                                      .task = STR("mail"),
                                      .queue = str_of(queue),
                                      .process_after_ms = now_ms + 1 + n};
        assert_int_equal(store_ops(store)->submit(store, &spec, 1, &result, &arena, NULL), 0);
        assert_int_equal(result.state, REDRIVE_STATE_SCHEDULED);
    }
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    arena_release(&arena);
}

/* Of the queued ones the last in the order of their times; all before it must be queued as well. */
static void check_first_are_queued(struct store *store, size_t n)
{
    struct job_page page = {0};
    const struct job_filter filter = {.states = 1u << REDRIVE_STATE_QUEUED, .limit = 1000};
    assert_int_equal(store_ops(store)->list(store, &filter, &page, NULL), 0);
    assert_int_equal(page.n, n);
    assert_int_equal(page.jobs[n - 1].status.seq, n);
    job_page_release(&page);
}

TEST(the_earliest_of_many_partitions_are_due_first)
{
    struct server s;
    struct store *store = NULL;
    const struct store_options options = {.create = true, .caller_time = true};
    const int64_t now_ms = 1000000;
    int64_t now, version, next_ms;
    server_start(&s, NULL);
    assert_int_equal(store_open(s.url, &options, &store, NULL), 0);
    lock_all(store, now_ms);
    for (size_t done = 0; done < JOBS - 1;) {
        size_t moved;
        assert_int_equal(store_ops(store)->begin(store, now_ms + JOBS - 1, &now, &version, NULL),
                         0);
        assert_int_equal(scan_promote(store, AT_ONCE, &moved, &next_ms, NULL), 0);
        assert_int_equal(moved, done + AT_ONCE < JOBS ? AT_ONCE : JOBS - 1 - done);
        done += moved;
        assert_int_equal(next_ms, now_ms + 1 + (int64_t)done);
        assert_int_equal(store_ops(store)->commit(store, NULL), 0);
        check_first_are_queued(store, done);
    }
    store_close(store);
    server_stop(&s);
}
