/* Retention: ended jobs go in small steps, evenly, and in time. */
#include "engine_for_test.h"

#include "engine/clock/retention.h"
#include "store/wrap.h"

#define STEP  2000 /* jobs of a step, at most */
#define BATCH 250

/* So many jobs come, run and end at once. */
static void complete_some(struct test_engine *te, size_t n)
{
    struct job_spec specs[BATCH];
    struct settlement done[BATCH];
    struct submit_op submit;
    struct settle_op settle;
    for (size_t i = 0; i < n; i++)
        specs[i] = (struct job_spec){.task = STR("t")};
    assert_int_equal(submit_op_init(&submit, te->engine, specs, n, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &submit.op, NULL), 0);
    submit_op_release(&submit);
    assert_int_equal(te_claim(te, n), n);
    for (size_t i = 0; i < n; i++)
        done[i] = (struct settlement){.seq = te->claim.jobs[i].status.seq,
                                      .token = te->claim.jobs[i].status.token,
                                      .outcome = {.ending = ENDING_RAN}};
    settle_op_init(&settle, done, n);
    assert_int_equal(engine_apply_one(te->engine, &settle.op, NULL), 0);
}

static int64_t tick(struct test_engine *te)
{
    int64_t next_ms;
    assert_int_equal(engine_tick(te->engine, &next_ms, NULL), 0);
    return next_ms;
}

ENGINE_TEST(a_backlog_goes_in_steps_with_time_between_them, "retention: {completed: 1h}\n")
{
    for (int i = 0; i < 10; i++)
        complete_some(te, BATCH);
    (void)tick(te);
    te->now_ms += 3600 * 1000 + RETENTION_EVERY_MS;
    size_t left = 10 * (size_t)BATCH;
    const int64_t start_ms = te->now_ms;
    while (left > 0) {
        const int64_t next_ms = tick(te);
        const size_t now_left = te_count(te, REDRIVE_STATE_COMPLETED);
        assert_true(now_left < left && left - now_left <= STEP);
        assert_true(next_ms >= te->now_ms + 4);
        left = now_left;
        te->now_ms = next_ms;
    }
    assert_true(te->now_ms - start_ms < 1000);
}

/* Lets jobs end evenly, and ticks as the engine asks for it. Gives the most that one tick has
 * removed in the second half. */
static size_t most_in_a_tick(struct test_engine *te, size_t n, int64_t kept_ms)
{
    int64_t next_ms = tick(te);
    const int64_t start_ms = te->now_ms, late_ms = kept_ms / RETENTION_LATE_PART;
    size_t most = 0;
    for (int64_t at_ms = 0; at_ms < 4 * kept_ms; at_ms += 100) {
        complete_some(te, n);
        while (next_ms <= start_ms + at_ms) {
            te->now_ms = next_ms > te->now_ms ? next_ms : te->now_ms;
            const size_t before = te_count(te, REDRIVE_STATE_COMPLETED);
            next_ms = tick(te);
            const size_t left = te_count(te, REDRIVE_STATE_COMPLETED);
            if (at_ms > 2 * kept_ms && before - left > most)
                most = before - left;
        }
        te->now_ms = start_ms + at_ms;
        const size_t there = te_count(te, REDRIVE_STATE_COMPLETED);
        if (at_ms > kept_ms + 2 * late_ms) {
            assert_true(there >= n * (size_t)(kept_ms / 100));
            assert_true(there <= n * (size_t)((kept_ms + 2 * late_ms) / 100));
        }
    }
    return most;
}

ENGINE_TEST(jobs_that_end_evenly_go_evenly_and_in_time, "retention: {completed: 8s}\n")
{
    /* 500 a second, so that a step that follows others at a distance of a second would be full. */
    const size_t most = most_in_a_tick(te, 50, 8000);
    assert_true(most > 0 && most <= STEP);
}

ENGINE_TEST(without_ended_jobs_it_looks_once_a_minute, NULL)
{
    for (int i = 0; i < 3; i++) {
        const int64_t next_ms = tick(te);
        assert_int_equal(next_ms - te->now_ms, RETENTION_EVERY_MS);
        te->now_ms = next_ms;
    }
}

/* A store that sets the clock at the end of the next transaction that has changed nothing. */
struct jumpy {
    struct wrap wrap;
    struct test_engine *te;
    int64_t jump_ms;
};

static void end_and_jump(struct store *store)
{
    struct jumpy *jumpy = (struct jumpy *)(void *)store;
    jumpy->te->now_ms += jumpy->jump_ms;
    jumpy->jump_ms = 0;
    store_ops(jumpy->wrap.inner)->rollback(jumpy->wrap.inner);
}

TEST(after_a_clock_that_was_set_it_looks_within_a_minute)
{
    static const int64_t HOUR_MS = 3600 * 1000;
    const struct store_options options = {.create = true};
    struct test_engine te;
    struct jumpy jumpy = {.te = &te};
    struct store *inner = NULL;
    assert_int_equal(store_open("memory:", &options, &inner, NULL), 0);
    wrap_init(&jumpy.wrap, inner);
    jumpy.wrap.ops.rollback = end_and_jump;
    te_init_on(&te, NULL, wrap_store(&jumpy.wrap), TE_START_MS);
    te.now_ms += RETENTION_EVERY_MS;
    jumpy.jump_ms = HOUR_MS;
    for (int i = 0; i < 3; i++) {
        const int64_t next_ms = tick(&te);
        assert_true(next_ms <= te.now_ms + RETENTION_EVERY_MS);
        te.now_ms = next_ms > te.now_ms ? next_ms : te.now_ms;
    }
    te.now_ms -= 24 * HOUR_MS;
    assert_true(tick(&te) <= te.now_ms + RETENTION_EVERY_MS);
    te_release(&te);
    store_close(inner);
}

ENGINE_TEST(jobs_with_results_failures_and_keys_go_whole,
            "retention: {completed: 1h}\ndefaults: {retry: {max_retries: 3}}\n")
{
    const struct job_spec keyed = {.task = STR("t"), .unique_key = STR("k")};
    const struct job_spec forever = {
        .task = STR("t"), .unique_key = STR("f"), .unique_forever = true};
    (void)te_submit_spec(te, &keyed);
    (void)te_submit_spec(te, &forever);
    (void)te_submit(te, "t", NULL);
    assert_int_equal(te_fail(te, te_claim_one(te), "TRANSIENT_FAIL"), 0);
    te_pass(te, 600 * 1000);
    for (int i = 0; i < 3; i++) {
        const struct job *job = te_claim_one(te);
        struct settlement done = {.seq = job->status.seq,
                                  .token = job->status.token,
                                  .outcome = {.ending = ENDING_RAN},
                                  .result = STR("{}")};
        struct settle_op settle;
        settle_op_init(&settle, &done, 1);
        assert_int_equal(engine_apply_one(te->engine, &settle.op, NULL), 0);
    }
    const int64_t live = te_submit(te, "t", NULL); /* stays, after the others */
    te_pass(te, 3600 * 1000 + RETENTION_EVERY_MS);
    assert_int_equal(te_count(te, REDRIVE_STATE_COMPLETED), 0);
    assert_int_equal(te_state(te, live), REDRIVE_STATE_QUEUED);
    (void)te_submit_spec(te, &keyed);
    assert_int_equal(te_try_submit(te, &forever), 0); /* the job that is gone stands for it */
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 2);
}
