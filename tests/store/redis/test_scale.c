/* What must not grow with the number of jobs that were not asked for, in commands of the server. */
#include "handles.h"
#include "store_for_test.h"
#include "server.h"

/* Commands that the functions have called so far which look at jobs or at indexes. */
static long looks(const struct server *s)
{
    static const char *const NAMES[] = {
        "cmdstat_hmget:calls=", "cmdstat_hkeys:calls=", "cmdstat_hget:calls=",
        "cmdstat_smembers:calls=", "cmdstat_zrange:calls="};
    long sum = 0;
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        const long calls = server_number(s, "commandstats", NAMES[i]);
        sum += calls > 0 ? calls : 0;
    }
    return sum;
}

TEST(a_list_of_a_small_tenant_does_not_pay_for_the_others)
{
    struct server s;
    struct test_store ts = {.now_ms = TS_START_MS};
    arena_init(&ts.arena);
    server_start(&s, NULL);
    ts.store = open_at(&s);
    ts_fill_tenants(&ts, 20000); /* in 80 buckets */
    for (enum job_order order = ORDER_OLDEST; order <= ORDER_FINISHED; order++)
        for (int dead = 0; dead < 2; dead++) {
            const long before = looks(&s);
            const struct job_page *page =
                LIST(&ts, .tenant = STR("small"), .order = order, .limit = 50,
                     .states = dead ? 1u << REDRIVE_STATE_DEAD_LETTER : 0);
            assert_int_equal(page->n, dead ? 3 : 12);
            assert_true(looks(&s) - before < 40);
        }
    ts_close(&ts);
    server_stop(&s);
}

/* 5000 jobs, of which every 500th is of the user "rare" and has a payload that is kept beside its
 * row; half of them have ended. */
static void fill_users(struct test_store *ts)
{
    char payload[700];
    memset(payload, '1', sizeof payload);
    for (int i = 0; i < 5000; i++) {
        const bool is_rare = i % 500 == 250;
        if (i % 50 == 0)
            ts_begin(ts);
        ts->now_ms += i % 50 == 0;
        ts_put_in(ts, i < 2500 ? REDRIVE_STATE_DEAD_LETTER : REDRIVE_STATE_QUEUED,
                  &(struct job_spec){.user = is_rare ? STR("rare") : STR("common"),
                                     .payload = {payload, is_rare ? sizeof payload : 10}});
        if (i % 50 == 49)
            ts_commit(ts);
    }
}

/* The server does not know the users of jobs: all are read, many at a time. */
TEST(a_list_by_what_the_server_cannot_check_reads_many_at_a_time)
{
    struct server s;
    struct test_store ts = {.now_ms = TS_START_MS};
    arena_init(&ts.arena);
    server_start(&s, NULL);
    ts.store = open_at(&s);
    fill_users(&ts);
    for (enum job_order order = ORDER_OLDEST; order <= ORDER_FINISHED; order++) {
        long before = calls(&s);
        assert_int_equal(LIST(&ts, .user = STR("none"), .order = order, .limit = 1)->n, 0);
        assert_in_range(calls(&s) - before, 1, 40);
        before = calls(&s);
        assert_int_equal(LIST(&ts, .user = STR("common"), .order = order, .limit = 20)->n, 20);
        assert_in_range(calls(&s) - before, 1, order == ORDER_FINISHED ? 4 : 1);
    }
    ts_close(&ts);
    server_stop(&s);
}

TEST(a_list_of_jobs_that_are_few_has_all_of_them)
{
    struct server s;
    struct test_store ts = {.now_ms = TS_START_MS};
    arena_init(&ts.arena);
    server_start(&s, NULL);
    ts.store = open_at(&s);
    fill_users(&ts);
    for (enum job_order order = ORDER_OLDEST; order <= ORDER_FINISHED; order++)
        for (size_t limit = 1; limit <= 10; limit += 3) {
            struct job_filter f = {.user = STR("rare"), .order = order, .limit = limit};
            int64_t last = 0;
            size_t n = 0;
            for (bool more = true; more;) {
                const struct job_page *page = ts_list(&ts, &f);
                more = page->more;
                for (size_t i = 0; i < page->n; i++, n++) {
                    const struct job *job = &page->jobs[i];
                    assert_int_equal(job->spec.payload.len, 700);
                    /* By the end: those that have ended first, the latest first. */
                    if (order == ORDER_OLDEST)
                        assert_true(job->status.seq > last);
                    else if (n > 0 && !(order == ORDER_FINISHED && n == 5))
                        assert_true(job->status.seq < last);
                    last = f.after_seq = job->status.seq;
                    f.after_ms = job->status.finished_ms;
                }
                assert_int_equal(more, n < 10);
            }
            assert_int_equal(n, 10);
        }
    ts_close(&ts);
    server_stop(&s);
}
