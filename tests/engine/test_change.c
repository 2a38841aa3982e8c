/* What people do to jobs. */
#include "engine/engine_for_test.h"

ENGINE_TEST(job_is_cancelled_in_every_live_state, NULL)
{
    struct breaker_op trip;
    const struct job_spec later = {.task = STR("t"), .process_after_ms = te->now_ms + 1000};
    int64_t running = te_submit(te, "t", NULL);
    struct job job = *te_claim_one(te);
    int64_t retrying = te_submit(te, "u", NULL);
    assert_int_equal(te_fail(te, te_claim_one(te), "network"), 0);
    int64_t parked = te_submit(te, "p", NULL);
    breaker_op_init(&trip, (struct str){0}, STR("p"), BREAKER_TRIP);
    assert_int_equal(engine_apply_one(te->engine, &trip.op, NULL), 0);
    assert_int_equal(te_claim(te, 1), 0);
    int64_t queued = te_submit(te, "t", NULL);
    int64_t scheduled = te_submit_spec(te, &later);
    const struct {
        int64_t seq;
        enum redrive_state before;
    } jobs[] = {
        {running, REDRIVE_STATE_RUNNING},     {retrying, REDRIVE_STATE_RETRYING},
        {parked, REDRIVE_STATE_PARKED},       {queued, REDRIVE_STATE_QUEUED},
        {scheduled, REDRIVE_STATE_SCHEDULED},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        assert_int_equal(te_state(te, jobs[i].seq), jobs[i].before);
        assert_int_equal(te_change(te, MOVE_CANCEL, jobs[i].seq), 0);
        assert_int_equal(te_state(te, jobs[i].seq), REDRIVE_STATE_CANCELLED);
        assert_int_equal(te_change(te, MOVE_CANCEL, jobs[i].seq), REDRIVE_E_STATE);
    }
    assert_int_equal(te_succeed(te, &job), REDRIVE_E_STATE);
    assert_int_equal(te_counter(te, "jobs_cancelled", ""), 5);
}

ENGINE_TEST(run_now_breaks_the_time_lock, NULL)
{
    const struct job_spec later = {.task = STR("t"), .process_after_ms = te->now_ms + 99999};
    int64_t seq = te_submit_spec(te, &later);
    assert_int_equal(te_change(te, MOVE_RUN_NOW, seq), 0);
    assert_int_equal(te_claim(te, 1), 1);
    assert_int_equal(te_change(te, MOVE_RUN_NOW, seq), REDRIVE_E_STATE);
}

ENGINE_TEST(dead_letter_is_edited_and_redriven, NULL)
{
    struct change_op op;
    int64_t seq = te_submit(te, "t", "{\"a\":1}");
    assert_int_equal(te_change(te, MOVE_END, seq), 0);
    assert_int_equal(te_job(te, seq).status.reason, REDRIVE_REASON_MANUAL);
    struct change_item item = {.seq = seq, .payload = STR("{\"a\":")};
    change_op_init(&op, MOVE_EDIT, &item, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(item.ret.code, REDRIVE_E_PARSE);
    item.payload = STR("{\"a\":2}");
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(item.ret.code, 0);
    assert_int_equal(te_change(te, MOVE_REDRIVE, seq), 0);
    check_str(te_claim_one(te)->spec.payload, "{\"a\":2}");
}

ENGINE_TEST(redrive_waits_for_a_live_job_with_its_key, NULL)
{
    const struct job_spec spec = {.task = STR("t"), .unique_key = STR("k")};
    int64_t first = te_submit_spec(te, &spec);
    assert_int_equal(te_change(te, MOVE_END, first), 0);
    int64_t second = te_submit_spec(te, &spec);
    assert_int_equal(te_change(te, MOVE_REDRIVE, first), REDRIVE_E_EXISTS);
    assert_int_equal(te_change(te, MOVE_CANCEL, second), 0);
    assert_int_equal(te_change(te, MOVE_REDRIVE, first), 0);
}

/* A failed job could be redriven and a completed one removed, but this change is about dead
 * letters. */
ENGINE_TEST(change_of_dead_letters_leaves_other_jobs_alone, NULL)
{
    const enum move_kind kinds[] = {MOVE_REDRIVE, MOVE_REMOVE};
    int64_t done = te_submit(te, "t", NULL);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    int64_t dead = te_submit(te, "t", NULL);
    assert_int_equal(te_change(te, MOVE_END, dead), 0);
    for (size_t i = 0; i < 2; i++) {
        struct change_op op;
        struct change_item item = {.seq = done};
        change_op_init(&op, kinds[i], &item, 1);
        op.from = 1u << REDRIVE_STATE_DEAD_LETTER;
        assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
        assert_int_equal(item.ret.code, REDRIVE_E_STATE);
        assert_int_equal(item.ret.state, REDRIVE_STATE_COMPLETED);
        assert_int_equal(te_state(te, done), REDRIVE_STATE_COMPLETED);
        item.seq = dead;
        assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
        assert_int_equal(item.ret.code, 0);
        if (kinds[i] == MOVE_REDRIVE)
            assert_int_equal(te_change(te, MOVE_END, dead), 0);
    }
}

ENGINE_TEST(change_that_a_key_refuses_names_the_key, NULL)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    const struct job_spec spec = {.task = STR("t"), .unique_key = STR("k")};
    struct change_item item = {.seq = te_submit_spec(te, &spec), .arena = &arena};
    struct change_op op;
    assert_int_equal(te_change(te, MOVE_END, item.seq), 0);
    (void)te_submit_spec(te, &spec);
    change_op_init(&op, MOVE_REDRIVE, &item, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(item.ret.code, REDRIVE_E_EXISTS);
    check_str(item.unique_key, "k");
}

ENGINE_TEST(job_of_another_tenant_is_not_found, NULL)
{
    struct change_op op;
    const struct job_spec spec = {.task = STR("t"), .tenant = STR("a"), .id = STR("x")};
    int64_t seq = te_submit_spec(te, &spec);
    struct change_item items[] = {
        {.tenant = STR("b"), .id = STR("x")},
        {.tenant = STR("b"), .seq = seq},
        {.tenant = STR("a"), .id = STR("x")},
    };
    change_op_init(&op, MOVE_CANCEL, items, 3);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(items[0].ret.code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(items[1].ret.code, REDRIVE_E_NOT_FOUND);
    assert_int_equal(items[2].ret.code, 0);
}

ENGINE_TEST(retention_sweeps_each_kind_after_its_time,
            "tasks: {brief: {retry: {dlq_retention_days: 2}}}\n")
{
    const int64_t day_ms = INT64_C(86400000);
    te_submit(te, "t", NULL);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    assert_int_equal(te_change(te, MOVE_END, te_submit(te, "brief", NULL)), 0);
    assert_int_equal(te_change(te, MOVE_END, te_submit(te, "t", NULL)), 0);
    te_pass(te, day_ms - 1000);
    assert_int_equal(te_count(te, REDRIVE_STATE_COMPLETED), 1);
    te_pass(te, 100000);
    assert_int_equal(te_count(te, REDRIVE_STATE_COMPLETED), 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 2);
    te_pass(te, day_ms);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 1);
    te_pass(te, 28 * day_ms - 200000);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 1);
    te_pass(te, 200000);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 0);
}

ENGINE_TEST(redrive_after_the_deadline_is_refused, NULL)
{
    const struct job_spec spec = {.task = STR("call"), .deadline_ms = te->now_ms + 1000};
    int64_t seq = te_submit_spec(te, &spec);
    te_pass(te, 2000);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(te_change(te, MOVE_REDRIVE, seq), REDRIVE_E_DEADLINE);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_DEAD_LETTER);
}
