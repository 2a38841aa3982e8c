/* Jobs that wait for others are copied into a store where their parents are otherwise. */
#include <stdio.h>

#include "base/err.h"
#include "engine/copy/load.h"
#include "engine/copy/source.h"
#include "pair.h"

#define RULE_OF(on_, dead) ((struct after_rule){AFTER_##on_, AFTER_DEAD_##dead})

/* A child that waits for these jobs, all by the same rule. Its tenant is theirs. */
static int64_t put_child(struct test_store *ts, const char *id, struct after_rule rule, size_t n,
                         const int64_t *parents)
{
    const struct store_ops *ops = store_ops(ts->store);
    ts_begin(ts);
    const int64_t child =
        PUT(ts, .id = str_of(id), .parents = (uint32_t)n, .open_parents = (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        const struct job_edge edge = {.parent = parents[i], .child = child, .rule = rule};
        const struct edge_move adopt = {parents[i], 1};
        struct move_result result;
        assert_int_equal(ops->move(ts->store, ADOPTS(&adopt, 1), &result, NULL), 0);
        assert_int_equal(ops->edges_put(ts->store, &edge, 1, NULL), 0);
    }
    ts_commit(ts);
    return child;
}

static struct job *job_of(struct test_store *ts, const char *id)
{
    struct job_page *page = LIST(ts);
    for (size_t i = 0; i < page->n; i++)
        if (str_is(page->jobs[i].spec.id, id))
            return &page->jobs[i];
    fail_msg("%s is not there", id);
    return NULL;
}

static enum redrive_state state_of(struct test_store *ts, const char *id)
{
    return job_of(ts, id)->status.state;
}

static void check_skipped(struct test_store *ts, const char *id, const char *message)
{
    const struct job *job = job_of(ts, id);
    assert_int_equal(job->status.state, REDRIVE_STATE_CANCELLED);
    assert_int_equal(job->status.reason, REDRIVE_REASON_SKIPPED);
    check_str(job->status.error.message, message);
}

/* The outcome of the edge of a child that has one. */
static enum after_outcome outcome_of(struct test_store *ts, const char *id)
{
    const int64_t child = job_of(ts, id)->status.seq;
    struct edge_page page = {0};
    const struct store_ops *ops = store_ops(ts->store);
    assert_int_equal(ops->edges(ts->store, EDGES_FROM_PARENTS, &child, 1, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    const enum after_outcome outcome = page.edges[0].outcome;
    edge_page_release(&page);
    return outcome;
}

/* The parent was there before, in this state, and knows of no child. */
static void open_with_parent(struct pair *p, enum redrive_state state, struct after_rule rule)
{
    pair_open(p, "memory");
    const int64_t parent = PUT(&p->from, .id = STR("parent"));
    const int64_t child = put_child(&p->from, "child", rule, 1, &parent);
    (void)put_child(&p->from, "grandchild", RULE_OF(SUCCESS, WAIT), 1, &child);
    ts_put_in(&p->to, state, &(struct job_spec){.id = STR("parent")});
    p->options.into_existing = true;
    assert_int_equal(pair_try(p), 0);
    assert_int_equal(findings_are_same(&p->report.findings), state == REDRIVE_STATE_QUEUED);
}

TEST(a_parent_that_has_completed_here_releases)
{
    struct pair p;
    open_with_parent(&p, REDRIVE_STATE_COMPLETED, RULE_OF(SUCCESS, WAIT));
    assert_int_equal(state_of(&p.to, "child"), REDRIVE_STATE_QUEUED);
    assert_int_equal(outcome_of(&p.to, "child"), AFTER_MET);
    assert_int_equal(state_of(&p.to, "grandchild"), REDRIVE_STATE_WAITING);
    assert_int_equal(outcome_of(&p.to, "grandchild"), AFTER_OPEN);
    pair_close(&p);
}

TEST(a_parent_that_was_cancelled_here_skips)
{
    struct pair p;
    open_with_parent(&p, REDRIVE_STATE_CANCELLED, RULE_OF(SUCCESS, WAIT));
    check_skipped(&p.to, "child",
                  "job 'parent', which it waited for (on: success), ended as cancelled");
    check_skipped(&p.to, "grandchild",
                  "job 'child', which it waited for (on: success), ended as cancelled");
    pair_close(&p);
}

/* The parent was skipped, and its children are left to a tick (after_later.c): the copy does not
 * wait for that. */
PAIR_TEST(children_that_are_left_to_a_tick_are_skipped_by_the_copy, "memory")
{
    const int64_t parent = PUT(&p->from, .id = STR("parent"));
    const int64_t child = put_child(&p->from, "child", RULE_OF(SUCCESS, WAIT), 1, &parent);
    (void)put_child(&p->from, "grandchild", RULE_OF(SUCCESS, WAIT), 1, &child);
    assert_int_equal(CHANGE(&p->from, .seq = parent, .kind = MOVE_CANCEL).code, 0);
    put_row(&p->from, SHARED_CANCEL, "after\tparent", "{\"ended\":[\"parent\"]}");
    assert_int_equal(pair_try(p), 0);
    assert_false(findings_are_same(&p->report.findings));
    check_skipped(&p->to, "child",
                  "job 'parent', which it waited for (on: success), ended as cancelled");
    assert_int_equal(state_of(&p->to, "grandchild"), REDRIVE_STATE_CANCELLED);
    assert_int_equal(ts_shared(&p->to, SHARED_CANCEL, (struct str){0})->n, 1);
}

TEST(a_dead_parent_decides_by_its_rule)
{
    static const struct {
        struct after_rule rule;
        enum redrive_state child;
    } CASES[] = {
        {{AFTER_SUCCESS, AFTER_DEAD_WAIT}, REDRIVE_STATE_WAITING},
        {{AFTER_SUCCESS, AFTER_DEAD_CANCEL}, REDRIVE_STATE_CANCELLED},
        {{AFTER_SUCCESS, AFTER_DEAD_RUN}, REDRIVE_STATE_QUEUED},
        {{AFTER_FAILURE, AFTER_DEAD_WAIT}, REDRIVE_STATE_QUEUED},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct pair p;
        open_with_parent(&p, REDRIVE_STATE_DEAD_LETTER, CASES[i].rule);
        assert_int_equal(state_of(&p.to, "child"), CASES[i].child);
        pair_close(&p);
    }
}

/* Else its end would not look for those that wait. */
TEST(a_live_parent_that_was_there_learns_of_its_child)
{
    struct pair p;
    open_with_parent(&p, REDRIVE_STATE_QUEUED, RULE_OF(SUCCESS, WAIT));
    assert_int_equal(state_of(&p.to, "child"), REDRIVE_STATE_WAITING);
    assert_true(job_of(&p.to, "parent")->status.children > 0);
    pair_close(&p);
}

/* A job that died before its parent ended must not wait for it when it is redriven. */
PAIR_TEST(a_child_that_is_dead_loses_its_open_edge, "memory")
{
    const int64_t parent = PUT(&p->from, .id = STR("parent"));
    const int64_t child = put_child(&p->from, "child", RULE_OF(FAILURE, WAIT), 1, &parent);
    const struct change_move end = {.seq = child,
                                    .kind = MOVE_END,
                                    .to = REDRIVE_STATE_DEAD_LETTER,
                                    .reason = REDRIVE_REASON_DEADLINE};
    assert_int_equal(ts_change(&p->from, &end).code, 0);
    ts_put_in(&p->to, REDRIVE_STATE_COMPLETED, &(struct job_spec){.id = STR("parent")});
    p->options.into_existing = true;
    assert_int_equal(pair_try(p), 0);
    assert_int_equal(state_of(&p->to, "child"), REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job_of(&p->to, "child")->status.open_parents, 0);
    assert_int_equal(outcome_of(&p->to, "child"), AFTER_MISSED);
}

PAIR_TEST(a_store_of_its_own_jobs_takes_a_workflow_as_it_is, "memory")
{
    int64_t parents[3];
    for (int i = 0; i < 3; i++) {
        char id[16];
        snprintf(id, sizeof id, "parent-%d", i);
        parents[i] = PUT(&p->from, .id = str_of(id));
    }
    (void)put_child(&p->from, "child", RULE_OF(SUCCESS, WAIT), 3, parents);
    put_many(&p->to, "other", 4);
    p->options.into_existing = true;
    for (int run = 0; run < 2; run++) {
        assert_int_equal(pair_try(p), 0);
        assert_string_equal(p->report.findings.difference, "");
        assert_int_equal(job_of(&p->to, "child")->status.open_parents, 3);
    }
}

/* Workers may begin before an import has ended. */
struct meanwhile {
    struct test_store *to;
    struct load load;
    bool is_done;
};

static int load_and_end_the_first(void *ctx, const struct record_batch *batch,
                                  struct redrive_err *err)
{
    struct meanwhile *m = ctx;
    if (batch->kind != RECORD_JOB)
        return load_take(&m->load, batch, err);
    for (size_t i = 0; i < batch->n; i++) {
        const struct record_batch one = {.kind = RECORD_JOB, .jobs = batch->jobs + i, .n = 1};
        int rc = load_take(&m->load, &one, err);
        if (rc < 0)
            return rc;
        if (m->is_done)
            continue;
        const struct change_move cancel = {.seq = LIST(m->to)->jobs[0].status.seq,
                                           .kind = MOVE_CANCEL};
        assert_int_equal(ts_change(m->to, &cancel).code, 0);
        m->is_done = true;
    }
    return 0;
}

PAIR_TEST(a_parent_that_ends_during_an_import_decides, "memory")
{
    const int64_t parent = PUT(&p->from, .id = STR("parent"));
    (void)put_child(&p->from, "child", RULE_OF(END, WAIT), 1, &parent);
    struct meanwhile m = {.to = &p->to,
                          .load = {.store = p->to.store, .name = STR("x"), .now_ms = TS_START_MS}};
    const struct source source = {.store = p->from.store};
    assert_int_equal(source_give(&source, load_and_end_the_first, &m, &p->err), 0);
    assert_int_equal(state_of(&p->to, "child"), REDRIVE_STATE_QUEUED);
    assert_int_equal(job_of(&p->to, "parent")->status.children, 1);
}
