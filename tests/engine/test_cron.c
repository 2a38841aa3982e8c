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

static void two_engines_make_each_tick_once(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed, EVERY_MINUTE("allow"));
    struct engine *second = bed_second_engine(&bed);
    tick_engine(&bed, second);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 0);
    for (size_t minute = 1; minute <= 5; minute++) {
        bed.now_ms += 60000;
        tick_engine(&bed, minute % 2 ? bed.engine : second);
        tick_engine(&bed, minute % 2 ? second : bed.engine);
        assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), minute);
    }
    engine_close(second);
    bed_release(&bed);
}

static void engine_wakes_for_the_next_tick(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed, EVERY_MINUTE("allow"));
    assert_int_equal(engine_next_ms(bed.engine), BED_START_MS + 60000);
    bed_pass(&bed, 59999);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 0);
    bed_pass(&bed, 1);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 1);
    bed_release(&bed);
}

static void of_missed_ticks_the_last_is_made_up_for(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed,
             "cron: {yearly: {task: store_status, schedule: \"0 0 1 3 *\", overlap: allow}, beat: "
             "{task: store_status, schedule: \"* * * * *\", overlap: allow}}\n");
    bed_pass(&bed, INT64_C(400) * 86400000);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 2);
    bed_release(&bed);
}

static void skip_makes_none_while_one_lives(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed, EVERY_MINUTE("skip"));
    bed_pass(&bed, 60000);
    struct job job = *bed_claim_one(&bed);
    bed_pass(&bed, 60000);
    assert_int_equal(bed_claim(&bed, 5), 0);
    assert_int_equal(bed_succeed(&bed, &job), 0);
    bed_pass(&bed, 60000);
    assert_int_equal(bed_claim(&bed, 5), 1);
    bed_release(&bed);
}

static void queue_one_lets_one_wait_for_the_one_that_runs(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed, EVERY_MINUTE("queue_one"));
    bed_pass(&bed, 60000);
    bed_pass(&bed, 60000);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 1);
    struct job first = *bed_claim_one(&bed);
    bed_pass(&bed, 60000);
    bed_pass(&bed, 60000);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_QUEUED), 1);
    assert_int_equal(bed_claim(&bed, 5), 0);
    assert_int_equal(bed_count(&bed, REDRIVE_STATE_PARKED), 1);
    bed_pass(&bed, 60000);
    assert_int_equal(bed_succeed(&bed, &first), 0);
    bed_tick(&bed);
    assert_int_equal(bed_claim(&bed, 5), 1);
    bed_release(&bed);
}

static int by_hand(struct bed *bed, const char *name)
{
    struct cron_op op;
    cron_op_init(&op, STR(ENGINE_TENANT_DEFAULT), str_of(name));
    int rc = engine_apply_one(bed->engine, &op.op, NULL);
    assert_true(rc == 0 ? op.id[0] != '\0' : rc == REDRIVE_E_NOT_FOUND || op.id[0] != '\0');
    return rc;
}

static void tick_by_hand_keeps_to_the_overlap_and_the_cron_entries(void **state)
{
    (void)state;
    struct bed bed;
    bed_init(&bed, EVERY_MINUTE("skip"));
    assert_int_equal(by_hand(&bed, "beta"), REDRIVE_E_NOT_FOUND);
    assert_int_equal(by_hand(&bed, "beat"), 0);
    assert_int_equal(by_hand(&bed, "beat"), REDRIVE_E_STATE);
    struct job job = *bed_claim_one(&bed);
    bed_pass(&bed, 60000);
    assert_int_equal(bed_claim(&bed, 5), 0);
    assert_int_equal(bed_succeed(&bed, &job), 0);
    bed_pass(&bed, 60000);
    assert_int_equal(bed_claim(&bed, 5), 1);
    bed_release(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(two_engines_make_each_tick_once),
        T(engine_wakes_for_the_next_tick),
        T(of_missed_ticks_the_last_is_made_up_for),
        T(skip_makes_none_while_one_lives),
        T(queue_one_lets_one_wait_for_the_one_that_runs),
        T(tick_by_hand_keeps_to_the_overlap_and_the_cron_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
