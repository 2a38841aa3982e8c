/* The checker finds every planted bug, and nothing where there is none. */
#include "check.h"

#include "bugs.h"
#include "fault.h"
#include "invariants.h"
#include "store_for_test.h"
#include "scenario.h"

static const struct {
    int invariant;
    const char *text;
} BUGS[] = {
#define XX(name, invariant, text) {invariant, text},
    BUG_MAP(XX)
#undef XX
};

/* Some bugs need a rollback to show, so the scenario meets one fault as well. */
static struct violation run_with(enum bug bug)
{
    struct test_store ts;
    struct buggy buggy;
    struct fault fault;
    static struct invariants watch;
    ts_open(&ts, stores_name());
    buggy_init(&buggy, ts.store, bug);
    fault_init(&fault, wrap_store(&buggy.wrap));
    fault.fail_at = 9;
    invariants_init(&watch, wrap_store(&fault.wrap));
    scenario_run(wrap_store(&watch.wrap));
    struct violation found = invariants_check(&watch, ts.store);
    ts_close(&ts);
    return found;
}

TEST(a_store_without_a_bug_passes)
{
    struct violation found = run_with(BUG_COUNT);
    if (found.invariant != 0)
        fail_msg("invariant %d: %s", found.invariant, found.text);
}

TEST(every_planted_bug_is_found)
{
    for (int bug = 0; bug < BUG_COUNT; bug++) {
        struct violation found = run_with((enum bug)bug);
        if (!(found.all >> BUGS[bug].invariant & 1))
            fail_msg("%s: invariant %d is not among %#x; found %d: %s", BUGS[bug].text,
                     BUGS[bug].invariant, found.all, found.invariant, found.text);
    }
}
