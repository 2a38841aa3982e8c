/* Periodic tasks: each tick once. */
#include "engine/bed.h"

#include "engine/clock/cron.h"

#define EVERY_MINUTE(overlap)                                                                   \
    "cron: {beat: {task: store_status, schedule: \"* * * * *\", payload: {}, overlap: " overlap \
    "}}\n"                                                                                      \
    "tasks: {store_status: {lease: 1h}}\n"

static void tick_engine(struct bed *bed, struct engine *engine)
{
    struct engine *own = bed->engine;
    bed->engine = engine;
    bed_tick(bed);
    bed->engine = own;
}

BED_TEST(two_engines_make_each_tick_once, EVERY_MINUTE("allow"))
{
    struct engine *second = bed_second_engine(bed);
    tick_engine(bed, second);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 0);
    for (size_t minute = 1; minute <= 5; minute++) {
        bed->now_ms += 60000;
        tick_engine(bed, minute % 2 ? bed->engine : second);
        tick_engine(bed, minute % 2 ? second : bed->engine);
        assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), minute);
    }
    engine_close(second);
}

BED_TEST(engine_wakes_for_the_next_tick, EVERY_MINUTE("allow"))
{
    assert_int_equal(engine_next_ms(bed->engine), BED_START_MS + 60000);
    bed_pass(bed, 59999);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 0);
    bed_pass(bed, 1);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
}

BED_TEST(of_missed_ticks_the_last_is_made_up_for,
         "cron: {yearly: {task: store_status, schedule: \"0 0 1 3 *\", overlap: allow}, beat: "
         "{task: store_status, schedule: \"* * * * *\", overlap: allow}}\n")
{
    bed_pass(bed, INT64_C(400) * 86400000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 2);
}

#define HOUR_MS     INT64_C(3600000)
#define DAILY(when) "cron: {daily: {task: store_status, overlap: allow, " when "}}\n"

BED_TEST(another_schedule_starts_with_its_own_next_tick, DAILY("schedule: \"0 2 * * *\""))
{
    bed_pass(bed, 2 * HOUR_MS);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
    bed->now_ms += 7 * HOUR_MS;
    bed_reload(bed, DAILY("schedule: \"0 3 * * *\""));
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
    bed_pass(bed, 18 * HOUR_MS);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 2);
    bed->now_ms += 6 * HOUR_MS;
    /* It is 09:00 in UTC and 04:00 there. */
    bed_reload(bed, DAILY("schedule: \"0 3 * * *\", timezone: America/New_York"));
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 2);
    bed_pass(bed, 23 * HOUR_MS);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 3);
}

BED_TEST(another_schedule_at_a_start_makes_up_for_no_tick, DAILY("schedule: \"0 2 * * *\""))
{
    bed_pass(bed, 2 * HOUR_MS);
    bed->now_ms += 7 * HOUR_MS;
    struct engine *first = bed->engine;
    config_free(bed->config);
    bed->config = bed_config(bed, DAILY("schedule: \"0 3 * * *\""));
    bed->engine = bed_second_engine(bed);
    engine_close(first);
    bed_tick(bed);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
    /* It has been seen now: a tick that is missed from here on is made up for. */
    struct engine *third = bed_second_engine(bed);
    engine_close(bed->engine);
    bed->engine = third;
    bed_pass(bed, 20 * HOUR_MS);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 2);
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

BED_TEST(another_schedule_is_new_after_a_transaction_that_failed, DAILY("schedule: \"0 2 * * *\""))
{
    struct failing_op failing = {.op = {.apply = reload_and_fail}};
    bed_pass(bed, 2 * HOUR_MS);
    bed->now_ms += 7 * HOUR_MS;
    struct config *config = bed_config(bed, DAILY("schedule: \"0 3 * * *\""));
    assert_int_equal(reload_op_init(&failing.reload, config, NULL), 0);
    config_free(config);
    assert_int_equal(engine_apply_one(bed->engine, &failing.op, NULL), REDRIVE_E_NOMEM);
    reload_op_release(&failing.reload);
    bed_tick(bed);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
    bed_pass(bed, 18 * HOUR_MS);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 2);
}

BED_TEST(processes_with_different_schedules_lose_no_tick, DAILY("schedule: \"0 * * * *\""))
{
    config_free(bed->config);
    bed->config = bed_config(bed, DAILY("schedule: \"30 * * * *\""));
    struct engine *second = bed_second_engine(bed);
    tick_engine(bed, second);
    for (size_t half = 1; half <= 6; half++) {
        bed_pass(bed, HOUR_MS / 2);
        tick_engine(bed, second);
        assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), half);
    }
    engine_close(second);
}

BED_TEST(entry_ticks_on_after_the_clock_was_set_back, EVERY_MINUTE("allow"))
{
    bed_pass(bed, 365 * 24 * HOUR_MS);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
    bed_pass(bed, -364 * 24 * HOUR_MS);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
    assert_true(engine_next_ms(bed->engine) <= bed->now_ms + 60000);
    bed_pass(bed, 60000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 2);
}

BED_TEST(skip_makes_none_while_one_lives, EVERY_MINUTE("skip"))
{
    bed_pass(bed, 60000);
    struct job job = *bed_claim_one(bed);
    bed_pass(bed, 60000);
    assert_int_equal(bed_claim(bed, 5), 0);
    assert_int_equal(bed_succeed(bed, &job), 0);
    bed_pass(bed, 60000);
    assert_int_equal(bed_claim(bed, 5), 1);
}

BED_TEST(queue_one_lets_one_wait_for_the_one_that_runs, EVERY_MINUTE("queue_one"))
{
    bed_pass(bed, 60000);
    bed_pass(bed, 60000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
    struct job first = *bed_claim_one(bed);
    bed_pass(bed, 60000);
    bed_pass(bed, 60000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_QUEUED), 1);
    assert_int_equal(bed_claim(bed, 5), 0);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_PARKED), 1);
    bed_pass(bed, 60000);
    assert_int_equal(bed_succeed(bed, &first), 0);
    bed_tick(bed);
    assert_int_equal(bed_claim(bed, 5), 1);
}

static int by_hand(struct bed *bed, const char *name)
{
    struct cron_op op;
    cron_op_init(&op, STR(ENGINE_TENANT_DEFAULT), str_of(name));
    int rc = engine_apply_one(bed->engine, &op.op, NULL);
    assert_true(rc == 0 ? op.id[0] != '\0' : rc == REDRIVE_E_NOT_FOUND || op.id[0] != '\0');
    return rc;
}

BED_TEST(tick_by_hand_keeps_to_the_overlap_and_the_cron_entries, EVERY_MINUTE("skip"))
{
    assert_int_equal(by_hand(bed, "beta"), REDRIVE_E_NOT_FOUND);
    assert_int_equal(by_hand(bed, "beat"), 0);
    assert_int_equal(by_hand(bed, "beat"), REDRIVE_E_STATE);
    struct job job = *bed_claim_one(bed);
    bed_pass(bed, 60000);
    assert_int_equal(bed_claim(bed, 5), 0);
    assert_int_equal(bed_succeed(bed, &job), 0);
    bed_pass(bed, 60000);
    assert_int_equal(bed_claim(bed, 5), 1);
}
