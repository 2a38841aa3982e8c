/* Leases that are lost, or that the store cannot be asked to extend: their runs are made to end,
 * and no other attempt of a job starts before the first has ended. */
#include "rig.h"

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

static void init(struct rig *rig, const char *yaml, int64_t lease_ms, int64_t heartbeat_ms)
{
    rig_init(rig, yaml);
    rig->config->tasks[0].lease_ms = lease_ms;
    rig->config->tasks[0].heartbeat_ms = heartbeat_ms;
}

static bool is_at_work(struct rig *rig)
{
    return rig_effects(rig, "start") > 0;
}

static bool is_at_work_twice(struct rig *rig)
{
    return rig_effects(rig, "start") == 2;
}

static bool was_told(struct rig *rig)
{
    return rig_effects(rig, "told") > 0;
}

static bool has_nothing_in_hand(struct rig *rig)
{
    return pool_status(rig->pool).running == 0;
}

/* As the tick of another process does when the lease has ended there. */
static void take_lease_back(struct rig *rig, int64_t seq)
{
    struct job_page page = {0};
    struct settlement item = {
        .seq = seq,
        .token = rig_job(rig, seq, &page)->status.token,
        .outcome.ending = ENDING_LEASE_LOST,
    };
    struct settle_op op;
    settle_op_init(&op, &item, 1);
    assert_int_equal(committer_run(rig->committer, &op.op, NULL), 0);
    assert_int_equal(item.ret.code, 0);
    job_page_release(&page);
}

/* ---- A store that hangs or fails ------------------------------------------------------------- */

#define POOL_TEST(test, ...) \
    TEST_OF(test, struct rig, rig, init(rig, __VA_ARGS__), rig_release(rig))

/* The handler that was told ends by itself; the store hangs until then. */
POOL_TEST(run_is_told_when_its_lease_is_over_while_the_store_hangs,
          TASKS("trap \"" NOTE("told") NOTE("end") "exit 1\" TERM; " NOTE("start")
                    AT_GATE NOTE("end")),
          1000, 300)
{
    const int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until(rig, is_at_work);
    rig->is_held = true;
    rig_until(rig, was_told);
    assert_true(rig_logged(rig, "lease_lost"));
    assert_int_equal(rig_effects(rig, "start"), 1);
    rig->is_held = false;
    rig_open_gate(rig);
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(rig_effects(rig, "told"), 1);
    assert_int_equal(rig_most_at_once(rig), 1);
    assert_int_equal(rig_state(rig, seq), REDRIVE_STATE_COMPLETED);
}

static bool has_failed_once(struct rig *rig)
{
    return rig_count_logged(rig, "heartbeat_failed") >= 1;
}

static bool has_failed_three_times(struct rig *rig)
{
    return rig_count_logged(rig, "heartbeat_failed") >= 3;
}

POOL_TEST(failed_heartbeat_is_tried_again_before_the_next_is_due, TASKS(STUBBORN), 600000, 3000)
{
    (void)rig_submit(rig, "t", "{}");
    const int64_t start_ms = clock_monotonic_ms();
    rig_start(rig);
    rig_until(rig, is_at_work);
    rig->is_broken = true;
    rig_until(rig, has_failed_once);
    const int64_t first_ms = clock_monotonic_ms();
    rig_until(rig, has_failed_three_times);
    assert_true(clock_monotonic_ms() - first_ms < first_ms - start_ms);
    assert_true(rig_count_logged(rig, "heartbeat_failed") < 20);
    rig->is_broken = false;
    rig_open_gate(rig);
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(rig_effects(rig, "start"), 1);
    assert_false(rig_logged(rig, "lease_lost"));
}

/* The store is back before the run that was told has ended: no other worker starts the job, and it
 * is given back when the run has ended. */
POOL_TEST(lease_of_a_run_that_was_told_is_extended_until_it_ends, TASKS(STUBBORN), 1000, 300)
{
    struct job_page page = {0};
    const int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until(rig, is_at_work);
    rig->is_held = true;
    rig_until(rig, was_told);
    rig->is_held = false;
    rig_pass_ms(rig, 2500); /* longer than two leases */
    assert_int_equal(rig_effects(rig, "start"), 1);
    rig_open_gate(rig);
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(rig_most_at_once(rig), 1);
    const struct job *job = rig_job(rig, seq, &page);
    assert_true(job->status.attempts <= 2);
    job_page_release(&page);
}

/* ---- Leases that another process has taken back ---------------------------------------------- */

POOL_TEST(no_attempt_starts_while_an_earlier_one_runs, TASKS(STUBBORN), 60000, 100)
{
    const int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until(rig, is_at_work);
    take_lease_back(rig, seq);
    rig_until(rig, was_told);
    rig_until_told(rig, ENGINE_EVENT_STARTED, 3); /* two claims were put off */
    assert_int_equal(rig_effects(rig, "start"), 1);
    rig_open_gate(rig);
    rig_until(rig, is_at_work_twice);
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(rig_effects(rig, "start"), 2);
    assert_int_equal(rig_most_at_once(rig), 1);
}

static bool says_it_runs(int64_t seq, void *ctx)
{
    (void)seq;
    return *(bool *)ctx;
}

/* Such as a pool of a former configuration. */
POOL_TEST(no_attempt_starts_while_an_earlier_one_runs_in_another_pool,
          TASKS(NOTE("start") "[ $REDRIVE_ATTEMPT = 2 ]"), 60000, 100)
{
    bool runs_elsewhere = true;
    rig->options.runs_elsewhere = says_it_runs;
    rig->options.elsewhere_ctx = &runs_elsewhere;
    (void)rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until_told(rig, ENGINE_EVENT_STARTED, 3); /* the second attempt was put off */
    assert_int_equal(rig_effects(rig, "start"), 1);
    runs_elsewhere = false;
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(rig_effects(rig, "start"), 2);
}

POOL_TEST(run_whose_lease_was_taken_back_says_nothing_any_more,
          TASKS(NOTE("start") AT_GATE "echo $REDRIVE_ATTEMPT"), 7200000, 3600000)
{
    struct job_page page = {0};
    const int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until(rig, is_at_work);
    take_lease_back(rig, seq);
    rig_open_gate(rig); /* the first ends well, and the second is begun after it */
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 1);
    rig_until(rig, has_nothing_in_hand);
    assert_true(rig_logged(rig, "settlement_refused"));
    check_str(rig_job(rig, seq, &page)->status.result, "2");
    assert_int_equal(rig->told[ENGINE_EVENT_COMPLETED], 1);
    job_page_release(&page);
}
