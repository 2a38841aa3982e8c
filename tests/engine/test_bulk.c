/* One verb over all dead letters that match. */
#include "engine/engine_for_test.h"

#include "engine/verbs/change.h"

/* Submits a job and ends it. */
static int64_t make_dead(struct test_engine *te, const char *task)
{
    int64_t seq = te_submit(te, task, NULL);
    assert_int_equal(te_change(te, MOVE_END, seq), 0);
    return seq;
}

/* Applies one chunk. */
static void step(struct test_engine *te, struct bulk *bulk, size_t n)
{
    struct bulk_op op;
    struct redrive_err err = {0};
    bulk_op_init(&op, bulk, n);
    if (engine_apply_one(te->engine, &op.op, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    bulk_add(bulk, &op);
}

static void check_count(struct test_engine *te, const struct bulk *bulk, unsigned changed,
                        unsigned refused)
{
    struct bulk_forecast forecast;
    assert_int_equal(bulk_count(engine_store(te->engine), bulk, UINT64_MAX, &forecast, NULL), 0);
    assert_int_equal(forecast.changed, changed);
    assert_int_equal(forecast.refused, refused);
    assert_false(forecast.is_at_least);
}

ENGINE_TEST(counting_ends_at_a_number, NULL)
{
    const struct job_filter filter = {.task = STR("a")};
    struct bulk_forecast forecast;
    struct bulk bulk;
    for (int i = 0; i < 120; i++)
        make_dead(te, "a");
    bulk_init(&bulk, MOVE_REDRIVE, &filter, te->now_ms);
    assert_int_equal(bulk_count(engine_store(te->engine), &bulk, 70, &forecast, NULL), 0);
    assert_int_equal(forecast.changed, 70);
    assert_true(forecast.is_at_least);
    assert_int_equal(bulk_count(engine_store(te->engine), &bulk, 120, &forecast, NULL), 0);
    assert_int_equal(forecast.changed, 120);
    assert_false(forecast.is_at_least);
}

ENGINE_TEST(bulk_redrives_what_matches_in_chunks, NULL)
{
    const struct job_filter filter = {.task = STR("a")};
    struct bulk bulk;
    for (int i = 0; i < 120; i++) {
        make_dead(te, "a");
        make_dead(te, "b");
    }
    bulk_init(&bulk, MOVE_REDRIVE, &filter, te->now_ms);
    check_count(te, &bulk, 120, 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 0);
    step(te, &bulk, 70);
    assert_int_equal(bulk.changed, 70);
    assert_false(bulk.finished);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 70);
    check_count(te, &bulk, 50, 0);
    step(te, &bulk, 70);
    assert_true(bulk.finished);
    assert_int_equal(bulk.changed, 120);
    assert_int_equal(bulk.refused, 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 120);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 120);
    assert_int_equal(te->told[ENGINE_EVENT_REDRIVEN], 120);
}

ENGINE_TEST(job_that_dies_again_is_not_redriven_twice, NULL)
{
    const struct job_filter filter = {0};
    struct bulk bulk;
    int64_t first = make_dead(te, "t");
    make_dead(te, "t");
    bulk_init(&bulk, MOVE_REDRIVE, &filter, te->now_ms);
    step(te, &bulk, 1);
    /* Dead again within the millisecond in which the bulk began, so that only its number tells. */
    assert_int_equal(te_change(te, MOVE_END, first), 0);
    while (!bulk.finished)
        step(te, &bulk, 1);
    assert_int_equal(bulk.changed, 2);
    assert_int_equal(te_state(te, first), REDRIVE_STATE_DEAD_LETTER);
}

ENGINE_TEST(what_dies_after_the_start_is_left_alone, NULL)
{
    const struct job_filter filter = {0};
    struct bulk bulk;
    make_dead(te, "t");
    int64_t live = te_submit(te, "t", NULL);
    bulk_init(&bulk, MOVE_REDRIVE, &filter, te->now_ms);
    te_pass(te, 1);
    assert_int_equal(te_change(te, MOVE_END, live), 0);
    make_dead(te, "t");
    check_count(te, &bulk, 1, 0);
    step(te, &bulk, 500);
    assert_true(bulk.finished);
    assert_int_equal(bulk.changed, 1);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 2);
}

ENGINE_TEST(bound_of_the_filter_is_kept, NULL)
{
    struct bulk bulk;
    make_dead(te, "t");
    te_pass(te, 1000);
    make_dead(te, "t");
    const struct job_filter filter = {.finished_before_ms = te->now_ms};
    bulk_init(&bulk, MOVE_REMOVE, &filter, te->now_ms);
    step(te, &bulk, 500);
    assert_int_equal(bulk.changed, 1);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 1);
}

ENGINE_TEST(key_that_a_live_job_holds_is_refused_and_counted, NULL)
{
    const struct job_spec spec = {.task = STR("t"), .unique_key = STR("k")};
    const struct job_filter filter = {0};
    struct bulk bulk;
    int64_t held = te_submit_spec(te, &spec);
    assert_int_equal(te_change(te, MOVE_END, held), 0);
    te_submit_spec(te, &spec);
    make_dead(te, "t");
    bulk_init(&bulk, MOVE_REDRIVE, &filter, te->now_ms);
    check_count(te, &bulk, 1, 1);
    step(te, &bulk, 500);
    assert_true(bulk.finished);
    assert_int_equal(bulk.changed, 1);
    assert_int_equal(bulk.refused, 1);
    assert_int_equal(te_state(te, held), REDRIVE_STATE_DEAD_LETTER);
}

ENGINE_TEST(live_and_completed_jobs_are_never_redriven, NULL)
{
    const struct job_filter all = {.states = (1u << REDRIVE_STATE_COUNT) - 1};
    const struct job_filter live = {.states = 1u << REDRIVE_STATE_QUEUED};
    struct bulk bulk;
    te_submit(te, "t", NULL);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    te_submit(te, "t", NULL);
    bulk_init(&bulk, MOVE_REDRIVE, &all, te->now_ms);
    check_count(te, &bulk, 0, 0);
    step(te, &bulk, 500);
    assert_int_equal(bulk.changed + bulk.refused, 0);
    bulk_init(&bulk, MOVE_REMOVE, &live, te->now_ms);
    assert_true(bulk.finished);
    check_count(te, &bulk, 0, 0);
}

ENGINE_TEST(bulk_stays_within_its_tenant, NULL)
{
    const struct job_filter filter = {.tenant = STR("a")};
    struct bulk bulk;
    for (int i = 0; i < 2; i++) {
        const struct job_spec spec = {.task = STR("t"), .tenant = i ? STR("a") : STR("b")};
        assert_int_equal(te_change(te, MOVE_END, te_submit_spec(te, &spec)), 0);
    }
    bulk_init(&bulk, MOVE_REMOVE, &filter, te->now_ms);
    step(te, &bulk, 500);
    assert_int_equal(bulk.changed, 1);
    assert_int_equal(te_count(te, REDRIVE_STATE_DEAD_LETTER), 1);
}

/* ---- At a rate ------------------------------------------------------------------------------- */

TEST(pace_never_passes_its_rate)
{
    static const struct rate RATES[] = {{1, 1}, {3, 1}, {10, 1}, {777, 1}, {100000, 1}, {90, 60}};
    for (size_t i = 0; i < sizeof RATES / sizeof RATES[0]; i++) {
        struct bulk_pace pace;
        int64_t wait_ms;
        uint64_t gone = 0;
        bulk_pace_init(&pace, &RATES[i], 5000);
        for (int64_t ms = 0; ms < 10000; ms++) {
            size_t n = bulk_pace_due(&pace, 5000 + ms, &wait_ms);
            assert_true(n > 0 ? wait_ms == 0 : wait_ms > 0);
            if (n == 0)
                continue;
            bulk_pace_took(&pace, n, 5000 + ms);
            gone += n;
            /* The first chunk goes at once. */
            assert_true((gone - n) * RATES[i].period_s * 1000 <= (uint64_t)ms * RATES[i].count);
        }
        uint64_t ideal = 10 * RATES[i].count / RATES[i].period_s;
        assert_true(gone >= ideal - ideal / 20 || RATES[i].count == 100000);
    }
}

TEST(time_lost_is_not_made_up_for)
{
    const struct rate rate = {.count = 100, .period_s = 1};
    struct bulk_pace pace;
    int64_t wait_ms;
    bulk_pace_init(&pace, &rate, 0);
    assert_int_equal(bulk_pace_due(&pace, 0, &wait_ms), 10);
    bulk_pace_took(&pace, 10, 0);
    assert_int_equal(bulk_pace_due(&pace, 60000, &wait_ms), 10);
    bulk_pace_took(&pace, 10, 60000);
    assert_int_equal(bulk_pace_due(&pace, 60001, &wait_ms), 0);
    assert_int_equal(wait_ms, 99);
}

TEST(without_a_rate_all_go_at_once)
{
    const struct rate none = {0};
    struct bulk_pace pace;
    int64_t wait_ms;
    bulk_pace_init(&pace, &none, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bulk_pace_due(&pace, 0, &wait_ms), BULK_CHUNK_MAX);
        bulk_pace_took(&pace, BULK_CHUNK_MAX, 0);
    }
}
