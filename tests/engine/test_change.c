/* What people do to jobs. */
#include "engine/bed.h"

BED_TEST(job_is_cancelled_in_every_live_state, NULL)
{
    struct breaker_op trip;
    const struct job_spec later = {.task = STR("t"), .process_after_ms = bed->now_ms + 1000};
    int64_t running = bed_submit(bed, "t", NULL);
    struct job job = *bed_claim_one(bed);
    int64_t retrying = bed_submit(bed, "u", NULL);
    assert_int_equal(bed_fail(bed, bed_claim_one(bed), "network"), 0);
    int64_t parked = bed_submit(bed, "p", NULL);
    breaker_op_init(&trip, (struct str){0}, STR("p"), BREAKER_TRIP);
    assert_int_equal(engine_apply_one(bed->engine, &trip.op, NULL), 0);
    assert_int_equal(bed_claim(bed, 1), 0);
    int64_t queued = bed_submit(bed, "t", NULL);
    int64_t scheduled = bed_submit_spec(bed, &later);
    const struct {
        int64_t seq;
        enum redrive_state before;
    } jobs[] = {
        {running, REDRIVE_STATE_RUNNING},     {retrying, REDRIVE_STATE_RETRYING},
        {parked, REDRIVE_STATE_PARKED},       {queued, REDRIVE_STATE_QUEUED},
        {scheduled, REDRIVE_STATE_SCHEDULED},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        assert_int_equal(bed_state(bed, jobs[i].seq), jobs[i].before);
        assert_int_equal(bed_change(bed, MOVE_CANCEL, jobs[i].seq), 0);
        assert_int_equal(bed_state(bed, jobs[i].seq), REDRIVE_STATE_CANCELLED);
        assert_int_equal(bed_change(bed, MOVE_CANCEL, jobs[i].seq), REDRIVE_E_STATE);
    }
    assert_int_equal(bed_succeed(bed, &job), REDRIVE_E_STATE);
    assert_int_equal(bed_counter(bed, "jobs_cancelled", ""), 5);
}

BED_TEST(run_now_breaks_the_time_lock, NULL)
{
    const struct job_spec later = {.task = STR("t"), .process_after_ms = bed->now_ms + 99999};
    int64_t seq = bed_submit_spec(bed, &later);
    assert_int_equal(bed_change(bed, MOVE_RUN_NOW, seq), 0);
    assert_int_equal(bed_claim(bed, 1), 1);
    assert_int_equal(bed_change(bed, MOVE_RUN_NOW, seq), REDRIVE_E_STATE);
}

BED_TEST(dead_letter_is_edited_and_redriven, NULL)
{
    struct change_op op;
    int64_t seq = bed_submit(bed, "t", "{\"a\":1}");
    assert_int_equal(bed_change(bed, MOVE_END, seq), 0);
    assert_int_equal(bed_job(bed, seq).status.reason, REDRIVE_REASON_MANUAL);
    struct change_item item = {.seq = seq, .payload = STR("{\"a\":")};
    change_op_init(&op, MOVE_EDIT, &item, 1);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    assert_int_equal(item.ret.code, REDRIVE_E_PARSE);
    item.payload = STR("{\"a\":2}");
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    assert_int_equal(item.ret.code, 0);
    assert_int_equal(bed_change(bed, MOVE_REDRIVE, seq), 0);
    check_str(bed_claim_one(bed)->spec.payload, "{\"a\":2}");
}

BED_TEST(redrive_waits_for_a_live_job_with_its_key, NULL)
{
    const struct job_spec spec = {.task = STR("t"), .unique_key = STR("k")};
    int64_t first = bed_submit_spec(bed, &spec);
    assert_int_equal(bed_change(bed, MOVE_END, first), 0);
    int64_t second = bed_submit_spec(bed, &spec);
    assert_int_equal(bed_change(bed, MOVE_REDRIVE, first), REDRIVE_E_EXISTS);
    assert_int_equal(bed_change(bed, MOVE_CANCEL, second), 0);
    assert_int_equal(bed_change(bed, MOVE_REDRIVE, first), 0);
}

BED_TEST(job_of_another_tenant_is_not_found, NULL)
{
    struct change_op op;
    const struct job_spec spec = {.task = STR("t"), .tenant = STR("a"), .id = STR("x")};
    int64_t seq = bed_submit_spec(bed, &spec);
    struct change_item items[] = {
        {.tenant = STR("b"), .id = STR("x")},
        {.tenant = STR("b"), .seq = seq},
        {.tenant = STR("a"), .id = STR("x")},
    };
    change_op_init(&op, MOVE_CANCEL, items, 3);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
    assert_int_equal(items[0].ret.code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(items[1].ret.code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(items[2].ret.code, 0);
}

BED_TEST(retention_sweeps_each_kind_after_its_time,
         "tasks: {brief: {retry: {dlq_retention_days: 2}}}\n")
{
    const int64_t day_ms = INT64_C(86400000);
    bed_submit(bed, "t", NULL);
    assert_int_equal(bed_succeed(bed, bed_claim_one(bed)), 0);
    assert_int_equal(bed_change(bed, MOVE_END, bed_submit(bed, "brief", NULL)), 0);
    assert_int_equal(bed_change(bed, MOVE_END, bed_submit(bed, "t", NULL)), 0);
    bed_pass(bed, day_ms - 1000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_COMPLETED), 1);
    bed_pass(bed, 100000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_COMPLETED), 0);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 2);
    bed_pass(bed, day_ms);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 1);
    bed_pass(bed, 28 * day_ms - 200000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 1);
    bed_pass(bed, 200000);
    assert_int_equal(bed_count(bed, REDRIVE_STATE_DEAD_LETTER), 0);
}

BED_TEST(redrive_after_the_deadline_is_refused, NULL)
{
    const struct job_spec spec = {.task = STR("call"), .deadline_ms = bed->now_ms + 1000};
    int64_t seq = bed_submit_spec(bed, &spec);
    bed_pass(bed, 2000);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(bed_change(bed, MOVE_REDRIVE, seq), REDRIVE_E_DEADLINE);
    assert_int_equal(bed_state(bed, seq), REDRIVE_STATE_DEAD_LETTER);
}
