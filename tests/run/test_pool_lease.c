/* Leases that are lost, or that the store cannot be asked to extend: their runs are made to end,
 * and no other attempt of a job starts before the first has ended. */
#include "pool_for_test.h"

#include "base/time/clock.h"
#include "engine/verbs/settle.h"

#define NOTE(word) "echo " word " $REDRIVE_JOB_ID $REDRIVE_ATTEMPT >> @/effects; "
#define AT_GATE    "until [ -e @/gate ]; do sleep 0.01; done; "
/* A handler that goes on when it is asked to end, until the gate is open. */
#define STUBBORN "trap \"" NOTE("told") "\" TERM; " NOTE("start") AT_GATE NOTE("end")

/* A task that is this line of a shell; a lost lease is retried at once. */
#define TASKS(line)                                                                        \
    "tasks:\n"                                                                             \
    "  t:\n"                                                                               \
    "    run: {exec: [sh, -c, '" line "'], concurrency: 2, timeout: 1h, kill_grace: 1h}\n" \
    "    retry: {strategy: immediate, jitter: none}\n"

static void init(struct test_pool *tp, const char *yaml, int64_t lease_ms, int64_t heartbeat_ms)
{
    tp_init(tp, yaml);
    tp->config->tasks[0].lease_ms = lease_ms;
    tp->config->tasks[0].heartbeat_ms = heartbeat_ms;
}

static bool is_at_work(struct test_pool *tp)
{
    return tp_effects(tp, "start") > 0;
}

static bool is_at_work_twice(struct test_pool *tp)
{
    return tp_effects(tp, "start") == 2;
}

static bool was_told(struct test_pool *tp)
{
    return tp_effects(tp, "told") > 0;
}

static bool has_nothing_in_hand(struct test_pool *tp)
{
    return pool_status(tp->pool).running == 0;
}

/* As the tick of another process does when the lease has ended there. */
static void take_lease_back(struct test_pool *tp, int64_t seq)
{
    struct job_page page = {0};
    struct settlement item = {
        .seq = seq,
        .token = tp_job(tp, seq, &page)->status.token,
        .outcome.ending = ENDING_LEASE_LOST,
    };
    struct settle_op op;
    settle_op_init(&op, &item, 1);
    assert_int_equal(committer_run(tp->committer, &op.op, NULL), 0);
    assert_int_equal(item.ret.code, 0);
    job_page_release(&page);
}

/* ---- A store that hangs or fails ------------------------------------------------------------- */

#define LEASE_TEST(test, ...) \
    TEST_OF(test, struct test_pool, tp, init(tp, __VA_ARGS__), tp_release(tp))

/* The handler that was told ends by itself; the store hangs until then. The lease does not end
 * before that on a busy machine. */
LEASE_TEST(run_is_told_when_its_lease_is_over_while_the_store_hangs,
           TASKS("trap \"" NOTE("told") NOTE("end") "exit 1\" TERM; " NOTE("start")
                     AT_GATE NOTE("end")),
           6000, 300)
{
    const int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until(tp, is_at_work);
    tp->is_held = true;
    tp_until(tp, was_told);
    assert_true(tp_logged(tp, "lease_lost"));
    assert_int_equal(tp_effects(tp, "start"), 1);
    tp->is_held = false;
    tp_open_gate(tp);
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(tp_effects(tp, "told"), 1);
    assert_int_equal(tp_most_at_once(tp), 1);
    assert_int_equal(tp_state(tp, seq), REDRIVE_STATE_COMPLETED);
}

/* Some tries may be late on a busy machine, but not each. */
LEASE_TEST(failed_heartbeat_is_tried_again_before_the_next_is_due, TASKS(STUBBORN), 600000, 3000)
{
    int64_t shortest_ms = INT64_MAX;
    (void)tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until(tp, is_at_work);
    tp->is_broken = true;
    for (unsigned n = 1; n <= 4; n++) {
        const int64_t since_ms = clock_monotonic_ms();
        WAIT_RUNNING(tp_count_logged(tp, "heartbeat_failed") >= n, uv_run(&tp->loop, UV_RUN_ONCE));
        const int64_t ms = clock_monotonic_ms() - since_ms;
        if (n > 1 && ms < shortest_ms)
            shortest_ms = ms;
    }
    assert_in_range(shortest_ms, 0, 1500);
    assert_true(tp_count_logged(tp, "heartbeat_failed") < 20);
    tp->is_broken = false;
    tp_open_gate(tp);
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(tp_effects(tp, "start"), 1);
    assert_false(tp_logged(tp, "lease_lost"));
}

/* The store is back before the run that was told has ended: no other worker starts the job, and it
 * is given back when the run has ended. */
LEASE_TEST(lease_of_a_run_that_was_told_is_extended_until_it_ends, TASKS(STUBBORN), 1000, 300)
{
    struct job_page page = {0};
    const int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until(tp, is_at_work);
    tp->is_held = true;
    tp_until(tp, was_told);
    tp->is_held = false;
    tp_pass_ms(tp, 2500); /* longer than two leases */
    assert_int_equal(tp_effects(tp, "start"), 1);
    tp_open_gate(tp);
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(tp_most_at_once(tp), 1);
    const struct job *job = tp_job(tp, seq, &page);
    assert_true(job->status.attempts <= 2);
    job_page_release(&page);
}

/* ---- Leases that another process has taken back ---------------------------------------------- */

LEASE_TEST(no_attempt_starts_while_an_earlier_one_runs, TASKS(STUBBORN), 60000, 100)
{
    const int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until(tp, is_at_work);
    take_lease_back(tp, seq);
    tp_until(tp, was_told);
    tp_until_told(tp, ENGINE_EVENT_STARTED, 3); /* two claims were put off */
    assert_int_equal(tp_effects(tp, "start"), 1);
    tp_open_gate(tp);
    tp_until(tp, is_at_work_twice);
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(tp_effects(tp, "start"), 2);
    assert_int_equal(tp_most_at_once(tp), 1);
}

static bool says_it_runs(int64_t seq, void *ctx)
{
    (void)seq;
    return *(bool *)ctx;
}

/* Such as a pool of a former configuration. */
LEASE_TEST(no_attempt_starts_while_an_earlier_one_runs_in_another_pool,
           TASKS(NOTE("start") "[ $REDRIVE_ATTEMPT = 2 ]"), 60000, 100)
{
    bool runs_elsewhere = true;
    tp->options.runs_elsewhere = says_it_runs;
    tp->options.elsewhere_ctx = &runs_elsewhere;
    (void)tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until_told(tp, ENGINE_EVENT_STARTED, 3); /* the second attempt was put off */
    assert_int_equal(tp_effects(tp, "start"), 1);
    runs_elsewhere = false;
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(tp_effects(tp, "start"), 2);
}

LEASE_TEST(run_whose_lease_was_taken_back_says_nothing_any_more,
           TASKS(NOTE("start") AT_GATE "echo $REDRIVE_ATTEMPT"), 7200000, 3600000)
{
    struct job_page page = {0};
    const int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until(tp, is_at_work);
    take_lease_back(tp, seq);
    tp_open_gate(tp); /* the first ends well, and the second is begun after it */
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 1);
    tp_until(tp, has_nothing_in_hand);
    assert_true(tp_logged(tp, "settlement_refused"));
    check_str(tp_job(tp, seq, &page)->status.result, "2");
    assert_int_equal(tp->told[ENGINE_EVENT_COMPLETED], 1);
    job_page_release(&page);
}
