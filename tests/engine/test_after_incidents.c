/* What has gone wrong with jobs that wait for others in comparable systems: docs/testing.md,
 * "Incidents of others". */
#include "engine/engine_for_test.h"

#include <string.h>

#define DAY_MS INT64_C(86400000)
#define RULE(on_, dead)                \
    {                                  \
        AFTER_##on_, AFTER_DEAD_##dead \
    }

/* Submits an array; the seqs of its jobs, all of which must be taken in. */
static void submit_all(struct test_engine *te, const struct job_spec *specs, size_t n,
                       int64_t *seqs)
{
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, te->engine, specs, n, NULL), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(op.answers[i].code, 0);
        seqs[i] = op.answers[i].seq;
    }
    submit_op_release(&op);
}

static void fail_this(struct test_engine *te, int64_t seq)
{
    const struct job job = te_claim_this(te, seq);
    assert_int_equal(te_fail(te, &job, "PERMANENT_FAIL"), 0);
    assert_int_equal(te_state(te, seq), REDRIVE_STATE_DEAD_LETTER);
}

static size_t live_jobs(struct test_engine *te)
{
    return te_count(te, REDRIVE_STATE_QUEUED) + te_count(te, REDRIVE_STATE_SCHEDULED) +
           te_count(te, REDRIVE_STATE_RETRYING) + te_count(te, REDRIVE_STATE_RUNNING) +
           te_count(te, REDRIVE_STATE_PARKED) + te_count(te, REDRIVE_STATE_WAITING);
}

/* GoodJob 1450: a job of a batch was discarded; it was retried by hand and succeeded; the callback
 * did not come. */
TEST(callback_comes_when_a_dead_job_of_its_group_is_redriven_by_hand)
{
    const struct job_after group[] = {{STR("a"), RULE(SUCCESS, WAIT)},
                                      {STR("b"), RULE(SUCCESS, WAIT)}};
    const struct job_after alarm = {STR("b"), RULE(FAILURE, WAIT)};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("a")},
        {.task = STR("t"), .id = STR("b")},
        {.task = STR("t"), .id = STR("callback"), .after = group, .n_after = 2},
        {.task = STR("t"), .id = STR("alarm"), .after = &alarm, .n_after = 1},
    };
    struct test_engine te;
    int64_t seqs[4];
    te_init(&te, NULL);
    submit_all(&te, specs, 4, seqs);
    te_run_this(&te, seqs[0]);
    fail_this(&te, seqs[1]);
    te_run_this(&te, seqs[3]);
    assert_int_equal(te_state(&te, seqs[2]), REDRIVE_STATE_WAITING);
    assert_int_equal(te_change(&te, MOVE_REDRIVE, seqs[1]), 0);
    te_run_this(&te, seqs[1]);
    te_run_this(&te, seqs[2]);
    assert_int_equal(te_claim(&te, 1), 0);
    assert_int_equal(live_jobs(&te), 0);
    te_release(&te);
}

/* BullMQ 3362: a job failed for good, and the one that waited for it stayed in waiting-children
 * without a way on. */
TEST(callback_on_end_comes_when_one_of_its_group_has_failed)
{
    const struct job_after group[] = {{STR("a"), RULE(END, WAIT)}, {STR("b"), RULE(END, WAIT)}};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("a")},
        {.task = STR("t"), .id = STR("b")},
        {.task = STR("t"), .id = STR("callback"), .after = group, .n_after = 2},
    };
    struct test_engine te;
    int64_t seqs[3];
    te_init(&te, NULL);
    submit_all(&te, specs, 3, seqs);
    fail_this(&te, seqs[0]);
    te_run_this(&te, seqs[1]);
    te_run_this(&te, seqs[2]);
    te_release(&te);
}

/* BullMQ 1752: a failed job was removed, and the one that waited for it did not run. */
TEST(removal_of_a_dead_job_moves_those_that_wait_for_it)
{
    const struct job_after any = {STR("a"), RULE(SUCCESS, RUN)},
                           only = {STR("a"), RULE(SUCCESS, WAIT)};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("a")},
        {.task = STR("t"), .id = STR("any"), .after = &any, .n_after = 1},
        {.task = STR("t"), .id = STR("only"), .after = &only, .n_after = 1},
        {.task = STR("t"), .id = STR("late"), .after = &only, .n_after = 1},
    };
    struct test_engine te;
    int64_t seqs[4];
    te_init(&te, NULL);
    submit_all(&te, specs, 3, seqs);
    fail_this(&te, seqs[0]);
    submit_all(&te, specs + 3, 1, seqs + 3);
    te_run_this(&te, seqs[1]);
    assert_int_equal(te_state(&te, seqs[2]), REDRIVE_STATE_WAITING);
    assert_int_equal(te_state(&te, seqs[3]), REDRIVE_STATE_WAITING);
    assert_int_equal(te_change(&te, MOVE_REMOVE, seqs[0]), 0);
    for (int i = 2; i < 4; i++) {
        assert_int_equal(te_state(&te, seqs[i]), REDRIVE_STATE_CANCELLED);
        assert_int_equal(te_job(&te, seqs[i]).status.reason, REDRIVE_REASON_SKIPPED);
    }
    assert_int_equal(live_jobs(&te), 0);
    te_release(&te);
}

/* BullMQ 2464: a job whose workers died too often failed, and the one that waited for it did not
 * hear of it. */
TEST(job_whose_workers_died_moves_those_that_wait_for_it)
{
    const struct job_after on_end = {STR("a"), RULE(END, WAIT)},
                           on_success = {STR("a"), RULE(SUCCESS, CANCEL)};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("a")},
        {.task = STR("t"), .id = STR("end"), .after = &on_end, .n_after = 1},
        {.task = STR("t"), .id = STR("success"), .after = &on_success, .n_after = 1},
    };
    struct test_engine te;
    int64_t seqs[3];
    te_init(&te, NULL);
    submit_all(&te, specs, 3, seqs);
    for (int i = 0; i < 50 && te_state(&te, seqs[0]) != REDRIVE_STATE_DEAD_LETTER; i++) {
        assert_int_equal(te_state(&te, seqs[1]), REDRIVE_STATE_WAITING);
        (void)te_claim(&te, 1);
        te_pass(&te, 10 * 60 * 1000);
    }
    assert_int_equal(te_state(&te, seqs[0]), REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(te_state(&te, seqs[2]), REDRIVE_STATE_CANCELLED);
    te_run_this(&te, seqs[1]);
    te_release(&te);
}

/* sidekiq-batch 100: the first jobs of a batch were done before the last ones had been added, and
 * the callback came too early. */
TEST(callback_waits_for_a_group_whose_first_jobs_are_done_before_it_is_complete)
{
    const struct job_after group[] = {{STR("a"), RULE(SUCCESS, WAIT)},
                                      {STR("b"), RULE(SUCCESS, WAIT)},
                                      {STR("c"), RULE(SUCCESS, WAIT)}};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("a")},
        {.task = STR("t"), .id = STR("b")},
        {.task = STR("t"), .id = STR("c")},
        {.task = STR("t"), .id = STR("callback"), .after = group, .n_after = 3},
    };
    struct test_engine te;
    int64_t seqs[4];
    te_init(&te, NULL);
    submit_all(&te, specs, 1, seqs);
    te_run_this(&te, seqs[0]);
    submit_all(&te, specs + 1, 1, seqs + 1);
    const struct job b = te_claim_this(&te, seqs[1]);
    submit_all(&te, specs + 2, 2, seqs + 2);
    assert_int_equal(te_state(&te, seqs[3]), REDRIVE_STATE_WAITING);
    assert_int_equal(te_succeed(&te, &b), 0);
    assert_int_equal(te_state(&te, seqs[3]), REDRIVE_STATE_WAITING);
    te_run_this(&te, seqs[2]);
    te_run_this(&te, seqs[3]);
    te_release(&te);
}

/* Celery 9674: a job in a chain in a group failed, and what was to come after the group was tried
 * every second for ever. Here it costs nothing: what cannot run any more ends at once, and what may
 * still run is not looked at until its parent ends. */
TEST(failure_in_a_nested_group_leaves_nothing_that_goes_on)
{
    for (int waits = 0; waits < 2; waits++) {
        const struct after_rule rule = {AFTER_SUCCESS, waits ? AFTER_DEAD_WAIT : AFTER_DEAD_CANCEL};
        const struct job_after second = {STR("first"), rule}, third = {STR("second"), rule};
        const struct job_after group[] = {{STR("third"), rule}, {STR("other"), rule}};
        const struct job_spec specs[] = {
            {.task = STR("t"), .id = STR("first")},
            {.task = STR("t"), .id = STR("second"), .after = &second, .n_after = 1},
            {.task = STR("t"), .id = STR("third"), .after = &third, .n_after = 1},
            {.task = STR("t"), .id = STR("other")},
            {.task = STR("t"), .id = STR("callback"), .after = group, .n_after = 2},
        };
        struct test_engine te;
        int64_t seqs[5];
        te_init(&te, NULL);
        submit_all(&te, specs, 5, seqs);
        te_run_this(&te, seqs[0]);
        fail_this(&te, seqs[1]);
        te_run_this(&te, seqs[3]);
        assert_int_equal(live_jobs(&te), waits ? 2 : 0);
        const int64_t updated_ms = te_job(&te, seqs[4]).status.updated_ms;
        for (int i = 0; i < 100; i++)
            te_pass(&te, 1000);
        assert_int_equal(te_job(&te, seqs[4]).status.updated_ms, updated_ms);
        assert_int_equal(te_claim(&te, 1), 0);
        if (waits) {
            assert_int_equal(te_change(&te, MOVE_REDRIVE, seqs[1]), 0);
            te_run_this(&te, seqs[1]);
            te_run_this(&te, seqs[2]);
            te_run_this(&te, seqs[4]);
        }
        assert_int_equal(live_jobs(&te), 0);
        te_release(&te);
    }
}

/* GoodJob 1528: the record of a batch was cleaned up while its callback could still be retried,
 * which then could not run. */
TEST(redriven_callback_runs_after_its_group_is_gone)
{
    const struct job_after after = {STR("a"), RULE(SUCCESS, WAIT)};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("a")},
        {.task = STR("t"), .id = STR("callback"), .after = &after, .n_after = 1},
    };
    struct test_engine te;
    int64_t seqs[2];
    te_init(&te, NULL);
    submit_all(&te, specs, 2, seqs);
    te_run_this(&te, seqs[0]);
    fail_this(&te, seqs[1]);
    for (int i = 0; i < 5; i++)
        te_pass(&te, DAY_MS);
    assert_int_equal(te_count(&te, REDRIVE_STATE_COMPLETED), 0);
    assert_int_equal(te_change(&te, MOVE_REDRIVE, seqs[1]), 0);
    te_run_this(&te, seqs[1]);
    te_release(&te);
}

/* ---- What was found here --------------------------------------------------------------------- */

static bool has_words(struct test_engine *te, int64_t seq, const char *words)
{
    const struct job_filter filter = {.after_seq = seq - 1, .limit = 1};
    struct store *store = engine_store(te->engine);
    struct job_page page = {0};
    assert_int_equal(store_ops(store)->list(store, &filter, &page, NULL), 0);
    const struct str message = page.jobs[0].status.error.message;
    const bool has =
        message.len > 0 && memmem(message.ptr, message.len, words, strlen(words)) != NULL;
    job_page_release(&page);
    return has;
}

/* Of two parents that end in one transaction, or had ended before, the skipped job names the one
 * that did not end as it must. */
TEST(skipped_job_names_the_right_parent)
{
    const struct job_after after[] = {{STR("a"), RULE(SUCCESS, CANCEL)},
                                      {STR("b"), RULE(SUCCESS, CANCEL)}};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("a")},
        {.task = STR("t"), .id = STR("b")},
        {.task = STR("t"), .id = STR("child"), .after = after, .n_after = 2},
        {.task = STR("t"), .id = STR("late"), .after = after, .n_after = 2},
    };
    for (int fails = 0; fails < 2; fails++) {
        struct test_engine te;
        struct settlement items[2];
        struct settle_op op;
        int64_t seqs[4];
        te_init(&te, NULL);
        submit_all(&te, specs, 3, seqs);
        assert_int_equal(te_claim(&te, 2), 2);
        for (int i = 0; i < 2; i++)
            items[i] = (struct settlement){
                .seq = te.claim.jobs[i].status.seq,
                .token = te.claim.jobs[i].status.token,
                .outcome = {.ending = ENDING_RAN,
                            .failure = {.status = i == fails ? "PERMANENT_FAIL" : "SUCCESS"}}};
        settle_op_init(&op, items, 2);
        assert_int_equal(engine_apply_one(te.engine, &op.op, NULL), 0);
        submit_all(&te, specs + 3, 1, seqs + 3);
        for (int i = 2; i < 4; i++) {
            assert_int_equal(te_state(&te, seqs[i]), REDRIVE_STATE_CANCELLED);
            assert_true(has_words(&te, seqs[i], fails ? "'b'" : "'a'"));
            assert_true(has_words(&te, seqs[i], "ended as dead_letter"));
        }
        te_release(&te);
    }
}

/* A child comes in, and its parent is ended, in one transaction: as a committer puts the requests
 * of several clients together. */
TEST(child_comes_in_with_the_end_of_its_parent)
{
    const struct job_after after = {STR("a"), RULE(SUCCESS, CANCEL)};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("a")},
        {.task = STR("t"), .id = STR("child"), .after = &after, .n_after = 1},
    };
    for (int way = 0; way < 6; way++) {
        struct test_engine te;
        int64_t a;
        struct submit_op submit;
        struct change_op change;
        struct settle_op settle;
        te_init(&te, NULL);
        submit_all(&te, specs, 1, &a);
        const struct job job = te_claim_this(&te, a);
        struct change_item item = {.seq = a};
        struct settlement end = {
            .seq = a,
            .token = job.status.token,
            .outcome = {.ending = ENDING_RAN,
                        .failure = {.status = way / 2 == 1 ? "PERMANENT_FAIL" : "SUCCESS"}}};
        assert_int_equal(submit_op_init(&submit, te.engine, specs + 1, 1, NULL), 0);
        change_op_init(&change, MOVE_CANCEL, &item, 1);
        settle_op_init(&settle, &end, 1);
        struct op *ends = way / 2 == 2 ? &change.op : &settle.op;
        struct op *ops[2] = {way % 2 ? ends : &submit.op, way % 2 ? &submit.op : ends};
        engine_apply(te.engine, ops, 2);
        assert_int_equal(ops[0]->code, 0);
        assert_int_equal(ops[1]->code, 0);
        const int64_t child = submit.answers[0].seq;
        submit_op_release(&submit);
        if (way / 2 == 0) {
            te_run_this(&te, child);
        } else {
            assert_int_equal(te_state(&te, child), REDRIVE_STATE_CANCELLED);
            assert_int_equal(te_job(&te, child).status.reason, REDRIVE_REASON_SKIPPED);
            assert_true(has_words(&te, child, "'a'"));
        }
        assert_int_equal(live_jobs(&te), 0);
        te_release(&te);
    }
}

/* A parent that repeats a key of a job that is long gone cannot be waited for. */
TEST(parent_that_repeats_a_job_that_is_gone_is_refused)
{
    const struct job_after after = {STR("again"), RULE(SUCCESS, WAIT)};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("once"), .unique_key = STR("k"), .unique_forever = true},
        {.task = STR("t"), .id = STR("again"), .unique_key = STR("k"), .unique_forever = true},
        {.task = STR("t"), .id = STR("child"), .after = &after, .n_after = 1},
    };
    struct test_engine te;
    struct submit_op op;
    int64_t seq;
    te_init(&te, NULL);
    submit_all(&te, specs, 1, &seq);
    te_run_this(&te, seq);
    assert_int_equal(te_change(&te, MOVE_REMOVE, seq), 0);
    assert_int_equal(submit_op_init(&op, te.engine, specs + 1, 2, NULL), 0);
    assert_int_equal(engine_apply_one(te.engine, &op.op, NULL), 0);
    assert_true(op.answers[0].existed);
    assert_int_equal(op.answers[1].code, REDRIVE_E_UNKNOWN);
    submit_op_release(&op);
    assert_int_equal(live_jobs(&te), 0);
    te_release(&te);
}

#define PARENTS_OF_ONE \
    2200 /* more than a step of retention looks at, and than a store is asked about */

ENGINE_TEST(retention_removes_many_parents, NULL)
{
    static char ids[PARENTS_OF_ONE][16];
    static struct job_after after[PARENTS_OF_ONE];
    static struct job_spec specs[PARENTS_OF_ONE + 1];
    static int64_t seqs[PARENTS_OF_ONE + 1];
    for (int i = 0; i < PARENTS_OF_ONE; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "part-%d", i);
        after[i] = (struct job_after){.id = str_of(ids[i])};
        specs[i] = (struct job_spec){.task = STR("t"), .id = str_of(ids[i])};
    }
    specs[PARENTS_OF_ONE] = (struct job_spec){
        .task = STR("t"), .id = STR("all"), .after = after, .n_after = PARENTS_OF_ONE};
    submit_all(te, specs, PARENTS_OF_ONE + 1, seqs);
    for (int done = 0; done < PARENTS_OF_ONE + 1;) {
        const size_t n = te_claim(te, 100);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(te_succeed(te, &te->claim.jobs[i]), 0);
        done += (int)n;
    }
    assert_int_equal(te_count(te, REDRIVE_STATE_COMPLETED), PARENTS_OF_ONE + 1);
    for (int i = 0; i < 40; i++)
        te_pass(te, DAY_MS);
    assert_int_equal(te_count(te, REDRIVE_STATE_COMPLETED), 0);
}

/* As if so many jobs waited for it. */
static void count_children(struct test_engine *te, int64_t seq, uint32_t n)
{
    struct store *store = engine_store(te->engine);
    const struct store_ops *ops = store_ops(store);
    const struct edge_move move = {seq, n};
    struct move_result result;
    int64_t now_ms, shared;
    assert_int_equal(ops->begin(store, te->now_ms, &now_ms, &shared, NULL), 0);
    assert_int_equal(ops->move(store, ADOPTS(&move, 1), &result, NULL), 0);
    assert_int_equal(ops->commit(store, NULL), 0);
}

/* All that waits for a job is released in one transaction: there is a most. */
TEST(children_of_one_array_are_counted_with_those_that_are_there)
{
    const struct job_spec parent = {.task = STR("t"), .id = STR("a"), .unique_key = STR("k")};
    const struct job_after a = {STR("a"), RULE(SUCCESS, WAIT)}, r = {STR("r"), RULE(SUCCESS, WAIT)};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("r"), .unique_key = STR("k")}, /* stands for a */
        {.task = STR("t"), .id = STR("b"), .after = &a, .n_after = 1},
        {.task = STR("t"), .id = STR("c"), .after = &a, .n_after = 1},
        {.task = STR("t"), .id = STR("d"), .after = &r, .n_after = 1},
    };
    static const int CODES[] = {0, 0, REDRIVE_E_RANGE, REDRIVE_E_RANGE};
    struct test_engine te;
    struct submit_op op;
    te_init(&te, NULL);
    count_children(&te, te_submit_spec(&te, &parent), AFTER_MAX - 1);
    assert_int_equal(submit_op_init(&op, te.engine, specs, 4, NULL), 0);
    assert_int_equal(engine_apply_one(te.engine, &op.op, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(op.answers[i].code, CODES[i]);
    submit_op_release(&op);
    assert_int_equal(te_count(&te, REDRIVE_STATE_WAITING), 1);
    te_release(&te);
}
