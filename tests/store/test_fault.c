/* Every call of the scenario fails once, in every way, and the store must still be right. */
#include "check.h"

#include <stdio.h>

#include "fault.h"
#include "invariants.h"
#include "store_for_test.h"
#include "scenario.h"

/* One run with a fault; false when the scenario was over before it was met. */
static bool run_with(unsigned long fail_at, bool from_then_on, bool after_commit)
{
    struct test_store ts;
    struct fault fault;
    static struct invariants watch;
    ts_open(&ts, stores_name());
    fault_init(&fault, ts.store);
    fault.fail_at = fail_at;
    fault.from_then_on = from_then_on;
    fault.after_commit = after_commit;
    invariants_init(&watch, wrap_store(&fault.wrap));
    struct store *store = wrap_store(&watch.wrap);

    scenario_run(store);
    fault_heal(&fault);
    struct violation after = invariants_check(&watch, ts.store);
    if (after.invariant != 0)
        fail_msg("call %lu%s%s: invariant %d: %s", fail_at, from_then_on ? " and later" : "",
                 after_commit ? ", commits after the fact" : "", after.invariant, after.text);
    scenario_drain(store);
    struct violation end = invariants_check(&watch, ts.store);
    if (end.invariant != 0)
        fail_msg("call %lu, drained: invariant %d: %s", fail_at, end.invariant, end.text);
    bool met = fault.met;
    ts_close(&ts);
    return met;
}

/* Faults at every `step`th call, from the first on; how many of them were met. */
static unsigned long run_all(bool from_then_on, bool after_commit, unsigned long step)
{
    unsigned long n = 0;
    while (run_with(1 + n * step, from_then_on, after_commit))
        n++;
    return n;
}

TEST(nothing_breaks_without_a_fault)
{
    assert_false(run_with(0, false, false));
}

TEST(nothing_breaks_when_any_call_fails_once)
{
    /* Each step begins, does something, and commits. */
    unsigned long step = fault_step();
    assert_true(run_all(false, false, step) > 28 * 3 / step);
}

TEST(nothing_breaks_when_every_call_fails_from_some_point_on)
{
    unsigned long step = fault_step();
    assert_true(run_all(true, false, step) > 28 * 3 / step);
}

TEST(nothing_breaks_when_the_answer_of_a_commit_is_lost)
{
    assert_int_equal(run_all(false, true, 1), 28);
}

TEST(nothing_breaks_when_the_store_goes_away_after_a_commit)
{
    assert_int_equal(run_all(true, true, 1), 28);
}

STORE_TEST(a_fault_comes_when_it_is_due)
{
    struct fault fault;
    fault_init(&fault, ts->store);
    struct store *s = wrap_store(&fault.wrap);
    const struct store_ops *ops = store_ops(s);
    int64_t now_ms, version;
    fault.fail_at = 2;
    assert_int_equal(ops->begin(s, 1, &now_ms, &version, NULL), 0);
    assert_int_equal(ops->commit(s, NULL), REDRIVE_E_IO);
    ops->rollback(s);
    assert_int_equal(ops->begin(s, 1, &now_ms, &version, NULL), 0);
    assert_int_equal(ops->commit(s, NULL), 0);
    fault.fail_at = 5;
    fault.from_then_on = true;
    fault.met = false;
    assert_int_equal(ops->begin(s, 1, &now_ms, &version, NULL), REDRIVE_E_IO);
    assert_int_equal(ops->begin(s, 1, &now_ms, &version, NULL), REDRIVE_E_IO);
    fault_heal(&fault);
    assert_int_equal(ops->begin(s, 1, &now_ms, &version, NULL), 0);
    ops->close(s);
}

STORE_TEST(a_commit_may_fail_before_or_after_the_fact)
{
    for (int after = 0; after < 2; after++) {
        struct fault fault;
        fault_init(&fault, ts->store);
        fault.fail_at = after ? 1 : 3;
        fault.after_commit = after;
        struct store *s = wrap_store(&fault.wrap);
        const struct store_ops *ops = store_ops(s);
        const struct job_spec spec = {
            .tenant = STR("acme"), .id = STR("x"), .task = STR("t"), .queue = STR("q")};
        struct submit_result r;
        int64_t now_ms, version;
        assert_int_equal(ops->begin(s, 1, &now_ms, &version, NULL), 0);
        assert_int_equal(ops->submit(s, &spec, 1, &r, &ts->arena, NULL), 0);
        assert_int_equal(ops->commit(s, NULL), REDRIVE_E_IO);
        ops->rollback(s);
        assert_int_equal(LIST(ts, .id = STR("x"))->n, after);
    }
}
