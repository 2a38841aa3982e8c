/* Who is told of new jobs: a few of those who wait for them, and not all. */
#include "check.h"

#include <stdlib.h>

#include "base/time/clock.h"
#include "store_for_test.h"
#include "waiting.h"

#define PROCESSES 8

/* So long those are listened to who should hear nothing. */
#define HEARD_MS 300

struct crowd {
    struct test_store stores[PROCESSES];
};

/* All listen, and wait for jobs of a task. */
static void crowd_open(struct crowd *crowd, struct test_store *first, const char *task)
{
    for (size_t i = 0; i < PROCESSES; i++) {
        struct test_store *ts = &crowd->stores[i];
        ts_join(ts, first);
        assert_int_equal(store_ops(ts->store)->wait(ts->store, 0, NULL, NULL), 0);
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        struct test_store *ts = &crowd->stores[i];
        const struct str tasks[] = {str_of(task)};
        ts_begin(ts);
        assert_int_equal(READY(ts, .tasks = tasks, .n_tasks = 1)->n, 0);
        ts_rollback(ts);
    }
}

static void crowd_close(struct crowd *crowd)
{
    for (size_t i = 0; i < PROCESSES; i++)
        ts_close(&crowd->stores[i]);
}

/* Each of them looks for so long; how many hear of new jobs, who had not yet. */
static size_t listen_to_all(struct crowd *crowd, bool *has_heard, int64_t ms)
{
    size_t n = 0;
    for (size_t i = 0; i < PROCESSES; i++) {
        struct store *store = crowd->stores[i].store;
        uint32_t notification = 0;
        assert_int_equal(store_ops(store)->wait(store, ms, &notification, NULL), 0);
        if ((notification & STORE_NOTIFY_READY) && !has_heard[i]) {
            has_heard[i] = true;
            n++;
        }
    }
    return n;
}

/* How many of them hear of new jobs: as many as should, and who hears of them soon after. */
static size_t count_woken(struct crowd *crowd, size_t at_least)
{
    bool has_heard[PROCESSES] = {false};
    size_t n = 0;
    WAIT_RUNNING(n >= at_least, n += listen_to_all(crowd, has_heard, 1));
    return n + listen_to_all(crowd, has_heard, HEARD_MS / PROCESSES);
}

static void put(struct test_store *ts, int n, const char *task)
{
    ts_begin(ts);
    for (int i = 0; i < n; i++)
        PUT(ts, .task = str_of(task));
    store_notify(ts->store, STORE_NOTIFY_READY);
    ts_commit(ts);
}

STORE_TEST(one_job_wakes_two_of_many)
{
    struct crowd crowd;
    crowd_open(&crowd, ts, "mail");
    put(ts, 1, "mail");
    assert_int_equal(count_woken(&crowd, 2), 2);
    assert_int_equal(count_woken(&crowd, 0), 0);
    put(ts, 3, "mail");
    assert_int_equal(count_woken(&crowd, 4), 4);
    crowd_close(&crowd);
}

STORE_TEST(those_who_wait_for_something_else_take_nobody_s_turn)
{
    struct crowd mail, resize;
    crowd_open(&mail, ts, "mail");
    crowd_open(&resize, ts, "resize");
    put(ts, 1, "mail");
    assert_in_range(count_woken(&mail, 1), 1, 2);
    crowd_close(&mail);
    crowd_close(&resize);
}

STORE_TEST(whoever_has_gone_is_not_counted)
{
    struct crowd gone, there;
    crowd_open(&there, ts, "mail");
    crowd_open(&gone, ts, "mail");
    crowd_close(&gone);
    put(ts, 1, "mail");
    assert_int_equal(count_woken(&there, 2), 2);
    crowd_close(&there);
}

STORE_TEST(a_claim_that_leaves_jobs_behind_or_gives_them_back_wakes_another)
{
    struct crowd crowd;
    for (int i = 0; i < 3; i++)
        PUT(ts, .task = STR("other"));
    crowd_open(&crowd, ts, "mail");
    ts_begin(ts);
    assert_int_equal(READY(ts, .limit = 1)->n, 1);
    assert_int_equal(count_woken(&crowd, 1), 1);
    ts_rollback(ts); /* what is given back is there for another */
    assert_int_equal(count_woken(&crowd, 1), 1);
    crowd_close(&crowd);
}

/* As many as there may be: nobody has counted them. */
STORE_TEST(a_queue_that_goes_on_wakes_all)
{
    struct crowd crowd;
    crowd_open(&crowd, ts, "mail");
    ts_begin(ts);
    ts_pause(ts, STR("acme"), STR("main"));
    store_notify(ts->store, STORE_NOTIFY_READY);
    ts_commit(ts);
    assert_int_equal(count_woken(&crowd, PROCESSES), PROCESSES);
    crowd_close(&crowd);
}

TEST_MAIN(argc, argv)
{
    setenv("REDRIVE_TEST_STORE", "redis", 1);
    return check_run(NULL, NULL);
}
