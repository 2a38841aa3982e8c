#include "core/retry/policy.h"

#include "check.h"

#include <math.h>

static struct redrive_policy defaults(void)
{
    struct redrive_policy policy;
    redrive_policy_init(&policy);
    return policy;
}

#define REFUSED(change, expected_message)                    \
    do {                                                     \
        struct redrive_policy p = defaults();                \
        struct redrive_err err_ = {0};                       \
        change;                                              \
        assert_true(redrive_policy_check(&p, &err_) < 0);    \
        assert_string_equal(err_.message, expected_message); \
    } while (0)

TEST(defaults_are_the_documented_ones)
{
    struct redrive_policy p = defaults();
    assert_int_equal(redrive_policy_check(&p, NULL), 0);
    assert_int_equal(p.max_retries, 5);
    assert_int_equal(p.backoff.initial_delay_ms, 1000);
    assert_int_equal(p.backoff.max_delay_ms, 60000);
    assert_int_equal(p.backoff.min_delay_ms, 100);
    assert_true(p.backoff.multiplier == 3);
    assert_true(p.backoff.backoff_factor == 1.5);
    assert_int_equal(p.backoff.jitter.mode, REDRIVE_JITTER_FULL);
    assert_int_equal(p.total_timeout_ms, 300000);
    assert_true(p.enable_dlq);
    assert_int_equal(p.dlq_retention_days, 7);
}

TEST(absurd_policies_are_refused)
{
    REFUSED(p.backoff.initial_delay_ms = -1, "initial_delay (ms) is out of range");
    REFUSED(p.backoff.min_delay_ms = -1, "min_delay (ms) is out of range");
    REFUSED(p.backoff.max_delay_ms = -1, "max_delay (ms) is out of range");
    REFUSED(p.backoff.max_delay_ms = 99, "max_delay is less than min_delay");
    REFUSED(p.backoff.multiplier = 0.99, "multiplier is out of range");
    REFUSED(p.backoff.multiplier = NAN, "multiplier is out of range");
    REFUSED(p.backoff.multiplier = INFINITY, "multiplier is out of range");
    REFUSED(p.backoff.backoff_factor = -1, "backoff_factor is out of range");
    REFUSED(p.backoff.exponent = NAN, "exponent is out of range");
    REFUSED(p.max_retries = -1, "max_retries is out of range");
    REFUSED(p.max_retries = 100001, "max_retries is out of range");
    REFUSED(p.total_timeout_ms = -1, "total_timeout (ms) is out of range");
    REFUSED(p.dlq_retention_days = -1, "dlq_retention_days is out of range");
    REFUSED(p.backoff.strategy = (enum redrive_strategy)99, "strategy is unknown");
    REFUSED(p.backoff.strategy = REDRIVE_STRATEGY_CUSTOM, "strategy custom has no callback");
}

TEST(absurd_jitter_is_refused)
{
    REFUSED(p.backoff.jitter.mode = (enum redrive_jitter_mode)99, "jitter.mode is unknown");
    REFUSED(p.backoff.jitter = ((struct redrive_jitter){REDRIVE_JITTER_ADD, 0.3, 0.1, 0}),
            "jitter.max is out of range");
    REFUSED(p.backoff.jitter = ((struct redrive_jitter){REDRIVE_JITTER_ADD, -1, 0.1, 0}),
            "jitter.min is out of range");
    REFUSED(p.backoff.jitter = ((struct redrive_jitter){REDRIVE_JITTER_SPREAD, 0, 1.5, 0}),
            "jitter.max is out of range");
    REFUSED(p.backoff.jitter = ((struct redrive_jitter){REDRIVE_JITTER_STEP, 0, 0, -1}),
            "jitter.max (ms) is out of range");
}

TEST(lists_without_their_types_are_refused)
{
    static const char *const HOLE[] = {"TimeoutError", NULL};
    REFUSED(p.retry_on.n_types = 1, "retry_on counts types but has none");
    REFUSED(p.give_up_on = ((struct redrive_match){.types = HOLE, .n_types = 2}),
            "give_up_on: type 2 is NULL");
}

TEST(rules_for_classes_are_checked_too)
{
    struct redrive_class_rule rule = {.backoff = defaults().backoff, .max_retries = -1};
    struct redrive_policy p = defaults();
    struct redrive_err err;
    p.on[REDRIVE_CLASS_NETWORK] = &rule;
    assert_int_equal(redrive_policy_check(&p, &err), 0);
    rule.max_retries = -2;
    assert_int_equal(redrive_policy_check(&p, &err), REDRIVE_E_RANGE);
    assert_string_equal(err.message, "on.network: max_retries is out of range");
    rule.max_retries = 3;
    rule.backoff.multiplier = 0;
    assert_int_equal(redrive_policy_check(&p, &err), REDRIVE_E_RANGE);
    assert_string_equal(err.message, "on.network: multiplier is out of range");
}

TEST(every_profile_passes_the_check_and_is_found_by_name)
{
    size_t n;
    const struct policy_profile *profiles = policy_profiles(&n);
    assert_int_equal(n, 11);
    for (size_t i = 0; i < n; i++) {
        struct redrive_policy policy;
        struct redrive_err err = {0};
        assert_int_equal(redrive_policy_check(&profiles[i].policy, &err), 0);
        assert_int_equal(redrive_policy_profile(&policy, profiles[i].name, &err), 0);
        assert_memory_equal(&policy, &profiles[i].policy, sizeof policy);
    }
}

TEST(a_misspelt_profile_gets_a_hint)
{
    struct redrive_policy policy;
    struct redrive_err err;
    assert_int_equal(redrive_policy_profile(&policy, "recrods", &err), REDRIVE_E_UNKNOWN);
    assert_string_equal(err.message, "unknown profile 'recrods'");
    assert_string_equal(err.hint, "did you mean 'records'?");
    assert_int_equal(redrive_policy_profile(&policy, "zzzzzzzz", &err), REDRIVE_E_UNKNOWN);
    assert_string_equal(err.hint, "`redrive policy list` names them all");
}
