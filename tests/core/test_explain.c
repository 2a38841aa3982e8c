#include "core/explain.h"

#include "check.h"

#include "core/policy.h"

static struct redrive_policy profile(const char *name)
{
    struct redrive_policy policy;
    assert_int_equal(redrive_policy_profile(&policy, name, NULL), 0);
    return policy;
}

static void a_plain_schedule_is_exact(void **state)
{
    (void)state;
    struct redrive_policy policy = profile("joke");
    struct explain e;
    static const int64_t TOTALS[] = {2000, 6000, 14000, 30000};
    explain_init(&e, &policy, REDRIVE_CLASS_TRANSIENT);
    for (int i = 0; i < 4; i++) {
        assert_true(explain_next(&e));
        assert_int_equal(e.row.n, i + 1);
        assert_int_equal(e.row.min_ms, e.row.max_ms);
        assert_int_equal(e.row.total_min_ms, TOTALS[i]);
        assert_true(e.row.certain);
    }
    assert_false(explain_next(&e));
    assert_int_equal(e.end.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(e.end.reason, REDRIVE_REASON_EXHAUSTED);
    assert_int_equal(e.row.n, 4);
}

static void a_total_timeout_cuts_the_schedule(void **state)
{
    (void)state;
    struct redrive_policy policy = profile("joke");
    policy.total_timeout_ms = 13999;
    struct explain e;
    explain_init(&e, &policy, REDRIVE_CLASS_NETWORK);
    assert_true(explain_next(&e));
    assert_true(explain_next(&e));
    assert_false(explain_next(&e));
    assert_int_equal(e.end.reason, REDRIVE_REASON_DEADLINE);
}

static void what_only_some_schedules_reach_is_not_certain(void **state)
{
    (void)state;
    struct redrive_policy policy;
    redrive_policy_init(&policy);
    policy.total_timeout_ms = 5000;
    struct explain e;
    explain_init(&e, &policy, REDRIVE_CLASS_TRANSIENT);
    assert_true(explain_next(&e));
    assert_true(explain_next(&e));
    assert_true(e.row.certain);
    assert_true(explain_next(&e));
    assert_false(e.row.certain);
    assert_int_equal(e.row.min_ms, 100);
    assert_int_equal(e.row.max_ms, 9000);
    assert_int_equal(e.row.total_min_ms, 300);
    assert_int_equal(e.row.total_max_ms, 13000);
}

static void classes_follow_their_own_rules(void **state)
{
    (void)state;
    struct redrive_policy policy = profile("tasks-network");
    struct redrive_class_rule rule = {.backoff = profile("tasks-database").backoff,
                                      .max_retries = 1};
    policy.on[REDRIVE_CLASS_DATABASE] = &rule;
    struct explain e;
    explain_init(&e, &policy, REDRIVE_CLASS_DATABASE);
    assert_true(explain_next(&e));
    assert_int_equal(e.row.min_ms, 5000);
    assert_false(explain_next(&e));
    explain_init(&e, &policy, REDRIVE_CLASS_VALIDATION);
    assert_false(explain_next(&e));
    assert_int_equal(e.end.reason, REDRIVE_REASON_NOT_RETRIABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_plain_schedule_is_exact),
        T(a_total_timeout_cuts_the_schedule),
        T(what_only_some_schedules_reach_is_not_certain),
        T(classes_follow_their_own_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
