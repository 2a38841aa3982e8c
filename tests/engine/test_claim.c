/* One claim for all tasks of a worker: which job goes first, and what a full task leaves to others.
 */
#include "engine/engine_for_test.h"

#include <stdlib.h>
#include <string.h>

static const struct str TASKS[] = {STR("a"), STR("b")};

static int64_t put(struct test_engine *te, const char *task, int32_t priority)
{
    return te_submit_spec(te, &(struct job_spec){.task = str_of(task), .priority = priority});
}

static void claim(struct test_engine *te, const struct claim_filter *filter)
{
    claim_op_release(&te->claim);
    claim_op_init(&te->claim, filter, STR("w"), 0);
    assert_int_equal(engine_apply_one(te->engine, &te->claim.op, NULL), 0);
}

static void check_claimed(const struct test_engine *te, const int64_t *seqs, size_t n)
{
    assert_int_equal(te->claim.n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(te->claim.jobs[i].status.seq, seqs[i]);
}
#define CHECK_CLAIMED(te, ...)                        \
    check_claimed(te, (const int64_t[]){__VA_ARGS__}, \
                  sizeof(const int64_t[]){__VA_ARGS__} / sizeof(int64_t))

/* Invariant 11, as a worker with one slot sees it. */
ENGINE_TEST(one_slot_takes_the_highest_priority_of_all_tasks, NULL)
{
    int64_t jobs[6];
    for (int i = 0; i < 3; i++)
        jobs[3 + i] = put(te, "a", 0);
    for (int i = 0; i < 3; i++)
        jobs[i] = put(te, "b", 10 - i);
    for (int i = 0; i < 6; i++) {
        claim(te, &(struct claim_filter){.tasks = TASKS, .n_tasks = 2, .limit = 1});
        CHECK_CLAIMED(te, jobs[i]);
        assert_int_equal(te_succeed(te, &te->claim.jobs[0]), 0);
    }
}

/* An operation during which the time passes: stands for a commit that takes long. */
struct slow_op {
    struct op op;
    struct test_engine *te;
    int64_t ms;
};

static int pass_time(struct engine *e, struct op *base, struct redrive_err *err)
{
    (void)e, (void)err;
    struct slow_op *op = (struct slow_op *)base;
    op->te->now_ms += op->ms;
    return 0;
}

static void claim_that_takes(struct test_engine *te, int64_t ms)
{
    struct slow_op slow = {{.apply = pass_time}, te, ms};
    claim_op_release(&te->claim);
    claim_op_init(&te->claim, &(struct claim_filter){.limit = 1}, STR("w"), 1000);
    engine_apply(te->engine, (struct op *[]){&te->claim.op, &slow.op}, 2);
    assert_int_equal(te->claim.op.code, 0);
}

ENGINE_TEST(a_job_whose_lease_ends_before_the_answer_is_not_handed_out, NULL)
{
    put(te, "a", 0);
    claim_that_takes(te, 1500);
    assert_int_equal(te->claim.n, 0);
}

ENGINE_TEST(a_job_whose_lease_still_holds_is_handed_out_late, NULL)
{
    const int64_t seq = put(te, "a", 0);
    claim_that_takes(te, 500);
    CHECK_CLAIMED(te, seq);
}

ENGINE_TEST(queues_are_drained_in_their_order, NULL)
{
    const struct str queues[] = {STR("urgent"), STR("bulk")};
    const struct claim_filter filter = {
        .queues = queues, .n_queues = 2, .tasks = TASKS, .n_tasks = 2, .limit = 1};
    int64_t urgent[3], bulk[3];
    for (int i = 0; i < 3; i++) {
        bulk[i] = te_submit_spec(
            te, &(struct job_spec){.task = STR("a"), .queue = queues[1], .priority = 100});
        urgent[i] = te_submit_spec(te, &(struct job_spec){.task = STR("b"), .queue = queues[0]});
    }
    for (int i = 0; i < 3; i++) {
        claim(te, &filter);
        CHECK_CLAIMED(te, urgent[i]);
    }
    for (int i = 0; i < 3; i++) {
        claim(te, &filter);
        CHECK_CLAIMED(te, bulk[i]);
    }
    claim(te, &filter);
    assert_int_equal(te->claim.n, 0);
    assert_false(te->claim.more);
}

ENGINE_TEST(a_full_task_leaves_the_slots_to_others, NULL)
{
    const size_t limits[] = {1, 3};
    int64_t a = put(te, "a", 50);
    for (int i = 0; i < 99; i++)
        put(te, "a", 40);
    int64_t b = put(te, "b", 0);
    const struct claim_filter filter = {
        .tasks = TASKS, .n_tasks = 2, .task_limits = limits, .limit = 4};
    claim(te, &filter);
    CHECK_CLAIMED(te, a, b);
}

/* Jobs that are parked on the way use no slot of their task, and many of them are no obstacle. */
ENGINE_TEST(parked_jobs_do_not_use_up_the_slots_of_their_task,
            "tasks:\n"
            "  a: {limits: {concurrency: 1, per: key, key: \"{payload.host}\"}}\n"
            "  b: {}\n")
{
    const size_t limits[] = {1, 3};
    te_submit(te, "a", "{\"host\":\"x\"}");
    te_claim_one(te);
    for (int i = 0; i < 150; i++)
        te_submit(te, "a", "{\"host\":\"x\"}");
    int64_t a = te_submit(te, "a", "{\"host\":\"y\"}");
    te_submit(te, "a", "{\"host\":\"z\"}");
    int64_t b = te_submit(te, "b", "{}");
    const struct claim_filter filter = {
        .tasks = TASKS, .n_tasks = 2, .task_limits = limits, .limit = 4};
    claim(te, &filter);
    assert_int_equal(te->claim.n, 2);
    assert_int_equal(te_state(te, a), REDRIVE_STATE_RUNNING);
    assert_int_equal(te_state(te, b), REDRIVE_STATE_RUNNING);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 150);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static void put_megabytes(struct test_engine *te, size_t n)
{
    const size_t len = 1u << 20;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, ' ', len);
    text[0] = '{';
    text[len - 1] = '}';
    for (size_t i = 0; i < n; i++)
        te_submit_spec(te, &(struct job_spec){.task = STR("a"), .payload = {text, len}});
    free(text);
}

/* Claims of one transaction each have their own bytes, and nothing that was found is left lying. */
ENGINE_TEST(claims_get_as_many_jobs_as_fit, NULL)
{
    struct claim_op a, b;
    const struct claim_filter filter = {.limit = 100, .max_bytes = (3u << 20) + 4096};
    put_megabytes(te, 8);
    claim_op_init(&a, &filter, STR("w"), 0);
    claim_op_init(&b, &filter, STR("w"), 0);
    engine_apply(te->engine, (struct op *[]){&a.op, &b.op}, 2);
    assert_int_equal(a.op.code, 0);
    assert_int_equal(b.op.code, 0);
    assert_in_range(a.n, 3, 4);
    assert_in_range(b.n, 1, 4);
    assert_int_equal(a.n + b.n, 6);
    assert_true(a.more);
    claim(te, &filter);
    assert_int_equal(te->claim.n, 2);
    assert_false(te->claim.more);
    claim_op_release(&a);
    claim_op_release(&b);
}
