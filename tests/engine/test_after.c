/* Jobs that wait for others: invariants 13 to 16 of engine/verbs/after.h. */
#include "engine/engine_for_test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

#define RULE_OF(on_, dead) ((struct after_rule){AFTER_##on_, AFTER_DEAD_##dead})

/* Submits a job of an id that waits for others, all by the same rule. */
static struct submit_answer submit_after(struct test_engine *te, const char *id,
                                         struct after_rule rule, size_t n,
                                         const char *const *parents)
{
    struct job_after after[8];
    struct submit_op op;
    struct redrive_err err = {0};
    assert_true(n <= 8);
    for (size_t i = 0; i < n; i++)
        after[i] = (struct job_after){str_of(parents[i]), rule};
    const struct job_spec spec = {
        .task = STR("t"), .id = str_of(id), .after = n > 0 ? after : NULL, .n_after = n};
    assert_int_equal(submit_op_init(&op, te->engine, &spec, 1, &err), 0);
    assert_int_equal(engine_apply_one(te->engine, &op.op, &err), 0);
    struct submit_answer answer = op.answers[0];
    submit_op_release(&op);
    return answer;
}

#define PARENTS(...)                                                                         \
    sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), (const char *const[]) \
    {                                                                                        \
        __VA_ARGS__                                                                          \
    }

static int64_t submit_job(struct test_engine *te, const char *id)
{
    return submit_after(te, id, RULE_OF(SUCCESS, WAIT), 0, NULL).seq;
}

static void check_skipped(struct test_engine *te, int64_t seq)
{
    const struct job job = te_job(te, seq);
    assert_int_equal(job.status.state, REDRIVE_STATE_CANCELLED);
    assert_int_equal(job.status.reason, REDRIVE_REASON_SKIPPED);
    assert_int_equal(job.status.error.class_, REDRIVE_CLASS_PERMANENT);
}

ENGINE_TEST(child_starts_after_its_parent, NULL)
{
    const int64_t a = submit_job(te, "a");
    const struct submit_answer b = submit_after(te, "b", RULE_OF(SUCCESS, WAIT), PARENTS("a"));
    assert_int_equal(b.code, 0);
    assert_int_equal(b.state, REDRIVE_STATE_WAITING);
    assert_int_equal(te_state(te, b.seq), REDRIVE_STATE_WAITING);
    assert_int_equal(te_job(te, b.seq).status.open_parents, 1);
    const struct job job = te_claim_this(te, a);
    assert_int_equal(te_claim(te, 1), 0);
    assert_int_equal(te_succeed(te, &job), 0);
    assert_int_equal(te_state(te, b.seq), REDRIVE_STATE_QUEUED);
    te_run_this(te, b.seq);
}

ENGINE_TEST(child_waits_for_all_parents, NULL)
{
    int64_t parents[3] = {submit_job(te, "a"), submit_job(te, "b"), submit_job(te, "c")};
    const int64_t child = submit_after(te, "d", RULE_OF(SUCCESS, WAIT), PARENTS("a", "b", "c")).seq;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(te_state(te, child), REDRIVE_STATE_WAITING);
        assert_int_equal(te_job(te, child).status.open_parents, 3 - i);
        te_run_this(te, parents[i]);
    }
    te_run_this(te, child);
    assert_int_equal(te_job(te, child).status.parents, 3);
}

/* A worker settles many parents of one child at once. */
ENGINE_TEST(parents_settled_together_release_once, NULL)
{
    struct settlement items[3];
    struct settle_op op;
    (void)submit_job(te, "a");
    (void)submit_job(te, "b");
    (void)submit_job(te, "c");
    const int64_t child = submit_after(te, "d", RULE_OF(SUCCESS, WAIT), PARENTS("a", "b", "c")).seq;
    assert_int_equal(te_claim(te, 3), 3);
    for (int i = 0; i < 3; i++)
        items[i] = (struct settlement){.seq = te->claim.jobs[i].status.seq,
                                       .token = te->claim.jobs[i].status.token,
                                       .outcome = {.ending = ENDING_RAN}};
    settle_op_init(&op, items, 3);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(te_state(te, child), REDRIVE_STATE_QUEUED);
    te_run_this(te, child);
}

ENGINE_TEST(parent_that_has_completed_is_not_waited_for, NULL)
{
    te_run_this(te, submit_job(te, "a"));
    const struct submit_answer b = submit_after(te, "b", RULE_OF(SUCCESS, WAIT), PARENTS("a"));
    assert_int_equal(b.state, REDRIVE_STATE_QUEUED);
    te_run_this(te, b.seq);
}

ENGINE_TEST(parent_that_was_added_to_while_it_runs_releases_its_child, NULL)
{
    const struct job a = te_claim_this(te, submit_job(te, "a"));
    const int64_t b = submit_after(te, "b", RULE_OF(SUCCESS, WAIT), PARENTS("a")).seq;
    assert_int_equal(te_succeed(te, &a), 0);
    te_run_this(te, b);
}

ENGINE_TEST(retry_of_a_parent_keeps_its_child_waiting, NULL)
{
    const struct job a = te_claim_this(te, submit_job(te, "a"));
    const int64_t b = submit_after(te, "b", RULE_OF(END, WAIT), PARENTS("a")).seq;
    assert_int_equal(te_fail(te, &a, "network"), 0);
    assert_int_equal(te_state(te, b), REDRIVE_STATE_WAITING);
    te_pass(te, 3600 * 1000);
    te_run_this(te, a.status.seq);
    te_run_this(te, b);
}

/* The callback that others lose when the parent is retried by hand. */
ENGINE_TEST(dead_parent_holds_its_child_until_it_is_redriven, NULL)
{
    const int64_t a = submit_job(te, "a");
    const int64_t b = submit_after(te, "b", RULE_OF(SUCCESS, WAIT), PARENTS("a")).seq;
    const struct job job = te_claim_this(te, a);
    assert_int_equal(te_fail(te, &job, "PERMANENT_FAIL"), 0);
    assert_int_equal(te_state(te, a), REDRIVE_STATE_DEAD_LETTER);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(te_state(te, b), REDRIVE_STATE_WAITING);
        assert_int_equal(te_change(te, MOVE_REDRIVE, a), 0);
        assert_int_equal(te_state(te, b), REDRIVE_STATE_WAITING);
        if (i == 0)
            assert_int_equal(te_change(te, MOVE_END, a), 0);
    }
    te_run_this(te, a);
    te_run_this(te, b);
}

TEST(rules_decide_what_an_end_means)
{
    static const struct {
        struct after_rule rule;
        enum redrive_state completed, dead, cancelled, gone;
    } CASES[] = {
#define S(state) REDRIVE_STATE_##state
        {RULE_OF(SUCCESS, WAIT), S(QUEUED), S(WAITING), S(CANCELLED), S(CANCELLED)},
        {RULE_OF(SUCCESS, CANCEL), S(QUEUED), S(CANCELLED), S(CANCELLED), S(CANCELLED)},
        {RULE_OF(SUCCESS, RUN), S(QUEUED), S(QUEUED), S(QUEUED), S(QUEUED)},
        {RULE_OF(END, WAIT), S(QUEUED), S(QUEUED), S(QUEUED), S(QUEUED)},
        {RULE_OF(FAILURE, WAIT), S(CANCELLED), S(QUEUED), S(QUEUED), S(QUEUED)},
#undef S
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        /* Before and after the parent has ended. */
        for (int late = 0; late < 2; late++) {
            struct test_engine te;
            int64_t seqs[4];
            static const char *const IDS[] = {"done", "dead", "cancelled", "gone"};
            static const char *const CHILDREN[] = {"c0", "c1", "c2", "c3"};
            te_init(&te, NULL);
            int64_t children[4] = {0};
            for (int k = 0; k < 4; k++) {
                seqs[k] = submit_job(&te, IDS[k]);
                if (!late)
                    children[k] =
                        submit_after(&te, CHILDREN[k], CASES[i].rule, PARENTS(IDS[k])).seq;
            }
            te_run_this(&te, seqs[0]);
            assert_int_equal(te_change(&te, MOVE_END, seqs[1]), 0);
            assert_int_equal(te_change(&te, MOVE_CANCEL, seqs[2]), 0);
            assert_int_equal(te_change(&te, MOVE_END, seqs[3]), 0);
            for (int k = 0; k < 4 && late; k++)
                children[k] = submit_after(&te, CHILDREN[k], CASES[i].rule, PARENTS(IDS[k])).seq;
            assert_int_equal(te_change(&te, MOVE_REMOVE, seqs[3]), 0);
            assert_int_equal(te_state(&te, children[0]), CASES[i].completed);
            assert_int_equal(te_state(&te, children[1]), CASES[i].dead);
            assert_int_equal(te_state(&te, children[2]), CASES[i].cancelled);
            assert_int_equal(te_state(&te, children[3]), CASES[i].gone);
            for (int k = 0; k < 4; k++)
                if (te_state(&te, children[k]) == REDRIVE_STATE_CANCELLED)
                    check_skipped(&te, children[k]);
            te_release(&te);
        }
    }
}

ENGINE_TEST(skip_goes_down_a_chain, NULL)
{
    const int64_t a = submit_job(te, "a");
    const int64_t b = submit_after(te, "b", RULE_OF(SUCCESS, WAIT), PARENTS("a")).seq;
    const int64_t c = submit_after(te, "c", RULE_OF(SUCCESS, WAIT), PARENTS("b")).seq;
    const int64_t cleanup = submit_after(te, "d", RULE_OF(END, WAIT), PARENTS("c")).seq;
    assert_int_equal(te_change(te, MOVE_CANCEL, a), 0);
    check_skipped(te, b);
    check_skipped(te, c);
    assert_int_equal(te_counter(te, "jobs_cancelled", ""), 3);
    te_run_this(te, cleanup);
}

/* An edge is decided once, however often its parent ends. */
ENGINE_TEST(redriven_parent_does_not_release_again, NULL)
{
    const int64_t a = submit_job(te, "a");
    const int64_t other = submit_job(te, "other");
    const int64_t child = submit_after(te, "c", RULE_OF(END, WAIT), PARENTS("a", "other")).seq;
    assert_int_equal(te_change(te, MOVE_END, a), 0);
    assert_int_equal(te_change(te, MOVE_REDRIVE, a), 0);
    assert_int_equal(te_change(te, MOVE_END, a), 0);
    assert_int_equal(te_job(te, child).status.open_parents, 1);
    assert_int_equal(te_state(te, child), REDRIVE_STATE_WAITING);
    te_run_this(te, other);
    te_run_this(te, child);
}

ENGINE_TEST(child_that_was_killed_waits_again_when_it_is_redriven, NULL)
{
    const int64_t a = submit_job(te, "a");
    const int64_t b = submit_job(te, "b");
    const int64_t child = submit_after(te, "c", RULE_OF(SUCCESS, WAIT), PARENTS("a", "b")).seq;
    assert_int_equal(te_change(te, MOVE_END, child), 0);
    te_run_this(te, a);
    assert_int_equal(te_change(te, MOVE_REDRIVE, child), 0);
    assert_int_equal(te_state(te, child), REDRIVE_STATE_WAITING);
    assert_int_equal(te_change(te, MOVE_END, child), 0);
    /* The other parent can never succeed any more: the redrive is a decision by hand. */
    assert_int_equal(te_change(te, MOVE_CANCEL, b), 0);
    assert_int_equal(te_change(te, MOVE_REDRIVE, child), 0);
    te_run_this(te, child);
}

ENGINE_TEST(waiting_job_dies_at_its_deadline, NULL)
{
    const int64_t a = submit_job(te, "a");
    const struct job_after after = {STR("a"), RULE_OF(SUCCESS, WAIT)};
    const struct job_spec spec = {.task = STR("t"),
                                  .id = STR("b"),
                                  .after = &after,
                                  .n_after = 1,
                                  .deadline_ms = te->now_ms + 1000};
    const int64_t b = te_submit_spec(te, &spec);
    te_pass(te, 999);
    assert_int_equal(te_state(te, b), REDRIVE_STATE_WAITING);
    te_pass(te, 1);
    assert_int_equal(te_state(te, b), REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(te_job(te, b).status.reason, REDRIVE_REASON_DEADLINE);
    te_run_this(te, a);
}

ENGINE_TEST(released_job_keeps_its_time_lock, NULL)
{
    const int64_t a = submit_job(te, "a");
    const struct job_after after = {STR("a"), RULE_OF(SUCCESS, WAIT)};
    const struct job_spec spec = {.task = STR("t"),
                                  .id = STR("b"),
                                  .after = &after,
                                  .n_after = 1,
                                  .process_after_ms = te->now_ms + 5000};
    const int64_t b = te_submit_spec(te, &spec);
    assert_int_equal(te_state(te, b), REDRIVE_STATE_WAITING);
    te_run_this(te, a);
    assert_int_equal(te_state(te, b), REDRIVE_STATE_SCHEDULED);
    assert_int_equal(te_claim(te, 1), 0);
    te_pass(te, 5000);
    te_run_this(te, b);
}

ENGINE_TEST(waiting_job_is_not_run_by_hand, NULL)
{
    (void)submit_job(te, "a");
    const int64_t b = submit_after(te, "b", RULE_OF(SUCCESS, WAIT), PARENTS("a")).seq;
    assert_int_equal(te_change(te, MOVE_RUN_NOW, b), REDRIVE_E_STATE);
    assert_int_equal(te_change(te, MOVE_CANCEL, b), 0);
}

/* ---- What is refused ------------------------------------------------------------------------- */

ENGINE_TEST(edges_to_nothing_are_refused, NULL)
{
    const struct job_spec other = {.task = STR("t"), .id = STR("x"), .tenant = STR("other")};
    (void)te_submit_spec(te, &other);
    (void)submit_job(te, "a");
    assert_int_equal(submit_after(te, "b", RULE_OF(END, WAIT), PARENTS("missing")).code,
                     REDRIVE_E_UNKNOWN);
    assert_int_equal(submit_after(te, "b", RULE_OF(END, WAIT), PARENTS("x")).code,
                     REDRIVE_E_UNKNOWN);
    assert_int_equal(submit_after(te, "b", RULE_OF(END, WAIT), PARENTS("b")).code,
                     REDRIVE_E_INVALID);
    assert_int_equal(submit_after(te, "b", RULE_OF(END, WAIT), PARENTS("a", "a")).code,
                     REDRIVE_E_INVALID);
    assert_int_equal(te_count(te, REDRIVE_STATE_WAITING), 0);
}

TEST(too_many_edges_are_refused)
{
    struct test_engine te;
    const size_t n = 1000000;
    struct job_after *after = calloc(n, sizeof *after);
    assert_non_null(after);
    te_init(&te, NULL);
    for (size_t i = 0; i < n; i++)
        after[i] = (struct job_after){STR("a"), RULE_OF(END, WAIT)};
    const struct job_spec spec = {.task = STR("t"), .after = after, .n_after = n};
    assert_int_equal(te_try_submit(&te, &spec), REDRIVE_E_RANGE);
    te_release(&te);
    free(after);
}

ENGINE_TEST(repetition_waits_for_what_it_was_submitted_with, NULL)
{
    const int64_t a = submit_job(te, "a");
    (void)submit_job(te, "z");
    const int64_t b = submit_after(te, "b", RULE_OF(SUCCESS, WAIT), PARENTS("a")).seq;
    const struct submit_answer again =
        submit_after(te, "b", RULE_OF(SUCCESS, WAIT), PARENTS("a", "z"));
    assert_true(again.existed);
    assert_int_equal(again.seq, b);
    assert_int_equal(te_job(te, b).status.open_parents, 1);
    te_run_this(te, a);
    assert_int_equal(te_state(te, b), REDRIVE_STATE_QUEUED);
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

#define GROUP 300

/* A group and its callback in one array; some of the group may be there before. */
TEST(group_and_callback_come_in_one_array)
{
    for (int existed = 0; existed < 2; existed++) {
        struct test_engine te;
        static char ids[GROUP][16];
        static struct job_after after[GROUP];
        static struct job_spec specs[GROUP + 1];
        struct submit_op op;
        te_init(&te, NULL);
        for (int i = 0; i < GROUP; i++) {
            (void)snprintf(ids[i], sizeof ids[i], "job-%d", i);
            after[i] = (struct job_after){str_of(ids[i]), RULE_OF(SUCCESS, WAIT)};
            specs[i] = (struct job_spec){.task = STR("t"), .id = str_of(ids[i])};
        }
        specs[GROUP] =
            (struct job_spec){.task = STR("t"), .id = STR("all"), .after = after, .n_after = GROUP};
        if (existed)
            te_run_this(&te, submit_job(&te, "job-7"));
        assert_int_equal(submit_op_init(&op, te.engine, specs, GROUP + 1, NULL), 0);
        assert_int_equal(engine_apply_one(te.engine, &op.op, NULL), 0);
        const int64_t child = op.answers[GROUP].seq;
        assert_int_equal(op.answers[GROUP].state, REDRIVE_STATE_WAITING);
        submit_op_release(&op);
        assert_int_equal(te_job(&te, child).status.open_parents, GROUP - existed);
        for (int done = existed; done < GROUP;) {
            assert_int_equal(te_state(&te, child), REDRIVE_STATE_WAITING);
            const size_t n = te_claim(&te, 50);
            assert_true(n > 0);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(te_succeed(&te, &te.claim.jobs[i]), 0);
            done += (int)n;
        }
        te_run_this(&te, child);
        te_release(&te);
    }
}

TEST(array_names_earlier_jobs_only)
{
    struct test_engine te;
    struct submit_op op;
    const struct job_after on_b = {STR("b"), RULE_OF(SUCCESS, WAIT)},
                           on_bad = {STR("bad"), RULE_OF(SUCCESS, WAIT)};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("a"), .after = &on_b, .n_after = 1},
        {.task = STR("t"), .id = STR("b")},
        {.task = STR("t"), .id = STR("bad"), .payload = STR("{")},
        {.task = STR("t"), .id = STR("c"), .after = &on_bad, .n_after = 1},
    };
    te_init(&te, NULL);
    assert_int_equal(submit_op_init(&op, te.engine, specs, 4, NULL), 0);
    assert_int_equal(engine_apply_one(te.engine, &op.op, NULL), 0);
    assert_int_equal(op.answers[0].code, REDRIVE_E_INVALID);
    assert_int_equal(op.answers[1].code, 0);
    assert_true(op.answers[2].code < 0);
    assert_int_equal(op.answers[3].code, REDRIVE_E_CANCELLED);
    submit_op_release(&op);
    te_release(&te);
}

/* Two names of an array may be one job, by a unique key. */
TEST(one_parent_under_two_names_is_refused)
{
    struct test_engine te;
    struct submit_op op;
    const struct job_after after[] = {{STR("first"), RULE_OF(SUCCESS, WAIT)},
                                      {STR("second"), RULE_OF(SUCCESS, WAIT)}};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("first"), .unique_key = STR("k")},
        {.task = STR("t"), .id = STR("second"), .unique_key = STR("k")},
        {.task = STR("t"), .id = STR("child"), .after = after, .n_after = 2},
        {.task = STR("t"), .id = STR("one"), .after = after + 1, .n_after = 1},
    };
    te_init(&te, NULL);
    assert_int_equal(submit_op_init(&op, te.engine, specs, 4, NULL), 0);
    assert_int_equal(engine_apply_one(te.engine, &op.op, NULL), 0);
    assert_true(op.answers[1].existed);
    assert_int_equal(op.answers[2].code, REDRIVE_E_INVALID);
    assert_int_equal(op.answers[3].state, REDRIVE_STATE_WAITING);
    const int64_t first = op.answers[0].seq, one = op.answers[3].seq;
    submit_op_release(&op);
    te_run_this(&te, first);
    te_run_this(&te, one);
    te_release(&te);
}

/* The key of a job that was removed is held for ever: what repeats it stands for no job. */
TEST(parent_that_stands_for_a_removed_job_is_refused)
{
    struct test_engine te;
    struct submit_op op;
    const struct job_after after = {STR("again"), RULE_OF(SUCCESS, WAIT)};
    const struct job_spec specs[] = {
        {.task = STR("t"), .id = STR("again"), .unique_key = STR("k"), .unique_forever = true},
        {.task = STR("t"), .id = STR("child"), .after = &after, .n_after = 1},
    };
    te_init(&te, NULL);
    const struct job_spec first = {
        .task = STR("t"), .id = STR("gone"), .unique_key = STR("k"), .unique_forever = true};
    const int64_t gone = te_submit_spec(&te, &first);
    assert_int_equal(te_change(&te, MOVE_CANCEL, gone), 0);
    assert_int_equal(te_change(&te, MOVE_REMOVE, gone), 0);
    assert_int_equal(submit_op_init(&op, te.engine, specs, 2, NULL), 0);
    assert_int_equal(engine_apply_one(te.engine, &op.op, NULL), 0);
    assert_true(op.answers[0].existed);
    assert_int_equal(op.answers[1].code, REDRIVE_E_UNKNOWN);
    submit_op_release(&op);
    te_release(&te);
}

/* ---- Removal and retention ------------------------------------------------------------------- */

ENGINE_TEST(live_parent_is_not_removed, NULL)
{
    const int64_t a = submit_job(te, "a");
    const int64_t b = submit_after(te, "b", RULE_OF(SUCCESS, WAIT), PARENTS("a")).seq;
    assert_int_equal(te_change(te, MOVE_REMOVE, a), REDRIVE_E_STATE);
    assert_int_equal(te_state(te, b), REDRIVE_STATE_WAITING);
    te_run_this(te, a);
    te_run_this(te, b);
}

#define DAY_MS (INT64_C(24) * 3600 * 1000)

ENGINE_TEST(retention_keeps_what_a_live_child_needs, NULL)
{
    const int64_t a = submit_job(te, "a"), b = submit_job(te, "b");
    const int64_t dead = submit_job(te, "dead"), plain = submit_job(te, "plain");
    const int64_t c = submit_after(te, "c", RULE_OF(SUCCESS, WAIT), PARENTS("a", "b")).seq;
    const int64_t d = submit_after(te, "d", RULE_OF(SUCCESS, WAIT), PARENTS("dead")).seq;
    te_run_this(te, a);
    const struct job job_b = te_claim_this(te, b);
    assert_int_equal(te_change(te, MOVE_END, dead), 0);
    te_run_this(te, plain);
    for (int i = 0; i < 40; i++)
        te_pass(te, DAY_MS);
    assert_int_equal(te_state(te, a), REDRIVE_STATE_COMPLETED);
    assert_int_equal(te_state(te, dead), REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(te_state(te, d), REDRIVE_STATE_WAITING);
    assert_int_equal(te_count(te, REDRIVE_STATE_COMPLETED), 1);
    (void)job_b;
    assert_int_equal(te_change(te, MOVE_REDRIVE, dead), 0);
    assert_int_equal(te_change(te, MOVE_CANCEL, b), 0);
    check_skipped(te, c);
    for (int i = 0; i < 3; i++)
        te_pass(te, DAY_MS);
    assert_int_equal(te_count(te, REDRIVE_STATE_COMPLETED), 0);
    assert_int_equal(te_count(te, REDRIVE_STATE_CANCELLED), 0);
}
