/* Transactions that fail: who is told what, and what is left. */
#include "engine/fragile.h"

#include <limits.h>

#include "base/err.h"
#include "base/time/clock.h"

static void submit_three(struct test_engine *te, const char *const *tasks, struct submit_op *ops)
{
    struct op *list[3];
    for (int i = 0; i < 3; i++) {
        const struct job_spec spec = {.task = str_of(tasks[i])};
        assert_int_equal(submit_op_init(&ops[i], te->engine, &spec, 1, NULL), 0);
        list[i] = &ops[i].op;
    }
    engine_apply(te->engine, list, 3);
}

static void release_three(struct submit_op *ops)
{
    for (int i = 0; i < 3; i++)
        submit_op_release(&ops[i]);
}

FRAGILE_TEST(operations_share_one_commit)
{
    static const char *const TASKS[] = {"a", "b", "c"};
    struct submit_op ops[3];
    submit_three(te, TASKS, ops);
    assert_int_equal(fragile.commits, 1);
    release_three(ops);
}

/* One more comes while a transaction waits. */
static void one_more(struct op_batch *batch)
{
    struct submit_op *all = batch->ctx;
    if (batch->n == 3)
        return;
    batch->ops[batch->n] = &all[batch->n].op;
    batch->n++;
}

static size_t apply_with_late_ones(struct test_engine *te, struct submit_op *ops)
{
    struct op *list[3] = {&ops[0].op};
    struct op_batch batch = {.ops = list, .n = 1, .gather = one_more, .ctx = ops};
    for (int i = 0; i < 3; i++) {
        const struct job_spec spec = {.task = STR("t")};
        assert_int_equal(submit_op_init(&ops[i], te->engine, &spec, 1, NULL), 0);
    }
    engine_apply_batch(te->engine, &batch);
    for (size_t i = 0; i < batch.n; i++)
        assert_int_equal(list[i]->code, 0);
    return batch.n;
}

FRAGILE_TEST(what_comes_while_a_transaction_waits_goes_with_it)
{
    struct submit_op ops[3];
    assert_int_equal(apply_with_late_ones(te, ops), 2);
    assert_int_equal(fragile.commits, 1);
    assert_true(ops[1].answers[0].seq > 0);
    release_three(ops);
}

FRAGILE_TEST(a_transaction_that_is_tried_again_takes_along_what_came_meanwhile)
{
    struct submit_op ops[3];
    fragile.fail_commit = REDRIVE_E_CANCELLED;
    assert_int_equal(apply_with_late_ones(te, ops), 3);
    assert_int_equal(fragile.commits, 2);
    release_three(ops);
}

FRAGILE_TEST(others_are_told_what_they_can_make_use_of)
{
    te_submit(te, "t", "{}");
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    assert_true(fragile.told & STORE_NOTIFY_TIME); /* of a breaker that is new */
    te_submit(te, "t", "{}");
    assert_int_equal(fragile.told, STORE_NOTIFY_READY | STORE_NOTIFY_END);
    const struct job *job = te_claim_one(te);
    assert_int_equal(fragile.told, 0);
    assert_int_equal(te_succeed(te, job), 0);
    assert_int_equal(fragile.told, STORE_NOTIFY_END);
    te_submit(te, "t", "{}");
    assert_int_equal(te_fail(te, te_claim_one(te), "TRANSIENT_FAIL"), 0);
    assert_int_equal(fragile.told & (STORE_NOTIFY_TIME | STORE_NOTIFY_READY), STORE_NOTIFY_TIME);
    const struct job_spec later = {.task = STR("t"), .process_after_ms = clock_wall_ms() + 60000};
    te_submit_spec(te, &later);
    assert_int_equal(fragile.told, STORE_NOTIFY_TIME | STORE_NOTIFY_END);
}

FRAGILE_TEST(bad_operation_fails_alone)
{
    static const char *const TASKS[] = {"good", "bad", "good"};
    struct submit_op ops[3];
    submit_three(te, TASKS, ops);
    assert_int_equal(ops[0].op.code, 0);
    assert_int_equal(ops[1].op.code, REDRIVE_E_CORRUPT);
    assert_string_equal(ops[1].op.err.message, "the store chokes on it");
    assert_int_equal(ops[2].op.code, 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 2);
    assert_int_equal(te_counter(te, "jobs_received", ""), 2);
    release_three(ops);
}

/* Three submits, one of which needs a lock, and a settlement, in one batch. */
static void apply_beside_a_lock(struct test_engine *te, bool sets_aside, struct submit_op *ops)
{
    static const char *const TASKS[] = {"good", "locked", "good"};
    struct settle_op settle;
    struct op *list[4];
    te_submit(te, "t", "{}");
    const struct job *job = te_claim_one(te);
    struct settlement done = {.seq = job->status.seq, .token = job->status.token};
    settle_op_init(&settle, &done, 1);
    for (int i = 0; i < 3; i++) {
        const struct job_spec spec = {.task = str_of(TASKS[i])};
        assert_int_equal(submit_op_init(&ops[i], te->engine, &spec, 1, NULL), 0);
        list[i] = &ops[i].op;
    }
    list[3] = &settle.op;
    fragile.is_locked = true;
    fragile.commits = 0;
    engine_apply_batch(te->engine,
                       &(struct op_batch){.ops = list, .n = 4, .sets_aside = sets_aside});
    assert_int_equal(settle.op.code, 0);
    assert_int_equal(done.ret.code, 0);
    assert_int_equal(ops[0].op.code, 0);
    assert_int_equal(ops[2].op.code, 0);
    assert_false(ops[0].op.is_blocked || ops[2].op.is_blocked || settle.op.is_blocked);
    assert_int_equal(fragile.commits, 3); /* of the settlement, and of each good submit */
    assert_int_equal(fragile.waits, 2);   /* together, and alone */
}

FRAGILE_TEST(operation_that_waits_for_a_lock_is_set_aside_and_the_others_are_answered)
{
    struct submit_op ops[3];
    engine_wait_briefly(te->engine);
    apply_beside_a_lock(te, true, ops);
    struct op *one = &ops[1].op;
    assert_true(one->is_blocked);
    assert_string_equal(one->err.message, "a lock was not given");
    assert_true(fragile.lock_wait_ms > 0 && fragile.lock_wait_ms < 100);
    assert_int_equal(fragile_count("store_failed"), 0);

    /* The lock is given at last. */
    fragile.is_locked = one->is_blocked = false;
    engine_apply_batch(te->engine, &(struct op_batch){.ops = &one, .n = 1, .sets_aside = true});
    assert_false(one->is_blocked);
    assert_int_equal(one->code, 0);
    assert_int_equal(te_counter(te, "jobs_received", ""), 4);
    release_three(ops);
}

FRAGILE_TEST(operation_that_waits_for_a_lock_fails_alone_where_none_is_set_aside)
{
    struct submit_op ops[3];
    engine_wait_briefly(te->engine);
    apply_beside_a_lock(te, false, ops);
    assert_int_equal(ops[1].op.code, REDRIVE_E_IO);
    assert_false(ops[1].op.is_blocked);
    release_three(ops);
}

/* A command of its own waits as long as the store does, again and again. */
FRAGILE_TEST(lock_that_others_hold_is_waited_for_by_who_is_alone)
{
    struct submit_op op;
    const struct job_spec spec = {.task = STR("locked")};
    fragile.is_locked = true;
    assert_int_equal(submit_op_init(&op, te->engine, &spec, 1, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), REDRIVE_E_IO);
    assert_true(fragile.waits > 2);
    assert_int_equal(fragile.lock_wait_ms, 0);
    submit_op_release(&op);
}

/* Two connections that waited for each other, say: the server has let one of them go. */
FRAGILE_TEST(transaction_that_others_were_in_the_way_of_is_tried_again_though_it_is_alone)
{
    fragile.fail_commit = REDRIVE_E_CANCELLED;
    fragile.commit_came_first = false;
    te_submit(te, "a", "{}");
    assert_int_equal(fragile.commits, 2);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
    assert_int_equal(te_counter(te, "jobs_received", ""), 1);
}

FRAGILE_TEST(transaction_is_not_given_up_because_others_were_faster_many_times)
{
    fragile.fail_commit = REDRIVE_E_CANCELLED;
    fragile.fail_times = 20;
    fragile.commit_came_first = false;
    te_submit(te, "a", "{}");
    assert_int_equal(fragile.commits, 21);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 1);
}

static void put_into_force(struct test_engine *te, const char *yaml)
{
    struct reload_op op;
    struct config *config = te_config(te, yaml);
    assert_int_equal(reload_op_init(&op, config, NULL), 0);
    config_free(config);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    reload_op_release(&op);
}

/* The first transaction that takes over the new limit is lost, and everything is read again. */
FRAGILE_TEST(a_limit_is_renewed_although_others_were_faster)
{
    int64_t next_ms;
    put_into_force(te, "tasks: {call: {limits: {rate: 1/d}}}\n");
    te_submit(te, "call", "{}");
    te_submit(te, "call", "{}");
    assert_int_equal(te_claim(te, 2), 1);
    put_into_force(te, "tasks: {call: {limits: {concurrency: 2}}}\n");
    fragile.fail_commit = REDRIVE_E_CANCELLED;
    fragile.commit_came_first = false;
    assert_int_equal(engine_tick(te->engine, &next_ms, NULL), 0);
    assert_int_equal(fragile.fail_commit, 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 0);
}

/* Each would wait in vain for the store, and everybody with it. */
FRAGILE_TEST(operations_are_not_tried_one_by_one_on_a_store_that_is_gone)
{
    static const char *const TASKS[] = {"bad", "good", "good"};
    struct submit_op ops[3];
    fragile.begins = 0;
    fragile.begins_left = 1;
    submit_three(te, TASKS, ops);
    assert_int_equal(fragile.begins, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i].op.code, REDRIVE_E_IO);
        assert_string_equal(ops[i].op.err.message, "the store is gone");
    }
    release_three(ops);
}

FRAGILE_TEST(failed_commit_that_did_nothing_is_tried_again)
{
    static const char *const TASKS[] = {"a", "b", "c"};
    struct submit_op ops[3];
    fragile.fail_commit = REDRIVE_E_NOMEM;
    fragile.commit_came_first = false;
    submit_three(te, TASKS, ops);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ops[i].op.code, 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 3);
    release_three(ops);
}

FRAGILE_TEST(unclear_commit_is_told_to_all_and_not_repeated)
{
    static const char *const TASKS[] = {"a", "b", "c"};
    struct submit_op ops[3];
    fragile.fail_commit = REDRIVE_E_IO;
    fragile.commit_came_first = true;
    submit_three(te, TASKS, ops);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i].op.code, REDRIVE_E_IO);
        assert_non_null(strstr(ops[i].op.err.hint, "may or may not"));
    }
    assert_int_equal(fragile.commits, 1);
    assert_int_equal(te_count(te, REDRIVE_STATE_QUEUED), 3);
    assert_int_equal(te_claim(te, 10), 3);
    release_three(ops);
}

/* A new breaker is to be written with it. */
static int settle_one(struct test_engine *te, const struct job_status *job, struct redrive_err *err)
{
    struct settlement s = {.seq = job->seq, .token = job->token, .outcome = {.ending = ENDING_RAN}};
    struct settle_op op;
    settle_op_init(&op, &s, 1);
    fragile.shared_puts = 0;
    return engine_apply_one(te->engine, &op.op, err);
}

FRAGILE_TEST(a_store_that_fails_to_write_breakers_is_not_taken_for_a_race)
{
    struct redrive_err err = {0};
    te_submit(te, "call", NULL);
    const struct job_status job = te_claim_one(te)->status;
    fragile.put_code = REDRIVE_E_STATE;
    assert_int_equal(settle_one(te, &job, &err), REDRIVE_E_STATE);
    assert_string_equal(err.message, "the session is another one");
    assert_int_equal(fragile.shared_puts, 1);
    fragile.put_code = 0;
    assert_int_equal(settle_one(te, &job, NULL), 0);
}

FRAGILE_TEST(a_transaction_that_is_given_up_says_what_was_in_its_way)
{
    struct redrive_err err = {0};
    te_submit(te, "call", NULL);
    const struct job_status job = te_claim_one(te)->status;
    fragile.put_refused = true;
    assert_int_equal(settle_one(te, &job, &err), REDRIVE_E_IO);
    assert_string_equal(err.message, "another process has changed the same breaker or limit");
    assert_non_null(strstr(err.detail, "tried "));
    assert_true(fragile.shared_puts > 1);
    fragile.put_refused = false;
    assert_int_equal(settle_one(te, &job, NULL), 0);
}

FRAGILE_TEST(breaker_forgets_what_was_rolled_back)
{
    for (int i = 0; i < 5; i++)
        te_submit(te, "call", NULL);
    assert_int_equal(te_claim(te, 5), 5);
    for (int i = 0; i < 4; i++)
        assert_int_equal(te_fail(te, &te->claim.jobs[i], "network"), 0);
    struct settlement s = {.seq = te->claim.jobs[4].status.seq,
                           .token = te->claim.jobs[4].status.token,
                           .outcome = {.failure = {.status = "network"}}};
    struct settle_op op;
    settle_op_init(&op, &s, 1);
    fragile.fail_commit = REDRIVE_E_IO;
    fragile.commit_came_first = false;
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), REDRIVE_E_IO);
    assert_int_equal(te_breaker(te, "call"), REDRIVE_BREAKER_CLOSED);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(s.ret.code, 0);
    assert_int_equal(te_breaker(te, "call"), REDRIVE_BREAKER_OPEN);
}

/* One settlement that comes too late may cost its whole transaction a second try. */
FRAGILE_TEST(settlements_that_are_tried_again_are_not_looked_up_one_by_one)
{
    struct settlement s[5] = {{.seq = 0}};
    struct settle_op op;
    for (int i = 0; i < 5; i++)
        te_submit(te, "call", NULL);
    assert_int_equal(te_claim(te, 5), 5);
    for (int i = 0; i < 5; i++)
        s[i] = (struct settlement){.seq = te->claim.jobs[i].status.seq,
                                   .token = te->claim.jobs[i].status.token};
    settle_op_init(&op, s, 5);
    fragile.fail_commit = REDRIVE_E_CANCELLED;
    fragile.commit_came_first = false;
    fragile.commits = fragile.lists = 0;
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(fragile.commits, 2);
    assert_int_equal(fragile.lists, 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_COMPLETED), 5);
    const unsigned listed = fragile.lists;
    /* Then they are forgotten. Each is read by its number alone: a list would read its neighbour as
     * well, whose row may be damaged. */
    fragile.finds = 0;
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(s[4].ret.code, REDRIVE_E_STATE);
    assert_true(fragile.finds >= 5);
    assert_int_equal(fragile.lists, listed);
}

/* What a run holds is given back by whoever cancels it, so that the store must know what was seen
 * of it. */
FRAGILE_TEST(a_cancel_says_whether_the_job_was_seen_to_run)
{
    te_submit(te, "t", "{}");
    const struct job *job = te_claim_one(te);
    const uint64_t token = job->status.token;
    assert_int_equal(te_change(te, MOVE_CANCEL, job->status.seq), 0);
    assert_int_equal(fragile.seen_token, token);
    assert_int_equal(te_change(te, MOVE_CANCEL, te_submit(te, "t", "{}")), 0);
    assert_int_equal(fragile.seen_token, 0);
}

FRAGILE_TEST(failed_commit_that_did_nothing_is_not_called_unclear)
{
    static const char *const TASKS[] = {"a", "b", "c"};
    struct submit_op ops[3];
    fragile.fail_commit = REDRIVE_E_IO;
    fragile.commit_came_first = false;
    fragile.commit_is_rolled_back = true;
    submit_three(te, TASKS, ops);
    fragile.commit_is_rolled_back = false;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i].op.code, REDRIVE_E_IO);
        assert_null(strstr(ops[i].op.err.hint, "may or may not"));
    }
    release_three(ops);
}

FRAGILE_TEST(transaction_that_moves_nothing_is_not_committed)
{
    assert_int_equal(te_claim(te, 10), 0);
    assert_int_equal(fragile.commits, 0);
}

TEST_MAIN(argc, argv)
{
    int failed = check_run(NULL, NULL);
    fragile_release();
    return failed;
}
