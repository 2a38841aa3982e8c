#include "core/explain.h"

#include "check.h"

#include "core/retry/policy.h"

static struct redrive_policy profile(const char *name)
{
    struct redrive_policy policy;
    assert_int_equal(redrive_policy_profile(&policy, name, NULL), 0);
    return policy;
}

TEST(a_plain_schedule_is_exact)
{
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

TEST(a_total_timeout_cuts_the_schedule)
{
    struct redrive_policy policy = profile("joke");
    policy.total_timeout_ms = 13999;
    struct explain e;
    explain_init(&e, &policy, REDRIVE_CLASS_NETWORK);
    assert_true(explain_next(&e));
    assert_true(explain_next(&e));
    assert_false(explain_next(&e));
    assert_int_equal(e.end.reason, REDRIVE_REASON_DEADLINE);
}

TEST(what_only_some_schedules_reach_is_not_certain)
{
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

TEST(classes_follow_their_own_rules)
{
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

/* The soonest schedule has room for all of them, but no job ever has it. */
TEST(the_end_is_that_of_the_usual_schedule)
{
    struct redrive_policy policy;
    uint32_t attempts = 0, of = 0;
    redrive_policy_init(&policy);
    policy.max_retries = 25;
    policy.backoff.max_delay_ms = 3600000;
    struct explain e;
    explain_init(&e, &policy, REDRIVE_CLASS_TRANSIENT);
    while (explain_next(&e))
        ;
    assert_int_equal(e.row.n, 25);
    assert_in_range(e.usual, e.certain + 1, 24);
    assert_int_equal(e.end.reason, REDRIVE_REASON_DEADLINE);
    assert_int_equal(e.end.too_late.total_timeout_ms, policy.total_timeout_ms);
    assert_false(explain_fits(&policy, 0, &attempts, &of));
    assert_int_equal(attempts, e.usual + 1);
    assert_int_equal(of, 26);
    policy.total_timeout_ms = 0;
    assert_true(explain_fits(&policy, 0, &attempts, &of));
}

TEST(every_profile_has_time_for_its_attempts)
{
    size_t n;
    uint32_t attempts, of;
    const struct policy_profile *profiles = policy_profiles(&n);
    for (size_t i = 0; i < n; i++) {
        struct redrive_policy policy = profile(profiles[i].name);
        if (!explain_fits(&policy, 0, &attempts, &of))
            fail_msg("%s: %u of %u", profiles[i].name, attempts, of);
    }
}

TEST(the_time_of_runs_counts)
{
    struct redrive_policy policy = profile("thumbnail");
    uint32_t attempts = 0, of = 0;
    policy.total_timeout_ms = 300000;
    assert_true(explain_fits(&policy, 60000, &attempts, &of));
    assert_false(explain_fits(&policy, 300000, &attempts, &of));
    assert_int_equal(attempts, 1);
    assert_int_equal(of, 3);
    struct explain e;
    explain_init(&e, &policy, REDRIVE_CLASS_TRANSIENT);
    e.run_ms = 150000;
    while (explain_next(&e))
        ;
    assert_int_equal(e.row.n, 1);
    assert_int_equal(e.end.reason, REDRIVE_REASON_DEADLINE);
}

TEST(a_type_is_explained_by_the_rows_and_lists_that_name_it)
{
    const struct redrive_classify_row row = {
        .source = REDRIVE_SOURCE_ERROR_TYPE, .pattern = "Own", .class_ = REDRIVE_CLASS_DATABASE};
    const struct redrive_failure failure = {.error_type = "lib.Own"};
    struct redrive_policy policy = profile("thumbnail");
    struct classifier *classifier;
    struct explain e;
    assert_int_equal(classifier_new(&row, 1, &classifier, NULL), 0);
    explain_init_failure(&e, &policy, &failure, classifier, NULL);
    assert_int_equal(e.class_, REDRIVE_CLASS_DATABASE);
    while (explain_next(&e))
        ;
    assert_int_equal(e.row.n, 2);
    policy.give_up_on = (struct redrive_match){.types = (const char *const[]){"Own"}, .n_types = 1};
    explain_init_failure(&e, &policy, &failure, classifier, NULL);
    assert_false(explain_next(&e));
    assert_int_equal(e.end.reason, REDRIVE_REASON_NOT_RETRIABLE);
    classifier_free(classifier);
}
