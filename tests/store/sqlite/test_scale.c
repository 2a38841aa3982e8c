/* What must not grow with the number of partitions, or of jobs that nobody asked for. The limits
 * are many times what is needed, and a small part of what it took when each step looked at
 * everything.
 */
#include <sqlite3.h>
#include <stdio.h>

#include "base/time/clock.h"
#include "store_for_test.h"
#include "small_pages.h"

static int setup(void **state)
{
    static struct test_store ts;
    ts_open(&ts, "sqlite");
    *state = &ts;
    return 0;
}

static int teardown(void **state)
{
    ts_close(*state);
    return 0;
}

static void put_for_tenants(struct test_store *ts, int n)
{
    char name[16];
    ts_begin(ts);
    for (int i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        PUT(ts, .tenant = str_of(name));
    }
    ts_commit(ts);
}

static size_t drain(struct test_store *ts, size_t at_a_time)
{
    size_t drained = 0;
    for (;;) {
        ts_begin(ts);
        struct job_page *page = READY(ts, .limit = at_a_time);
        const size_t n = page->n;
        for (size_t i = 0; i < n; i++)
            ts_start(ts, page->jobs[i].status.seq);
        ts_commit(ts);
        drained += n;
        if (n == 0)
            return drained;
    }
}

#define OTHER_STORE_TEST(test) TEST_WITH(test, setup, teardown, struct test_store *ts)

OTHER_STORE_TEST(a_claim_does_not_pay_for_the_tenants_that_it_leaves)
{
    put_for_tenants(ts, 3000);
    int64_t start_ms = clock_monotonic_ms();
    assert_int_equal(drain(ts, 8), 3000);
    assert_true(clock_monotonic_ms() - start_ms < 30000);
}

/* What a claim has found out is kept for the claims after it, but not beyond a new job. */
OTHER_STORE_TEST(claims_of_one_transaction_see_what_came_between_them)
{
    const struct str queues[] = {STR("fast"), STR("slow")};
    ts_begin(ts);
    int64_t a = PUT(ts, .queue = STR("slow"));
    check_seqs(READY(ts, .tenant = STR("acme"), .queues = queues, .n_queues = 2), a);
    ts_start(ts, a);
    struct job_page *page = READY(ts, .tenant = STR("acme"), .queues = queues, .n_queues = 2);
    assert_int_equal(page->n, 0);
    assert_false(page->more);
    int64_t b = PUT(ts, .queue = STR("slow")), c = PUT(ts, .queue = STR("fast"));
    check_seqs(READY(ts, .tenant = STR("acme"), .queues = queues, .n_queues = 2), c, b);
    ts_start(ts, b);
    page = READY(ts, .tenant = STR("acme"), .queues = queues, .n_queues = 2, .limit = 1);
    check_seqs(page, c);
    assert_false(page->more);
    ts_commit(ts);
}

/* Steps of SQLite's machine, of all connections that this program opens, in hundreds. */
static long steps;

static int count_steps(void *ctx)
{
    (void)ctx;
    steps++;
    return 0;
}

static int watch_connection(sqlite3 *db, const char **message, const void *api)
{
    (void)message;
    (void)api;
    sqlite3_progress_handler(db, 100, count_steps, NULL);
    return SQLITE_OK;
}

/* Every queue but the first has one job, which is due after all of the first's. */
OTHER_STORE_TEST(a_look_at_the_queues_does_not_pay_for_their_jobs)
{
    char name[16];
    ts_begin(ts);
    for (int i = 0; i < 30000; i++)
        PUT(ts, .queue = STR("a"), .process_after_ms = ts->now_ms + 1 + i);
    for (int i = 0; i < 500; i++) {
        (void)snprintf(name, sizeof name, "q%d", i);
        PUT(ts, .queue = str_of(name), .process_after_ms = ts->now_ms + 40000 + i);
    }
    ts_commit(ts);
    steps = 0;
    struct count_page *page = ts_queues(ts, STR("acme"));
    assert_true(steps * 100 < 5 * 30000); /* a look at a job is at least five steps */
    assert_int_equal(page->n, 501);
    assert_int_equal(page->counts[0].next_due_ms, ts->now_ms + 1);
    assert_int_equal(page->counts[1].next_due_ms, ts->now_ms + 40000);
}

OTHER_STORE_TEST(a_list_of_a_small_tenant_does_not_pay_for_the_others)
{
    static const int OTHERS = 20000;
    ts_fill_tenants(ts, OTHERS);
    for (enum job_order order = ORDER_OLDEST; order <= ORDER_FINISHED; order++)
        for (size_t i = 0; i < SMALL_PAGE_COUNT; i++) {
            const struct small_page *page = &SMALL_PAGES[i];
            struct job_filter filter = page->filter;
            filter.tenant = STR("small");
            filter.order = order;
            filter.limit = 50;
            steps = 0;
            assert_int_equal(ts_list(ts, &filter)->n, page->expected);
            /* A look at a job is at least five steps. */
            if (steps * 100 >= OTHERS)
                fail_msg("%s in order %d: %ld steps", page->name, order, steps * 100);
        }
    steps = 0;
    assert_int_equal(LIST(ts, .tenant = STR("big"), .reasons = 1u << REDRIVE_REASON_POISON)->n, 0);
    assert_true(steps * 100 > OTHERS); /* they are counted */
}

/* Each filter finds one job, the oldest, among many that it is not about. */
OTHER_STORE_TEST(a_filter_does_not_pay_for_the_jobs_that_it_is_not_about)
{
    static const int OTHERS = 20000;
    const int64_t seq = put_rare_job(ts);
    ts_begin(ts);
    for (int i = 0; i < OTHERS; i++)
        PUT(ts, .user = i % 2 ? STR("bob") : (struct str){0});
    ts_commit(ts);
    for (size_t i = 0; i < RARE_FILTER_COUNT; i++)
        for (enum job_order order = ORDER_OLDEST; order <= ORDER_NEWEST; order++) {
            struct job_filter filter = RARE_FILTERS[i];
            filter.tenant = STR("acme");
            filter.order = order;
            filter.limit = 50;
            steps = 0;
            check_seqs(ts_list(ts, &filter), seq);
            assert_true(steps * 100 < OTHERS);
        }
}

/* The steps of so many claims of one job each, in one transaction, in which the first queue is the
 * only one of `n_queues` that a job comes from. */
#define CLAIMS 100
static long steps_of_claims(struct test_store *ts, size_t n_queues)
{
    static const struct str queues[] = {STR("a"), STR("b"), STR("c"), STR("d"), STR("e")};
    ts_begin(ts);
    steps = 0;
    for (int i = 0; i < CLAIMS; i++) {
        struct job_page *page =
            READY(ts, .tenant = STR("acme"), .queues = queues, .n_queues = n_queues, .limit = 1);
        assert_int_equal(page->n, 1);
        assert_true(page->more);
        assert_true(str_eq(page->jobs[0].spec.queue, STR("a")));
    }
    ts_rollback(ts);
    return steps;
}

OTHER_STORE_TEST(a_claim_does_not_pay_for_the_queues_that_come_later)
{
    ts_begin(ts);
    for (int i = 0; i < 10; i++) {
        PUT(ts, .queue = STR("a"));
        PUT(ts, .queue = STR("b"));
        PUT(ts, .queue = STR("c"));
        PUT(ts, .queue = STR("d"));
        PUT(ts, .queue = STR("e"));
    }
    ts_commit(ts);
    const long one = steps_of_claims(ts, 1), five = steps_of_claims(ts, 5);
    if (five > one + one / 10)
        fail_msg("%ld steps instead of %ld", five * 100, one * 100);
}

/* The steps of a list, for each of so many jobs. */
static double steps_of(struct test_store *ts, struct job_filter filter, size_t expected, int jobs)
{
    filter.tenant = STR("big");
    filter.limit = 50;
    steps = 0;
    assert_int_equal(ts_list(ts, &filter)->n, expected);
    return (double)steps * 100 / jobs;
}

/* Of the jobs of a state the index is read, and the rows of those that are shown. */
OTHER_STORE_TEST(a_page_does_not_read_the_rows_of_all_jobs_of_its_state)
{
    static const int OTHERS = 20000;
    const uint32_t dead = 1u << REDRIVE_STATE_DEAD_LETTER;
    const struct job_filter of_ann = {.states = dead, .user = STR("ann"), .order = ORDER_FINISHED};
    const struct job_filter of_type = {
        .states = dead, .error_type = STR("KeyError"), .order = ORDER_FINISHED};
    ts_fill_tenants(ts, OTHERS);
    const double few =
        steps_of(ts, (struct job_filter){.states = dead, .is_few = true, .order = ORDER_NEWEST}, 50,
                 OTHERS / 2);
    print_message("# %.1f steps a job\n", few);
    assert_true(few < 15);
    assert_true(steps_of(ts, of_ann, 0, OTHERS / 2) < 1);
    assert_true(steps_of(ts, of_type, 0, OTHERS / 2) < 1);
    struct job_filter groups = of_ann;
    groups.tenant = STR("big");
    groups.limit = 50;
    steps = 0;
    assert_int_equal(store_ops(ts->store)->groups(ts->store, &groups, &ts->groups, NULL), 0);
    assert_int_equal(ts->groups.n, 0);
    assert_true(steps * 100 < OTHERS);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static int count_blocks(const struct test_store *ts)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(ts->url + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM job_blocks", -1, &st, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    const int n = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n;
}

/* Retention removes jobs in portions; a job that lives on keeps its block. */
OTHER_STORE_TEST(blocks_go_with_their_last_jobs)
{
    int64_t last = 0;
    ts_begin(ts);
    for (int i = 0; i < 1000; i++) {
        const int64_t seq = PUT(ts, .task = i % 100 == 0 ? STR("rare") : STR("common"));
        if (i != 300)
            (void)ts_settle(ts, seq, ts_start(ts, seq), decision_completed());
        else
            last = seq;
    }
    ts_commit(ts);
    assert_int_equal(count_blocks(ts), 8); /* of each task in each of four */
    ts->now_ms += 10;
    for (int i = 0; i < 20; i++) {
        ts_begin(ts);
        ts_rollback(ts); /* as a step of the engine that finds nothing to do */
        (void)ts_sweep(ts, STATE_BIT(COMPLETED), ts->now_ms, 70);
    }
    /* That of the job that is left, and the newest, which may still get jobs. */
    assert_int_equal(count_blocks(ts), 3);
    check_seqs(LIST(ts, .task = STR("rare"), .order = ORDER_NEWEST), last);
}

TEST_MAIN(argc, argv)
{
    sqlite3_auto_extension((void (*)(void))watch_connection);

    return check_run(NULL, NULL);
}
