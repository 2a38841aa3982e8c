/* Periodic tasks: each tick once. */
#include "engine/engine_for_test.h"

#include "engine/clock/cron.h"

#define EVERY_MINUTE(overlap)                                                                   \
    "cron: {beat: {task: store_status, schedule: \"* * * * *\", payload: {}, overlap: " overlap \
    "}}\n"                                                                                      \
    "tasks: {store_status: {lease: 1h}}\n"

static void tick_engine(struct test_engine *te, struct engine *engine)
{
    struct engine *own = te->engine;
    te->engine = engine;
    te_tick(te);
    te->engine = own;
}

ENGINE_TEST(two_engines_make_each_tick_once, EVERY_MINUTE("allow"))
{
    struct engine *second = te_second_engine(te);
    tick_engine(te, second);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 0);
    for (size_t minute = 1; minute <= 5; minute++) {
        te->now_ms += 60000;
        tick_engine(te, minute % 2 ? te->engine : second);
        tick_engine(te, minute % 2 ? second : te->engine);
        assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), minute);
    }
    engine_close(second);
}

ENGINE_TEST(engine_wakes_for_the_next_tick, EVERY_MINUTE("allow"))
{
    assert_int_equal(engine_next_ms(te->engine), TE_START_MS + 60000);
    te_pass(te, 59999);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 0);
    te_pass(te, 1);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
}

ENGINE_TEST(of_missed_ticks_the_last_is_made_up_for,
            "cron: {yearly: {task: store_status, schedule: \"0 0 1 3 *\", overlap: allow}, beat: "
            "{task: store_status, schedule: \"* * * * *\", overlap: allow}}\n")
{
    te_pass(te, INT64_C(400) * 86400000);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 2);
}

#define HOUR_MS     INT64_C(3600000)
#define DAILY(when) "cron: {daily: {task: store_status, overlap: allow, " when "}}\n"

ENGINE_TEST(another_schedule_starts_with_its_own_next_tick, DAILY("schedule: \"0 2 * * *\""))
{
    te_pass(te, 2 * HOUR_MS);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    te->now_ms += 7 * HOUR_MS;
    te_reload(te, DAILY("schedule: \"0 3 * * *\""));
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    te_pass(te, 18 * HOUR_MS);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 2);
    te->now_ms += 6 * HOUR_MS;
    /* It is 09:00 in UTC and 04:00 there. */
    te_reload(te, DAILY("schedule: \"0 3 * * *\", timezone: America/New_York"));
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 2);
    te_pass(te, 23 * HOUR_MS);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 3);
}

ENGINE_TEST(another_schedule_at_a_start_makes_up_for_no_tick, DAILY("schedule: \"0 2 * * *\""))
{
    te_pass(te, 2 * HOUR_MS);
    te->now_ms += 7 * HOUR_MS;
    struct engine *first = te->engine;
    config_free(te->config);
    te->config = te_config(te, DAILY("schedule: \"0 3 * * *\""));
    te->engine = te_second_engine(te);
    engine_close(first);
    te_tick(te);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    /* It has been seen now: a tick that is missed from here on is made up for. */
    struct engine *third = te_second_engine(te);
    engine_close(te->engine);
    te->engine = third;
    te_pass(te, 20 * HOUR_MS);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 2);
}

/* A reload whose transaction fails after it has been carried out. */
struct failing_op {
    struct op op;
    struct reload_op reload;
};

static int reload_and_fail(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct op *reload = &((struct failing_op *)base)->reload.op;
    int rc = reload->apply(e, reload, err);
    return rc < 0 ? rc : REDRIVE_E_NOMEM;
}

ENGINE_TEST(another_schedule_is_new_after_a_transaction_that_failed,
            DAILY("schedule: \"0 2 * * *\""))
{
    struct failing_op failing = {.op = {.apply = reload_and_fail}};
    te_pass(te, 2 * HOUR_MS);
    te->now_ms += 7 * HOUR_MS;
    struct config *config = te_config(te, DAILY("schedule: \"0 3 * * *\""));
    assert_int_equal(reload_op_init(&failing.reload, config, NULL), 0);
    config_free(config);
    assert_int_equal(engine_apply_one(te->engine, &failing.op, NULL), REDRIVE_E_NOMEM);
    reload_op_release(&failing.reload);
    te_tick(te);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    te_pass(te, 18 * HOUR_MS);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 2);
}

ENGINE_TEST(processes_with_different_schedules_lose_no_tick, DAILY("schedule: \"0 * * * *\""))
{
    config_free(te->config);
    te->config = te_config(te, DAILY("schedule: \"30 * * * *\""));
    struct engine *second = te_second_engine(te);
    tick_engine(te, second);
    for (size_t half = 1; half <= 6; half++) {
        te_pass(te, HOUR_MS / 2);
        tick_engine(te, second);
        assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), half);
    }
    engine_close(second);
}

ENGINE_TEST(entry_ticks_on_after_the_clock_was_set_back, EVERY_MINUTE("allow"))
{
    te_pass(te, 365 * 24 * HOUR_MS);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    te_pass(te, -364 * 24 * HOUR_MS);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    assert_true(engine_next_ms(te->engine) <= te->now_ms + 60000);
    te_pass(te, 60000);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 2);
}

ENGINE_TEST(skip_makes_none_while_one_lives, EVERY_MINUTE("skip"))
{
    te_pass(te, 60000);
    struct job job = *te_claim_one(te);
    te_pass(te, 60000);
    assert_int_equal(te_claim(te, 5), 0);
    assert_int_equal(te_succeed(te, &job), 0);
    te_pass(te, 60000);
    assert_int_equal(te_claim(te, 5), 1);
}

ENGINE_TEST(queue_one_lets_one_wait_for_the_one_that_runs, EVERY_MINUTE("queue_one"))
{
    te_pass(te, 60000);
    te_pass(te, 60000);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    struct job first = *te_claim_one(te);
    te_pass(te, 60000);
    te_pass(te, 60000);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    assert_int_equal(te_claim(te, 5), 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 1);
    te_pass(te, 60000);
    assert_int_equal(te_succeed(te, &first), 0);
    te_tick(te);
    assert_int_equal(te_claim(te, 5), 1);
}

static int by_hand(struct test_engine *te, const char *name)
{
    struct cron_op op;
    cron_op_init(&op, STR(ENGINE_TENANT_DEFAULT), str_of(name));
    int rc = engine_apply_one(te->engine, &op.op, NULL);
    assert_true(rc == 0 ? op.id[0] != '\0' : rc == REDRIVE_E_NOT_FOUND || op.id[0] != '\0');
    return rc;
}

ENGINE_TEST(tick_by_hand_keeps_to_the_overlap_and_the_cron_entries, EVERY_MINUTE("skip"))
{
    assert_int_equal(by_hand(te, "beta"), REDRIVE_E_NOT_FOUND);
    assert_int_equal(by_hand(te, "beat"), 0);
    assert_int_equal(by_hand(te, "beat"), REDRIVE_E_STATE);
    struct job job = *te_claim_one(te);
    te_pass(te, 60000);
    assert_int_equal(te_claim(te, 5), 0);
    assert_int_equal(te_succeed(te, &job), 0);
    te_pass(te, 60000);
    assert_int_equal(te_claim(te, 5), 1);
}
